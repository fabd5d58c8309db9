"""The finite choices that a call of the model can make, with the values that they give."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmc.errors import ConstraintError, LmcError
from lmc.ir.calls import Constraint
from lmc.ir.core import Op, Value
from lmc.ir.decode_params import constraint_from
from lmc.ir.types import is_attr
from lmc.ir.value_types import class_names, read_typed
from lmc.passes.analysis import Const, Facts, known_items

if TYPE_CHECKING:
    from lmc.ir.automata import ByteDfa

MAX_STATES = 512
"""States of an automaton whose words are listed."""

MAX_BYTES = 256
"""Bytes of all words together."""


@dataclass(frozen=True, slots=True)
class Option:
    """One text that a call may give, and its value; None where that is no plain constant."""

    text: str
    value: Const | None


def options_of(op: Op, facts: Facts, limit: int) -> list[Option] | str:
    """Return what a `lm.select` or `lm.gen` can give, if that is 2 to `limit` texts.

    Else the reason why not: "" where the call is no choice at all.
    """
    if op.name == "lm.select":
        return _choices(op, facts, limit)
    params = op.attributes["params"]
    assert isinstance(params, dict), "verified"
    if op.attributes["dynamic"] or params.get("n", 1) != 1:
        return ""
    constraint = constraint_from(params)
    if constraint is None or constraint.kind != "regex":
        return ""
    words = _words(constraint.source, limit)
    if words is None:
        return ""
    kind = str(params.get("type", "str"))
    return [Option(word, None if class_names(kind) else _value(kind, word)) for word in words]


def _choices(op: Op, facts: Facts, limit: int) -> list[Option] | str:
    found = known_items(op.operands[1], facts)
    if found is None:
        return "the options are known in the run only"
    texts: list[str] = []
    for item in found.items:
        known = facts.constant(item) if isinstance(item, Value) else item
        if not isinstance(known, Const) or not isinstance(known.value, str):
            return "the options are known in the run only"
        texts.append(known.value)
    texts = list(dict.fromkeys(texts))
    if len(texts) < 2:
        return ""
    if len(texts) > limit:
        return f"{len(texts)} options are over max_options={limit}"
    return [Option(text, Const(text)) for text in texts]


def _value(kind: str, text: str) -> Const | None:
    try:
        value = read_typed(kind, text)
    except (LmcError, ValueError, KeyError):
        return None
    return Const(value) if is_attr(value) else None


def _words(pattern: str, limit: int) -> list[str] | None:
    """Return the texts that a pattern matches, if they are few."""
    from lmc.ir.automata import ByteDfa
    from lmc.ir.languages import language_of

    try:
        dfa = language_of(Constraint("regex", pattern))
    except ConstraintError:
        return None  # told where the generation is compiled
    if not isinstance(dfa, ByteDfa) or dfa.state_count > MAX_STATES:
        return None
    longest = dfa.longest_len()
    if longest is None or longest > MAX_BYTES:
        return None
    words: list[str] = []
    for word in _walk(dfa, dfa.start, b""):
        words.append(word.decode())
        if len(words) > limit:
            return None
    return words if len(words) > 1 else None


def _walk(dfa: "ByteDfa", state: int, head: bytes) -> Iterator[bytes]:
    """Yield the words that begin with `head`, in order."""
    if dfa.is_accepting(state):
        yield head
    for byte in dfa.allowed_bytes(state):
        yield from _walk(dfa, dfa.step(state, bytes([byte])), head + bytes([byte]))
