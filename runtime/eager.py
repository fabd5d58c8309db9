"""Eager mode: the Python body of a program as it is, its ops run by the executor's loop.

The body runs in the caller's thread. What it appends is carried out on the loop by the same
implementations as compiled runs, one op at a time, and the body waits only where a value is
read. So calls on independent states run side by side here as well.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from dataclasses import replace
from typing import Any

from lmc.codegen.plan import Step
from lmc.errors import LmcError, RunError, UsageError, WordError
from lmc.ir import expressions as ex
from lmc.ir.caught import as_raised, told_error
from lmc.ir.location import OWN_PACKAGES, Instruction, Location, span_of
from lmc.ir.target import Backend
from lmc.runtime.eager_location import raised_at, user_location
from lmc.runtime.eager_state import EagerForks, EagerState
from lmc.runtime.eager_tries import RunEnded, in_try
from lmc.runtime.executor.code import code_step
from lmc.runtime.executor.control_ops import check_depth
from lmc.runtime.executor.executor import checked_defaults
from lmc.runtime.executor.frame import Frame, Scope
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.instance import Instance
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.runner import Runner, Sessions, Start, kept
from lmc.runtime.executor.session import Job, Session
from lmc.runtime.executor.slots import Failure, Slot, StateHandle, known
from lmc.runtime.executor.task import Task
from lmc.runtime.origins import Origin
from lmc.runtime.result import RunResult

PASSED_ON = frozenset({"lm.prompt", "lm.fork", "lm.tick"})
"""Ops whose states are not waited for in a `try`: they only hand on what was there."""

MAX_BODIES = 32
"""Bodies of one batch that run at a time, each on a thread of its own."""


class EagerRun:
    """One eager run: applies ops on the loop and waits for values."""

    def __init__(self, session: Session, job: Job, folder: str) -> None:
        self._session = session
        self.job = job
        self.folder = folder
        self._num_ops = 0
        self.read_origins: list[Origin | None] = []
        self.interrupted: KeyboardInterrupt | None = None

    def locate(self) -> Location | None:
        """Return the line of the user's source that is being run."""
        return user_location(self.folder)

    def apply(
        self,
        op: str,
        inputs: Sequence[Any],
        attributes: dict[str, Any],
        scope: Scope,
        *,
        num_values: int = 0,
        gives_state: bool = True,
        made: Instruction | None = None,
    ) -> list[Slot]:
        """Start an op and return its outputs: a state, if it gives one, then values.

        It stands at `made`, or at the line that is being run. In a `try` the op is waited for,
        so that its failure is raised here. Raises what ended the run, if something has, and
        what is wrong with the inputs.
        """
        self._check()
        slots = [known(value) for value in inputs]
        states = (len(slots),) if gives_state else ()
        num_outputs = num_values + len(states)
        outputs = tuple(range(len(slots), len(slots) + num_outputs))
        slots += [known(StateHandle()) for _ in states] + [Slot() for _ in range(num_values)]
        step = Step(
            op, tuple(range(len(inputs))), outputs, attributes, state_outputs=(0,) if states else ()
        )
        place = self.locate() if made is None else span_of(made, self.folder)
        code = code_step(step, OPERATIONS, location=place)
        self._num_ops += 1
        is_tried = self.is_in_try()
        if is_tried:
            scope = replace(scope, is_tried=True)
        frame = Frame(self.job.run, slots, (self._num_ops,), scope)
        task = Task(frame, code, 0)
        is_sound = _is_sound(task)
        self._session.loop.post(task.start)
        found = slots[len(inputs) :]
        if not is_sound:
            self.wait(found[0].value.content if gives_state else found[0])
        if is_tried:
            for slot in found[len(states) :]:
                self.wait(slot)
            if states and op not in PASSED_ON:
                self.wait(found[0].value.content)
        return found

    def is_in_try(self) -> bool:
        """Whether the body is in a `try` that may catch what is raised now."""
        return in_try(OUTERMOST, OWN_PACKAGES)

    def caught(self, error: LmcError) -> Exception:
        """Return what to raise for an error: in a `try`, what a program sees that catches it."""
        return as_raised(error) if self.is_in_try() else error

    def _check(self) -> None:
        if self.interrupted is not None:
            # A bare `except` of the body has caught it: the run goes on nowhere.
            raise self.interrupted
        try:
            self.job.check()
        except Exception as error:
            raise self._ended(error) from None

    def _ended(self, error: BaseException) -> BaseException:
        """Return what to raise for what ended the run, so that no `try` catches it."""
        return RunEnded(error) if self.is_in_try() else error

    def wait(self, slot: Slot) -> Any:
        """Wait for a value; what failed is raised here."""
        if self.interrupted is not None:
            raise self.interrupted
        try:
            self.job.wait_for(slot)
        except KeyboardInterrupt as error:
            self.interrupted = error
            raise
        except Exception as error:
            raise self._ended(error) from None
        if slot.failure is not None:
            raise self._raised(slot.failure)
        self.read_origins.append(slot.origin)
        return slot.value

    def _raised(self, failure: Failure) -> BaseException:
        """Return what to raise for a failure; one from before a `try` is not caught by it."""
        error = failure.error
        if not self.is_in_try():
            return error
        if isinstance(error, LmcError) and failure.order[0] == self._num_ops:
            # That the answer was no good was seen, so the call was needed.
            self.read_origins += self.job.run.asked.get(failure.order, ())
            return as_raised(error)
        self.job.fail(error)
        return RunEnded(error)

    def end(self, root: StateHandle, value: Any) -> None:
        """Let the run end once everything is there."""
        slots = [known(root), known(to_handles(value))]
        self._session.loop.post(lambda: self.job.begin(lambda run: slots, self.read_origins))

    def finish(self, root: StateHandle, value: Any) -> RunResult:
        """Wait for everything and return the result."""
        self.end(root, value)
        return self.job.wait()


def _is_sound(task: Task) -> bool:
    """Whether an op's inputs are such that it can be carried out, all of them being known."""
    check = task.step.operation.check
    if check is None:
        return True
    try:
        check(task)
    except LmcError:
        return False
    return True


class Context:
    """The program that is running: its run, its root state, its scope, its function."""

    def __init__(self, run: EagerRun, scope: Scope, function: Callable[..., Any]) -> None:
        self.run = run
        self.scope = scope
        self._function = function
        handle = run.apply("lm.prompt", (), {}, scope)[0].value
        self.root = EagerState(run, scope, handle, scope.lineage)

    def call_body(self, args: Mapping[str, Any]) -> Any:
        """Call the body; what it raises comes out as it is."""
        token = _current.set(self)
        try:
            return self._function(self.root, **args)
        finally:
            _current.reset(token)

    def call(self, args: Mapping[str, Any]) -> Any:
        """Call the outermost body; what it raises itself becomes an error at its line."""
        try:
            return self.call_body(args)
        except RunEnded as ended:
            raise ended.error from None
        except Exception as error:
            told = error if isinstance(error, LmcError) else None
            told = told_error(error) or told
            if told is None:
                told = RunError(f"{type(error).__name__}: {error}")
            if type(told) in (UsageError, WordError) and told.location is None:
                # A word of the language that the body used wrongly: an error of its run.
                told = RunError(told.message, hint=told.hint)
            if told.location is None:
                told.location = raised_at(error, self.run.folder)
            if told is error:
                raise
            raise told from error

    def call_and_finish(self, args: Mapping[str, Any]) -> None:
        """Call the body and end the run with what it gives or raises."""
        try:
            value = self.call(args)
        except BaseException as error:
            # Raised again where somebody waits for the run.
            self.run.job.fail(error)
        else:
            self.run.end(self.root.handle, value)


OUTERMOST = frozenset({Context.call.__code__})
"""Code below which no frame belongs to the program that is running."""

_current: ContextVar[Context | None] = ContextVar("lmc_eager_context", default=None)


class EagerResult:
    """What a nested program gave: its variables and text, and its return value as `value`."""

    def __init__(self, state: EagerState, value: Any) -> None:
        self.state = state
        self.value = value

    @property
    def ret_value(self) -> Any:
        """The return value, by the reference frontend's name."""
        return self.value

    def __getitem__(self, key: Any) -> Any:
        """Return a variable of the final state."""
        return self.state[self._name(key)]

    def __contains__(self, key: Any) -> bool:
        return self._name(key) in self.state

    def _name(self, key: Any) -> Any:
        """Return the name of a variable; a generation without one is an error."""
        name = ex.name_of_key(key)
        if name is None and key is not None:
            raise RunError(ex.UNNAMED_KEY, hint=ex.UNNAMED_HINT)
        return name

    def text(self) -> str:
        """Return the text of the final state."""
        return self.state.text()

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns of the final state."""
        return self.state.messages()

    def get_var(self, name: Any) -> Any:
        """Return a variable of the final state."""
        return self[name]

    def get_meta_info(self, name: Any) -> Any:
        """Return the meta dict of the call that set a variable of the final state."""
        return self.state.get_meta_info(self._name(name))


def to_handles(value: Any) -> Any:
    """Return a value with eager states in it as the executor holds them."""
    if isinstance(value, EagerState):
        return value.handle
    if isinstance(value, EagerForks):
        return [child.handle for child in value]
    if isinstance(value, EagerResult):
        return (value.state.handle, to_handles(value.value))
    if type(value) in (list, tuple):
        return type(value)(to_handles(item) for item in value)
    if type(value) is dict:
        return {key: to_handles(item) for key, item in value.items()}
    return value


class EagerRunner(Runner):
    """Runs a program's Python function, whose first parameter is the state.

    One run goes on in the caller's thread; others, and those with a time limit, each have a
    thread of their own for the body.
    """

    max_concurrent = MAX_BODIES

    def __init__(
        self,
        backend: Backend,
        function: Callable[..., Any],
        sessions: Sessions | None = None,
    ) -> None:
        super().__init__(sessions)
        self._backend = backend
        self._function = function

    def run(self, args: Mapping[str, Any], *, seed: int, **options: Any) -> RunResult:
        """Run the program and return its result; options as in `Runner.run`."""
        if options.get("timeout") is not None:
            return super().run(args, seed=seed, **options)
        number = options.pop("instance", 0)
        given = Instance(seed=seed, number=number, **options)
        with kept(self.sessions) as session:
            body = self._open(session, given)
            value = body.call(args)
            if body.run.interrupted is not None:
                raise body.run.interrupted
            return body.run.finish(body.root.handle, value)

    def starter(self, args: Mapping[str, Any], instance: Instance) -> Start:
        """Return what starts one instance, the body on a thread of its own."""
        checked_defaults(instance.defaults)

        def start(session: Session) -> Job:
            context = self._open(session, instance)
            around = copy_context()
            threading.Thread(
                target=around.run, args=(context.call_and_finish, args), name="lmc-eager",
                daemon=True,
            ).start()  # fmt: skip
            return context.run.job

        return start

    def _open(self, session: Session, instance: Instance) -> "Context":
        def make_run(loop: Any) -> Run:
            run = Run(loop, self._backend, None, HostFunctions(), instance)
            run.program = f"{self._function.__module__}:{self._function.__qualname__}"
            return run

        scope = Scope((), checked_defaults(instance.defaults))
        folder = self._function.__code__.co_filename.rpartition("/")[0]
        run = EagerRun(session, session.open(make_run), folder)
        return Context(run, scope, self._function)


def run_eager(
    backend: Backend, function: Callable[..., Any], args: Mapping[str, Any], **options: Any
) -> RunResult:
    """Run a program's Python function once; options as in `Runner.run`.

    Raises:
        RunError: the program failed; tells the line.
    """
    return EagerRunner(backend, function).run(args, **options)


def is_running() -> bool:
    """Whether a program is running in eager mode in this context."""
    return _current.get() is not None


def call_nested(
    function: Callable[..., Any],
    args: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> EagerResult:
    """Run a program's function as a nested program of the one that is running.

    It inherits the caller's sampling defaults, overridden by `defaults`; `options` of a run
    are refused, since the outermost run decides them.

    Raises:
        UsageError: no program is running in eager mode.
        RunError: wrong options or parameters, or calls are nested too deep; tells the line.
    """
    outer = _current.get()
    if outer is None:
        raise UsageError(
            f"program '{function.__name__}' was called outside a program",
            hint=f"run it: {function.__name__}.run(...)",
        )
    root = outer.root
    try:
        check_depth(outer.scope)
        for name in options or {}:
            raise RunError(
                f"'{name}' of '{function.__name__}' is set by the outermost run",
                hint="leave it out",
            )
        merged = {**outer.scope.defaults, **checked_defaults(defaults)}
    except LmcError as error:
        told = RunError(error.message, hint=error.hint, location=outer.run.locate())
        raise outer.run.caught(told) from None
    scope = Scope((*root.lineage, f"call{root.ordinal}"), merged, outer.scope.depth + 1)
    root.tick()
    inner = Context(outer.run, scope, function)
    return EagerResult(inner.root, inner.call_body(args))
