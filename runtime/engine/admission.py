"""Which waiting sequence may start next: a pure decision, without tensors or clock.

Tenants are served in turn (see tenants.py); the order here is that of the sequences of one.

Order: preempted sequences first (by arrival); then those that waited for long; then those of
runs that have begun, the earliest run first; then new ones. Among equals the longest cached
prefix goes first, with ageing: every step of waiting counts like `AGEING_TOKENS` cached tokens.
Equals in that too go in the order of their tokens, which is a walk through the trie of their
contexts, depth first.

A sequence waits for a *leader*: one that is just prefilling more of the same prefix than the
tree holds now. It starts once the leader has put that prefix into the tree, so a prefix that
many sequences share is computed once, also when all arrive together on an empty cache.

Other orders, to measure against: by arrival, and random, by a hash of the serial number.
"""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lmc.runtime.cache.holds import LATEST
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import common_len
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.policy import OrderKind
from lmc.runtime.engine.sequence import Sequence

RankKey = tuple[bool, int, int, int, bytes, int]
"""What orders the waiting sequences of a tenant; no two have the same."""

AGEING_TOKENS = 16
"""Cached tokens that one step of waiting is worth in the order of admission."""

WINDOW = 256
"""How many of the oldest waiting sequences are ordered by prefix (matching costs time)."""

PATIENCE = 4096
"""Steps after which a sequence goes before all that came later."""


class WaitingQueue:
    """Sequences that wait to start, by tenant, oldest first.

    Args:
        cache: tells how much of a sequence is cached.
        foresight: tells which runs have begun.
        order: how the sequences are served.
    """

    def __init__(self, cache: PrefixCache, foresight: Foresight, order: OrderKind = "plan") -> None:
        self._cache = cache
        self._foresight = foresight
        self._order = order
        self._lanes: dict[str, Lane] = {}
        self._is_kept = order == "plan" and foresight.is_on
        self._step = 0

    def __len__(self) -> int:
        return sum(map(len, self._lanes.values()))

    def __iter__(self) -> Iterator[Sequence]:
        for lane in self._lanes.values():
            yield from lane

    @property
    def tenants(self) -> Iterable[str]:
        """Those that have sequences waiting."""
        return self._lanes.keys()

    def add(self, seq: Sequence) -> None:
        """Queue a new sequence; hold what it finds in the cache."""
        self._foresight.hold_waiting(seq)
        lane = self._lane(seq)
        if len(lane.window) < WINDOW:
            self._enter(lane, seq)
        else:
            lane.beyond[seq.serial] = seq

    def add_preempted(self, seq: Sequence) -> None:
        """Queue a sequence that has to start again, before all new ones of its tenant."""
        self._foresight.hold_waiting(seq, is_next=True)
        self._lane(seq).preempted[seq.serial] = seq

    def remove(self, seq: Sequence) -> None:
        """Take a sequence out; one that was never queued is ignored."""
        lane = self._lanes.get(seq.tenant)
        if lane is None:
            return
        lane.preempted.pop(seq.serial, None)
        lane.beyond.pop(seq.serial, None)
        if lane.window.pop(seq.serial, None) is not None:
            lane.young.pop(seq.serial, None)
            lane.unplace(seq)
            if lane.beyond:
                self._enter(lane, lane.beyond.popitem(last=False)[1])
        if not lane:
            del self._lanes[seq.tenant]
            self._foresight.set_order(seq.tenant, [])

    def ordered(self, step: int, tenant: str) -> list[Sequence]:
        """Return a tenant's sequences in the order in which they should start at a step.

        The cost of keeping the order grows with what has changed since the last time.
        """
        lane = self._lanes.get(tenant)
        if lane is None:
            return []
        urgent = sorted(lane.preempted.values(), key=lambda seq: seq.serial)
        if self._is_kept:
            self._bring_up_to_date(lane, step)
            order = urgent + lane.order
        elif self._order == "plan":
            order = urgent + sorted(lane.window.values(), key=lambda seq: self._rank(seq, step))
        elif self._order == "random":
            order = urgent + sorted(lane.window.values(), key=lambda seq: _shuffled(seq, step))
        else:
            order = urgent + list(lane.window.values())  # a dict keeps them by arrival
        self._foresight.set_order(tenant, order)
        return order

    def _lane(self, seq: Sequence) -> "Lane":
        return self._lanes.setdefault(seq.tenant, Lane())

    def _enter(self, lane: "Lane", seq: Sequence) -> None:
        """Let a sequence into the window."""
        lane.window[seq.serial] = seq
        if self._is_kept:
            lane.young[seq.serial] = seq
            self._foresight.watch(seq)
            lane.place(seq, self._rank(seq, self._step))

    def _bring_up_to_date(self, lane: "Lane", step: int) -> None:
        """Move those whose rank has changed: by the cache, by their run, by their age."""
        self._step = step
        for seq in self._foresight.take_changed():
            own = self._lanes[seq.tenant]
            if seq.serial in own.window:
                own.place(seq, self._rank(seq, step))
        while lane.young and _is_old(oldest := next(iter(lane.young.values())), step):
            del lane.young[oldest.serial]
            lane.place(oldest, self._rank(oldest, step))

    def _rank(self, seq: Sequence, step: int) -> RankKey:
        """Sort key: long waits, earlier runs, cached prefix against arrival, chains, the trie.

        All waiting sequences age alike, so the step of arrival stands for the age.
        """
        if _is_old(seq, step):
            return False, seq.serial, 0, 0, b"", 0
        prefix = AGEING_TOKENS * seq.arrival_step - self.matched_len(seq)
        place = self._foresight.place(seq)
        # New runs begin by the trie alone: what they share counts for more.
        remaining = 0 if seq.hint is None or place == LATEST else seq.hint.remaining
        return True, place, prefix, -remaining, seq.order_key, seq.serial

    def matched_len(self, seq: Sequence) -> int:
        """Return how much of `seq` is cached now; kept until that changes in the tree."""
        if self._foresight.knows_match(seq):
            return seq.matched_len
        if seq.match_version != self._cache.version:
            seq.match_version = self._cache.version
            tokens = seq.token_ids[: seq.logits_from]
            seq.matched_len = self._cache.match_len(tokens, seq.namespace)
        return seq.matched_len

    def must_wait(self, seq: Sequence, prefilling: Iterable[Sequence]) -> bool:
        """Whether one of `prefilling` is computing more of `seq`'s prefix than is cached."""
        if not self._cache.is_shared:
            return False
        matched = self.matched_len(seq)
        return any(self._common_len(seq, leader) > matched for leader in prefilling)

    def repeated_len(self, seq: Sequence, prefilling: Iterable[Sequence]) -> int:
        """Return how much of what is not cached of `seq` one of `prefilling` is computing."""
        longest = max((self._common_len(seq, leader) for leader in prefilling), default=0)
        return max(0, longest - self.matched_len(seq))

    def _common_len(self, seq: Sequence, leader: Sequence) -> int:
        """Return the usable common prefix of a waiting and a prefilling sequence (kept)."""
        if seq.namespace != leader.namespace:
            return 0
        key = (leader.serial, leader.epoch)
        known = seq.common_lens.get(key)
        if known is None:
            mine, others = seq.token_ids[: seq.logits_from], leader.token_ids[: leader.prefill_len]
            known = seq.common_lens[key] = self._cache.whole(common_len(mine, others))
        return known


@dataclass(slots=True)
class Lane:
    """The waiting sequences of one tenant, by serial number.

    Attributes:
        preempted: those that have to start again.
        window: the oldest of the others; `order` has them as they should start, by their rank
            keys, and `young` those that have not waited for long.
        beyond: all that came later.
    """

    preempted: dict[int, Sequence] = field(default_factory=dict[int, Sequence])
    window: dict[int, Sequence] = field(default_factory=dict[int, Sequence])
    order: list[Sequence] = field(default_factory=list[Sequence])
    young: OrderedDict[int, Sequence] = field(default_factory=OrderedDict[int, Sequence])
    beyond: OrderedDict[int, Sequence] = field(default_factory=OrderedDict[int, Sequence])

    def __len__(self) -> int:
        return len(self.preempted) + len(self.window) + len(self.beyond)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self.preempted.values()
        yield from self.window.values()
        yield from self.beyond.values()

    def place(self, seq: Sequence, key: RankKey) -> None:
        """Put a sequence where its key belongs, taking it out of its old place."""
        self.unplace(seq)
        seq.rank_key = key
        insort(self.order, seq, key=_rank_key)

    def unplace(self, seq: Sequence) -> None:
        """Take a sequence out of the order, if it is in it."""
        if seq.rank_key:
            del self.order[bisect_left(self.order, seq.rank_key, key=_rank_key)]
            seq.rank_key = ()


def _rank_key(seq: Sequence) -> tuple[Any, ...]:
    return seq.rank_key


def _is_old(seq: Sequence, step: int) -> bool:
    return step - seq.arrival_step > PATIENCE


def _shuffled(seq: Sequence, step: int) -> tuple[bool, int]:
    """Sort key of the random order: those that waited for long, then by a hash."""
    if _is_old(seq, step):
        return False, seq.serial
    mixed = (seq.serial * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return True, mixed ^ (mixed >> 32)
