"""Subset construction over letters: a nondeterministic automaton to a deterministic one.

Letters are classes of code points (`minterms`), so a step costs the same for `[ab]` and
for `\\w`; bytes come in later (`utf8`). Only reachable states are built, under a budget.
"""

from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.budget import Budget
from lmc.ir.automata.look import Items, LookEngine
from lmc.ir.automata.minterms import Minterms
from lmc.ir.automata.nfa import ACCEPT, Nfa

DEAD = -1


@dataclass(frozen=True, slots=True)
class CharDfa:
    """A deterministic automaton over letters; state 0 is the start.

    Args:
        rows: next state by [state, letter], `DEAD` where nothing may follow; int32.
        accepting: by state.
    """

    rows: NDArray[np.int32]
    accepting: NDArray[np.bool_]


def determinise(nfa: Nfa, minterms: Minterms, budget: Budget) -> CharDfa:
    """Return the reachable part of the deterministic automaton of `nfa`.

    Raises:
        ConstraintError: it has too many states, or takes too long.
    """
    if nfa.is_plain:
        return _PlainSubsets(nfa, minterms, budget).run()
    return _LookSubsets(nfa, minterms, budget).run()


class _Table:
    """Rows under construction, with the numbers of the states found so far."""

    def __init__(self, letters: int, budget: Budget) -> None:
        self.budget = budget
        self.blank = array("i", [DEAD]) * letters
        self.numbers: dict[object, int] = {}
        self.pending: list[object] = []
        self.rows: list[array[int]] = []

    def number(self, state: object, size: int) -> int:
        """Return a state's number; a new one is queued."""
        found = self.numbers.get(state)
        if found is None:
            found = self.numbers[state] = len(self.pending)
            self.pending.append(state)
            self.budget.check_states(found + 1)
            self.budget.spend(size + len(self.blank))
        return found

    def finish(self, accepting: list[bool]) -> CharDfa:
        """Return the automaton of all rows."""
        flat = np.frombuffer(b"".join(row.tobytes() for row in self.rows), dtype=np.int32)
        return CharDfa(
            flat.reshape(len(self.rows), len(self.blank)), np.array(accepting, dtype=bool)
        )


class _PlainSubsets:
    """Subset construction without look-around: sets of nodes, grouped by class."""

    def __init__(self, nfa: Nfa, minterms: Minterms, budget: Budget) -> None:
        self.nfa = nfa
        self.members = minterms.members
        self.budget = budget
        self.table = _Table(minterms.count, budget)
        self.closures: dict[int, tuple[int, ...]] = {}
        self.universal = nfa.universal_nodes()

    def run(self) -> CharDfa:
        table = self.table
        accepting: list[bool] = []
        table.number(tuple(sorted(self.closure(self.nfa.start))), 1)
        while len(table.rows) < len(table.pending):
            nodes = table.pending[len(table.rows)]
            assert isinstance(nodes, tuple)
            accepting.append(ACCEPT in nodes)
            table.rows.append(self._row(nodes))
        return table.finish(accepting)

    def _row(self, nodes: tuple[int, ...]) -> "array[int]":
        row = self.table.blank[:]
        after = self._by_class(nodes)
        if len(after) == 1:
            [(number, targets)] = after.items()
            self._fill(row, self.members[number], targets)
            return row
        by_letter: dict[int, list[int]] = {}
        for number in after:
            for letter in self.members[number]:
                by_letter.setdefault(letter, []).append(number)
        by_classes: dict[tuple[int, ...], list[int]] = {}
        for letter, numbers in by_letter.items():
            by_classes.setdefault(tuple(numbers), []).append(letter)
        for numbers, letters in by_classes.items():
            targets = set().union(*(after[number] for number in numbers))
            self._fill(row, tuple(letters), targets)
        return row

    def _by_class(self, nodes: tuple[int, ...]) -> dict[int, set[int]]:
        """Return, for each class read at `nodes`, the nodes reached by it."""
        nfa, after = self.nfa, dict[int, set[int]]()
        for node in nodes:
            if node != ACCEPT:
                self.budget.tick()
                targets = self.closure(nfa.nexts[node])
                after.setdefault(nfa.args[node], set()).update(targets)  # type: ignore[arg-type]
        return after

    def _fill(self, row: "array[int]", letters: tuple[int, ...], targets: set[int]) -> None:
        if targets and letters:
            if ACCEPT in targets and not self.universal.isdisjoint(targets):
                targets = {ACCEPT, min(self.universal & targets)}
            number = self.table.number(tuple(sorted(targets)), len(targets))
            for letter in letters:
                row[letter] = number

    def closure(self, node: int) -> tuple[int, ...]:
        """Return the reading (and accepting) nodes that empty moves reach from `node`."""
        found = self.closures.get(node)
        if found is None:
            found = self.closures[node] = self._walk(node)
            self.budget.spend(len(found))
        return found

    def _walk(self, node: int) -> tuple[int, ...]:
        kinds, args = self.nfa.kinds, self.nfa.args
        seen, stack, found = {node}, [node], set[int]()
        while stack:
            node = stack.pop()
            self.budget.tick()
            if kinds[node] != "split":
                found.add(node)
                continue
            for successor in args[node]:  # type: ignore[union-attr]
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return tuple(found)


class _LookSubsets:
    """Subset construction with look-around: item sets beside the look-behinds' trackers."""

    def __init__(self, nfa: Nfa, minterms: Minterms, budget: Budget) -> None:
        self.engine = LookEngine(nfa, minterms, budget)
        self.table = _Table(minterms.count, budget)
        self.letters = range(minterms.count)
        self.contexts: list[tuple[tuple[Items, ...], int]] = []
        self.context_numbers: dict[tuple[Items, ...], int] = {}
        self.advances: dict[tuple[int, int], int] = {}

    def run(self) -> CharDfa:
        engine, table = self.engine, self.table
        accepting: list[bool] = []
        here = self._context(engine.start())
        start = engine.closure(engine.nfa.start, 0, self.contexts[here][1])
        table.number((start, here), len(start) + 1)
        while len(table.rows) < len(table.pending):
            items, here = table.pending[len(table.rows)]  # type: ignore[misc]
            accepting.append(engine.ends(items))
            table.rows.append(self._row(items, here))
        return table.finish(accepting)

    def _row(self, items: Items, here: int) -> "array[int]":
        row = self.table.blank[:]
        there = [self._advance(here, letter) for letter in self.letters]
        contexts = [self.contexts[number][1] for number in there]
        for letter, after in enumerate(self.engine.successors(items, contexts)):
            if after:
                row[letter] = self.table.number((after, there[letter]), len(after) + 1)
        return row

    def _advance(self, here: int, letter: int) -> int:
        key = (here, letter)
        if key not in self.advances:
            trackers = self.contexts[here][0]
            self.advances[key] = self._context(self.engine.advance(trackers, letter))
        return self.advances[key]

    def _context(self, tracked: tuple[tuple[Items, ...], int]) -> int:
        """Return the number of the trackers' states."""
        trackers = tracked[0]
        if trackers not in self.context_numbers:
            self.context_numbers[trackers] = len(self.contexts)
            self.contexts.append(tracked)
        return self.context_numbers[trackers]
