"""The offline optimum: what could be computed at the least if all were known ahead.

Given are the calls of a finished run with their tokens, which calls each had to wait for, and a
memory of so many tokens. A schedule carries out the calls one after another, each after those
that it waits for; for a call all its tokens are in memory at once; what is missing is computed,
what does not fit is dropped, from the ends of paths. Its cost is the number of tokens computed. A
generation computes each of its own tokens but the last, whether it is in memory or not, and a call
whose context is in memory computes the context's last token again: both for the logits.

The least cost over all schedules is bounded from both sides:

- `least_computed` (trie.py): every distinct prefix is computed at least once, and every
  generated token but the last by each call, in any order, with any memory.
- `best_offline`: the cost of the order that goes depth first through the trie, with Belady's
  eviction (drop what is used latest), which is the best eviction for a given order.

Where both are equal but for the repeated last tokens, that is the optimum; else it lies
between. Costs of one order are exact; that no better order exists is not shown by this.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lmc.ir.token_trie import Tokens, common_len
from sharing.trie import Edge, Trie

Eviction = Literal["belady", "recency"]

MANY = 1 << 60


@dataclass(frozen=True, slots=True)
class Call:
    """A call: its context, what must go through the model for it, what it waits for.

    `sequences` each begin with the context; `made` are tokens that the call generates behind
    it; `after` are numbers of other calls.
    """

    context: Tokens
    sequences: Sequence[Tokens]
    made: Tokens = ()
    after: frozenset[int] = frozenset()


def depth_first(calls: Sequence[Call]) -> list[int]:
    """Return an order that stays as deep in the trie as it can.

    Of the calls that may come, the next one shares most with the call before; of equals, the
    first by its tokens. Raises ValueError where calls wait for one another in a circle.
    """
    ranked = sorted(range(len(calls)), key=lambda i: (tuple(calls[i].context), i))
    place = {number: rank for rank, number in enumerate(ranked)}
    shared = [common_len(calls[a].context, calls[b].context) for a, b in pairwise(ranked)]
    missing = [len(call.after) for call in calls]
    behind: list[list[int]] = [[] for _ in calls]
    for number, call in enumerate(calls):
        for other in call.after:
            behind[other].append(number)
    ready = {number for number in range(len(calls)) if not missing[number]}
    order: list[int] = []
    while ready:
        found = (
            _nearest(place[order[-1]], ranked, shared, ready)
            if order
            else min(ready, key=place.__getitem__)
        )
        ready.remove(found)
        order.append(found)
        for number in behind[found]:
            missing[number] -= 1
            if not missing[number]:
                ready.add(number)
    if len(order) < len(calls):
        raise ValueError("calls wait for one another in a circle")
    return order


def _nearest(at: int, ranked: list[int], shared: list[int], ready: set[int]) -> int:
    """Return the ready call that shares most with the one at a place of the sorted list."""
    best: list[tuple[int, int]] = []
    for steps in (range(at + 1, len(ranked)), range(at - 1, -1, -1)):
        common = MANY
        for rank in steps:
            common = min(common, shared[rank - 1 if rank > at else rank])
            if best and -common > min(best)[0]:
                break
            if ranked[rank] in ready:
                best.append((-common, rank))
    return ranked[min(best)[1]]


def schedule_cost(
    calls: Sequence[Call], order: Sequence[int], capacity: int, eviction: Eviction
) -> int:
    """Return the tokens computed by carrying out calls in an order.

    Raises:
        ValueError: one call alone needs more than `capacity` tokens.
    """
    memory = _Memory(Trie([call.sequences for call in calls]), order, capacity, eviction)
    return sum(memory.carry_out(time, calls[n]) for time, n in enumerate(order))


def best_offline(calls: Sequence[Call], capacity: int) -> int:
    """Return the cost of the best offline schedule that is tried: at least the optimum."""
    orders = [depth_first(calls), _as_given(calls)]
    return min(schedule_cost(calls, order, capacity, "belady") for order in orders)


def _as_given(calls: Sequence[Call]) -> list[int]:
    """Return the calls in their own order, which must respect what they wait for."""
    for number, call in enumerate(calls):
        if any(other >= number for other in call.after):
            return depth_first(calls)
    return list(range(len(calls)))


class _Memory:
    """A memory of tokens, and what is in it while calls are carried out in an order."""

    def __init__(self, trie: Trie, order: Sequence[int], capacity: int, eviction: Eviction) -> None:
        self._paths = [trie.paths[number] for number in order]
        self._capacity = capacity
        self._is_belady = eviction == "belady"
        self._held = 0
        self._heap: list[tuple[int, int, int, Edge]] = []
        self._key: dict[Edge, tuple[int, int]] = {}
        self._serial = 0
        for time, path in enumerate(self._paths):
            for edge in path:
                edge.uses.append(time)
        for edge in trie.edges:
            edge.uses.reverse()

    def carry_out(self, time: int, call: Call) -> int:
        """Carry out the call at a time; return the tokens computed."""
        path = self._paths[time]
        found = 0
        for edge in path:
            if edge.depth - edge.length != found:
                break
            found += edge.cached
        missing = sum(edge.length - edge.cached for edge in path)
        needed = sum(edge.length for edge in path)
        if needed > self._capacity:
            raise ValueError(f"a call needs {needed} tokens, the memory holds {self._capacity}")
        self._drop(self._held + missing - self._capacity, set(path))
        for edge in path:
            edge.cached = edge.length
            edge.uses.pop()
            self._offer(edge, time)
        self._held += missing
        again = found - len(call.context)  # tokens in memory that are computed for logits
        return missing + (0 if again < 0 else 1 + min(again, len(call.made)))

    def _offer(self, edge: Edge, time: int) -> None:
        """Note when an edge is used next, or was used last, for the order of dropping."""
        if self._is_belady:
            value = -edge.uses[-1] if edge.uses else -MANY
        else:
            value = time
        self._key[edge] = key = (value, -edge.depth)
        self._serial += 1
        heapq.heappush(self._heap, (*key, self._serial, edge))

    def _drop(self, count: int, kept: set[Edge]) -> None:
        """Drop tokens that are not needed now: latest next use, or oldest use, first."""
        aside: list[tuple[int, int, int, Edge]] = []
        while count > 0:
            entry = heapq.heappop(self._heap)
            edge = entry[3]
            if self._key[edge] != entry[:2] or not edge.cached:
                continue
            if edge in kept:
                aside.append(entry)
                continue
            part = min(count, edge.cached)
            edge.cached -= part
            self._held -= part
            count -= part
            if edge.cached:
                aside.append(entry)
        for entry in aside:
            heapq.heappush(self._heap, entry)
