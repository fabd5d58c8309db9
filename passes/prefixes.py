"""What a state op appends at its front as a constant, and how to take a part of it away."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.ir.core import Attr, Op, Value
from lmc.ir.types import TEXT
from lmc.passes.analysis import APPENDING, Const, Facts
from lmc.passes.rewriting import make_const

_WORD = {"lm.begin": "role", "lm.end": "role", "lm.control": "token"}


@dataclass(frozen=True, slots=True)
class Head:
    """The constant front of an appending op: a text, or a marker by its word.

    `is_whole` says that the op appends nothing else.
    """

    kind: str
    text: str
    is_whole: bool

    @property
    def piece(self) -> list[str]:
        """The head as `lm.prologue` lists it."""
        return [self.kind, self.text]


def head_of(op: Op, facts: Facts) -> Head | None:
    """Return what an op appends first, if that is constant and not empty."""
    if op.name not in APPENDING:
        return None
    if op.name != "lm.extend":
        return Head(op.name.removeprefix("lm."), str(op.attributes[_WORD[op.name]]), True)
    front = front_of(op.operands[1], facts)
    return Head("text", front, facts.constant(op.operands[1]) is not None) if front else None


def front_of(value: Value, facts: Facts) -> str:
    """Return the constant text that a value begins with; "" if there is none.

    Looks into constants, concats, sums of texts, and ends of those.
    """
    op = facts.op_of(value)
    text = facts.constant_text(value)
    if op is None or text is not None or value.type != TEXT:
        return text or ""
    match op.name:
        case "val.concat" if op.operands:
            return front_of(op.operands[0], facts)
        case "val.binary" if op.attributes["op"] == "+":
            return front_of(op.operands[0], facts)
        case "val.slice":
            start = _end_from(op, facts)
            return "" if start is None else front_of(op.operands[0], facts)[start:]
        case _:
            return ""


def _end_from(op: Op, facts: Facts) -> int | None:
    """Return n of `x[n:]`."""
    start, stop, step = op.operands[1:]
    if any(facts.constant(bound) != Const(None) for bound in (stop, step)):
        return None
    number = facts.constant_int(start)
    return number if number is not None and number >= 0 else None


def common_head(heads: Sequence[Head], min_chars: int) -> Head | None:
    """Return what all heads begin with: an equal marker or text, or a leading part of texts.

    A part that leaves something of every text is taken from `min_chars` characters on.
    """
    first = heads[0]
    if any(head.kind != first.kind for head in heads):
        return None
    if first.kind != "text":
        return first if all(head.text == first.text for head in heads) else None
    text = common_prefix([head.text for head in heads])
    uses_up = any(head.is_whole and head.text == text for head in heads)
    is_equal = all(head.text == text for head in heads)
    if not text or not (uses_up or is_equal or len(text) >= min_chars):
        return None
    return Head("text", text, all(head.is_whole and head.text == text for head in heads))


def common_prefix(texts: Sequence[str]) -> str:
    """Return the longest text that all begin with."""
    low, high = min(texts), max(texts)
    same = next((i for i, c in enumerate(low) if i >= len(high) or high[i] != c), len(low))
    return low[:same]


def append_op(head: Head, state: Value, result: Value, like: Op, *, hoisted: bool) -> list[Op]:
    """Return ops that append a head to a state, placed in the source like `like`."""
    attributes: dict[str, Attr] = {"hoisted": True} if hoisted else {}
    if head.kind == "text":
        text = make_const(head.text, like.location)
        append = Op("lm.extend", [state, text.result], [result], attributes, [], like.location)
        return [text, append]
    name = f"lm.{head.kind}"
    attributes = {_WORD[name]: head.text, **attributes}
    return [Op(name, [state], [result], attributes, [], like.location)]


def without_head(op: Op, head: Head, facts: Facts) -> list[Op]:
    """Return ops for what an appending op appends after a head; none if that is all.

    The op itself comes last and keeps its state operand; where nothing is left, the caller
    lets the state before stand for the op's result.
    """
    whole = head_of(op, facts)
    assert whole is not None
    if head.kind != "text" or (whole.is_whole and whole.text == head.text):
        return []
    if whole.is_whole:
        made = [make_const(whole.text[len(head.text) :], op.location)]
    else:
        made, value = _rest_of(op, len(head.text), facts)
        if not made:
            op.operands = [op.operands[0], value]
            return [op]
    op.operands = [op.operands[0], made[-1].result]
    return [*made, op]


def _rest_of(op: Op, taken: int, facts: Facts) -> tuple[list[Op], Value]:
    """Return ops for the text that an op appends but for its first characters, and the text."""
    value = op.operands[1]
    source = facts.op_of(value, "val.concat", "val.slice")
    if source is not None and source.name == "val.concat":
        first = facts.constant_text(source.operands[0])
        if first == front_of(value, facts)[:taken]:
            return _joined(source.operands[1:], op)
    start = 0
    if source is not None and source.name == "val.slice":
        start = _end_from(source, facts) or 0
        value = source.operands[0]
    bounds = [make_const(bound, op.location) for bound in (start + taken, None, None)]
    result = Value(TEXT, op.operands[1].hint)
    operands = [value, *(bound.result for bound in bounds)]
    return [*bounds, Op("val.slice", operands, [result], {}, [], op.location)], result


def _joined(parts: list[Value], op: Op) -> tuple[list[Op], Value]:
    if len(parts) == 1 and parts[0].type == TEXT:
        return [], parts[0]
    result = Value(TEXT, op.operands[1].hint)
    return [Op("val.concat", parts, [result], {}, [], op.location)], result
