"""What a state op appends at its front as a constant, and how to take a part of it away."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.ir.core import Op, Value
from lmc.ir.types import TEXT
from lmc.passes.analysis import APPENDING, Facts
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
    text = facts.constant_text(op.operands[1])
    if text is not None:
        return Head("text", text, True) if text else None
    parts = facts.op_of(op.operands[1], "val.concat")
    lead = facts.constant_text(parts.operands[0]) if parts and parts.operands else None
    return Head("text", lead, False) if lead else None


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


def append_op(head: Head, state: Value, result: Value, like: Op) -> list[Op]:
    """Return ops that append a head to a state, placed in the source like `like`."""
    if head.kind == "text":
        text = make_const(head.text, like.location)
        return [text, Op("lm.extend", [state, text.result], [result], {}, [], like.location)]
    name = f"lm.{head.kind}"
    attributes = {_WORD[name]: head.text}
    return [Op(name, [state], [result], dict(attributes), [], like.location)]


def without_head(op: Op, head: Head, facts: Facts) -> list[Op]:
    """Return ops for what an appending op appends after a head; none if that is all.

    The op itself comes last and keeps its state operand; where nothing is left, the caller
    lets the state before stand for the op's result.
    """
    whole = head_of(op, facts)
    assert whole is not None
    rest = whole.text[len(head.text) :] if head.kind == "text" else ""
    if whole.is_whole and not rest:
        return []
    ops: list[Op] = []
    lead: list[Value] = []
    if rest:
        ops.append(make_const(rest, op.location))
        lead.append(ops[-1].result)
    parts = None if whole.is_whole else facts.op_of(op.operands[1], "val.concat")
    joined = lead + (parts.operands[1:] if parts is not None else [])
    if len(joined) == 1 and joined[0].type == TEXT:
        text = joined[0]
    else:
        text = Value(TEXT, op.operands[1].hint)
        ops.append(Op("val.concat", joined, [text], {}, [], op.location))
    op.operands = [op.operands[0], text]
    return [*ops, op]
