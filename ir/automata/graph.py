"""A nondeterministic automaton over bytes under construction, and its way to a minimal one.

Letters above 255 may stand for something else than bytes (see `lmc.ir.grammar.network`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, CharDfa
from lmc.ir.automata.dfa import ByteDfa
from lmc.ir.automata.minimise import MatchesNothingError, minimise
from lmc.ir.automata.words import automaton_of_words

Edge = tuple[int, int, int]
"""First letter, last letter, node."""
NODES_PER_STATE = 2
BYTES = 256


class Graph:
    """Nodes with edges by bytes and empty moves; copies of templates are looked up, not made."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.count = 0
        self.edges: dict[int, list[Edge]] = {}
        self.moves: dict[int, list[int]] = {}
        self.bases: list[int] = []
        self.templates: list[Template] = []

    def node(self) -> int:
        """Return a new node."""
        made = self.count
        self.edges[made] = []
        self.count += 1
        if made % 256 == 0:
            self.budget.check_states(made // NODES_PER_STATE)
        return made

    def move(self, start: int, end: int) -> None:
        """Let `start` go on as `end`."""
        self.moves.setdefault(start, []).append(end)

    def out(self, node: int) -> list[Edge]:
        """Return the edges of a node."""
        found = self.edges.get(node)
        if found is None:
            place = bisect_right(self.bases, node) - 1
            base = self.bases[place]
            inner = self.templates[place].edges[node - base]
            found = [(low, high, target + base) for low, high, target in inner]
        return found

    def chain(self, start: int, data: bytes, end: int) -> None:
        """Lead from `start` to `end` by the given bytes."""
        if not data:
            self.move(start, end)
            return
        for byte in data[:-1]:
            after = self.node()
            self.edges[start].append((byte, byte, after))
            start = after
        self.edges[start].append((data[-1], data[-1], end))

    def words(self, words: Iterable[bytes], start: int, end: int) -> None:
        """Lead from `start` to `end` by each of some words."""
        ordered = sorted(set(words))
        if len(ordered) == 1:
            self.chain(start, ordered[0], end)
        elif ordered:
            self.copy(Template.of_words(ordered, self.budget), start, end)

    def copy(self, template: "Template", start: int, end: int) -> None:
        """Lead from `start` to `end` by the texts of a template."""
        base = self.count
        self.bases.append(base)
        self.templates.append(template)
        self.count += len(template.edges)
        self.budget.check_states(self.count // NODES_PER_STATE)
        self.move(start, base)
        for final in template.finals:
            self.move(base + final, end)


class Template:
    """A piece of a graph to copy: node 0 is its start."""

    __slots__ = ("edges", "finals")

    def __init__(self, edges: list[list[Edge]], finals: Sequence[int]) -> None:
        self.edges = edges
        self.finals = finals

    @classmethod
    def of_dfa(cls, dfa: ByteDfa) -> "Template":
        """Return an automaton as a piece."""
        edges: list[list[Edge]] = []
        for row in dfa.table[:, dfa.classes]:
            cuts = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), 256]
            spans = zip(cuts, cuts[1:], row[cuts[:-1]].tolist(), strict=False)
            edges.append([(a, b - 1, target) for a, b, target in spans if target != DEAD])
        return cls(edges, np.flatnonzero(dfa.accepting).tolist())

    @classmethod
    def of_words(cls, words: Iterable[bytes], budget: Budget) -> "Template":
        """Return some words as a piece; they ascend, and none comes twice.

        Raises:
            ConstraintError: they need too many states, or too long.
        """
        rows, finals = automaton_of_words(words, budget)
        return cls([[(byte, byte, to) for byte, to in row.items()] for row in rows], finals)


@dataclass(frozen=True, slots=True, eq=False)
class LetterDfa:
    """A minimal automaton over letters: next states by [state, class], classes by letter."""

    rows: NDArray[np.int32]
    classes: NDArray[np.int64]
    accepting: NDArray[np.bool_]


def to_dfa(graph: Graph, start: int, end: int, budget: Budget) -> ByteDfa | None:
    """Return the minimal automaton of the texts from `start` to `end`; None if there is none.

    Raises:
        ConstraintError: it has too many states, or takes too long.
    """
    found = to_letter_dfa(graph, start, end, budget)
    if found is None:
        return None
    return ByteDfa(found.rows, found.classes.astype(np.uint8), found.accepting)


def to_letter_dfa(
    graph: Graph, start: int, end: int, budget: Budget, letters: int = BYTES
) -> LetterDfa | None:
    """Do the same for a graph over `letters` letters; equal languages give equal automata."""
    subsets = _Subsets(graph, end, budget)
    subsets.run(start)
    rows, classes = subsets.table(letters)
    accepting = np.array([end in nodes for nodes in subsets.pending], dtype=bool)
    if not accepting.any():
        return None
    columns, joined = distinct_columns(rows)
    try:
        dfa = minimise(CharDfa(np.ascontiguousarray(columns), accepting), budget)
    except MatchesNothingError:
        return None
    columns, merged = distinct_columns(dfa.rows)
    # Classes are numbered by their first letter, so that equal languages give equal tables.
    of_letter = merged[joined[classes]]
    order = list(dict.fromkeys(of_letter.tolist()))
    number = np.zeros(len(columns[0]), dtype=np.int64)
    number[order] = np.arange(len(order))
    return LetterDfa(np.ascontiguousarray(columns[:, order]), number[of_letter], dfa.accepting)


def distinct_columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct columns of a table by first appearance, and which one each is."""
    seen: dict[bytes, int] = {}
    joined, firsts = [], []
    for place, column in enumerate(np.ascontiguousarray(rows.T)):
        number = seen.setdefault(column.tobytes(), len(seen))
        if number == len(firsts):
            firsts.append(place)
        joined.append(number)
    return rows[:, firsts], np.array(joined, dtype=np.int64)


class _Subsets:
    """Subset construction; most sets are a single node, whose edges are taken over."""

    def __init__(self, graph: Graph, end: int, budget: Budget) -> None:
        self.graph = graph
        self.end = end
        self.budget = budget
        self.closures: dict[int, tuple[int, ...]] = {}
        self.numbers: dict[tuple[int, ...], int] = {}
        self.pending: list[tuple[int, ...]] = []
        self.by_node: dict[int, int] = {}
        self.out: list[tuple[int, int, int, int]] = []

    def run(self, start: int) -> None:
        """Find all reachable sets and their edges."""
        self._number(self._closure(start))
        for number, nodes in enumerate(self.pending):
            out = self.graph.out
            if len(nodes) == 1 and nodes[0] not in self.graph.edges:
                self._disjoint(number, out(nodes[0]))  # pieces are deterministic
                continue
            found = sorted(edge for node in nodes for edge in out(node))
            if all(a[1] < b[0] for a, b in pairwise(found)):
                self._disjoint(number, found)
            else:
                self._overlapping(number, found)

    def _disjoint(self, number: int, found: list[Edge]) -> None:
        by_node = self.by_node
        for low, high, target in found:
            after = by_node.get(target)
            after = self._of_node(target) if after is None else after
            self.out.append((number, low, high, after))

    def _overlapping(self, number: int, found: list[Edge]) -> None:
        cuts = sorted({edge[0] for edge in found} | {edge[1] + 1 for edge in found})
        pieces: dict[int, list[int]] = {}
        index = {cut: place for place, cut in enumerate(cuts)}
        for low, high, target in found:
            for place in range(index[low], index[high + 1]):
                pieces.setdefault(place, []).append(target)
        for place, targets in pieces.items():
            if len(targets) == 1:
                after = self._of_node(targets[0])
            else:
                nodes = set[int]().union(*map(self._closure, targets))
                after = self._number(tuple(sorted(nodes)))
            self.out.append((number, cuts[place], cuts[place + 1] - 1, after))

    def _of_node(self, node: int) -> int:
        found = self.by_node.get(node)
        if found is None:
            found = self.by_node[node] = self._number(self._closure(node))
        return found

    def _number(self, nodes: tuple[int, ...]) -> int:
        found = self.numbers.get(nodes)
        if found is None:
            found = self.numbers[nodes] = len(self.pending)
            self.pending.append(nodes)
            self.budget.check_states(found + 1)
            self.budget.spend(len(nodes))
        return found

    def _closure(self, node: int) -> tuple[int, ...]:
        """Return the nodes with edges (and the end) that empty moves reach from a node."""
        found = self.closures.get(node)
        if found is not None:
            return found
        graph, moves = self.graph, self.graph.moves
        seen, stack, kept = {node}, [node], []
        while stack:
            here = stack.pop()
            if here == self.end or graph.edges.get(here, True):
                kept.append(here)
            for after in moves.get(here, ()):
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
        found = self.closures[node] = tuple(sorted(kept))
        self.budget.spend(len(found))
        return found

    def table(self, letters: int) -> tuple[np.ndarray, np.ndarray]:
        """Return next states by [state, span of letters], and the span of each letter."""
        count = len(self.pending)
        out = np.array(self.out, dtype=np.int64).reshape(-1, 4)
        is_cut = np.zeros(letters + 1, dtype=bool)
        is_cut[0] = True
        is_cut[out[:, 1]] = True
        is_cut[out[:, 2] + 1] = True
        spans = np.cumsum(is_cut[:-1]) - 1
        rows = np.full((count, int(spans[-1]) + 1), DEAD, dtype=np.int32)
        first, last = spans[out[:, 1]], spans[out[:, 2]]
        lengths = last - first + 1
        states = np.repeat(out[:, 0], lengths)
        offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows[states, np.repeat(first, lengths) + offsets] = np.repeat(out[:, 3], lengths)
        return rows, spans
