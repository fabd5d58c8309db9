"""What is known at one point of a program: names, contents of cells, and which cells are stale."""

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

    The relations only grow. `inside` goes from a member to what contains it; `shares` joins
    containers that have members in common; `same` joins cells that may be one object.
    """

    def __init__(self) -> None:
        self._containers: dict[Cell, set[Cell]] = {}
        self._members: dict[Cell, set[Cell]] = {}
        self._shares: dict[Cell, set[Cell]] = {}
        self._same: dict[Cell, set[Cell]] = {}

    def inside(self, member: Cell, container: Cell) -> None:
        """Note that an object is held by another."""
        if member is not container:
            self._containers.setdefault(member, set()).add(container)
            self._members.setdefault(container, set()).add(member)

    def shares(self, left: Cell, right: Cell) -> None:
        """Note that two containers have members in common."""
        _join(self._shares, left, right)

    def same(self, left: Cell, right: Cell) -> None:
        """Note that two cells may be one object."""
        _join(self._same, left, right)

    def affected(self, cell: Cell, *, deep: bool) -> set[Cell]:
        """Return the other cells whose contents may be out of date after a change of `cell`.

        A deep change is one of something inside `cell`, made through `cell`.
        """
        roots = _closure({cell}, self._same)
        found = set(roots)
        if deep:
            found = _closure(roots, self._members, self._shares, self._same)
        return _closure(found, self._containers, self._same) - {cell}

    def once_inside(self, cell: Cell) -> set[Cell]:
        """Return what may be, or hold, an object that was just taken out of a container."""
        return self.affected(cell, deep=True) - _closure({cell}, self._same)

    def related(self, member: Cell, container: Cell) -> bool:
        """Whether a container is known to hold an object, or members of it, already."""
        if any(container in self._containers.get(c, ()) for c in _closure({member}, self._same)):
            return True
        return container in _closure({member}, self._shares, self._same) - {member}

    def count(self, cells: dict[Cell, Value]) -> int:
        """Return the number of relations among some cells."""
        tables = (self._containers, self._shares, self._same)
        return sum(
            sum(other in cells for other in table.get(cell, ()))
            for table in tables
            for cell in cells
        )


def _join(table: dict[Cell, set[Cell]], left: Cell, right: Cell) -> None:
    if left is not right:
        table.setdefault(left, set()).add(right)
        table.setdefault(right, set()).add(left)


def _closure(start: set[Cell], *tables: dict[Cell, set[Cell]]) -> set[Cell]:
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


def cells_of(abstract: Abstract) -> list[Cell]:
    """Return the cells that a value refers to directly."""
    if isinstance(abstract, Ref):
        return [abstract.cell]
    if isinstance(abstract, Element):
        return [root_cell(abstract)]
    if isinstance(abstract, Tuple):
        return [cell for item in abstract.items for cell in cells_of(item)]
    return []
