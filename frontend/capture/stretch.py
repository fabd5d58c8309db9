"""Stretches whose order is free (`with lmc.unordered(s):`), and the borders of their pieces.

A piece is a statement that stands directly in the block, or one trip of a `for` that does.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lmc.ir.core import Value


@dataclass(slots=True)
class Stretch:
    """An open stretch of one state; calling it closes it.

    Attributes:
        mark: puts a mark of a side after what the state holds, and returns the state then.
        content: returns what the state holds.
        last: the state as it was at the last border.
    """

    mark: Callable[[str], Value]
    content: Callable[[], Value]
    last: Value

    def __call__(self) -> None:
        """Close the stretch."""
        self.mark("end")

    def begin_piece(self) -> None:
        """Note the state as it is: what comes is a piece, marked if it changes the state."""
        self.last = self.content()

    def end_piece(self) -> None:
        """Mark the border of pieces, if the state has changed since the last one."""
        if self.content() is not self.last:
            self.last = self.mark("next")


@dataclass(slots=True)
class Borders:
    """The borders of one block, which marks the stretch that is walked at the moment."""

    stretch: Stretch | None = None

    def between(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with a border after each but the last."""
        parted: list[ast.stmt] = []
        for statement in body:
            if isinstance(statement, ast.For):
                trips = [self._border(statement, False), *statement.body, self._border(statement)]
                whole = ast.For(statement.target, statement.iter, trips, statement.orelse)
                parted.append(ast.copy_location(whole, statement))
            else:
                parted.append(statement)
            parted.append(self._border(statement))
        return parted[:-1]

    def _border(self, like: ast.stmt, is_end: bool = True) -> "Border":
        border = ast.copy_location(Border(), like)
        border.borders, border.is_end = self, is_end
        return border


class Border(ast.stmt):
    """A statement that capture puts between two pieces."""

    borders: Borders
    is_end: bool

    def cross(self) -> None:
        """Tell the open stretch that a piece ends, or begins."""
        stretch = self.borders.stretch
        assert stretch is not None, "a border stands in its block alone"
        if self.is_end:
            stretch.end_piece()
        else:
            stretch.begin_piece()
