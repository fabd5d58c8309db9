"""Hidden variables: what is kept of unnamed calls for reads by their expressions."""

from lmc.frontend.capture.values import Piece
from lmc.ir.core import Block, Value
from lmc.ir.expressions import HIDDEN

META_SUFFIX = ":meta"
"""Ends the hidden variable that holds a call's meta dict."""


def hidden_name(part: Piece, suffix: str = "") -> str:
    """Return the variable that keeps the value of an unnamed call."""
    return f"{HIDDEN}{part.serial}{suffix}"


def drop_unread(body: Block, read: set[str]) -> None:
    """Drop what sets hidden variables that nobody reads."""
    replaced: dict[Value, Value] = {}
    for block in _blocks(body):
        kept = []
        for op in block.ops:
            op.operands[:] = [_last(value, replaced) for value in op.operands]
            name = op.attributes.get("name")
            if op.name == "lm.set" and _is_hidden(name) and name not in read:
                replaced[op.result] = op.operands[0]
                op.operands[0].hint = op.operands[0].hint or op.result.hint
            else:
                kept.append(op)
        block.ops = kept


def _last(value: Value, replaced: dict[Value, Value]) -> Value:
    while value in replaced:
        value = replaced[value]
    return value


def _is_hidden(name: object) -> bool:
    return isinstance(name, str) and name.startswith(HIDDEN)


def _blocks(body: Block) -> list[Block]:
    """Return a block and those in it, outer ones and earlier ones first."""
    found = [body]
    for op in body.ops:
        for block in op.blocks:
            found += _blocks(block)
    return found
