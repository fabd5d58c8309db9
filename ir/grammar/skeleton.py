"""Skeletons of networks: what every text passes, as far as the rules' own shapes say so.

A rule's automaton has calls beside bytes; what all ways through it pass, all its texts do. A
call that is the only way from one of these places to the next is written out as what its rule
passes, but not inside of itself: there, and where several ways are open, stands a hole.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lmc.ir.automata.skeleton import MAX_PARTS, MAX_STATES, Hole, TooLarge, Walk, as_hole, written
from lmc.ir.grammar.extent import Extent
from lmc.ir.grammar.network import Network
from lmc.ir.grammar.rules import RuleBody, rule_bodies
from lmc.ir.types import Attr

Part = bytes | Hole


def network_skeleton(network: Network, *, max_states: int = MAX_STATES) -> list[Attr] | None:
    """Return the skeleton of a network's texts, None where it is beyond the budget.

    See `lmc.ir.skeleton` for the form; control tokens are no text and stand for nothing.
    """
    if network.state_count > max_states:
        return None
    rules = _Rules(network, rule_bodies(network), Extent(network))
    try:
        parts = rules.parts(0)
    except TooLarge:
        return None
    if network.may_be_empty:
        parts = [Hole(0, as_hole(parts).most)]
    return written(parts)


@dataclass(slots=True)
class _Rules:
    """The parts of rules, each found once."""

    network: Network
    bodies: list[RuleBody]
    extent: Extent
    found: dict[int, list[Part]] = field(default_factory=dict[int, list[Part]])
    open: list[int] = field(default_factory=list[int])

    def parts(self, rule: int) -> list[Part]:
        """Return what the texts of a rule are; one hole where it stands inside of itself."""
        if rule in self.open or len(self.open) > MAX_PARTS:
            return [Hole(*self.extent.of_rule(rule))]
        if rule not in self.found:
            self.open.append(rule)
            walk = _RuleWalk(self.bodies[rule].dfa, body=self.bodies[rule], rules=self)
            parts = list(_joined(walk.parts()))
            self.open.pop()
            is_short = len(parts) <= MAX_PARTS
            self.found[rule] = parts if is_short else [Hole(*self.extent.of_rule(rule))]
        return self.found[rule]


def _joined(parts: Iterable[Part]) -> Iterator[Part]:
    """Join forced bytes that follow each other."""
    run = b""
    for part in parts:
        if isinstance(part, bytes):
            run += part
            continue
        if run:
            yield run
        yield part
        run = b""
    if run:
        yield run


@dataclass(slots=True, kw_only=True)
class _RuleWalk(Walk):
    """The graph of one rule, in which calls and control tokens are ways like bytes."""

    body: RuleBody
    rules: _Rules

    def __post_init__(self) -> None:
        Walk.__post_init__(self)
        for state in range(self.end):
            known = self.after[state]
            known += [to for to in dict.fromkeys(self.body.beyond(state)) if to not in known]

    def between(self, start: int, target: int, avoiding: int | None) -> Iterator[Part]:
        """Yield what stands between two places; a lone call as what its rule passes."""
        ways = [] if start == target else self._ways(start, target, avoiding)
        calls = [rule for rule, to in self.body.calls.get(start, ()) if to in ways]
        controls = [name for name, to in self.body.controls.get(start, ()) if to in ways]
        read = [
            b for b in self.dfa.allowed_bytes(start) if self.dfa.step(start, bytes([b])) in ways
        ]
        if ways == [target] and len(calls) + len(controls) == 1 and not read:
            yield from self.rules.parts(calls[0]) if calls else ()
            return
        yield from Walk.between(self, start, target, avoiding)

    def _ways(self, start: int, target: int, avoiding: int | None) -> list[int]:
        """Return the states after one step on the ways to a target."""
        region = self.region(start, target, avoiding)
        return region.get(start, [])

    def forced(self, start: int, target: int, avoiding: int | None) -> bytes | None:
        """Return the one byte that leads on, if nothing else does."""
        is_mixed = any(to in self._ways(start, target, avoiding) for to in self.body.beyond(start))
        return None if is_mixed else Walk.forced(self, start, target, avoiding)

    def last(self, target: int, region: dict[int, list[int]]) -> bytes:
        """Return the one byte that every way to a state ends in, if no call does."""
        if any(target in self.body.beyond(state) for state in region):
            return b""
        return Walk.last(self, target, region)

    def alternatives(
        self, start: int, target: int, region: dict[int, list[int]]
    ) -> tuple[bytes, ...]:
        """Return all texts between two states, if they are few and no rule is called."""
        if any(self.body.beyond(state) for state in region):
            return ()
        return Walk.alternatives(self, start, target, region)

    def lengths(
        self, start: int, target: int, region: dict[int, list[int]]
    ) -> tuple[int, int | None]:
        """Return the fewest and the most bytes from a state to another; None: no bound."""
        least = self._least(start, target, region)
        order = self._order(start, target, region)
        if order is None:
            return least, None
        most: dict[int, int | None] = {target: 0}
        for state in order:
            longest: int | None = 0
            for to in region[state]:
                way, after = self._weight(state, to)[1], most[to]
                bound = None if way is None or after is None else way + after
                longest = None if bound is None or longest is None else max(longest, bound)
            most[state] = longest
        return least, most[start]

    def _least(self, start: int, target: int, region: dict[int, list[int]]) -> int:
        """Return the fewest bytes to a target, by relaxing until nothing changes."""
        known = {start: 0}
        pending = [start]
        while pending:
            state = pending.pop(0)
            for to in region.get(state, ()):
                length = known[state] + self._weight(state, to)[0]
                if to not in known or length < known[to]:
                    known[to] = length
                    if to != target:
                        pending.append(to)
        return known[target]

    def _order(self, start: int, target: int, region: dict[int, list[int]]) -> list[int] | None:
        """Return the states of a region, those after a state before it; None with a cycle."""
        order: list[int] = []
        marks = {target: 2}
        stack: list[tuple[int, bool]] = [(start, False)]
        while stack:
            state, is_done = stack.pop()
            if is_done:
                marks[state] = 2
                order.append(state)
                continue
            if marks.get(state) == 2:
                continue
            if marks.get(state) == 1:
                return None
            marks[state] = 1
            stack.append((state, True))
            for to in region[state]:
                if marks.get(to) == 1:
                    return None
                stack.append((to, False))
        return order

    def _weight(self, state: int, to: int) -> tuple[int, int | None]:
        """Return the fewest and the most bytes of one step."""
        if to == self.end:
            return 0, 0
        found: list[tuple[int, int | None]] = []
        if any(self.dfa.step(state, bytes([b])) == to for b in self.dfa.allowed_bytes(state)):
            found.append((1, 1))
        found += [
            self.rules.extent.of_rule(rule)
            for rule, after in self.body.calls.get(state, ())
            if after == to
        ]
        found += [(0, 0) for _, after in self.body.controls.get(state, ()) if after == to]
        most = [high for _, high in found]
        return min(low for low, _ in found), None if None in most else max(map(int, most))  # type: ignore[arg-type]
