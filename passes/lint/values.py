"""Rules on generated values: comparisons that cannot hold, operations that their type lacks."""

from collections.abc import Iterator

from lmc.ir.core import Op, Value
from lmc.ir.expressions import CONSTRAINTS
from lmc.passes.lint.context import Context
from lmc.passes.lint.finding import IMPOSSIBLE_COMPARISON, WRONG_VALUE_TYPE, Finding, found
from lmc.passes.lint.origins import (
    IDEMPOTENT,
    TEXT_TO_TEXT,
    Origin,
    common_type,
    kind_of,
    origin_of,
    texts_of,
)

ORDERINGS = frozenset({"<", "<=", ">", ">="})
EQUALITIES = frozenset({"==", "!="})
NUMBERS = (int, float)
_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "list": list}


def comparisons(context: Context) -> Iterator[Finding]:
    """Find comparisons of generated values that have the same outcome whatever comes."""
    for op in context.calls("val.compare"):
        name = str(op.attributes["op"])
        left, right = op.operands
        for value, other in ((left, right), (right, left)):
            known = context.constant(other)
            if name in EQUALITIES and known is not None:
                yield from _equality(op, value, known.value, context)
            elif name in ORDERINGS and known is not None:
                yield from _ordering(op, value, known.value, context)
        if name in ("in", "not in"):
            yield from _membership(op, left, right, context)


def _equality(op: Op, value: Value, other: object, context: Context) -> Iterator[Finding]:
    why = _never_equal(value, other, context)
    if why is not None:
        yield _impossible(op, why)


def _impossible(op: Op, why: str) -> Finding:
    outcome = "never" if op.attributes["op"] in ("==", "in") else "always"
    return found(
        IMPOSSIBLE_COMPARISON, op.location, f"this comparison {outcome} holds: {why}",
        "compare with a value that can come",
    )  # fmt: skip


def _never_equal(value: Value, other: object, context: Context) -> str | None:
    """Return why a generated value cannot equal a constant, None where it may."""
    texts = texts_of(value, context)
    if texts is not None and other not in texts:
        listed = ", ".join(map(repr, sorted(texts)[:6]))
        return f"{other!r} is not among the texts that can come ({listed})"
    changed = _changed_text(value, other, context)
    if changed is not None:
        return changed
    origin = origin_of(value, context)
    if origin is None:
        return None
    kind = common_type(origin, context)
    if kind is not None and not _may_equal(kind, other):
        return f"{origin.names()} is {_article(kind)}, and {other!r} is not"
    if isinstance(other, str) and kind == "str":
        return _outside(origin, other, context)
    return None


def _may_equal(kind: str, other: object) -> bool:
    if kind in ("int", "float", "bool"):
        return isinstance(other, (int, float))
    return isinstance(other, _KINDS[kind])


def _article(kind: str) -> str:
    return {"str": "a text", "int": "an int"}.get(kind, f"a {kind}")


def _changed_text(value: Value, other: object, context: Context) -> str | None:
    """Return why a text after lower(), strip(), ... cannot equal a constant."""
    op = context.facts.op_of(value, "val.method")
    if op is None or len(op.operands) != 1 or not isinstance(other, str):
        return None
    name = str(op.attributes["name"])
    if name not in IDEMPOTENT or TEXT_TO_TEXT[name](other) == other:
        return None
    if origin_of(op.operands[0], context) is None:
        return None
    return f"{other!r} is not what {name}() gives"


def _outside(origin: Origin, other: str, context: Context) -> str | None:
    """Return why the constraints of all calls leave a text out."""
    data = other.encode("utf-8", "surrogatepass")
    for call in origin.calls:
        if call.name != "lm.gen":
            return None
        if any(context.is_dynamic(call, key) for key in CONSTRAINTS):
            return None
        constraint = context.shared.languages.constraint(context.params(call))
        dfa = context.shared.languages.automaton_or_none(constraint) if constraint else None
        # A text that was cut may be the beginning of a longer one.
        if dfa is None or dfa.step(dfa.start, data) >= 0:
            return None
    return f"the constraint of {origin.names()} does not allow {other!r}"


def _ordering(op: Op, value: Value, other: object, context: Context) -> Iterator[Finding]:
    origin = origin_of(value, context)
    kind = common_type(origin, context) if origin is not None else None
    if origin is None or kind is None:
        return
    is_number = isinstance(other, NUMBERS)
    fits = is_number if kind in ("int", "float", "bool") else isinstance(other, _KINDS[kind])
    if not fits:
        yield found(
            WRONG_VALUE_TYPE, op.location,
            f"{origin.names()} is {_article(kind)}, which has no order with {other!r}",
            _number_remedy(kind),
        )  # fmt: skip


def _number_remedy(kind: str) -> str:
    if kind == "str":
        return "generate a number (type=int), or turn the text into one: int(...)"
    if kind == "list":
        return "take one of its items, as [0] does, or go through them"
    return "make it text first: str(...)"


def _membership(op: Op, left: Value, right: Value, context: Context) -> Iterator[Finding]:
    items = context.constant_items(right)
    tuple_op = context.facts.op_of(right, "val.set")
    if items is None and tuple_op is not None:
        known = [context.constant(value) for value in tuple_op.operands]
        items = None if None in known else [each.value for each in known if each is not None]
    if items and context.constant(left) is None:
        reasons = [_never_equal(left, item, context) for item in items]
        if all(reason is not None for reason in reasons):
            yield _impossible(op, str(reasons[0]))


def operations(context: Context) -> Iterator[Finding]:
    """Find operations that fail for every value that can come."""
    for op in context.calls("val.method", "host.method"):
        receiver = op.operands[op.name == "host.method"]
        given = kind_of(receiver, context)
        name = str(op.attributes["name"])
        if given is None or hasattr(_KINDS[given[0]], name):
            continue
        yield found(
            WRONG_VALUE_TYPE, op.location,
            f"{given[1]} is {_article(given[0])}, which has no method {name}()",
            _number_remedy(given[0]),
        )  # fmt: skip
    for op in context.calls("lm.extend"):
        yield from _appended(op, context)
    for op in context.calls("val.binary"):
        yield from _binary(op, context)


def _appended(op: Op, context: Context) -> Iterator[Finding]:
    given = kind_of(op.operands[1], context)
    if given is not None and given[0] != "str":
        yield found(
            WRONG_VALUE_TYPE, op.location,
            f"{given[1]} is {_article(given[0])}, and only text can be appended",
            _number_remedy(given[0]) if given[0] == "list" else "append str(...) or an f-string",
        )  # fmt: skip


def _binary(op: Op, context: Context) -> Iterator[Finding]:
    """Find sums and differences of what does not go together."""
    name = str(op.attributes["op"])
    sides = [_side(operand, context) for operand in op.operands]
    if None in sides or all(context.constant(operand) for operand in op.operands):
        return
    (left, shown), (right, other) = sides  # type: ignore[misc]
    if name in ("+", "-", "/", "//", "**") and {left, right} not in _TOGETHER.get(name, ()):
        yield found(
            WRONG_VALUE_TYPE, op.location,
            f"{shown} is {_article(left)} and {other} is {_article(right)}: '{name}' does not go "
            "with both", _number_remedy("str" if "str" in (left, right) else left),
        )  # fmt: skip


_NUMBERS = [{one, other} for one in ("int", "float", "bool") for other in ("int", "float", "bool")]
_TOGETHER: dict[str, list[set[str]]] = {
    "+": [*_NUMBERS, {"str"}, {"list"}], "-": _NUMBERS, "/": _NUMBERS, "//": _NUMBERS,
    "**": _NUMBERS,
}  # fmt: skip
"""Types that an operator takes together."""


def _side(value: Value, context: Context) -> tuple[str, str] | None:
    """Return the type of one side of an operator, and how to name it."""
    known = context.constant(value)
    if known is None:
        return kind_of(value, context)
    kind = type(known.value).__name__
    return (kind, repr(known.value)) if kind in _KINDS else None


RULES = (comparisons, operations)
