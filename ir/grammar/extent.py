"""How long the texts of a network are, and how much of them it decides by itself."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.dfa import DEAD
from lmc.ir.grammar.network import Network, strong_groups

Numbers = NDArray[np.float64]

MANY = 2.0**50
"""Bytes from which on nothing is counted: shortest texts have so many, longest ones no bound."""


@dataclass(frozen=True)
class Extent:
    """Lengths of a network's texts, computed when they are asked for.

    Args:
        network: whose texts they are.
    """

    network: Network

    @cached_property
    def least(self) -> Numbers:
        """By state, the fewest bytes to an end of its rule (shortest derivations, by relaxing)."""
        network = self.network
        callers, rules, afters = network.calls.T
        found = np.where(network.accepting, 0.0, math.inf)
        while True:
            before = found.copy()
            padded = np.append(found, math.inf)  # the last entry serves DEAD
            np.minimum(found, 1 + padded[network.table].min(axis=1), out=found)
            np.minimum.at(found, callers, found[network.starts[rules]] + found[afters])
            for state, _, after in network.controls:
                found[state] = min(found[state], found[after])
            found[(found > MANY) & (found < math.inf)] = MANY
            if np.array_equal(found, before):
                return found

    @cached_property
    def most(self) -> Numbers:
        """By state, the most bytes to an end of its rule; infinity for no bound."""
        return self._longest(control=0)

    @property
    def shortest(self) -> int:
        """The fewest bytes of a text."""
        return 0 if self.network.may_be_empty else int(self.least[self.network.starts[0]])

    def example(self) -> bytes:
        """Return a shortest text; it is as long as `shortest` says."""
        network, least = self.network, self.least
        made = bytearray()
        pending: list[int] = [] if network.may_be_empty else [int(network.starts[0])]
        while pending:
            state = pending.pop()
            while not network.accepting[state]:
                row = network.table[state]
                fits = [
                    c for c, to in enumerate(row) if to != DEAD and least[state] == 1 + least[to]
                ]
                if fits:
                    made.append(int(np.flatnonzero(network.classes == fits[0])[0]))
                    state = int(row[fits[0]])
                    continue
                state, called = self._without_byte(state)
                if called is not None:
                    pending.append(state)
                    state = called
        return bytes(made)

    def _without_byte(self, state: int) -> tuple[int, int | None]:
        """Return the state after a shortest way on that reads no byte, and the rule's start."""
        network, least = self.network, self.least
        for each, _, after in network.controls:
            if each == state and least[after] == least[state]:
                return after, None
        first, last = np.searchsorted(network.calls[:, 0], [state, state + 1])
        for _, rule, after in network.calls[first:last].tolist():
            called = int(network.starts[rule])
            if least[called] + least[after] == least[state]:
                return after, called
        raise ValueError(f"no way on from state {state}")

    @property
    def longest(self) -> float:
        """The most bytes of a text, infinity for no bound."""
        return float(self.most[self.network.starts[0]])

    @property
    def longest_tokens(self) -> float:
        """The most tokens of a text: one a byte, and one for each control token."""
        if not self.network.controls:
            return self.longest
        return float(self._longest(control=1)[self.network.starts[0]])

    def of_rule(self, rule: int) -> tuple[int, int | None]:
        """Return the fewest and the most bytes of a rule's texts; None for no bound."""
        start = self.network.starts[rule]
        least, most = float(self.least[start]), float(self.most[start])
        return int(least), None if math.isinf(most) else int(most)

    @cached_property
    def forced_share(self) -> float:
        """The share of states that one byte alone leads on from, called rules looked into."""
        network = self.network
        firsts = network.table != DEAD
        callers, rules, _ = network.calls.T
        # A rule begins with rules of higher rank only, so these are complete when it is looked at.
        for rule in np.argsort(-network.ranks):
            start = network.starts[rule]
            for called in rules[callers == start]:
                firsts[start] |= firsts[network.starts[called]]
        is_start = np.isin(callers, network.starts)
        inner = np.flatnonzero(~is_start)
        np.logical_or.at(firsts, callers[inner], firsts[network.starts[rules[inner]]])
        counts = np.bincount(network.classes, minlength=firsts.shape[1])
        one_way = ((firsts * counts).sum(axis=1) == 1) & ~network.accepting
        one_way[[state for state, _, _ in network.controls]] = False
        return float(one_way.mean())

    def _longest(self, control: int) -> Numbers:
        """Return the longest ways by state: endless where a cycle may be passed."""
        network = self.network
        starts: list[int] = network.starts.tolist()
        # By state: states after, with the weight of the way there, or the rule that it calls.
        ways: list[list[tuple[int, int | None, int]]] = [
            [(int(after), None, 1) for after in np.unique(row) if after != DEAD]
            for row in network.table
        ]
        for state, rule, after in network.calls.tolist():
            ways[state].append((after, starts[rule], 0))
        for state, _, after in network.controls:
            ways[state].append((after, None, control))
        graph = {
            state: [
                each for after, called, _ in found for each in (after, called) if each is not None
            ]
            for state, found in enumerate(ways)
        }
        longest: list[float] = [0.0] * len(ways)
        for group in strong_groups(graph):
            state = group[0]
            if len(group) > 1 or state in graph[state]:
                for each in group:
                    longest[each] = math.inf
                continue
            for after, called, weight in ways[state]:
                length = weight if called is None else longest[called]
                longest[state] = max(longest[state], length + longest[after])
            if longest[state] > MANY:
                longest[state] = math.inf
        return np.array(longest)
