"""reorder: put the pieces of unordered stretches into the order that shares most."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from lmc.ir.core import Block, Function, Module, Op, filter_ops, replace_values
from lmc.passes.analysis import Facts
from lmc.passes.base import Level, Pass, PassResult, Remarks
from lmc.passes.pieces import (
    Class,
    Piece,
    Sharing,
    Stretch,
    class_before,
    shared,
    stretch_from,
)
from lmc.passes.purity import guarded_blocks, guarded_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderPass(Pass):
    """Reorder the pieces of `lm.unordered` stretches, and drop the marks.

    Changes the prompt (level C) within the blocks that the author has marked, nowhere else:
    constants come first, then what arguments decide, then what is generated. Calls keep their
    order and their ordinals. Where no order changes, the marks alone go, which is exact.
    """

    name: ClassVar[str] = "reorder"
    level: ClassVar[Level] = "C"

    def run(self, module: Module) -> PassResult:
        """Rewrite a copy of `module`; of level E where nothing or only marks went."""
        result = Pass.run(self, module)
        is_same = not any(remark.fired for remark in result.remarks)
        return replace(result, level="E") if is_same else result

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Reorder in every function."""
        changed = False
        guarded = guarded_functions(module)
        for function in module.functions.values():
            if any(op.name == "lm.unordered" for op in function.body.walk()):
                _Reorderer(function, remarks, guarded_blocks(function, guarded)).run()
                changed = True
        return changed


class _Reorderer:
    """Works on one function."""

    def __init__(self, function: Function, remarks: Remarks, guarded: set[Block]) -> None:
        self._function = function
        self._remarks = remarks
        self._guarded = guarded
        self._facts = Facts.of(function, is_called=False)
        self._done: set[Op] = set()

    def run(self) -> None:
        """Reorder all stretches, inner ones first, and drop the marks."""
        started: set[Op] = set()
        for mark in self._marks("begin")[::-1]:
            stretch = stretch_from(mark, self._facts, self._done)
            started.update(stretch.marks[:-1])
            if stretch.is_whole:
                self._done.update(stretch.marks)
            else:
                self._remarks.missed("its pieces do not follow each other in a line", mark)
            self._work_on(stretch)
        for mark in self._marks("next"):
            if mark not in started:
                stretch = stretch_from(mark, self._facts, self._done)
                started.update(stretch.marks[:-1])
                self._work_on(stretch)
        self._drop_marks()

    def _marks(self, side: str) -> list[Op]:
        ops = self._function.body.walk()
        return [op for op in ops if op.name == "lm.unordered" and op.attributes["side"] == side]

    def _drop_marks(self) -> None:
        marks = {op for op in self._function.body.walk() if op.name == "lm.unordered"}
        replace_values(self._function.body, {op.result: op.operands[0] for op in marks})
        filter_ops(self._function.body, lambda op: op not in marks)

    def _work_on(self, stretch: Stretch) -> None:
        if len(stretch.pieces) < 2:
            return
        if self._facts.blocks[stretch.marks[0]] in self._guarded:
            self._remarks.missed("a try sees in which order things fail", stretch.marks[0])
            return
        self._reorder(stretch)

    def _reorder(self, stretch: Stretch) -> None:
        """Choose an order between each two walls, and put the pieces into it."""
        mark = stretch.marks[0]
        before = class_before(mark.operands[0], self._facts)
        gains: list[Sharing] = []
        order: list[Piece] = []
        for run in _between_walls(stretch.pieces):
            best = chosen_order(run, before)
            gain = shared(best, before).minus(shared(run, before))
            if gain.is_none:
                best = run
            else:
                gains.append(gain)
                self._move_up(stretch, run, best)
            order += best
            before = max(before, *(piece.kind for piece in run))
        for reason in dict.fromkeys(piece.wall for piece in stretch.pieces if piece.wall):
            self._remarks.missed(f"nothing passes a piece: {reason}", mark)
        if gains:
            self._remarks.fired(f"in another order: {'; '.join(map(str, gains))}", mark)
            self._chain(stretch, order)
        else:
            self._remarks.missed("no other order shares more", mark)

    def _move_up(self, stretch: Stretch, run: list[Piece], order: list[Piece]) -> None:
        """Let the pieces that may move, and what makes their texts, stand where a run begins.

        What stays keeps its place in the block, so whatever needs it still comes after it.
        """
        mark = stretch.marks[stretch.pieces.index(run[0])]
        block = self._facts.blocks[mark]
        start = block.ops.index(mark) + 1
        after = set(block.ops[start:])
        moving = {
            op: None for piece in order if piece.may_move for op in (*piece.made_by, *piece.ops)
        }
        up = [op for op in moving if op in after]
        rest = [op for op in block.ops[start:] if op not in moving]
        block.ops = [*block.ops[:start], *up, *rest]

    def _chain(self, stretch: Stretch, order: list[Piece]) -> None:
        """Let each piece go on from the one before it."""
        first, *inner, last = stretch.marks
        state = first.result
        for piece in order:
            for op in piece.ops:
                op.operands[0] = state
                state = op.results[0]
        last.operands[0] = state
        block = self._facts.blocks[first]
        gone = set(inner)
        block.ops = [op for op in block.ops if op not in gone]
        self._facts = Facts.of(self._function, is_called=False)


def chosen_order(pieces: list[Piece], before: Class) -> list[Piece]:
    """Return the order of pieces without walls that shares most.

    Constants, then what arguments decide, the longest constant front first, then the rest in
    its order. Where the prompt before the pieces rests on arguments, constants are no better.
    """
    movable = [piece for piece in pieces if piece.may_move]
    rest = [piece for piece in pieces if not piece.may_move]
    if before != Class.CONSTANT:
        return [*movable, *rest]
    constant = [piece for piece in movable if piece.kind == Class.CONSTANT]
    known = [piece for piece in movable if piece.kind == Class.KNOWN]
    first = max(known, key=lambda piece: piece.front, default=None)
    leading = [] if first is None else [first]
    return [*constant, *leading, *(piece for piece in known if piece is not first), *rest]


def _between_walls(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces in runs that nothing may pass: walls, and what is between them."""
    run: list[Piece] = []
    for piece in pieces:
        if piece.wall:
            yield from ([run] if run else [])
            yield [piece]
            run = []
        else:
            run.append(piece)
    if run:
        yield run
