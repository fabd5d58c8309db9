"""Executor: runs the programs of a plan on a backend."""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmc.codegen.plan import Plan, PlanFunction
from lmc.errors import LmcError, UsageError
from lmc.ir.decode_params import check_params
from lmc.ir.target import Backend
from lmc.runtime.executor.code import PlanCode
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.loop import Loop
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import OnEvent, Run
from lmc.runtime.executor.session import Job, Session
from lmc.runtime.executor.slots import Slot, known
from lmc.runtime.executor.task import Scope, open_frame
from lmc.runtime.result import RunResult

MAX_CONCURRENT = 64
LOOKAHEAD = 4
"""Instances that may be started ahead of the one that is waited for, in units of the limit."""


class Executor:
    """Runs the programs of a plan.

    Args:
        backend: what answers the model calls.
        plan: what `lower` gave, for the backend's target or for any.
        host: the user's functions by 'module:qualname'; others are imported when called.

    Raises:
        UsageError: the plan was lowered for another tokenizer or template.
    """

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        host: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        expected, given = plan.target_fingerprint, backend.target.fingerprint
        if expected and expected != given:
            raise UsageError(
                f"the plan '{plan.name}' was made for another tokenizer or chat template than "
                f"that of model '{backend.target.name}'",
                hint="compile the program for this model",
            )
        self.backend = backend
        self.plan = plan
        self.host = HostFunctions(host)
        self._code = PlanCode(plan, OPERATIONS)
        self._sessions: list[Session] = []

    def run(
        self,
        entry: str,
        args: Mapping[str, Any],
        *,
        seed: int,
        instance: int = 0,
        defaults: Mapping[str, Any] | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult:
        """Run a program and return its result.

        Args:
            entry: the program's name.
            args: a value per parameter; those with a default may be missing.
            seed: with `instance`, what random keys derive from.
            instance: place in a batch.
            defaults: decode parameters for generations that do not set their own.
            on_event: called as (kind, name, text, lineage) on the executor's thread for
                appended text ("text"), generated pieces ("gen") and choices ("select").

        Raises:
            UsageError: an unknown program, or arguments that do not fit.
            RunError: the program failed; of several failures, the first in program order.
            Cancelled: `cancel` was called.
        """
        function = self._entry(entry)
        start = self._starter(function, args, seed, instance, defaults, on_event)
        with self._session() as session:
            return start(session).wait()

    def run_many(
        self,
        entry: str,
        batch: Iterable[Mapping[str, Any]],
        *,
        seed: int,
        defaults: Mapping[str, Any] | None = None,
        limit: int = MAX_CONCURRENT,
        on_event: OnEvent | None = None,
        keep_errors: bool = False,
    ) -> Iterator[RunResult | LmcError]:
        """Run a program once per set of arguments; yield results in order.

        At most `limit` instances run at a time. Leaving the iterator early, or an error,
        cancels what still runs. With `keep_errors` the error of a failed instance stands in
        its place instead of being raised.
        """
        function = self._entry(entry)
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}")
        starts = (
            self._starter(function, args, seed, number, defaults, on_event)
            for number, args in enumerate(batch)
        )
        with self._session() as session:
            for job in _Queue(session, starts, limit):
                try:
                    yield job.wait()
                except LmcError as error:
                    if not keep_errors:
                        raise
                    yield error

    def cancel(self) -> None:
        """Cancel all runs of this executor; they raise Cancelled. From any thread."""
        for session in list(self._sessions):
            session.cancel()

    def _session(self) -> "_Kept":
        return _Kept(self._sessions)

    def _entry(self, name: str) -> PlanFunction:
        function = self.plan.functions.get(name)
        if function is None or function.kind != "program":
            known_names = [f.name for f in self.plan.functions.values() if f.kind == "program"]
            raise UsageError(
                f"the plan '{self.plan.name}' has no program '{name}'",
                hint=f"it has: {', '.join(known_names) or 'none'}",
            )
        return function

    def _starter(
        self,
        function: PlanFunction,
        args: Mapping[str, Any],
        seed: int,
        instance: int,
        defaults: Mapping[str, Any] | None,
        on_event: OnEvent | None,
    ) -> Callable[[Session], Job]:
        """Return what starts one instance; arguments are checked at once."""
        values = bind_arguments(function, args)
        scope = Scope((), checked_defaults(defaults))

        def make_run(loop: Loop) -> Run:
            return Run(
                loop, self.backend, self._code, self.host,
                seed=seed, instance=instance, on_event=on_event,
            )  # fmt: skip

        def open_entry(run: Run) -> Sequence[Slot]:
            arguments = [known(None), *map(known, values)]
            return open_frame(run, self._code.body(function.name), arguments, (), (), scope)

        return lambda session: session.start(make_run, open_entry)


class _Kept:
    """A session that is listed while it is open, so that it can be cancelled."""

    def __init__(self, sessions: list[Session]) -> None:
        self._sessions = sessions
        self._session = Session()

    def __enter__(self) -> Session:
        self._sessions.append(self._session)
        return self._session.__enter__()

    def __exit__(self, *exception: object) -> None:
        try:
            self._session.__exit__(*exception)
        finally:
            self._sessions.remove(self._session)


class _Queue:
    """Jobs of a batch in order: started as others end, handed out one after another."""

    def __init__(
        self, session: Session, starts: Iterator[Callable[[Session], Job]], limit: int
    ) -> None:
        self._session = session
        self._starts = starts
        self._limit = limit
        self._jobs: deque[Job] = deque()
        self._is_exhausted = False

    def __iter__(self) -> Iterator[Job]:
        self._fill()
        while self._jobs:
            if not self._jobs[0].is_ended:
                self._wait()
            else:
                yield self._jobs.popleft()
            self._fill()

    def _num_running(self) -> int:
        return sum(not job.is_ended for job in self._jobs)

    def _has_room(self) -> bool:
        is_short = len(self._jobs) < self._limit * LOOKAHEAD
        return not self._is_exhausted and is_short and self._num_running() < self._limit

    def _fill(self) -> None:
        while self._has_room():
            start = next(self._starts, None)
            if start is None:
                self._is_exhausted = True
            else:
                self._jobs.append(start(self._session))

    def _wait(self) -> None:
        """Wait until the first job has ended, or another one can be started."""
        changed = self._session.changed
        with changed:
            changed.wait_for(lambda: self._jobs[0].is_ended or self._has_room())


def checked_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a run's decode parameters; raises UsageError for wrong ones."""
    given = {key: value for key, value in (defaults or {}).items() if value is not None}
    try:
        check_params(given)
    except LmcError as error:
        raise UsageError(error.message, hint=error.hint) from error
    return given


def bind_arguments(function: PlanFunction, args: Mapping[str, Any]) -> list[Any]:
    """Return one value per parameter, defaults copied.

    Raises:
        UsageError: an argument is missing or unknown.
    """
    names = [param.name for param in function.params]
    for name in args:
        if name not in names:
            raise UsageError(
                f"program '{function.name}' has no argument '{name}'",
                hint=f"it has: {', '.join(names) or 'none'}",
            )
    missing = [p.name for p in function.params if not p.has_default and p.name not in args]
    if missing:
        raise UsageError(
            f"program '{function.name}' needs a value for {', '.join(map(repr, missing))}"
        )
    return [
        args[param.name] if param.name in args else copy.deepcopy(param.default)
        for param in function.params
    ]
