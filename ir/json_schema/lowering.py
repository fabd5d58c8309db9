"""Shapes to a graph over the bytes of JSON texts, nested values unrolled up to a depth."""

import json
from collections import Counter
from dataclasses import dataclass

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.graph import Graph, Template, to_dfa
from lmc.ir.json_schema import numbers as num
from lmc.ir.json_schema import patterns
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.numbers import NumberSet
from lmc.ir.json_schema.reader import Reader
from lmc.ir.json_schema.shapes import Conj
from lmc.ir.json_schema.spelling import quoted
from lmc.ir.json_schema.textset import TextSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a lowering goes; within these, every text that is made is valid.

    Args:
        depth: how often a recursive schema may stand inside itself.
        free_depth: how deep arrays and objects go that no schema describes.
        length: the most characters of a text whose length is bounded.
        items: the most items that a bounded array is unrolled to.
    """

    depth: int = 8
    free_depth: int = 3
    length: int = 1024
    items: int = 128


class Lowering:
    """The graph of one schema under construction."""

    def __init__(
        self,
        reader: Reader,
        budget: Budget,
        limits: Limits,
        separators: tuple[str, str],
        is_closed: bool,
    ) -> None:
        self.reader = reader
        self.budget = budget
        self.limits = limits
        self.comma, self.colon = (part.encode() for part in separators)
        self.is_closed = is_closed
        self.graph = Graph(budget)
        self.was_cut = False
        self.is_recursive = False
        self.is_free = False
        self.cuts: set[Conj] = set()
        self._inside: Counter[Conj] = Counter()

    def value(self, conj: Conj, start: int, end: int) -> None:
        """Lead from `start` to `end` by the texts of the values that fulfil `conj`."""
        if not conj and not self.is_free:
            self.graph.copy(self._free(), start, end)
        else:
            self.body(conj, start, end)

    def body(self, conj: Conj, start: int, end: int) -> None:
        """Do the same, written out."""
        # Here to break an import cycle: both parts call back for the values inside.
        from lmc.ir.json_schema.arrays import lower_array
        from lmc.ir.json_schema.objects import lower_object

        shape, graph = self.reader.shape(conj), self.graph
        if shape.null:
            graph.chain(start, b"null", end)
        for value in shape.bools:
            graph.chain(start, b"true" if value else b"false", end)
        self._number(shape.numbers, start, end)
        self._string(shape.strings, start, end)
        if not shape.arrays and not shape.objects:
            return
        if self._inside[conj] >= (self.limits.depth if conj else self.limits.free_depth):
            if conj:
                self.was_cut = True
                self.cuts.add(conj)
            return
        self.is_recursive = self.is_recursive or (bool(conj) and self._inside[conj] > 0)
        self._inside[conj] += 1
        for array in shape.arrays:
            lower_array(self, array, start, end)
        for made in shape.objects:
            lower_object(self, made, start, end)
        self._inside[conj] -= 1

    def _free(self) -> Template:
        """Return the texts of any value, nested up to the limit; built once."""
        key = (self.comma, self.colon, self.limits.free_depth)
        if key not in _FREE:
            budget = Budget(max_states=MAX_FREE_STATES, max_seconds=self.budget.max_seconds)
            separators = (self.comma.decode(), self.colon.decode())
            other = Lowering(self.reader, budget, self.limits, separators, False)
            other.is_free = True
            start, end = other.graph.node(), other.graph.node()
            other.value((), start, end)
            dfa = to_dfa(other.graph, start, end, budget)
            assert dfa is not None, "there are values"
            _FREE[key] = Template.of_dfa(dfa)
        return _FREE[key]

    def _number(self, numbers: NumberSet, start: int, end: int) -> None:
        if numbers.words is not None:
            self.graph.words((spelled.encode() for _, spelled in numbers.words), start, end)
        elif not numbers.is_empty:
            self.graph.copy(number_template(numbers, self.budget), start, end)

    def _string(self, strings: TextSet, start: int, end: int) -> None:
        if strings.words is not None:
            self.graph.words(map(spell, strings.words), start, end)
        elif not strings.is_empty:
            self.graph.copy(quoted(strings, is_free=True, budget=self.budget), start, end)

    def name(self, name: str, start: int, end: int) -> None:
        """Lead from `start` to `end` by a property's name and the separator after it."""
        self.graph.chain(start, spell(name) + self.colon, end)

    def names(self, names: TextSet, start: int, end: int) -> None:
        """The same for any name of a set; each name has one spelling."""
        graph = self.graph
        if names.words is not None:
            graph.words((spell(word) + self.colon for word in names.words), start, end)
            return
        after = graph.node()
        graph.copy(quoted(names, is_free=False, budget=self.budget), start, after)
        graph.chain(after, self.colon, end)


def spell(text: str) -> bytes:
    """Return the one spelling of a string that stands in the schema.

    Raises:
        ConstraintError: it has no UTF-8.
    """
    try:
        return json.dumps(text, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ConstraintError(
            f"schema holds half a surrogate pair in {text!r:.60}", hint="take it out"
        ) from None


MAX_FREE_STATES = 100_000
_FREE: dict[tuple[bytes, bytes, int], Template] = {}
_TEMPLATES: dict[tuple[bytes, frozenset[str], int], Template] = {}
_MAX_KEPT = 128


def number_template(numbers: NumberSet, budget: Budget) -> Template:
    """Return the spellings of a set of numbers, plain and with exponent."""
    key = (numbers.plain.key, numbers.exponents, numbers.digits)
    found = _TEMPLATES.get(key)
    if found is None:
        texts = num.bounded(numbers, budget)
        if numbers.exponents:
            sign = {"+": "", "-": "-", "+-": "-?", "-+": "-?"}["".join(numbers.exponents)]
            digits = f"[0-9]{{1,{num.MAX_DIGITS}}}"
            whole = f"(?:0|[1-9][0-9]{{0,{num.MAX_DIGITS - 1}}})"
            source = rf"{sign}{whole}(?:\.{digits})?[eE][+-]?(?:[0-9]{{1,2}}|[12][0-9]{{2}})"
            spelled = patterns.full_match(source, budget)
            texts = txt.unite(texts, spelled, budget)
        if len(_TEMPLATES) >= _MAX_KEPT:
            _TEMPLATES.clear()
        found = _TEMPLATES[key] = _ascii_template(texts)
    return found


def _ascii_template(texts: TextSet) -> Template:
    edges = [texts.spans(state) for state in range(len(texts.rows))]
    return Template(edges, [int(state) for state in texts.accepting.nonzero()[0]])
