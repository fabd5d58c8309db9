"""Sessions and jobs: runs on one loop, from their start to their result."""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lmc.errors import Cancelled, RunError
from lmc.runtime.exactness import exactness_of
from lmc.runtime.executor.loop import Loop
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.slots import Failure, Slot, StateHandle
from lmc.runtime.origins import Origin, calls_of
from lmc.runtime.prompt_state import PromptState
from lmc.runtime.result import RunResult, RunState, sum_usage

MakeRun = Callable[[Loop], Run]


class Session:
    """A loop and the jobs on it. Closing it cancels what still runs and ends the thread."""

    def __init__(self) -> None:
        self.loop = Loop(self._idle, self._crash)
        self.changed = threading.Condition()
        self._jobs: dict[Job, None] = {}

    def __enter__(self) -> "Session":
        self.loop.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()
        with self.changed:
            self.changed.wait_for(lambda: not self._jobs)
        self.loop.stop()

    @contextmanager
    def opening(self) -> Generator[None, None, None]:
        """Hand over what the runs started within ask first together; see opening.py."""
        self.loop.post(self.loop.opening.begin)
        try:
            yield
        finally:
            self.loop.post(self.loop.opening.complete)

    def start(self, make_run: MakeRun, open_entry: Callable[[Run], Sequence[Slot]]) -> "Job":
        """Start a run; `open_entry` is called on the loop and returns its result slots."""
        job = self.open(make_run)
        self.loop.post(lambda: job.begin(open_entry))
        return job

    def open(self, make_run: MakeRun) -> "Job":
        """Return a job whose steps are made outside; `begin` ends it with their results."""
        job = Job(self, make_run(self.loop))
        with self.changed:
            self._jobs[job] = None
        self.loop.post(job.start_timer)
        return job

    def stop(self) -> None:
        """End the loop once no job is left; from any thread, the loop's own as well."""
        self.loop.stop()

    def cancel(self) -> None:
        """Cancel all jobs; from any thread."""
        with self.changed:
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel()

    def ended(self, job: "Job") -> None:
        """Note that a job has its outcome and nothing of it is left running."""
        with self.changed:
            self._jobs.pop(job, None)
            listeners = job.listeners()
            self.changed.notify_all()
        for listener in listeners:
            listener()

    def _idle(self) -> None:
        """Begin what was put off; end jobs that wait for nothing, which would be a bug."""
        for job in list(self._jobs):
            job.run.begin_next()
        if not self.loop.ready:
            self.loop.opening.idle()
        for job in list(self._jobs):
            if job.is_stalled and not self.loop.ready:
                job.end(RuntimeError("internal error: the run waits for nothing"))

    def _crash(self, error: BaseException) -> None:
        for job in list(self._jobs):
            job.end(error)


class Job:
    """One run and its outcome."""

    def __init__(self, session: Session, run: Run) -> None:
        self.run = run
        self.outcome: RunResult | BaseException | None = None
        self._session = session
        self._is_begun = False
        self._results: Sequence[Slot] = ()
        self._awaited: list[Slot] = []
        self._missing = 0
        self._listeners: list[Callable[[], None]] = []
        run.on_abort = self.end
        run.on_progress = self._check

    @property
    def is_ended(self) -> bool:
        """Whether the outcome is there and nothing is left running."""
        return self not in self._session._jobs

    @property
    def is_stalled(self) -> bool:
        """Whether the run waits, but for nothing outside."""
        return self._is_begun and self.outcome is None and self.run.num_open == 0

    def when_ended(self, listener: Callable[[], None]) -> None:
        """Have a function called once the job has ended, at once if it has; on any thread."""
        with self._session.changed:
            is_ended = self.is_ended
            if not is_ended:
                self._listeners.append(listener)
        if is_ended:
            listener()

    def listeners(self) -> list[Callable[[], None]]:
        """Return what waits for the end, once."""
        listeners, self._listeners = self._listeners, []
        return listeners

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the job has ended; False if it has not within `timeout` seconds.

        A KeyboardInterrupt while waiting cancels the session's jobs and is raised again.
        """
        changed = self._session.changed
        try:
            with changed:
                return changed.wait_for(lambda: self.is_ended, timeout)
        except BaseException:
            self._session.cancel()
            raise

    def wait(self) -> RunResult:
        """Return the result, or raise what ended the run."""
        self.await_end()
        assert self.outcome is not None, "an ended job has an outcome"
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def wait_for(self, slot: Slot) -> None:
        """Wait until a slot is done, or raise what ended the run before."""
        changed = self._session.changed

        def notify() -> None:
            with changed:
                changed.notify_all()

        def watch() -> None:
            if slot.waiters is None:
                notify()
            else:
                slot.waiters.append(notify)

        self._session.loop.post(watch)
        with changed:
            changed.wait_for(lambda: slot.is_done or self.outcome is not None)
        if not slot.is_done and isinstance(self.outcome, BaseException):
            raise self.outcome

    def cancel(self) -> None:
        """End the run with Cancelled; from any thread."""
        self._session.loop.post(lambda: self.end(Cancelled("the run was cancelled")))

    def check(self) -> None:
        """Raise what ended the run, if something has."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome

    def fail(self, error: BaseException) -> None:
        """End the run with an error; from any thread."""
        self._session.loop.post(lambda: self.end(error))

    # -- on the loop -----------------------------------------------------------------------

    def begin(
        self, open_entry: Callable[[Run], Sequence[Slot]], read: Sequence[Origin | None] = ()
    ) -> None:
        """Open the program's frame and wait for its results.

        `read` are origins that count as needed besides those of the results.
        """
        self.run.needed.extend(read)
        if self.outcome is not None:
            return
        try:
            self._results = open_entry(self.run)
        except Exception as error:
            # Raised where the caller waits, like every other failure of the run.
            self.end(error)
            return
        self._is_begun = True
        self._await(list(self._results))
        self._check()

    def start_timer(self) -> None:
        """End the run when its time is over, if it has a limit."""
        seconds = self.run.timeout
        if seconds is not None:
            self._session.loop.call_later(seconds, lambda: self._time_out(seconds))

    def _time_out(self, seconds: float) -> None:
        if self.outcome is not None:
            return
        sites = self.run.open_sites()
        waiting = f"it was waiting for {', '.join(sites[:3])}; " if sites else ""
        self.end(RunError(f"the run took longer than {seconds:g} s",
                          hint=f"{waiting}raise timeout=, or ask for less"))  # fmt: skip

    def _await(self, slots: list[Slot]) -> None:
        self._awaited += slots
        pending = [slot for slot in slots if not slot.is_done]
        self._missing = len(pending) + 1
        for slot in pending:
            slot.waiters.append(self._one_done)  # type: ignore[union-attr]
        self._one_done()

    def _one_done(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._check()

    def _check(self) -> None:
        """End the run if nothing more can fail, and its results are there or it has failed."""
        if not self._is_begun or self.outcome is not None:
            return
        frontier, failure = self.run.frontier, self.run.failure
        if failure is not None:
            first = frontier.first()
            if first is None or first > failure.order:
                self.end(failure.error)
            return
        if self._missing or not frontier.is_empty:
            return
        failures = [slot.failure for slot in self._awaited if slot.failure is not None]
        if failures:
            self.end(first_failure(failures).error)
            return
        values = [slot.value for slot in self._results]
        contents = [handle.content for handle in held_handles(values)]
        missing = [slot for slot in contents if slot not in self._awaited]
        if missing:
            self._await(missing)
        else:
            self.end(self._result())

    def end(self, outcome: RunResult | BaseException) -> None:
        """Fix the outcome, if none is fixed; it is told when nothing is left running."""
        if self.outcome is None:
            with self._session.changed:
                self.outcome = outcome
                self._session.changed.notify_all()
            self.run.close(lambda: self._session.ended(self))

    def _result(self) -> RunResult:
        state, value = self._results[-2:]
        return make_result(self.run, state.value.content.value, value.value, value.origin)


def first_failure(failures: Sequence[Failure]) -> Failure:
    """Return the failure that comes first in program order."""
    return min(failures, key=lambda failure: failure.order)


def make_result(run: Run, state: PromptState, value: Any, origin: Origin | None) -> RunResult:
    """Return the result of a run that has come to its end."""
    origins = [origin, *state.all_origins(), *run.needed]
    for handle in held_handles([value, *state.variables.values()]):
        origins += handle.content.value.all_origins()
    made = sorted(calls_of(origins), key=lambda call: call[:2])
    usage = sum_usage(
        run.usages,
        prologue_tokens=run.prologue_tokens,
        shared_tokens=run.shared_tokens,
        held_back_tokens=run.held_back_tokens,
        chain_steps=run.chain_steps,
        first_token_seconds=run.first_token,
        seconds=time.monotonic() - run.started,
    )
    ahead = {f"{name}_tokens": count for name, count in run.speculator.tokens().items()}
    usage = replace(usage, **ahead)
    variables = {name: exported(held) for name, held in state.variables.items()}
    return RunResult(
        value=exported(value),
        state=RunState(state, variables),
        calls=[record for _, _, record in made],
        usage=usage,
        seed=run.seed,
        instance=run.instance,
        exactness=exactness_of(run.backend),
    )


def held_handles(values: Sequence[Any]) -> list[StateHandle]:
    """Return the states that lie in values, also within lists, dicts and other states."""
    return list(dict.fromkeys(_find_handles(values)))


def _find_handles(values: Sequence[Any]) -> Iterator[StateHandle]:
    pending = list(values)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if isinstance(value, (list, tuple, dict, StateHandle)):
            if id(value) in seen:
                continue
            seen.add(id(value))
        if isinstance(value, StateHandle):
            yield value
            if value.content.is_done and value.content.failure is None:
                pending += value.content.value.variables.values()
        elif isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def exported(value: Any) -> Any:
    """Return a value with every state in it as a RunState, to be read."""
    if isinstance(value, StateHandle):
        content = value.content.value
        held = {name: exported(item) for name, item in content.variables.items()}
        return RunState(content, held)
    if not held_handles([value]):
        return value
    if isinstance(value, dict):
        return {key: exported(item) for key, item in value.items()}
    return type(value)(exported(item) for item in value)
