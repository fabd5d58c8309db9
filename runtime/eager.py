"""Eager mode: the Python body of a program as it is, its ops run by the executor's loop.

The body runs in the caller's thread. What it appends is carried out on the loop by the same
implementations as compiled runs, one op at a time, and the body waits only where a value is
read. So calls on independent states run side by side here as well.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from lmc.codegen.plan import Step
from lmc.errors import LmcError, RunError, UsageError
from lmc.ir.location import Location
from lmc.ir.target import Backend
from lmc.runtime.eager_location import raised_at, user_location
from lmc.runtime.eager_state import EagerForks, EagerState
from lmc.runtime.executor.code import code_step
from lmc.runtime.executor.control_ops import check_depth
from lmc.runtime.executor.executor import checked_defaults
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import OnEvent, Run
from lmc.runtime.executor.session import Job, Session
from lmc.runtime.executor.slots import Slot, StateHandle, known
from lmc.runtime.executor.task import Frame, Scope, Task
from lmc.runtime.origins import Origin
from lmc.runtime.result import RunResult


class EagerRun:
    """One eager run: applies ops on the loop and waits for values."""

    def __init__(self, session: Session, job: Job, folder: str) -> None:
        self._session = session
        self._job = job
        self.folder = folder
        self._num_ops = 0
        self.read_origins: list[Origin | None] = []

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
    ) -> list[Slot]:
        """Start an op and return its outputs: a state, if it gives one, then values."""
        slots = [known(value) for value in inputs]
        states = (len(slots),) if gives_state else ()
        num_outputs = num_values + len(states)
        outputs = tuple(range(len(slots), len(slots) + num_outputs))
        slots += [known(StateHandle()) for _ in states] + [Slot() for _ in range(num_values)]
        step = Step(
            op, tuple(range(len(inputs))), outputs, attributes, state_outputs=(0,) if states else ()
        )
        code = code_step(step, OPERATIONS, location=self.locate())
        self._num_ops += 1
        frame = Frame(self._job.run, slots, (self._num_ops,), scope)
        task = Task(frame, code, 0)
        self._session.loop.post(task.start)
        return slots[len(inputs) :]

    def wait(self, slot: Slot) -> Any:
        """Wait for a value; what failed is raised here."""
        self._job.wait_for(slot)
        if slot.failure is not None:
            raise slot.failure.error
        self.read_origins.append(slot.origin)
        return slot.value

    def finish(self, root: StateHandle, value: Any) -> RunResult:
        """Wait for everything and return the result."""
        slots = [known(root), known(to_handles(value))]
        self._session.loop.post(lambda: self._job.begin(lambda run: slots, self.read_origins))
        return self._job.wait()


class Context:
    """The program that is running: its run, its root state, its scope."""

    def __init__(self, run: EagerRun, scope: Scope) -> None:
        self.run = run
        self.scope = scope
        handle = run.apply("lm.prompt", (), {}, scope)[0].value
        self.root = EagerState(run, scope, handle, scope.lineage)


_current: ContextVar[Context | None] = ContextVar("lmc_eager_context", default=None)


class EagerResult:
    """What a nested program gave: its variables and text, and its return value as `value`."""

    def __init__(self, state: Any, value: Any) -> None:
        self.state = state
        self.value = value

    @property
    def ret_value(self) -> Any:
        """The return value, by the reference frontend's name."""
        return self.value

    def __getitem__(self, name: str) -> Any:
        """Return a variable of the final state."""
        return self.state[name]

    def __contains__(self, name: str) -> bool:
        return name in self.state

    def text(self) -> str:
        """Return the text of the final state."""
        return self.state.text()

    def messages(self) -> list[dict[str, str]]:
        """Return the turns of the final state."""
        return self.state.messages()

    def get_var(self, name: str) -> Any:
        """Return a variable of the final state."""
        return self.state[name]

    def get_meta_info(self, name: str) -> Any:
        """Return the meta dict of the call that set a variable of the final state."""
        return self.state.get_meta_info(name)


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


def run_eager(
    backend: Backend,
    function: Callable[..., Any],
    args: Mapping[str, Any],
    *,
    seed: int,
    instance: int = 0,
    defaults: Mapping[str, Any] | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Run a program's Python function, whose first parameter is the state.

    Args:
        backend: what answers the model calls.
        function: the body.
        args: its other arguments by name.
        seed: with `instance`, what random keys derive from: the same as in a compiled run.
        instance: place in a batch.
        defaults: decode parameters for generations that do not set their own.
        on_event: called as (kind, name, text, lineage) on the executor's thread.

    Raises:
        RunError: the program failed; tells the line.
    """
    scope = Scope((), checked_defaults(defaults))
    folder = function.__code__.co_filename.rpartition("/")[0]

    def make_run(loop: Any) -> Run:
        return Run(
            loop, backend, None, HostFunctions(),
            seed=seed, instance=instance, on_event=on_event,
        )  # fmt: skip

    with Session() as session:
        job = session.open(make_run)
        run = EagerRun(session, job, folder)
        context = Context(run, scope)
        value = _call(context, function, args)
        return run.finish(context.root.handle, value)


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
        raise RunError(error.message, hint=error.hint, location=outer.run.locate()) from None
    scope = Scope((*root.lineage, f"call{root.ordinal}"), merged, outer.scope.depth + 1)
    root.tick()
    inner = Context(outer.run, scope)
    return EagerResult(inner.root, _call(inner, function, args))


def _call(context: Context, function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a body; what it raises itself becomes an error at its line."""
    token = _current.set(context)
    try:
        return function(context.root, **args)
    except LmcError:
        raise
    except Exception as error:
        location = raised_at(error, context.run.folder)
        raise RunError(f"{type(error).__name__}: {error}", location=location) from error
    finally:
        _current.reset(token)
