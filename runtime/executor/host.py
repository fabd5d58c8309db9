"""Host functions: finding a callee, and calling it on a thread of the pool."""

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lmc.errors import RunError
from lmc.ir.location import Location


class HostFunctions:
    """The functions that a program calls: given ones by name, others by import.

    A callee is written 'module:qualname', such as 'builtins:print'.
    """

    def __init__(self, given: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._found: dict[str, Callable[..., Any]] = dict(given or {})

    def find(self, callee: str) -> Callable[..., Any]:
        """Return a function; raises RunError, naming the import, where there is none."""
        found = self._found.get(callee)
        if found is None:
            # Two threads may import at once, which Python's import lock makes harmless.
            found = self._found.setdefault(callee, import_callee(callee))
        return found

    def missing(self, callees: Sequence[str]) -> list[str]:
        """Return those of `callees` that cannot be found."""
        missing = []
        for callee in callees:
            try:
                self.find(callee)
            except RunError:
                missing.append(callee)
        return missing


def import_callee(callee: str) -> Callable[..., Any]:
    """Import 'module:qualname'; raises RunError that says what is missing."""
    module_name, colon, qualname = callee.partition(":")
    if not colon or not qualname:
        raise RunError(
            f"host function {callee!r} has no module", hint="it is written 'module:name'"
        )
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise RunError(
            f"the program calls {qualname} of module '{module_name}', which cannot be imported: "
            f"{error}",
            hint=f"make '{module_name}' importable (PYTHONPATH), or install it",
        ) from error
    for part in qualname.split("."):
        if not hasattr(found, part):
            raise RunError(
                f"module '{module_name}' has no {qualname}",
                hint="the program was compiled against another version of the module",
            )
        found = getattr(found, part)
    if not callable(found):
        raise RunError(f"{callee} is not a function but {type(found).__name__}")
    return found


def call_host(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    done: Callable[[Any], None],
) -> None:
    """Call a function and hand `done` its value in a one-tuple, or what it raised.

    A coroutine is run to its end on the same thread.
    """
    try:
        value = function(*args, **keywords)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:
        # Also SystemExit: it ends the program from where it waits, not a thread in silence.
        done(error)
    else:
        done((value,))


def host_error(name: str, error: BaseException, location: Location | None) -> BaseException:
    """Return what a host function's failure is for the program: an error at its line."""
    if not isinstance(error, Exception):
        return error
    made = RunError(f"{name} raised {type(error).__name__}: {error}", location=location)
    made.raised = error
    made.__cause__ = error
    return made
