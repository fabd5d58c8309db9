"""Single rules of a network, with state numbers of their own."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lmc.ir.automata.dfa import DEAD, ByteDfa
from lmc.ir.grammar.network import Network


@dataclass(frozen=True, slots=True, eq=False)
class RuleBody:
    """One rule: state 0 is its start, and its ends are the accepting states.

    Args:
        dfa: the ways by bytes, which alone need not lead to an end.
        calls: by state, (rule, state after it) pairs.
        controls: by state, (name of a control token, state after it) pairs.
    """

    dfa: ByteDfa
    calls: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    controls: dict[int, list[tuple[str, int]]] = field(default_factory=dict)

    def beyond(self, state: int) -> list[int]:
        """Return the states that calls and control tokens lead to."""
        ways = [*self.calls.get(state, ()), *self.controls.get(state, ())]
        return [after for _, after in ways]


def rule_bodies(network: Network) -> list[RuleBody]:
    """Return the rules of a network, by number."""
    bounds = [*network.starts.tolist(), network.state_count]
    made: list[RuleBody] = []
    for low, high in pairwise(bounds):
        rows = network.table[low:high].astype(np.int32)
        table = np.where(rows == DEAD, DEAD, rows - low).astype(np.int32)
        body = RuleBody(ByteDfa(table, network.classes.copy(), network.accepting[low:high].copy()))
        first, last = np.searchsorted(network.calls[:, 0], [low, high])
        for state, rule, after in network.calls[first:last].tolist():
            body.calls.setdefault(state - low, []).append((rule, after - low))
        for state, name, after in network.controls:
            if low <= state < high:
                body.controls.setdefault(state - low, []).append((name, after - low))
        made.append(body)
    return made
