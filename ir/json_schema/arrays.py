"""Arrays to graphs: items by position, counted as far as the schema counts them."""

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from lmc.ir.json_schema.document import refuse
from lmc.ir.json_schema.shapes import ArrayShape, Conj, Shape, both, negated

if TYPE_CHECKING:
    from lmc.ir.json_schema.lowering import Lowering

MAX_UNIQUE = 8
MAX_CONTAINS = 3
Place = tuple[int, tuple[int, ...], frozenset[str]]
"""Index of the next item (no further than it matters), counts of `contains`, items used."""


def lower_array(low: "Lowering", array: ArrayShape, start: int, end: int) -> None:
    """Lead from `start` to `end` by the texts of an array.

    Raises:
        ConstraintError: `uniqueItems` or `contains` cannot be followed.
    """
    if array.high is not None and array.low > array.high:
        return
    _Items(low, array, end).run(start)


class _Items:
    """The nodes of one array, by place."""

    def __init__(self, low: "Lowering", array: ArrayShape, end: int) -> None:
        self.low = low
        self.array = array
        self.end = end
        self.parts = array.contains
        self.high = array.high
        if self.high is not None:
            # Shorter arrays only, where the bound is large.
            self.high = min(self.high, max(array.low, len(array.prefix), low.limits.items))
        if len(self.parts) > MAX_CONTAINS:
            raise refuse(array.where, "too many 'contains' meet", "use fewer")
        self.is_unique = array.is_unique and (self.high is None or self.high > 1)
        firsts = [part.first for part in self.parts]
        self.last = max(array.low - 1, len(array.prefix), 0, *firsts)
        if self.is_unique:
            self.high = self._most_unique()
        if self.high is not None:
            self.last = max(self.high, 0)
        self.before: dict[Place, int] = {}
        self.after: dict[Place, int] = {}
        self.pending: list[Place] = []

    def run(self, start: int) -> None:
        """Build the array."""
        graph, array = self.low.graph, self.array
        first: Place = (0, (0,) * len(self.parts), frozenset())
        opened = graph.node()
        graph.chain(start, b"[", opened)
        if array.low == 0 and all(part.low == 0 for part in self.parts):
            graph.chain(opened, b"]", self.end)
        if self.high == 0:
            return
        graph.move(opened, self._before(first))
        while self.pending:
            place = self.pending.pop()
            for conj, then in self._choices(place):
                self.low.value(conj, self.before[place], self._after(place[0], then))

    def _before(self, place: Place) -> int:
        """Return the node in front of an item."""
        if place not in self.before:
            self.before[place] = self.low.graph.node()
            self.pending.append(place)
        return self.before[place]

    def _after(self, index: int, then: Place) -> int:
        """Return the node after the item with an index (capped), where `then` comes next."""
        key = (index, *then[1:])
        if key not in self.after:
            graph, array = self.low.graph, self.array
            node = self.after[key] = graph.node()  # type: ignore[index]
            done = all(c >= part.low for c, part in zip(then[1], self.parts, strict=True))
            if index >= array.low - 1 and done:
                graph.chain(node, b"]", self.end)
            if self.high is None or index < self.high - 1:
                graph.chain(node, self.low.comma, self._before(then))
        return self.after[key]  # type: ignore[index]

    def _choices(self, place: Place) -> Iterator[tuple[Conj, Place]]:
        """Return the ways to read an item: what it fulfils, and the next place."""
        index, counts, used = place
        conj = self.array.item(index)
        following = min(index + 1, self.last)
        if self.is_unique:
            for key, item in self.words[index if index < len(self.words) else -1]:
                if key not in used:
                    yield item, (following, counts, used | {key})
            return
        options = []
        for count, part in zip(counts, self.parts, strict=True):
            options.append(list(self._counted(index, count, part)))
        for picked in product(*options):
            item = conj
            for more, _ in picked:
                item = both(item, more)
            yield item, (following, tuple(count for _, count in picked), used)

    @staticmethod
    def _counted(index: int, count: int, part) -> Iterator[tuple[Conj, int]]:  # type: ignore[no-untyped-def]
        """Return what an item may fulfil in view of one `contains`, and its count then."""
        if index < part.first:
            yield (), count
            return
        if part.high is None:
            yield (), count
            if count < part.low:
                yield part.conj, count + 1
            return
        yield negated(part.conj), count
        if count < part.high:
            yield part.conj, count + 1

    # Items that must differ.

    def _most_unique(self) -> int:
        """List the values of every item; return how many items there can be."""
        array = self.array
        if self.parts:
            raise refuse(array.where, "'uniqueItems' meets 'contains'", "use one of them")
        self.words = []
        for conj in (*array.prefix, array.rest):
            found = self._words(conj)
            if found is None:
                raise refuse(
                    f"{array.where}/uniqueItems", "the items are no short list of values",
                    f"list at most {MAX_UNIQUE} values by 'enum', or leave it out",
                )  # fmt: skip
            self.words.append(found)
        values = {key for words in self.words for key, _ in words}
        if len(values) > MAX_UNIQUE:
            raise refuse(
                f"{array.where}/uniqueItems", f"the items have {len(values)} values",
                f"at most {MAX_UNIQUE} can be followed",
            )  # fmt: skip
        return len(values) if self.high is None else min(self.high, len(values))

    def _words(self, conj: Conj) -> list[tuple[str, Conj]] | None:
        """Return the values of an item, keyed so that equal values have equal keys."""
        from lmc.ir.json_schema.document import dump

        shape: Shape = self.low.reader.shape(conj)
        numbers, strings = shape.numbers.words, shape.strings.words
        if shape.arrays or shape.objects or numbers is None or strings is None:
            return None
        found: list[tuple[str, Conj]] = [("null", (("value", "null"),))] if shape.null else []
        for value in sorted(shape.bools):
            found.append((dump(value), (("value", dump(value)),)))
        for amount, text in numbers:
            found.append((f"n{amount.normalize()}", (("value", text),)))
        for word in strings:
            found.append((f"s{word}", (("value", dump(word)),)))
        return found
