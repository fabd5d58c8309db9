"""Which model calls a value certainly comes from, and what it can be."""

import json
from collections.abc import Callable
from dataclasses import dataclass

from lmc.ir.core import Op, Value
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.walk import setters

MAX_VALUES = 200
TEXT_TO_TEXT: dict[str, Callable[[str], str]] = {
    "strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip, "lower": str.lower,
    "upper": str.upper, "casefold": str.casefold, "title": str.title,
    "capitalize": str.capitalize, "swapcase": str.swapcase,
}  # fmt: skip
"""Methods of text without arguments that give a text."""

IDEMPOTENT = frozenset(TEXT_TO_TEXT) - {"swapcase"}
"""Those that change nothing when they are called again."""

METHOD_KINDS = {
    "split": "list", "rsplit": "list", "splitlines": "list", "find": "int", "rfind": "int",
    "count": "int", "index": "int", "startswith": "bool", "endswith": "bool", "isdigit": "bool",
    "isalpha": "bool", "isnumeric": "bool", "isupper": "bool", "islower": "bool",
}  # fmt: skip
"""What other methods of text give."""

CALL_KINDS = {
    "len": "int", "int": "int", "float": "float", "str": "str", "bool": "bool", "sorted": "list",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Origin:
    """The calls that a value may come from; each of them gives it."""

    calls: tuple[Op, ...]

    def names(self) -> str:
        """Name the variables for people."""
        known = [str(op.attributes["name"]) for op in self.calls if op.attributes.get("name")]
        return " or ".join(repr(name) for name in dict.fromkeys(known)) or "this"


def origin_of(value: Value, context: Context) -> Origin | None:
    """Return the calls whose answer a value certainly is; None where it may be another value."""
    calls: dict[Op, None] = {}
    pending, seen = [value], {value}
    while pending:
        found = context.facts.definitions.get(pending.pop())
        if found is None:
            return None
        op, index = found
        more: list[Value] = []
        if op.name in CALLS and index == 1:
            calls.setdefault(op)
        elif op.name == "lm.get" and isinstance(op.attributes.get("name"), str):
            walked = setters(op.operands[0], str(op.attributes["name"]), context.facts)
            if not walked.certain or any(each.name not in CALLS for each in walked.ops):
                return None
            calls.update(dict.fromkeys(walked.ops))
        elif op.name == "cf.if":
            more = [block.terminator.operands[index] for block in op.blocks]
        else:
            return None
        pending += [each for each in more if each not in seen]
        seen.update(more)
    return Origin(tuple(calls)) if calls else None


def sample_count(op: Op, context: Context) -> int | None:
    """Return a call's number of samples, None where it is known late."""
    if context.is_dynamic(op, "n"):
        return None
    n = context.param(op, "n")
    return n if isinstance(n, int) and op.name == "lm.gen" else 1


def python_type(op: Op, context: Context) -> str | None:
    """Return the type of a call's value ('str', 'int', ..., 'list'), None where not known."""
    if op.name == "lm.select":
        return "str"
    count = sample_count(op, context)
    if count is None or context.is_dynamic(op, "type"):
        return None
    if count > 1:
        return "list"
    kind = context.param(op, "type")
    if kind is None:
        return "str"
    return str(kind) if kind in ("str", "int", "float", "bool") else None


def common_type(origin: Origin, context: Context) -> str | None:
    """Return the type that all calls of an origin give."""
    kinds = {python_type(op, context) for op in origin.calls}
    return kinds.pop() if len(kinds) == 1 else None


def kind_of(value: Value, context: Context) -> tuple[str, str] | None:
    """Return the type of a value that a generation decides, and how to name it."""
    origin = origin_of(value, context)
    if origin is not None:
        kind = common_type(origin, context)
        return None if kind is None else (kind, origin.names())
    op = context.facts.op_of(value)
    if op is None or not op.operands:
        return None
    name = str(op.attributes.get("name") or op.attributes.get("callee"))
    given = kind_of(op.operands[0], context)
    made = None
    if op.name == "val.method" and given is not None and given[0] == "str":
        made = "str" if name in (*TEXT_TO_TEXT, "replace") else METHOD_KINDS.get(name)
    elif op.name == "val.call" and given is not None:
        made = CALL_KINDS.get(name)
    return None if made is None else (made, f"what {name}() gives")


def texts_of(value: Value, context: Context) -> set[str] | None:
    """Return all texts that a value can be, if they are few and known."""
    op = context.facts.op_of(value)
    if op is not None and op.name == "val.method" and len(op.operands) == 1:
        change = TEXT_TO_TEXT.get(str(op.attributes["name"]))
        texts = texts_of(op.operands[0], context) if change else None
        return None if texts is None or change is None else {change(text) for text in texts}
    origin = origin_of(value, context)
    if origin is None:
        return None
    made: set[str] = set()
    for call in origin.calls:
        options = context.options(call) if call.name == "lm.select" else _literals(call, context)
        if options is None or len(options) > MAX_VALUES:
            return None
        made |= set(options)
    return made


def _literals(op: Op, context: Context) -> list[str] | None:
    """Return the values of a generation of a Literal of texts."""
    kind = context.param(op, "type")
    if sample_count(op, context) != 1 or not isinstance(kind, str) or not kind.startswith("{"):
        return None
    spec = json.loads(kind)
    values = spec.get("literal")
    if "enum" in spec or not isinstance(values, list):
        return None
    return values if all(isinstance(value, str) for value in values) else None
