"""Networks: rules that call one another, each a minimal automaton over bytes and calls.

A `NetworkBuilder` takes the rules as pieces of one graph, in which a call of a rule is an edge
like that of a byte. `finish` makes them fit for being followed from left to right:

- Rules that can never end are taken out, with every call of them.
- No rule gives the empty text: a call of one that could may be passed by instead.
- No rule begins with itself, through others or at once: where `Y` begins with a call of `X` and
  both begin with each other, the call is taken out, and the end of `X` goes on behind it. The
  texts stay the same, and reading a byte never opens rules without end.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.budget import Budget
from lmc.ir.automata.dfa import DEAD, States, states_type
from lmc.ir.automata.graph import BYTES, Edge, Graph, LetterDfa, to_letter_dfa

Letter = tuple[Literal["rule", "control"], object]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Rules as automata with common state numbers; plain data.

    Args:
        table: next state by [state, byte class], DEAD where no byte leads on; int16 or int32
            (see `states_type`).
        classes: byte class of each of the 256 bytes; uint8.
        accepting: whether the rule of a state may end in it.
        calls: rows of (state, rule that it calls, state after it), states ascending; int32.
        controls: (state, name of a control token, next state), states ascending.
        starts: first state of each rule; int32.
        ranks: by rule; lower than those of the rules that it may begin with; int32.
        may_be_empty: whether the empty text is derived; rules themselves never give it.

    Rule 0 derives the texts. Nothing but arrays grows with the states: it is read fast.
    """

    table: States
    classes: NDArray[np.uint8]
    accepting: NDArray[np.bool_]
    calls: NDArray[np.int32]
    controls: tuple[tuple[int, str, int], ...]
    starts: NDArray[np.int32]
    ranks: NDArray[np.int32]
    may_be_empty: bool

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self.table.nbytes + self.calls.nbytes + 1024

    @property
    def state_count(self) -> int:
        """The number of states of all rules."""
        return len(self.table)


@dataclass(slots=True)
class _Rule:
    """A rule under construction: from `start` to `end` in the graph."""

    start: int = -1
    end: int = -1
    body: LetterDfa | None = None
    called: list[int] = field(default_factory=list)


class NetworkBuilder:
    """The rules of one network under construction."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.graph = Graph(budget)
        self.letters: list[Letter] = []
        self._numbers: dict[Letter, int] = {}
        self._rules: dict[int, _Rule] = {}
        self._calls: list[tuple[int, int, int]] = []

    def rule(self, key: object) -> int:
        """Return the letter that stands for a call of the rule known by `key`."""
        return self._letter(("rule", key))

    def define(self, rule: int) -> tuple[int, int]:
        """Return the nodes between which the body of a rule is to be built."""
        start, end = self.graph.node(), self.graph.node()
        self._rules[rule] = _Rule(start, end)
        return start, end

    def is_defined(self, rule: int) -> bool:
        """Return whether `define` was called for a rule."""
        return rule in self._rules

    def call(self, start: int, rule: int, end: int) -> None:
        """Lead from `start` to `end` by the texts of a rule."""
        self._calls.append((start, rule, end))
        self.graph.edges[start].append((rule, rule, end))

    def control(self, start: int, name: str, end: int) -> None:
        """Lead from `start` to `end` by one control token."""
        letter = self._letter(("control", name))
        self.graph.edges[start].append((letter, letter, end))

    def _letter(self, letter: Letter) -> int:
        found = self._numbers.get(letter)
        if found is None:
            found = self._numbers[letter] = BYTES + len(self.letters)
            self.letters.append(letter)
        return found

    # From the graph to automata.

    def endless(self, *, reads: bool = False) -> set[int]:
        """Return the rules that derive no text; with `reads`, none but the empty text.

        The latter presupposes that calls which may be passed by have moves beside them.
        """
        ending: set[int] = set()
        waiting: dict[int, list[tuple[int, int, bool]]] = {}  # by callee: what follows the call
        pending = [(rule, body.start, not reads) for rule, body in self._rules.items()]
        seen = set(pending)
        while pending:
            rule, node, has_read = pending.pop()
            self.budget.tick()
            if has_read and node == self._rules[rule].end and rule not in ending:
                ending.add(rule)
                pending += waiting.pop(rule, [])
            after = [(rule, each, has_read) for each in self.graph.moves.get(node, ())]
            for low, _, target in self.graph.out(node):
                if low in self._rules and low not in ending:
                    waiting.setdefault(low, []).append((rule, target, True))
                else:
                    after.append((rule, target, True))
            pending += [each for each in after if each not in seen]
            seen.update(after)
        return set(self._rules) - ending

    def finish(self, top: int) -> Network | None:
        """Return the network of the texts of rule `top`; None if there are none.

        Raises:
            ConstraintError: it has too many states, or takes too long.
        """
        endless = self.endless()
        if top in endless:
            return None
        self._take_out(endless)
        nullable = self._nullable()
        silent = self.endless(reads=True)
        if top in silent:
            return _empty()
        self._take_out(silent)
        beginnings = {rule: self._beginning(body) for rule, body in self._rules.items()}
        order = self._order(beginnings)
        for group in order:
            self._determinise(group, beginnings)
        return self._joined(top, [rule for group in order for rule in group], top in nullable)

    def _take_out(self, endless: set[int]) -> None:
        """Take out rules, and the calls of them."""
        self._rules = {rule: body for rule, body in self._rules.items() if rule not in endless}
        edges = self.graph.edges
        for start, rule, _ in self._calls:
            if rule in endless:
                edges[start] = [edge for edge in edges[start] if edge[0] not in endless]
        self._calls = [call for call in self._calls if call[1] not in endless]

    def _nullable(self) -> set[int]:
        """Return the rules that derive the empty text; their calls may be passed by from now."""
        nullable: set[int] = set()
        while True:
            found = {
                rule
                for rule, body in self._rules.items()
                if rule not in nullable and body.end in self._silent(body.start)
            }
            if not found:
                return nullable
            nullable |= found
            for start, rule, end in self._calls:
                if rule in found:
                    self.graph.move(start, end)

    def _silent(self, node: int) -> set[int]:
        """Return the nodes that empty moves reach."""
        seen, pending = {node}, [node]
        while pending:
            self.budget.tick()
            for after in self.graph.moves.get(pending.pop(), ()):
                if after not in seen:
                    seen.add(after)
                    pending.append(after)
        return seen

    def _beginning(self, body: _Rule) -> list[Edge]:
        """Return the edges by which a rule may begin."""
        nodes = sorted(self._silent(body.start))
        return sorted({edge for node in nodes for edge in self.graph.out(node)})

    def _order(self, beginnings: dict[int, list[Edge]]) -> list[list[int]]:
        """Return the rules, those together that begin with each other; callers come first."""
        first = {
            rule: list(dict.fromkeys(low for low, _, _ in edges if low in self._rules))
            for rule, edges in beginnings.items()
        }
        return list(reversed(strong_groups(first)))

    def _determinise(self, group: list[int], beginnings: dict[int, list[Edge]]) -> None:
        """Build the automata of rules that begin with each other (mostly a single one)."""
        members = set(group)
        edges: set[Edge] = set()
        for rule in group:
            for edge in beginnings[rule]:
                if edge[0] in members:
                    self.graph.move(self._rules[edge[0]].end, edge[2])
                else:
                    edges.add(edge)
        start = self.graph.node()
        self.graph.edges[start] = sorted(edges)
        for rule in group:
            body = self._rules[rule]
            letters = BYTES + len(self.letters)
            body.body = to_letter_dfa(self.graph, start, body.end, self.budget, letters)

    def _joined(self, top: int, order: list[int], may_be_empty: bool) -> Network:
        """Put the automata of all rules that are needed behind one another."""
        bodies = {rule: body for rule in order if (body := self._rules[rule].body) is not None}
        needed, pending, wanted = {top}, [top], np.array(order)
        while pending:
            self.budget.check_time()
            body = bodies[pending.pop()]
            used = (body.rows != DEAD).any(axis=0)[body.classes[wanted]]
            for rule in wanted[used].tolist():
                if rule not in needed:
                    needed.add(rule)
                    pending.append(rule)
        kept = [top, *(rule for rule in order if rule in needed and rule != top)]
        return _network(kept, bodies, self.letters, order, may_be_empty, self.budget)


def _empty() -> Network:
    rows = np.full((1, 1), DEAD, dtype=states_type(1))
    classes = np.zeros(BYTES, dtype=np.uint8)
    zero = np.zeros(1, dtype=np.int32)
    no_calls = np.zeros((0, 3), dtype=np.int32)
    return Network(rows, classes, np.array([False]), no_calls, (), zero, zero, True)


def _network(
    kept: list[int],
    bodies: dict[int, LetterDfa],
    letters: list[Letter],
    order: list[int],
    may_be_empty: bool,
    budget: Budget,
) -> Network:
    classes = np.zeros(BYTES, dtype=np.int64)
    for rule in kept:
        pairs = classes * (int(bodies[rule].classes.max()) + 1) + bodies[rule].classes[:BYTES]
        classes = np.unique(pairs, return_inverse=True)[1].reshape(-1)
    firsts = np.unique(classes, return_index=True)[1]
    number = {rule: index for index, rule in enumerate(kept)}
    tables, accepting, starts, base = [], [], [], 0
    calls: list[tuple[int, int, int]] = []
    controls: list[tuple[int, str, int]] = []
    for rule in kept:
        budget.check_time()
        body = bodies[rule]
        starts.append(base)
        padded = np.where(body.rows == DEAD, DEAD, body.rows + base)
        tables.append(padded[:, body.classes[firsts]])
        accepting.append(body.accepting)
        is_used = (body.rows != DEAD).any(axis=0)[body.classes[BYTES:]]
        above = [
            (letter, padded[:, body.classes[letter]].tolist())
            for letter in (np.flatnonzero(is_used) + BYTES).tolist()
        ]
        for state in range(len(body.rows)):
            out = [(letter, row[state]) for letter, row in above if row[state] != DEAD]
            calls += [(base + state, number[a], t) for a, t in out if a in number]
            controls += [
                (base + state, str(letters[a - BYTES][1]), t)
                for a, t in out
                if letters[a - BYTES][0] == "control"
            ]
        base += len(body.rows)
    rank = {rule: index for index, rule in enumerate(order)}
    return Network(
        np.concatenate(tables).astype(states_type(base)),
        classes.astype(np.uint8),
        np.concatenate(accepting),
        np.array(calls, dtype=np.int32).reshape(-1, 3),
        tuple(controls),
        np.array(starts, dtype=np.int32),
        np.array([rank[rule] for rule in kept], dtype=np.int32),
        may_be_empty,
    )


def strong_groups(edges: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected groups of a graph, those that are led to first."""
    numbers: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[int]] = []
    for root in edges:
        if root in numbers:
            continue
        stack = [(root, iter(edges[root]))]
        numbers[root] = lowest[root] = len(numbers)
        path.append(root)
        on_path.add(root)
        while stack:
            node, rest = stack[-1]
            for after in rest:
                if after not in numbers:
                    numbers[after] = lowest[after] = len(numbers)
                    path.append(after)
                    on_path.add(after)
                    stack.append((after, iter(edges[after])))
                    break
                if after in on_path:
                    lowest[node] = min(lowest[node], numbers[after])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == numbers[node]:
                    cut = path.index(node)
                    found.append(path[cut:])
                    on_path.difference_update(path[cut:])
                    del path[cut:]
    return found
