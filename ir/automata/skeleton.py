"""Skeletons of automata: the states that every text passes, and what lies between them.

The states that all ways from the start to an end pass are the dominators of the end. Between
two of them that follow each other lies one forced byte, or a choice. A text is cut where it
comes to each of them for the first time; where a cycle leads through some of them, the cut
after the last one of these is where the text leaves it for the last time.
Dominators by K. Cooper, T. Harvey and K. Kennedy, "A simple, fast dominance algorithm", 2001.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lmc.ir.automata.dfa import DEAD, ByteDfa
from lmc.ir.types import Attr

MAX_STATES = 2_000
MAX_VISITS = 20
"""States that all parts together may look at, as a multiple of the automaton's."""

MAX_ALTERNATIVES = 8
MAX_GATE_BYTES = 64
MAX_PARTS = 100


class Hole(NamedTuple):
    """So many bytes; `most` of None is no bound. `alternatives` are all texts, if few."""

    least: int
    most: int | None
    alternatives: tuple[bytes, ...] = ()


class TooLarge(Exception):
    """The automaton is beyond the budget."""


def skeleton_of(dfa: ByteDfa, *, max_states: int = MAX_STATES) -> list[Attr] | None:
    """Return the skeleton of an automaton's language, None where it is beyond the budget.

    See `lmc.ir.skeleton` for the form. Beyond `MAX_PARTS` parts the rest is one hole.
    """
    if dfa.state_count > max_states:
        return None
    try:
        return written(Walk(dfa).parts())
    except TooLarge:
        return None


def written(found: "Iterable[bytes | Hole]") -> list[Attr]:
    """Return the skeleton that forced bytes and holes make."""
    parts = list(_joined(found))
    if len(parts) > MAX_PARTS:
        parts = [*parts[: MAX_PARTS - 1], as_hole(parts[MAX_PARTS - 1 :])]
        parts = list(_merged(parts))
    return [_attr(part) for part in parts]


@dataclass(slots=True)
class Walk:
    """The graph of an automaton: states, and one more that stands for the end."""

    dfa: ByteDfa
    end: int = 0
    after: list[list[int]] = field(default_factory=list[list[int]])
    visits: int = 0

    def __post_init__(self) -> None:
        self.end = self.dfa.state_count
        for state in range(self.end):
            found = np.unique(self.dfa.table[state]).tolist()
            nexts = [each for each in found if each != DEAD]
            self.after.append([*nexts, self.end] if self.dfa.is_accepting(state) else nexts)
        self.after.append([])

    def parts(self) -> Iterator[bytes | Hole]:
        """Yield forced bytes and holes, in the order of the text."""
        chain = self._chain()
        component = self._components()
        for index, state in enumerate(chain[:-1]):
            follower = chain[index + 1]
            within = component[state] == component[follower]
            if not within and self._is_on_cycle(state, component):
                yield from self.between(state, state, avoiding=None)
            yield from self.between(state, follower, avoiding=None if within else state)

    def between(self, start: int, target: int, avoiding: int | None) -> Iterator[bytes | Hole]:
        """Yield what the ways from one state to the first visit of another read.

        With `start` as the target: all ways that lead back to it. `avoiding` is a state that
        is not entered again.
        """
        if start != target:
            byte = self.forced(start, target, avoiding)
            if byte is not None:
                yield byte
                return
        region = self.region(start, target, avoiding)
        if start == target:
            yield Hole(0, None)
            return
        least, most = self.lengths(start, target, region)
        alternatives = self.alternatives(start, target, region) if most is not None else ()
        # Alternatives are told whole: (false|true), not what they have in common at their ends.
        last = b"" if alternatives else self.last(target, region)
        if last:
            least, most = least - 1, most if most is None else most - 1
        if most != 0:
            yield Hole(least, most, alternatives)
        if last:
            yield last

    def last(self, target: int, region: dict[int, list[int]]) -> bytes:
        """Return the one byte that every way to a state ends in, b"" where several do."""
        found: set[int] = set()
        for state, nexts in region.items():
            if target == self.end or len(found) > 1:
                return b""
            if target in nexts:
                allowed = self.dfa.allowed_bytes(state)
                found |= {each for each in allowed if self.dfa.step(state, bytes([each])) == target}
        return bytes(found) if len(found) == 1 else b""

    def forced(self, start: int, target: int, avoiding: int | None) -> bytes | None:
        """Return the one byte that leads from a state to the next, if nothing else does."""
        if target == self.end or self.dfa.is_accepting(start):
            return None
        allowed = self.dfa.allowed_bytes(start)
        if avoiding is not None:
            # Bytes that lead back are read by the cycle before.
            region = self.region(start, target, avoiding)
            allowed = bytes(
                byte
                for byte in allowed
                if (to := self.dfa.step(start, bytes([byte]))) == target
                or (to in region and to != avoiding)
            )
        if len(allowed) == 1 and self.dfa.step(start, allowed) == target:
            return allowed
        return None

    def region(self, start: int, target: int, avoiding: int | None) -> dict[int, list[int]]:
        """Return the states from which the way goes on to the target, with their followers."""
        ways: dict[int, list[int]] = {}
        pending = [start]
        while pending:
            state = pending.pop()
            if state in ways:
                continue
            self.visits += 1
            if self.visits > MAX_VISITS * len(self.after):
                raise TooLarge
            ways[state] = [to for to in self.after[state] if to != avoiding]
            pending += [to for to in ways[state] if to != target]
        return self._reaching(ways, start, target)

    def _reaching(
        self, ways: dict[int, list[int]], start: int, target: int
    ) -> dict[int, list[int]]:
        """Leave only states that lead to the target."""
        before: dict[int, list[int]] = {}
        for state, nexts in ways.items():
            for to in nexts:
                before.setdefault(to, []).append(state)
        reaching: set[int] = set()
        pending = list(before.get(target, ()))
        while pending:
            state = pending.pop()
            if state not in reaching:
                reaching.add(state)
                pending += before.get(state, ())
        return {
            state: [to for to in nexts if to == target or to in reaching]
            for state, nexts in ways.items()
            if state in reaching
        }

    def lengths(
        self, start: int, target: int, region: dict[int, list[int]]
    ) -> tuple[int, int | None]:
        """Return the fewest and the most bytes from a state to another; None: no bound."""
        least, front, seen = 0, {start}, {start}
        while target not in {to for state in front for to in region[state]}:
            front = {to for state in front for to in region[state]} - seen
            seen |= front
            least += 1
        order, waiting = [start], dict.fromkeys(region, 0)
        for nexts in region.values():
            for to in nexts:
                if to != target:
                    waiting[to] += 1
        most = {start: 0}
        if waiting[start]:
            return self._bytes(least, target), None
        longest = 0
        for state in order:
            for to in region[state]:
                if to == target:
                    longest = max(longest, most[state])
                    continue
                most[to] = max(most.get(to, 0), most[state] + 1)
                waiting[to] -= 1
                if not waiting[to]:
                    order.append(to)
        if len(order) < len(region):
            return self._bytes(least, target), None
        return self._bytes(least, target), self._bytes(longest, target)

    def _bytes(self, steps: int, target: int) -> int:
        """Return the bytes of a way by its steps before the last; going to the end reads none."""
        return steps if target == self.end else steps + 1

    def alternatives(
        self, start: int, target: int, region: dict[int, list[int]]
    ) -> tuple[bytes, ...]:
        """Return all texts between two states, if they are few and short."""
        found: list[bytes] = []
        pending = [(start, b"")]
        while pending:
            state, read = pending.pop()
            if target == self.end and self.dfa.is_accepting(state):
                found.append(read)
            ways = self.dfa.allowed_bytes(state)
            if len(ways) > MAX_ALTERNATIVES:
                return ()
            for byte in ways:
                to = self.dfa.step(state, bytes([byte]))
                if to == target:
                    found.append(read + bytes([byte]))
                elif to in region and to in region[state]:
                    pending.append((to, read + bytes([byte])))
            size = sum(map(len, found)) + sum(len(text) for _, text in pending)
            if len(found) + len(pending) > MAX_ALTERNATIVES or size > MAX_GATE_BYTES:
                return ()
        return tuple(sorted(found))

    # The states that every text passes.

    def _chain(self) -> list[int]:
        """Return the dominators of the end, from the start to the end itself."""
        order = self._postorder()
        number = {state: index for index, state in enumerate(order)}
        before: list[list[int]] = [[] for _ in self.after]
        for state, nexts in enumerate(self.after):
            for to in nexts:
                before[to].append(state)
        dominator = {0: 0}
        changed = True
        while changed:
            changed = False
            for state in reversed(order[:-1]):
                known = [each for each in before[state] if each in dominator]
                found = known[0]
                for other in known[1:]:
                    found = self._common(found, other, dominator, number)
                if dominator.get(state) != found:
                    dominator[state] = found
                    changed = True
        chain = [self.end]
        while chain[-1] != 0:
            chain.append(dominator[chain[-1]])
        return chain[::-1]

    @staticmethod
    def _common(a: int, b: int, dominator: dict[int, int], number: dict[int, int]) -> int:
        while a != b:
            while number[a] < number[b]:
                a = dominator[a]
            while number[b] < number[a]:
                b = dominator[b]
        return a

    def _postorder(self) -> list[int]:
        """Return the states in the order in which a depth-first walk leaves them."""
        order: list[int] = []
        seen = {0}
        stack = [(0, iter(self.after[0]))]
        while stack:
            state, nexts = stack[-1]
            fresh = next((to for to in nexts if to not in seen), None)
            if fresh is None:
                order.append(state)
                stack.pop()
            else:
                seen.add(fresh)
                stack.append((fresh, iter(self.after[fresh])))
        return order

    def _components(self) -> list[int]:
        """Return a number per state, equal where a cycle leads through both states."""
        component = [-1] * len(self.after)
        before: list[list[int]] = [[] for _ in self.after]
        for state, nexts in enumerate(self.after):
            for to in nexts:
                before[to].append(state)
        for root in reversed(self._postorder()):
            pending = [root]
            while pending:
                state = pending.pop()
                if component[state] < 0:
                    component[state] = root
                    pending += before[state]
        return component

    def _is_on_cycle(self, state: int, component: list[int]) -> bool:
        return any(component[to] == component[state] for to in self.after[state])


# Bytes to texts.


def _joined(parts: Iterable[bytes | Hole]) -> Iterator[str | Hole]:
    """Join forced bytes to texts; what is no whole character becomes a part of a hole."""
    found: list[str | Hole] = []
    run = b""
    for part in parts:
        if isinstance(part, bytes):
            run += part
            continue
        found += _texts(run)
        found.append(part)
        run = b""
    found += _texts(run)
    return _merged(found)


def _texts(run: bytes) -> Iterator[str | Hole]:
    """Yield the whole characters of forced bytes, with holes for parts of characters."""
    start = next((i for i, byte in enumerate(run) if byte & 0xC0 != 0x80), len(run))
    text = run[start:].decode("utf-8", "ignore")
    left = len(run) - start - len(text.encode())
    if start:
        yield Hole(start, start)
    if text:
        yield text
    if left:
        yield Hole(left, left)


def _merged(parts: list[str | Hole]) -> Iterator[str | Hole]:
    """Make one hole of holes that follow each other, and of gates of no whole characters."""
    held: list[Hole] = []
    for part in (*map(_plain, parts), ""):
        if isinstance(part, Hole) and not part.alternatives:
            held.append(part)
            continue
        if held:
            yield as_hole(held)
            held = []
        if part:
            yield part


def _plain(part: str | Hole) -> str | Hole:
    """Return a hole without its alternatives where these are no texts, or only one."""
    if isinstance(part, str) or not part.alternatives:
        return part
    try:
        texts = {text.decode() for text in part.alternatives}
    except UnicodeDecodeError:
        return Hole(part.least, part.most)
    return part if len(texts) > 1 else Hole(part.least, part.most)


def as_hole(parts: "Sequence[str | bytes | Hole]") -> Hole:
    """Return one hole for parts that follow each other."""
    least, most = 0, 0
    unbounded = False
    for part in parts:
        if not isinstance(part, Hole):
            size = len(part.encode() if isinstance(part, str) else part)
            part = Hole(size, size)
        least += part.least
        unbounded |= part.most is None
        most += part.most or 0
    return Hole(least, None if unbounded else most)


def _attr(part: str | Hole) -> Attr:
    if isinstance(part, str):
        return ["text", part]
    if part.alternatives:
        return ["gate", [text.decode() for text in part.alternatives]]
    return ["hole", part.least, part.most]
