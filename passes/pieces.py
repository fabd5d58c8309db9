"""The pieces of `lm.unordered` stretches: what they append, what decides it, what may move.

A piece lies between two marks that follow each other on one prompt, in one block. The classes
say how much two runs have in common: a constant is the same in all of them, a known text in
those with equal arguments, and an open one may differ in any two.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from lmc.ir.core import Block, Op, Value
from lmc.passes.analysis import PASSING, Facts
from lmc.passes.base import counted
from lmc.passes.demand import HOST, may_rest_on_call
from lmc.passes.prefixes import front_of
from lmc.passes.purity import is_observed

CALLS = frozenset({"lm.gen", "lm.select"})
FIXED = frozenset({"lm.begin", "lm.end", "lm.control", "lm.image", "lm.join"})
"""Ops of one prompt that nothing may pass: what stands in a turn stays in it."""

ON_CHAIN = PASSING | CALLS | FIXED | {"lm.unordered"}


class Class(IntEnum):
    """What decides a text."""

    CONSTANT = 0
    KNOWN = 1
    OPEN = 2


@dataclass(slots=True)
class Piece:
    """One piece.

    Attributes:
        ops: the ops that take the prompt on, in order.
        made_by: ops that make its texts and have to move with it, in the order of the block.
        kind: what decides it.
        may_move: whether it may go before others; else the others may still go before it.
        wall: why nothing passes it; "" where things may.
        front: its constant characters up to the first that is not, and whether that is all.
    """

    ops: list[Op] = field(default_factory=list[Op])
    made_by: list[Op] = field(default_factory=list[Op])
    kind: Class = Class.CONSTANT
    may_move: bool = True
    wall: str = ""
    front: int = 0
    is_constant: bool = True


@dataclass(slots=True)
class Stretch:
    """Pieces that follow each other; `marks` has one more, around and between them.

    `is_whole` says that it begins and ends where the author's block does.
    """

    marks: list[Op]
    pieces: list[Piece]
    is_whole: bool


def stretch_from(mark: Op, facts: Facts, done: Collection[Op]) -> Stretch:
    """Return the pieces that follow a mark, as far as they lie on one chain in its block.

    Stretches within it whose marks are `done` are parts of pieces like others.
    """
    block = facts.blocks[mark]
    found = Stretch([mark], [], False)
    piece, state = Piece(), mark.result
    while (op := _next_on_chain(state, block, facts)) is not None:
        state = op.results[0]
        if op.name != "lm.unordered" or op in done:
            piece.ops.append(op)
            if len(facts.uses(state)) > 1:
                piece.wall = "the prompt is read within it"
            continue
        if op.attributes["side"] == "begin":
            break
        found.marks.append(op)
        found.pieces.append(piece)
        piece = Piece()
        if op.attributes["side"] == "end":
            found.is_whole = mark.attributes["side"] == "begin"
            break
        if len(facts.uses(state)) > 1:
            break  # whoever reads it sees what stands before, so the next mark begins anew
    _describe(found, block, facts)
    return found


def _next_on_chain(state: Value, block: Block, facts: Facts) -> Op | None:
    """Return the one op of the block that takes a prompt on; None if there are none or several."""
    users = facts.uses(state)
    found = [op for op, i in users if i == 0 and op.name in ON_CHAIN and facts.blocks[op] is block]
    return found[0] if len(found) == 1 else None


def _describe(stretch: Stretch, block: Block, facts: Facts) -> None:
    places = {op: index for index, op in enumerate(block.ops)}
    start = places[stretch.marks[0]]
    borders = zip(stretch.marks, stretch.marks[1:], strict=False)
    for piece, (first, last) in zip(stretch.pieces, borders, strict=True):
        between = block.ops[places[first] + 1 : places[last]]
        if any(op.name in FIXED or "hoisted" in op.attributes for op in piece.ops):
            piece.wall = "it opens or closes a turn, or is no text"
        elif any(is_observed(op) for op in between):
            piece.wall = "it calls a function that may have effects"
        _classify(piece, facts)
        piece.made_by = sorted(_sources(piece, places, start, facts), key=places.__getitem__)
        is_plain = all(op.name in ("lm.extend", "lm.unordered") for op in piece.ops)
        is_pure = all(op.name.startswith("val.") or op.name in HOST for op in piece.made_by)
        piece.may_move = is_plain and is_pure and piece.kind != Class.OPEN


def _classify(piece: Piece, facts: Facts) -> None:
    for op in piece.ops:
        front, kind = _appended(op, facts)
        if piece.is_constant:
            piece.front += front
        piece.is_constant = piece.is_constant and kind == Class.CONSTANT
        piece.kind = max(piece.kind, kind)
        if op.name in ("lm.set", "lm.tick"):
            piece.is_constant = False  # in place, but what stands before it may be the same


def _appended(op: Op, facts: Facts) -> tuple[int, Class]:
    """Return how many constant characters an op appends first, and what decides the rest."""
    if op.name in CALLS or op.name == "lm.join":
        return 0, Class.OPEN
    if op.name not in ("lm.extend", "lm.image"):
        return 0, Class.CONSTANT
    text = op.operands[1]
    front = len(front_of(text, facts)) if op.name == "lm.extend" else 0
    return front, class_of(text, facts)


def class_of(value: Value, facts: Facts) -> Class:
    """Return what decides a value; `facts` take a function's parameters as known."""
    if facts.constant(value) is not None:
        return Class.CONSTANT
    return Class.OPEN if may_rest_on_call(value, facts) else Class.KNOWN


def _sources(piece: Piece, places: Mapping[Op, int], start: int, facts: Facts) -> Iterator[Op]:
    """Yield the ops behind the texts of a piece that stand in the block after its stretch began."""
    pending = [value for op in piece.ops for value in op.operands[1:]]
    seen: set[Op] = set()
    while pending:
        op = facts.op_of(pending.pop())
        if op is None or op in seen or places.get(op, -1) < start:
            continue
        seen.add(op)
        pending += op.operands
        yield op


def class_before(state: Value, facts: Facts) -> Class:
    """Return what decides the prompt up to a state."""
    found = Class.CONSTANT
    while found != Class.OPEN:
        defined = facts.definitions.get(state)
        if defined is None:
            return Class.OPEN  # a block's argument: rounds differ in what stands before
        op, position = defined
        match op.name:
            case "lm.prompt" | "lm.prologue":
                return found
            case "lm.fork" | "lm.group":
                state = op.operands[position + 1 if op.name == "lm.group" else 0]
            case "val.index" if (fork := facts.fork_of_list(op.operands[0])) is not None:
                state = fork.operands[0]
            case "func.call" if position == 1:
                state = op.operands[1]
            case name if name in ON_CHAIN:
                found = max(found, _appended(op, facts)[1])
                state = op.operands[0]
            case _:
                return Class.OPEN
    return found


@dataclass(frozen=True, slots=True)
class Sharing:
    """What an order of pieces lets runs share.

    Attributes:
        everywhere: constant characters in front, which two runs with other arguments share.
        characters: constant characters before the first piece that stays, which two runs with
            equal arguments share.
        known: pieces of arguments before it, whose length nobody knows at compile time.
    """

    everywhere: int
    characters: int
    known: int

    def minus(self, other: "Sharing") -> "Sharing":
        """Return what this order shares more."""
        return Sharing(
            self.everywhere - other.everywhere,
            self.characters - other.characters,
            self.known - other.known,
        )

    @property
    def is_none(self) -> bool:
        """Whether nothing is shared."""
        return self == Sharing(0, 0, 0)

    def __str__(self) -> str:
        """Return the words of a remark."""
        told: list[str] = []
        if self.everywhere:
            told.append(f"{counted(self.everywhere, 'character')} more are the same in all runs")
        early = [counted(self.characters, "constant character")] * bool(self.characters)
        early += [counted(self.known, "piece") + " of arguments"] * bool(self.known)
        if early:
            told.append(f"{' and '.join(early)} more before what is generated")
        return ", ".join(told)


def shared(order: Sequence[Piece], before: Class) -> Sharing:
    """Return what an order of pieces shares; `before` tells what decides the prompt so far."""
    everywhere = characters = known = 0
    for piece in order if before == Class.CONSTANT else ():
        everywhere += piece.front
        if not piece.is_constant:
            break
    for piece in order if before != Class.OPEN else ():
        if not piece.may_move:
            break
        characters += piece.front if piece.is_constant else 0
        known += not piece.is_constant
    return Sharing(everywhere, characters, known)
