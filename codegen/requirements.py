"""What an artifact needs of its surroundings: host functions, with the parameters they had.

A call was right when the program was compiled if the parameters of that time take its
arguments; those are checked again where the artifact runs, before anything does.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import EnumType
from typing import Any

from lmc.codegen.plan import Plan, Step

_KINDS = {kind.name: kind for kind in inspect._ParameterKind}
_SPREAD = ("*", "**")


@dataclass(frozen=True, slots=True)
class HostParam:
    """A parameter of a host function: its name, kind (as inspect names it), and if it may be
    left out."""

    name: str
    kind: str
    has_default: bool = False


HostParams = tuple[HostParam, ...]


@dataclass(frozen=True, slots=True)
class CallShape:
    """How a step calls a host function: how many arguments by position, which by name."""

    num_positional: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.num_positional} positional"] if self.num_positional else []
        parts += [f"{name}=" for name in self.names]
        return ", ".join(parts) or "no arguments"


def params_of(function: Callable[..., Any]) -> HostParams | None:
    """Return a function's parameters; None where Python does not tell them.

    Nor are they told of an Enum, whose own call differs between Python's versions.
    """
    if isinstance(function, EnumType):
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return tuple(HostParam(p.name, p.kind.name, p.default is not p.empty) for p in parameters)


def params_text(params: HostParams) -> str:
    """Return parameters as a signature shows them, defaults as '...'."""
    return str(_signature(params))


def takes(params: HostParams, shape: CallShape) -> bool:
    """Whether a function with these parameters can be called so."""
    try:
        _signature(params).bind(*[None] * shape.num_positional, **dict.fromkeys(shape.names))
    except TypeError:
        return False
    return True


def _signature(params: HostParams) -> inspect.Signature:
    empty = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(p.name, _KINDS[p.kind], default=_ANY if p.has_default else empty)
            for p in params
        ]
    )


class _AnyDefault:
    """Shown in place of a default, whose own text may differ from process to process."""

    def __repr__(self) -> str:
        return "..."


_ANY = _AnyDefault()


def host_calls(plan: Plan, program: str | None = None) -> dict[str, dict[CallShape, Step]]:
    """Return the ways in which each host function is called, with the first step that does so.

    Calls with spread arguments have no shape; their function is listed without one.

    Args:
        plan: what is run.
        program: count only what this program may come to; None for all programs.
    """
    found: dict[str, dict[CallShape, Step]] = {}
    for step in plan.steps(program):
        if step.op not in ("host.call", "host.pure"):
            continue
        shapes = found.setdefault(str(step.attributes["callee"]), {})
        names: Any = step.attributes.get("keywords") or []
        if not any(name in _SPREAD for name in names):
            effects = 1 if step.op == "host.call" else 0
            count = len(step.inputs) - effects - len(names)
            shapes.setdefault(CallShape(count, tuple(names)), step)
    return dict(sorted(found.items()))


def host_params(
    plan: Plan, find: Callable[[str], Callable[..., Any]]
) -> dict[str, HostParams | None]:
    """Return the parameters of every host function of a plan, as they are now.

    Those of Python's own modules are left out: they differ between its versions, and so would
    the bytes of an artifact.
    """
    return {
        callee: None if _is_standard(callee) else params_of(find(callee))
        for callee in host_calls(plan)
    }


def _is_standard(callee: str) -> bool:
    return callee.partition(":")[0].partition(".")[0] in sys.stdlib_module_names


def host_to_json(params: Mapping[str, HostParams | None]) -> list[Any]:
    """Return host functions and their parameters as JSON data."""
    return [
        {
            "callee": callee,
            "params": None if known is None else [[p.name, p.kind, p.has_default] for p in known],
        }
        for callee, known in params.items()
    ]


def host_from_json(data: Any) -> dict[str, HostParams | None]:
    """Undo `host_to_json`; raises TypeError, ValueError or KeyError for foreign data."""
    return {str(item["callee"]): _params_from(item["params"]) for item in data}


def _params_from(rows: Any) -> HostParams | None:
    if rows is None:
        return None
    params = tuple(HostParam(str(name), str(kind), bool(has)) for name, kind, has in rows)
    _signature(params)  # refuses what is no signature
    return params


def misfits(
    plan: Plan,
    program: str,
    callee: str,
    function: Callable[..., Any] | None,
    known: HostParams | None,
) -> Iterator[tuple[Step, str]]:
    """Yield the calls of a function that no longer fit: step, and what is expected and found.

    Args:
        plan: what is run.
        program: only the calls that this program may come to count.
        callee: the function's import name.
        function: what is there under that name.
        known: the parameters that it had when the program was compiled.
    """
    found = None if function is None else params_of(function)
    if found is None or known is None:
        return
    name = callee.partition(":")[2]
    for shape, step in host_calls(plan, program).get(callee, {}).items():
        if takes(known, shape) and not takes(found, shape):
            yield (
                step,
                f"expected {name}{params_text(known)}, called with {shape}; "
                f"found {name}{params_text(found)}",
            )
