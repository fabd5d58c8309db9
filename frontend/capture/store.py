"""What is known at one point of a program: names, contents of cells, and which cells are stale."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lmc.frontend.capture.values import Abstract, Cell, Element, Ref, Tuple
from lmc.ir.core import Value

Key = tuple[int, str]
"""A name within a frame; names that begin with '$' are capture's own."""


@dataclass(slots=True)
class Store:
    """Bindings at one point; copied where control flow parts.

    `stale` cells were changed through another name that capture could not follow: reading one
    is a graph break. `ticked` ones had a call counted elsewhere: making a call on one is.
    `frozen` ones are held by something else: changing one is.
    """

    names: dict[Key, Abstract] = field(default_factory=dict)
    contents: dict[Cell, Value] = field(default_factory=dict)
    stale: dict[Cell, str] = field(default_factory=dict)
    ticked: dict[Cell, str] = field(default_factory=dict)
    frozen: dict[Cell, str] = field(default_factory=dict)

    def copy(self) -> "Store":
        """Return a store that changes on its own."""
        return Store(
            dict(self.names),
            dict(self.contents),
            dict(self.stale),
            dict(self.ticked),
            dict(self.frozen),
        )

    def flags(self) -> tuple[dict[Cell, str], dict[Cell, str], dict[Cell, str]]:
        """Return the three sets of marks."""
        return self.stale, self.ticked, self.frozen

    def add_flags(self, other: "Store") -> bool:
        """Take over another store's marks on cells that are known here; tell if any is new."""
        is_new = False
        for own, others in zip(self.flags(), other.flags(), strict=True):
            for cell, reason in others.items():
                if cell in self.contents and cell not in own:
                    own[cell] = reason
                    is_new = True
        return is_new


class Aliases:
    """Which cells may hold, or be, the same object.

    The relations only grow. `inside` goes from a member to what contains it, so many levels up;
    `shares` joins containers that have members in common; `same` joins cells that may be one
    object; `peers` joins cells of which some one object may be the same.
    """

    def __init__(self) -> None:
        self._containers: dict[Cell, dict[Cell, int]] = {}
        self._members: dict[Cell, dict[Cell, int]] = {}
        self._shares: dict[Cell, set[Cell]] = {}
        self._same: dict[Cell, set[Cell]] = {}
        self._peers: dict[Cell, set[Cell]] = {}

    def inside(self, member: Cell, container: Cell, *, depth: int) -> None:
        """Note that an object is held by another, `depth` levels below it."""
        if member is container:
            return
        for table, key, value in (
            (self._containers, member, container),
            (self._members, container, member),
        ):
            known = table.setdefault(key, {})
            known[value] = min(depth, known.get(value, depth))

    def shares(self, left: Cell, right: Cell) -> None:
        """Note that two containers have members in common."""
        _join(self._shares, left, right)

    def same(self, left: Cell, right: Cell) -> None:
        """Note that two cells may be one object."""
        _join(self._same, left, right)

    def peers(self, left: Cell, right: Cell) -> None:
        """Note that an object of one cell may be an object of the other."""
        _join(self._peers, left, right)

    def affected(self, cell: Cell, *, depth: int) -> set[Cell]:
        """Return the other cells whose contents may be out of date after a change.

        The change is one of an object `depth` levels below `cell`, made through `cell`.
        """
        roots = _closure({cell}, self._same)
        peers = {peer for root in roots for peer in self._peers.get(root, ())}
        found = self._below(roots, depth)
        return (self._above(found) | peers) - {cell}

    def _below(self, roots: set[Cell], depth: int) -> set[Cell]:
        """Return the cells that may hold an object `depth` levels below the roots."""
        best = dict.fromkeys(roots, depth)
        work = list(roots)
        while work:
            cell = work.pop()
            left = best[cell]
            reached = [(other, left - far) for other, far in self._members.get(cell, {}).items()]
            reached += [(other, left) for other in self._same.get(cell, ())]
            if left >= 1:
                reached += [(other, left) for other in self._shares.get(cell, ())]
            for other, rest in reached:
                if rest >= 0 and rest > best.get(other, -1):
                    best[other] = rest
                    work.append(other)
        return set(best)

    def _above(self, cells: set[Cell]) -> set[Cell]:
        """Return the cells and all that may hold one of them, at any depth."""
        found = set(cells)
        work = list(cells)
        while work:
            cell = work.pop()
            holders = set(self._containers.get(cell, ()))
            # What shares members with a holder may hold this very member too.
            reached = _closure(holders, self._shares) | self._same.get(cell, set())
            work += reached - found
            found |= reached
        return found

    def once_inside(self, cell: Cell) -> set[Cell]:
        """Return what may be, or hold, an object that was just taken out of a container."""
        return self.affected(cell, depth=1) - _closure({cell}, self._same)

    def related(self, member: Cell, container: Cell) -> bool:
        """Whether a container is known to hold an object, or members of it, already."""
        if member is container:
            return True
        if any(container in self._containers.get(c, ()) for c in _closure({member}, self._same)):
            return True
        return container in _closure({member}, self._shares, self._same) - {member}

    def count(self, cells: dict[Cell, Value]) -> int:
        """Return the number of relations among some cells."""
        tables = (self._containers, self._shares, self._same, self._peers)
        return sum(
            sum(other in cells for other in table.get(cell, ()))
            for table in tables
            for cell in cells
        )


Table = Mapping[Cell, Collection[Cell]]


def _join(table: dict[Cell, set[Cell]], left: Cell, right: Cell) -> None:
    if left is not right:
        table.setdefault(left, set()).add(right)
        table.setdefault(right, set()).add(left)


def _closure(start: set[Cell], *tables: Table) -> set[Cell]:
    found = set(start)
    work = list(start)
    while work:
        cell = work.pop()
        for table in tables:
            for other in table.get(cell, ()):
                if other not in found:
                    found.add(other)
                    work.append(other)
    return found


def root_cell(place: Abstract) -> Cell:
    """Return the cell at the bottom of a place."""
    while isinstance(place, Element):
        place = place.container
    assert isinstance(place, Ref)
    return place.cell


def depth_of(place: Abstract) -> int:
    """Return how many levels below its cell a place lies."""
    depth = 0
    while isinstance(place, Element):
        place, depth = place.container, depth + 1
    return depth


def cells_of(abstract: Abstract) -> list[Cell]:
    """Return the cells that a value refers to directly."""
    if isinstance(abstract, Ref):
        return [abstract.cell]
    if isinstance(abstract, Element):
        return [root_cell(abstract)]
    if isinstance(abstract, Tuple):
        return [cell for item in abstract.items for cell in cells_of(item)]
    return []
