"""Runners: the ways to run a program, whatever carries out its steps.

One after another, in the background, or a batch of many at a time, in order or as they end.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from lmc.errors import LmcError, UsageError
from lmc.ir.profile import Profile
from lmc.runtime.executor.feed import Feed
from lmc.runtime.executor.handle import RunHandle
from lmc.runtime.executor.instance import Instance, OnEvent
from lmc.runtime.executor.modes import Mode
from lmc.runtime.executor.session import Job, Session
from lmc.runtime.result import RunResult

MAX_CONCURRENT = 64
LOOKAHEAD = 4
"""Instances that may be started ahead of the one that is waited for, in units of the limit."""

Start = Callable[[Session], Job]


class Sessions:
    """The open sessions of some runners, so that they can be cancelled together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: list[Session] = []
        self._shared: Session | None = None
        self._num_shared = 0

    def cancel(self) -> None:
        """Cancel all runs; from any thread."""
        with self._lock:
            sessions = list(self._open)
        for session in sessions:
            session.cancel()

    def add(self, session: Session) -> None:
        """List a session."""
        with self._lock:
            self._open.append(session)

    def remove(self, session: Session) -> None:
        """Take a session off the list."""
        with self._lock:
            self._open.remove(session)

    def borrow(self) -> Session:
        """Return the session of runs in the background; each borrower gives it back once."""
        with self._lock:
            if self._shared is None:
                self._shared = Session()
                self._shared.loop.start()
                self._open.append(self._shared)
            self._num_shared += 1
            return self._shared

    def give_back(self) -> None:
        """Give the background session back; the last borrower ends it."""
        with self._lock:
            self._num_shared -= 1
            session = self._shared
            if self._num_shared or session is None:
                return
            self._shared = None
            self._open.remove(session)
        session.stop()


@contextmanager
def kept(sessions: Sessions) -> Generator[Session, None, None]:
    """Open a session that is listed while it is open; closing it cancels what still runs."""
    session = Session()
    sessions.add(session)
    try:
        with session:
            yield session
    finally:
        sessions.remove(session)


class Runner:
    """Runs one program; subclasses say how an instance is started."""

    max_concurrent = MAX_CONCURRENT

    def __init__(self, sessions: Sessions | None = None) -> None:
        self.sessions = sessions if sessions is not None else Sessions()

    def start_order(
        self, batch: Sequence[Mapping[str, Any] | LmcError], defaults: Mapping[str, Any]
    ) -> list[int]:
        """Return the order in which to start the instances of a batch that is known whole."""
        return list(range(len(batch)))

    def starter(self, args: Mapping[str, Any], instance: Instance) -> Start:
        """Return what starts one instance in a session; arguments are checked at once."""
        raise NotImplementedError

    def run(
        self,
        args: Mapping[str, Any],
        *,
        seed: int,
        instance: int = 0,
        defaults: Mapping[str, Any] | None = None,
        on_event: OnEvent | None = None,
        timeout: float | None = None,
        profile: Profile | None = None,
        speculate: Mode = "on",
        tenant: str = "",
    ) -> RunResult:
        """Run the program and return its result.

        Args:
            args: a value per parameter; those with a default may be missing.
            seed: with `instance`, what random keys derive from.
            instance: place in a batch.
            defaults: decode parameters for generations that do not set their own.
            on_event: see Instance.
            timeout: seconds that the run may take; None for any.
            profile: what the run's calls and branches are counted in.
            speculate: whether work is done ahead of choices; "wrong": for nothing, in tests.
            tenant: for whom the program runs; a backend serves several in turn.

        Raises:
            UsageError: arguments or parameters that do not fit.
            RunError: the program failed: the first failure in program order; or the time is
                over.
            Cancelled: `cancel` was called.
        """
        given = Instance(
            seed=seed, number=instance, defaults=defaults or {}, on_event=on_event,
            timeout=timeout, profile=profile, speculate=speculate, tenant=tenant,
        )  # fmt: skip
        start = self.starter(args, given)
        with kept(self.sessions) as session:
            return start(session).wait()

    def start(
        self,
        args: Mapping[str, Any],
        *,
        seed: int,
        instance: int = 0,
        defaults: Mapping[str, Any] | None = None,
        on_event: OnEvent | None = None,
        timeout: float | None = None,
        profile: Profile | None = None,
        speculate: Mode = "on",
        tenant: str = "",
        is_streamed: bool = True,
    ) -> RunHandle:
        """Start the program and return at once; arguments as in `run`.

        `is_streamed` of False leaves the text to the end: the handle then streams nothing.
        """
        feed = Feed()
        given = Instance(
            seed=seed,
            number=instance,
            defaults=defaults or {},
            on_event=_both(feed.on_event, on_event) if is_streamed else on_event,
            on_variable=feed.on_variable if is_streamed else None,
            timeout=timeout,
            profile=profile,
            speculate=speculate,
            tenant=tenant,
        )
        start = self.starter(args, given)
        session = self.sessions.borrow()
        try:
            job = start(session)
        except BaseException:
            self.sessions.give_back()
            raise
        job.when_ended(self.sessions.give_back)
        return RunHandle(job, feed)

    def run_many(
        self,
        batch: Iterable[Mapping[str, Any]],
        *,
        seed: int,
        defaults: Mapping[str, Any] | None = None,
        limit: int | None = None,
        on_event: OnEvent | None = None,
        keep_errors: bool = False,
        timeout: float | None = None,
        profile: Profile | None = None,
        speculate: Mode = "on",
        tenant: str = "",
    ) -> Generator[RunResult | LmcError, None, None]:
        """Run once per set of arguments; yield results in order.

        At most `limit` instances run at a time. Leaving the iterator early, or an error,
        cancels what still runs. With `keep_errors` the error of a failed instance stands in
        its place instead of being raised. `timeout` counts for each instance by itself.
        """
        for _, result in self.run_completed(
            batch, seed=seed, defaults=defaults, limit=limit, on_event=on_event,
            keep_errors=keep_errors, timeout=timeout, profile=profile,
            speculate=speculate, tenant=tenant, in_order=True,
        ):  # fmt: skip
            yield result

    def run_completed(
        self,
        batch: Iterable[Mapping[str, Any] | LmcError],
        *,
        seed: int,
        defaults: Mapping[str, Any] | None = None,
        limit: int | None = None,
        on_event: OnEvent | None = None,
        keep_errors: bool = False,
        timeout: float | None = None,
        profile: Profile | None = None,
        speculate: Mode = "on",
        tenant: str = "",
        in_order: bool = False,
    ) -> Generator[tuple[int, RunResult | LmcError], None, None]:
        """Run once per set of arguments; yield (index, result) as instances end.

        Of a batch that is a list, and longer than `limit`, those that share most are started one
        after another, and all results are held until they can be handed out. An error in the
        batch stands for wrong arguments: it is the outcome of that instance.
        """
        most = self.max_concurrent if limit is None else limit
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise UsageError(f"num_threads must be a number from 1, not {most!r:.80}")
        numbered: Iterator[tuple[int, Mapping[str, Any] | LmcError]] = enumerate(batch)
        most_held = most * LOOKAHEAD
        if isinstance(batch, list) and len(batch) > most:
            known = cast("list[Mapping[str, Any] | LmcError]", batch)
            order = self.start_order(known, defaults or {})
            if order != list(range(len(known))):
                numbered, most_held = iter([(n, known[n]) for n in order]), len(known)

        def start_of(number: int, args: Mapping[str, Any] | LmcError) -> BatchStart:
            instance = Instance(
                seed=seed, number=number, defaults=defaults or {}, on_event=on_event,
                timeout=timeout, profile=profile, speculate=speculate, tenant=tenant,
            )  # fmt: skip
            return self._start_of(args, instance)

        starts = ((number, start_of(number, args)) for number, args in numbered)
        with kept(self.sessions) as session:
            queue = _Queue(session, starts, most, most_held, in_order=in_order)
            for number, job in queue:
                try:
                    yield number, job.wait()
                except LmcError as error:
                    if not keep_errors:
                        raise
                    yield number, error

    def _start_of(self, args: Mapping[str, Any] | LmcError, instance: Instance) -> "BatchStart":
        """Return what starts an instance of a batch; one with wrong arguments has ended."""
        try:
            if isinstance(args, LmcError):
                raise args
            return self.starter(args, instance)
        except LmcError as error:
            failed = NotStarted(error)
            return lambda _: failed

    def cancel(self) -> None:
        """Cancel all runs; they raise Cancelled. From any thread."""
        self.sessions.cancel()


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Stands for the job of an instance that could not be started."""

    error: LmcError
    is_ended: bool = True

    def wait(self) -> RunResult:
        """Raise the error."""
        raise self.error


BatchStart = Callable[[Session], Job | NotStarted]


def _both(first: OnEvent, second: OnEvent | None) -> OnEvent:
    """Return a listener that tells two."""
    if second is None:
        return first

    def listen(kind: str, name: str | None, text: str, lineage: tuple[str, ...]) -> None:
        first(kind, name, text, lineage)
        second(kind, name, text, lineage)

    return listen


class _Queue:
    """Jobs of a batch: started as others end, handed out one after another."""

    def __init__(
        self,
        session: Session,
        starts: Iterator[tuple[int, BatchStart]],
        limit: int,
        most_held: int,
        *,
        in_order: bool,
    ) -> None:
        self._session = session
        self._starts = starts
        self._limit = limit
        self._most_held = most_held
        self._next = 0
        self._in_order = in_order
        self._jobs: dict[int, Job | NotStarted] = {}
        self._is_exhausted = False

    def __iter__(self) -> Iterator[tuple[int, Job | NotStarted]]:
        self._fill()
        while self._jobs:
            number = self._ended()
            if number is None:
                self._wait()
            else:
                self._next = number + 1
                yield number, self._jobs.pop(number)
            self._fill()

    def _ended(self) -> int | None:
        """Return the number of an ended job that may be handed out."""
        candidates = [self._next] if self._in_order else list(self._jobs)
        jobs = self._jobs
        return next((n for n in candidates if n in jobs and jobs[n].is_ended), None)

    def _has_room(self) -> bool:
        if self._is_exhausted or len(self._jobs) >= self._most_held:
            return False
        return sum(not job.is_ended for job in self._jobs.values()) < self._limit

    def _fill(self) -> None:
        """Start instances; where none runs, so that what they ask first comes together."""
        if self._has_room() and all(job.is_ended for job in self._jobs.values()):
            with self._session.opening():
                self._start()
        else:
            self._start()

    def _start(self) -> None:
        while self._has_room():
            entry = next(self._starts, None)
            if entry is None:
                self._is_exhausted = True
            else:
                number, start = entry
                self._jobs[number] = start(self._session)

    def _wait(self) -> None:
        """Wait until a job can be handed out, or another one can be started."""
        changed = self._session.changed
        with changed:
            changed.wait_for(lambda: self._ended() is not None or self._has_room())
