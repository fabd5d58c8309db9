"""What is known at one point of a program: names, contents of cells, and which cells are stale."""

from dataclasses import dataclass, field

from lmc.frontend.capture.values import OBJECT, Abstract, Cell, Element, Ref, Tuple
from lmc.ir.core import Value

Key = tuple[int, str]
"""A name within a frame; names that begin with '$' are capture's own."""


@dataclass(slots=True)
class Store:
    """Bindings at one point; copied where control flow parts.

    `stale` cells were changed through another name that capture could not follow: reading one
    is a graph break. `ticked` ones had a call counted elsewhere: making a call on one is.
    `frozen` ones are held by something else: changing one is. `saved` is what was noted last,
    by name and cell, for the handlers of the `try` that is being walked.
    """

    names: dict[Key, Abstract] = field(default_factory=dict)
    contents: dict[Cell, Value] = field(default_factory=dict)
    stale: dict[Cell, str] = field(default_factory=dict)
    ticked: dict[Cell, str] = field(default_factory=dict)
    frozen: dict[Cell, str] = field(default_factory=dict)
    saved: dict[object, object] = field(default_factory=dict)

    def copy(self) -> "Store":
        """Return a store that changes on its own."""
        return Store(
            dict(self.names),
            dict(self.contents),
            dict(self.stale),
            dict(self.ticked),
            dict(self.frozen),
            dict(self.saved),
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


def held_cells(abstract: Abstract, depth: int) -> list[tuple[Cell, int]]:
    """Return the cells that a container holds with a value put `depth` levels down."""
    if isinstance(abstract, Tuple):
        return [pair for item in abstract.items for pair in held_cells(item, depth + 1)]
    return [(cell, depth) for cell in cells_of(abstract)]


def cells_of(abstract: Abstract) -> list[Cell]:
    """Return the cells that a value refers to directly."""
    if isinstance(abstract, Ref):
        return [abstract.cell]
    if isinstance(abstract, Element):
        # A state by number is plain data: it is no part of the list of all states.
        return [] if abstract.kind == OBJECT else [root_cell(abstract)]
    if isinstance(abstract, Tuple):
        return [cell for item in abstract.items for cell in cells_of(item)]
    return []
