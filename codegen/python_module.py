"""An importable Python module of an artifact's programs, and its type stub.

The module loads the artifact that lies beside it; it holds no code of the programs. The stub has
a class per program with the program's own parameters and the options of a run.
"""

import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from lmc.codegen.plan import Plan, PlanFunction, PlanParam
from lmc.codegen.signature import annotation_of
from lmc.ir.expressions import RUN_PARAMS

MARK = "Made by `lmc compile --emit py`"
"""Stands in the docstring of every module that is made here."""

ANY = "typing.Any"
OPTIONS = {
    "backend": ANY,
    "seed": "int | None",
    "timeout": "float | None",
    "on_event": ANY,
    "profile": ANY,
    **dict.fromkeys(RUN_PARAMS, ANY),
}
"""Options that every run takes (lmc.running), decode parameters among them."""

_BARE = {
    list: "list[typing.Any]",
    set: "set[typing.Any]",
    frozenset: "frozenset[typing.Any]",
    dict: "dict[typing.Any, typing.Any]",
    tuple: "tuple[typing.Any, ...]",
    type: "type[typing.Any]",
    typing.Callable: "typing.Callable[..., typing.Any]",
    typing.Iterable: "typing.Iterable[typing.Any]",
    typing.Sequence: "typing.Sequence[typing.Any]",
    typing.Mapping: "typing.Mapping[typing.Any, typing.Any]",
}


def module_text(plan: Plan, artifact_name: str) -> str:
    """Return the module of all programs of a plan, whose artifact lies beside it."""
    lines = [
        f'"""The programs of {plan.name}.py, compiled by lmc; {artifact_name} holds them.',
        "",
        f"{MARK}: changes are lost when it is made again.",
        '"""',
        "",
        "from pathlib import Path as _Path",
        "",
        "from lmc.compiled import load_programs as _load",
        "",
        f"_programs = _load(_Path(__file__).with_name({artifact_name!r}), {list(plan.entries)!r})",
        "",
        *(f"{name} = _programs[{name!r}]" for name in plan.entries),
        "",
        f"__all__ = {list(plan.entries)!r}",
    ]
    return "\n".join(lines) + "\n"


def stub_text(plan: Plan) -> str:
    """Return the type stub of the same module."""
    lines = [
        f'"""{MARK}."""',
        "",
        "import typing",
        "",
        "from lmc.compiled import CompiledProgram",
        "from lmc.runtime.executor.handle import RunHandle",
        "from lmc.runtime.result import RunResult",
    ]
    for name in plan.entries:
        lines += ["", *_program_lines(plan.functions[name])]
    lines += ["", f"__all__ = {list(plan.entries)!r}"]
    return "\n".join(lines) + "\n"


def _program_lines(function: PlanFunction) -> Iterator[str]:
    """Yield the class of one program, its options, and the name that holds it."""
    name = function.name
    returns = type_text(str(function.attributes.get("returns") or ""))
    own = {param.name for param in function.params}
    yield f"class _{name}_options(typing.TypedDict, total=False):"
    for option, kind in OPTIONS.items():
        if option not in own:  # the program's own argument goes first
            yield f"    {option}: {kind}"
    yield ""
    yield f"class _{name}(CompiledProgram[{returns}]):"
    given = [*_parameters(function.params), f"**options: typing.Unpack[_{name}_options]"]
    yield from _method("def __call__", given, returns, str(function.attributes.get("doc") or ""))
    yield from _method("def run", given, f"RunResult[{returns}]")
    yield from _method("def stream", given, f"RunHandle[{returns}]")
    yield from _method("async def arun", given, f"RunResult[{returns}]")
    yield ""
    yield f"{name}: _{name}"


def _method(head: str, parameters: Iterable[str], returns: str, doc: str = "") -> Iterator[str]:
    """Yield a method; what it overrides takes any arguments, which checkers call a mistake."""
    yield f"    {head}(  # type: ignore"
    yield "        self,"
    for parameter in parameters:
        yield f"        {parameter},"
    if doc:
        yield f"    ) -> {returns}:"
        yield f"        {doc!r}"
        yield "        ..."
    else:
        yield f"    ) -> {returns}: ..."


def _parameters(params: Iterable[PlanParam]) -> Iterator[str]:
    """Yield parameters as a stub spells them."""
    is_keyword_only = False
    for param in params:
        if param.keyword_only and not is_keyword_only:
            yield "*"
            is_keyword_only = True
        default = " = ..." if param.has_default else ""
        yield f"{param.name}: {type_text(param.annotation)}{default}"


def type_text(annotation: str) -> str:
    """Return an annotation as a stub can spell it; Any for what only the source could name."""
    made = annotation_of(annotation) if annotation else ANY
    return ANY if isinstance(made, str) else _spelled(made)


def _spelled(kind: Any) -> str:
    """Return the text of a type made of builtin and typing names."""
    if kind is None or kind is type(None):
        return "None"
    if kind is Ellipsis:
        return "..."
    if isinstance(kind, list):
        return f"[{', '.join(map(_spelled, kind))}]"
    if kind in _BARE:
        return _BARE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return kind.__name__ if isinstance(kind, type) else repr(kind)
    if origin is typing.Literal:
        return f"typing.Literal[{', '.join(map(repr, arguments))}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(_spelled, arguments))
    name = getattr(kind, "_name", None)
    head = f"typing.{name}" if name and kind.__module__ == "typing" else origin.__name__
    return f"{head}[{', '.join(map(_spelled, arguments))}]"
