"""Which cells may hold, or be, the same object.

The relations only grow. A change is followed from the changed object to everything whose
content, an SSA value made before, may be out of date now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lmc.frontend.capture.values import Cell
from lmc.ir.core import Value

DEEPEST = 8
"""Levels are counted up to here; what lies deeper counts as this deep."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a member lies in a container.

    `depth` counts levels. A member was put in under its own name, or `is_taken` out of the
    container, so that it may be any object there; `has_left` if it was removed meanwhile.
    """

    depth: int
    is_taken: bool = False
    has_left: bool = False

    def join(self, other: "Link | None") -> "Link":
        """Return the link that covers both."""
        if other is None:
            return self
        return Link(
            min(self.depth, other.depth),
            self.is_taken or other.is_taken,
            self.has_left and other.has_left,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """The changed object lies `depth` levels below `cell`.

    `is_any`: it may be any object there; else one that was put in under its own name, so that
    another one put in is not it. `from_below`: the walk came from a member. `is_old`: the
    object was there once, and is no more.
    """

    cell: Cell
    depth: int
    is_any: bool = True
    from_below: bool = False
    is_old: bool = False


class Aliases:
    """Relations among cells; `same` joins cells that may be one object."""

    def __init__(self) -> None:
        self._up: dict[Cell, dict[Cell, Link]] = {}
        self._down: dict[Cell, dict[Cell, Link]] = {}
        self._shares: dict[Cell, dict[Cell, int]] = {}
        self._same: dict[Cell, dict[Cell, int]] = {}

    def inside(
        self, member: Cell, container: Cell, *, depth: int, is_taken: bool = False,
        has_left: bool = False,
    ) -> None:  # fmt: skip
        """Note that an object is held by another, or came out of it."""
        if member is container:
            return
        link = Link(min(depth, DEEPEST), is_taken, has_left)
        link = link.join(self._up.get(member, {}).get(container))
        self._up.setdefault(member, {})[container] = link
        self._down.setdefault(container, {})[member] = link

    def shares(self, left: Cell, right: Cell, *, shift: int = 0) -> None:
        """Note that two containers have members in common, at most `shift` levels apart."""
        _join(self._shares, left, right, shift)

    def same(self, left: Cell, right: Cell) -> None:
        """Note that two cells may be one object."""
        _join(self._same, left, right, 0)

    def affected(self, cell: Cell, *, depth: int, is_itself: bool = False) -> set[Cell]:
        """Return the other cells whose contents may be out of date after a change.

        The change is one of an object `depth` levels below `cell`, made through `cell`. With
        `is_itself` only the cells that may be that object, without those that hold it.
        """
        found: set[Cell] = set()
        seen: dict[Place, None] = {}
        work = [Place(cell, min(depth, DEEPEST))]
        while work:
            place = work.pop()
            if place in seen or (place.cell is not cell and _is_others(place)):
                continue
            seen[place] = None
            if not place.is_old and (place.depth == 0 or not is_itself):
                found.add(place.cell)
            work += self._reached(place)
        return found - {cell}

    def _reached(self, place: Place) -> Iterator[Place]:
        """Yield the next places of a walk."""
        cell, depth = place.cell, place.depth
        for other in self._same.get(cell, ()):
            yield Place(other, depth, place.is_any, place.from_below, place.is_old)
        if not place.is_old:
            for holder, link in self._up.get(cell, {}).items():
                is_any = place.is_any and link.is_taken
                height = min(depth + link.depth, DEEPEST)
                yield Place(holder, height, is_any, True, link.has_left)
        if depth >= 1:
            for other, shift in self._shares.get(cell, {}).items():
                height = min(depth + shift, DEEPEST)
                yield Place(other, height, place.is_any, place.from_below)
        for member, link in self._down.get(cell, {}).items():
            is_it = place.is_any or link.is_taken
            if is_it and link.depth <= depth and (place.from_below or not link.has_left):
                # From the deepest level on, an object may lie anywhere below.
                rest = depth - link.depth if depth < DEEPEST else DEEPEST
                yield Place(member, rest, place.is_any)

    def related(self, member: Cell, container: Cell, *, depth: int = 0) -> bool:
        """Whether a container may hold an object `depth` levels below `member`, or any deeper."""
        if member is container or container in self.affected(member, depth=depth):
            return True
        return container in self.affected(member, depth=DEEPEST)

    def count(self, cells: Mapping[Cell, Value]) -> int:
        """Return a number that grows with every relation among some cells."""
        total = 0
        for cell in self._up.keys() & cells.keys():
            for holder, link in self._up[cell].items():
                if holder in cells:
                    total += 1 + link.is_taken + (not link.has_left) + DEEPEST - link.depth
        for table in (self._shares, self._same):
            for cell in table.keys() & cells.keys():
                for other, number in table[cell].items():
                    if other in cells:
                        total += 1 + number
        return total


def _is_others(place: Place) -> bool:
    """Whether all objects there belong to somebody else, so that none can be the changed one."""
    return place.cell.external is not None and place.depth >= place.cell.external_depth


def _join(table: dict[Cell, dict[Cell, int]], left: Cell, right: Cell, number: int) -> None:
    if left is not right:
        for one, other in ((left, right), (right, left)):
            known = table.setdefault(one, {})
            known[other] = max(number, known.get(other, number))
