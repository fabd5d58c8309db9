"""Drawings of networks: each rule as an automaton of its own, calls on the arrows."""

import math
from typing import Any

from lmc.ir.automata.drawing import (
    MAX_STATES,
    MAX_WALKED,
    Arrow,
    Drawing,
    Step,
    draw_skeleton,
    drawn_ways,
    ways_of,
)
from lmc.ir.grammar.extent import Extent
from lmc.ir.grammar.network import Network
from lmc.ir.grammar.rules import RuleBody, rule_bodies
from lmc.ir.grammar.skeleton import network_skeleton


def draw_network(network: Network, *, max_states: int = MAX_STATES) -> Drawing:
    """Return the drawing of a network, of at most so many states; of a larger one the skeleton.

    Rules are numbered from 0, the one of the texts; a call of rule 1 is written `⟨rule 1⟩`, a
    control token with its name.
    """
    if network.state_count <= MAX_WALKED:
        found = _whole(network, max_states)
        if found is not None:
            return found
    parts: list[Any] | None = network_skeleton(network, max_states=MAX_WALKED)
    if parts is None:
        parts = [["hole", *_bounds(Extent(network))]]
    return draw_skeleton(parts, network.state_count)


def _bounds(extent: Extent) -> tuple[int, int | None]:
    longest = extent.longest
    return extent.shortest, None if math.isinf(longest) else int(longest)


def _whole(network: Network, max_states: int) -> Drawing | None:
    """Return the drawing of all rules, None where they have too many states."""
    ends: frozenset[int] = frozenset([0] if network.may_be_empty else [])
    arrows: tuple[Arrow, ...] = ()
    rules: list[tuple[str, int]] = []
    count = 0
    for rule, body in enumerate(rule_bodies(network)):
        ways = ways_of(body.dfa, lambda state, body=body: _more(body, state))
        own_ends, own_arrows = drawn_ways(body.dfa, ways, count)
        ends, arrows = ends | own_ends, arrows + own_arrows
        if rule:
            rules.append((f"rule {rule}", count))
        count += len(ways)
        if count > max_states:
            return None
    return Drawing(ends, count, network.state_count, arrows, False, tuple(rules))


def _more(body: RuleBody, state: int) -> list[tuple[int, Step]]:
    """Return the ways from a state that calls and control tokens are."""
    calls = [(to, (f"⟨rule {rule}⟩", False)) for rule, to in body.calls.get(state, ())]
    controls = [(to, (f"⟨{name}⟩", False)) for name, to in body.controls.get(state, ())]
    return [*calls, *controls]
