"""Calls of the user's own functions, on threads of the loop's pool."""

from collections.abc import Callable
from functools import partial
from typing import Any

from lmc.errors import LmcError, RunError
from lmc.ir.arguments import call_arguments
from lmc.ir.evaluate import Undefined
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.host import HostFunctions, call_host, host_error
from lmc.runtime.executor.session import held_handles
from lmc.runtime.executor.slots import undefined
from lmc.runtime.executor.task import Task
from lmc.runtime.origins import join_origins

Arguments = tuple[list[Any], dict[str, Any]]


def effectful(task: Task) -> None:
    """Call a function that may have effects; the effect token keeps the order."""
    name, function, arguments = _callee(task, 1)
    origin = task.origin(1)

    def returned(value: Any) -> None:
        task.give([None, value], [None, origin])

    # What comes before in the program, and may fail, comes before in the world as well.
    assert task.live is not None, "host calls may fail"
    order = task.live

    def start() -> None:
        if not (task.run.is_closed or task.is_beyond()):
            # The call happens whatever is read later, so what it and its conditions rest on is
            # needed; in a try also what could have failed before it.
            before = task.guard.calls_before(order) if task.guard is not None else ()
            task.run.needed.append(join_origins((task.frame.control, origin, *before)))
            _submit(task, name, function, arguments, returned)

    task.run.frontier.when_first(order, start)


def pure(task: Task) -> None:
    """Call a function that has no effects."""
    name, function, arguments = _callee(task, 0)
    _submit(task, name, function, arguments, lambda value: task.give_one(0, value, task.origin()))


def _callee(task: Task, first: int) -> tuple[str, Callable[..., Any], Arguments]:
    """Return a function's name, the function, and the arguments to call it with."""
    values = task.values()[first:]
    for value in values:
        if isinstance(value, Undefined):
            raise undefined(value)
    if held_handles(values):
        raise RunError(
            "a prompt state cannot be handed to a function of your own",
            hint="hand over what the function needs: s['name'] or s.text()",
        )
    names = task.step.attributes.get("keywords") or []
    if task.step.op == "host.method":
        name = task.step.attributes["name"]
        subject = values.pop(0)
        arguments = call_arguments(names, values)
        return f"{type(subject).__name__}.{name}", partial(_call_method, subject, name), arguments
    callee = task.step.attributes["callee"]
    return callee, partial(_find_and_call, task.run.host, callee), call_arguments(names, values)


def _find_and_call(host: HostFunctions, callee: str, *args: Any, **keywords: Any) -> Any:
    # Found on the pool's thread, because an import can take long.
    return host.find(callee)(*args, **keywords)


def _call_method(subject: Any, name: str, *args: Any, **keywords: Any) -> Any:
    return getattr(subject, name)(*args, **keywords)


def _submit(
    task: Task,
    name: str,
    function: Callable[..., Any],
    arguments: Arguments,
    returned: Callable[[Any], None],
) -> None:
    positional, keywords = arguments

    def submit(done: Callable[[Any], None]) -> None:
        task.run.loop.host.submit(partial(call_host, function, positional, keywords, done))

    def answered(result: Any) -> None:
        if not isinstance(result, BaseException):
            task.leave()
            task.finish(partial(returned, result[0]))
        elif isinstance(result, LmcError):
            task.fail(result)
        else:
            task.fail(host_error(name, result, task.step.location))

    site = f"{name}@{task.step.location or '?'}"
    task.run.begin(submit, answered, is_host=True, site=site)


def matches(task: Task) -> None:
    """Tell whether an exception is an instance of some classes."""
    classes = tuple(task.run.host.find(name) for name in task.step.attributes["classes"])
    is_instance = isinstance(task.value(0), classes)  # type: ignore[arg-type]
    task.give_one(0, is_instance, task.origin())


HOST_OPERATIONS: dict[str, Operation] = {
    "host.call": Operation(effectful, is_open=True),
    "host.method": Operation(effectful, is_open=True),
    "host.pure": Operation(pure, is_open=True),
    "host.matches": Operation(matches),
}
