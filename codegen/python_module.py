"""An importable Python module of an artifact's programs, and its type stub.

The module loads the artifact that lies beside it; it holds no code of the programs. The stub has
a class per program with the program's own parameters and the options of a run.
"""

import ast
import json
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


_IMPORTS = {
    "typing": "import typing",
    "CompiledProgram": "from lmc.compiled import CompiledProgram",
    "RunHandle": "from lmc.runtime.executor.handle import RunHandle",
    "RunResult": "from lmc.runtime.result import RunResult",
}
"""What a stub imports, by the name that it is used by."""


def module_text(plan: Plan, artifact_name: str) -> str:
    """Return the module of all programs of a plan, whose artifact lies beside it."""
    own = _own_prefix(plan)
    path = f"{own}Path(__file__).with_name({artifact_name!r})"
    programs = f"{own}load({path}, {list(plan.entries)!r})"
    source, file = (json.dumps(name)[1:-1] for name in (f"{plan.name}.py", artifact_name))
    lines = [
        f'"""The programs of {source}, compiled by lmc; {file} holds them.',
        "",
        f"{MARK}: changes are lost when it is made again.",
        '"""',
        "",
        f"from pathlib import Path as {own}Path",
        "",
        f"from lmc.compiled import load_programs as {own}load",
        "",
        f"{own}programs = {programs}",
        "",
        *(f"{name} = {own}programs[{name!r}]" for name in plan.entries),
        "",
        f"__all__ = {list(plan.entries)!r}",
    ]
    return "\n".join(lines) + "\n"


def stub_text(plan: Plan) -> str:
    """Return the type stub of the same module."""
    own = _own_prefix(plan)
    classes: list[str] = []
    for name in plan.entries:
        classes += ["", *_class_lines(plan.functions[name], own)]
    text, aliases = _with_aliases("\n".join(classes), set(plan.entries), own)
    imports = [line for name, line in _IMPORTS.items() if name not in plan.entries]
    lines = [f'"""{MARK}."""', "", *imports, *aliases, text, ""]
    lines += [f"{name}: {own}{name}" for name in plan.entries]
    lines += ["", f"__all__ = {list(plan.entries)!r}"]
    return "\n".join(lines) + "\n"


def _own_prefix(plan: Plan) -> str:
    """Return what names of our own begin with: underscores that no program's name has."""
    own = "_"
    while any(name.startswith(own) for name in plan.entries):
        own += "_"
    return own


def _with_aliases(text: str, taken: set[str], own: str) -> tuple[str, list[str]]:
    """Spell names that programs have taken in another way; return the imports that this needs."""
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    found = [node for node in names if isinstance(node.ctx, ast.Load) and node.id in taken]
    lines = text.encode().split(b"\n")
    for node in sorted(found, key=lambda node: node.col_offset, reverse=True):
        line, start = lines[node.lineno - 1], node.col_offset
        made = f"{own}lmc_{node.id}".encode()
        lines[node.lineno - 1] = line[:start] + made + line[start + len(node.id.encode()) :]
    aliases = [
        f"{_IMPORTS.get(name, f'from builtins import {name}')} as {own}lmc_{name}"
        for name in sorted({node.id for node in found})
    ]
    return b"\n".join(lines).decode(), aliases


def _class_lines(function: PlanFunction, own: str) -> Iterator[str]:
    """Yield the class of one program and its options."""
    name = function.name
    returns = type_text(str(function.attributes.get("returns") or ""))
    arguments = {param.name for param in function.params}
    yield f"class {own}{name}_options(typing.TypedDict, total=False):"
    for option, kind in OPTIONS.items():
        if option not in arguments:  # the program's own argument goes first
            yield f"    {option}: {kind}"
    yield ""
    yield f"class {own}{name}(CompiledProgram[{returns}]):"
    rest = "_options" if "options" in arguments else "options"
    given = [*_parameters(function.params), f"**{rest}: typing.Unpack[{own}{name}_options]"]
    yield from _method("def __call__", given, returns, str(function.attributes.get("doc") or ""))
    yield from _method("def run", given, f"RunResult[{returns}]")
    yield from _method("def stream", given, f"RunHandle[{returns}]")
    yield from _method("async def arun", given, f"RunResult[{returns}]")


def _method(head: str, parameters: Iterable[str], returns: str, doc: str = "") -> Iterator[str]:
    """Yield a method; what it overrides takes any arguments, which checkers call a mistake."""
    given = list(parameters)
    is_taken = any(parameter.startswith("self:") for parameter in given)
    yield f"    {head}(  # type: ignore"
    yield f"        {'_self, /' if is_taken else 'self'},"
    for parameter in given:
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
