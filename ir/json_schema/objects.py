"""Objects to graphs: listed properties in order, then any others."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import TYPE_CHECKING

from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.document import refuse
from lmc.ir.json_schema.shapes import ANY, NEVER, Conj, ObjectShape, both
from lmc.ir.json_schema.textset import TextSet

if TYPE_CHECKING:
    from lmc.ir.json_schema.lowering import Lowering

MAX_CELLS = 32
MAX_WAYS = 64
MAX_COUNTED = 32
MAX_PERMUTED = 3
Cell = tuple[TextSet, Conj]


def lower_object(low: "Lowering", made: ObjectShape, start: int, end: int) -> None:
    """Lead from `start` to `end` by the texts of an object.

    Raises:
        ConstraintError: its counts or patterns cannot be followed.
    """
    for way, wanted in _ways(low, made):
        for names in _orders(way):
            _Members(low, way, names, wanted, end).run(start)


def _orders(made: ObjectShape) -> Iterator[list[str]]:
    """Return the orders of the named properties: listed ones first and as they are listed.

    A few required ones that are not listed come in any order.
    """
    unlisted = [name for name in made.required if name not in made.properties]
    orders = permutations(unlisted) if len(unlisted) <= MAX_PERMUTED else iter([tuple(unlisted)])
    for order in orders:
        yield [*made.properties, *order]


def _ways(low: "Lowering", made: ObjectShape) -> Iterator[tuple[ObjectShape, list[Cell]]]:
    """Return the ways to fulfil every `exists`: by a listed property, or by one more.

    Each comes with what the one more property must fulfil.
    """
    options: list[list[tuple[str | None, Cell]]] = []
    for names, conj in made.exists:
        listed = [name for name in made.properties if name in names]
        options.append([(name, (names, conj)) for name in (*listed, None)])
    count = 1
    for option in options:
        count *= len(option)
    if count > MAX_WAYS:
        raise refuse(made.where, "a complement of objects has too many cases", "simplify it")
    for picked in product(*options):
        properties, required = dict(made.properties), made.required
        for name, (_, conj) in picked:
            if name is not None:
                properties[name] = both(properties[name], conj)
                required = tuple(dict.fromkeys((*required, name)))
        wanted = [cell for name, cell in picked if name is None]
        yield replace(made, properties=properties, required=required, exists=()), wanted


class _Members:
    """The nodes of one object: before and after each listed property, by counts."""

    def __init__(
        self, low: "Lowering", made: ObjectShape, names: list[str], wanted: list[Cell], end: int
    ) -> None:
        self.low = low
        self.made = made
        self.end = end
        self.wanted = wanted
        self.names = names
        self.required = frozenset(made.required)
        self.last_required = max(
            (i for i, name in enumerate(self.names) if name in self.required), default=-1
        )
        self.cells = self._cells()
        self.cap = self._cap()
        self.before: dict[tuple[int, int], int] = {}
        self.after: dict[tuple[int, int, bool], int] = {}
        self.pending: list[tuple[int, int]] = []

    def run(self, start: int) -> None:
        """Build the object."""
        made, graph = self.made, self.low.graph
        if made.high is not None and len(self.required) + bool(self.wanted) > made.high:
            return
        if made.high == 0:
            self.low.graph.chain(start, b"{}", self.end)
            return
        if any(made.value(name) == NEVER for name in self.required):
            return
        opened = graph.node()
        graph.chain(start, b"{", opened)
        if self.last_required < 0 and not made.low and not self.wanted:
            graph.chain(opened, b"}", self.end)
        graph.move(opened, self._before(0, 0))
        while self.pending:
            self._fill(*self.pending.pop())

    def _before(self, index: int, count: int) -> int:
        """Return the node where the property with an index, or a later one, begins."""
        key = (index, count)
        if key not in self.before:
            self.before[key] = self.low.graph.node()
            self.pending.append(key)
        return self.before[key]

    def _fill(self, index: int, count: int) -> None:
        """Add what may begin at a node in front of properties."""
        low, graph = self.low, self.low.graph
        node = self.before[index, count]
        if self.made.high is not None and self.cap and count >= self.made.high:
            return
        if index == len(self.names):
            self._others(node, count)
            return
        name = self.names[index]
        conj = self.made.value(name)
        if conj != NEVER:
            inside = graph.node()
            low.name(name, node, inside)
            low.value(conj, inside, self._after(index + 1, self._more(count)))
        if name not in self.required:
            graph.move(node, self._before(index + 1, count))

    def _more(self, count: int) -> int:
        return min(count + 1, self.cap)

    def _after(self, index: int, count: int, is_last: bool = False) -> int:
        """Return the node after a property; `is_last` after the one that was wanted."""
        key = (index, count, is_last)
        if key not in self.after:
            graph = self.low.graph
            node = self.after[key] = graph.node()
            enough = not self.cap or count >= self.made.low
            if index > self.last_required and enough and (is_last or not self.wanted):
                graph.chain(node, b"}", self.end)
            if not is_last:
                graph.chain(node, self.low.comma, self._before(index, count))
        return self.after[key]

    def _others(self, node: int, count: int) -> None:
        """Add the properties that are not listed.

        A later property of the same name would hide the one that was wanted, so that one
        comes last.
        """
        low, end = self.low, len(self.names)
        for names, conj in self.cells:
            inside = low.graph.node()
            low.names(names, node, inside)
            low.value(conj, inside, self._after(end, self._more(count)))
            if not self.wanted:
                continue
            for wanted_names, wanted in self.wanted:
                names = txt.intersect(names, wanted_names, low.budget)
                conj = both(conj, wanted)
            if not names.is_empty:
                inside = low.graph.node()
                low.names(names, node, inside)
                low.value(conj, inside, self._after(end, self._more(count), True))

    # What unlisted properties there are.

    def _cells(self) -> list[Cell]:
        """Return the sets of unlisted names that are treated alike, with their values."""
        made, budget = self.made, self.low.budget
        told = any(layer.is_told for layer in made.layers)
        is_open = told or not self.low.is_closed or not made.properties
        has_patterns = any(layer.patterns for layer in made.layers)
        if not made.layers and not is_open:
            return []
        if not has_patterns and (
            not is_open or any(layer.default == NEVER for layer in made.layers)
        ):
            return []
        everything = txt.everything() if made.names is None else made.names
        rest = txt.subtract(everything, txt.of_words(self.names), budget)
        cells: list[tuple[TextSet, Conj, bool]] = [(rest, ANY, False)]
        for layer in made.layers:
            cells = self._divided(cells, layer)
        return [(names, conj) for names, conj, by_pattern in cells if by_pattern or is_open]

    def _divided(self, cells, layer):  # type: ignore[no-untyped-def]
        budget = self.low.budget
        divided = [(names, conj, known, False) for names, conj, known in cells]
        for pattern, more in layer.patterns:
            parts = []
            for names, conj, known, matched in divided:
                inside = txt.intersect(names, pattern, budget)
                outside = txt.subtract(names, pattern, budget) if not inside.is_empty else names
                if not inside.is_empty:
                    parts.append((inside, both(conj, more), True, True))
                if not outside.is_empty:
                    parts.append((outside, conj, known, matched))
            divided = parts
            if len(divided) > MAX_CELLS:
                raise refuse(
                    f"{self.made.where}/patternProperties", "too many patterns overlap",
                    "use fewer patterns",
                )  # fmt: skip
        found = [
            (names, conj if matched else both(conj, layer.default), known)
            for names, conj, known, matched in divided
        ]
        return [cell for cell in found if NEVER[0] not in cell[1] and not cell[0].is_empty]

    def _cap(self) -> int:
        """Return how far properties must be counted; 0 if they need not be."""
        made, required = self.made, len(self.required)
        needs = made.low > max(required, 1)
        alive = sum(made.value(name) != NEVER for name in self.names)
        limits = made.high is not None and (bool(self.cells) or alive > made.high)
        if needs and self.cells and made.low - required > 1:
            raise refuse(
                f"{made.where}/minProperties", "the names that count are not listed",
                "list the properties, or ask for one more than the required ones",
            )  # fmt: skip
        cap = max(made.low if needs else 0, made.high if limits and made.high is not None else 0)
        if cap > MAX_COUNTED and not needs and self.cells and made.high is not None:
            raise refuse(
                f"{made.where}/maxProperties", f"more than {MAX_COUNTED} cannot be counted",
                "use a smaller bound",
            )  # fmt: skip
        return cap
