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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_tree import LATEST, common_len
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.policy import OrderKind
from lmc.runtime.engine.sequence import Sequence

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
        """Queue a new sequence."""
        self._lane(seq).fresh[seq.serial] = seq

    def add_preempted(self, seq: Sequence) -> None:
        """Queue a sequence that has to start again, before all new ones of its tenant."""
        self._lane(seq).preempted[seq.serial] = seq

    def remove(self, seq: Sequence) -> None:
        """Take a sequence out; one that was never queued is ignored."""
        lane = self._lanes.get(seq.tenant)
        if lane is not None:
            lane.preempted.pop(seq.serial, None)
            lane.fresh.pop(seq.serial, None)
            if not lane:
                del self._lanes[seq.tenant]

    def _lane(self, seq: Sequence) -> "Lane":
        return self._lanes.setdefault(seq.tenant, Lane())

    def ordered(self, step: int, tenant: str) -> list[Sequence]:
        """Return a tenant's sequences in the order in which they should start at a step."""
        lane = self._lanes.get(tenant)
        if lane is None:
            return []
        urgent = sorted(lane.preempted.values(), key=lambda seq: seq.serial)
        window = list(islice(lane.fresh.values(), WINDOW))
        match self._order:
            case "plan":
                window.sort(key=lambda seq: self._rank(seq, step))
            case "random":
                window.sort(key=lambda seq: _shuffled(seq, step))
            case "arrival":
                pass  # a dict keeps them so
        return urgent + window

    def _rank(self, seq: Sequence, step: int) -> tuple[bool, int, int, int, bytes, int]:
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
        """Return how much of `seq` is cached now; kept until the tree changes."""
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
    """The waiting sequences of one tenant, by serial number."""

    fresh: dict[int, Sequence] = field(default_factory=dict[int, Sequence])
    preempted: dict[int, Sequence] = field(default_factory=dict[int, Sequence])

    def __len__(self) -> int:
        return len(self.fresh) + len(self.preempted)

    def __iter__(self) -> Iterator[Sequence]:
        yield from self.preempted.values()
        yield from self.fresh.values()


def _is_old(seq: Sequence, step: int) -> bool:
    return step - seq.arrival_step > PATIENCE


def _shuffled(seq: Sequence, step: int) -> tuple[bool, int]:
    """Sort key of the random order: those that waited for long, then by a hash."""
    if _is_old(seq, step):
        return False, seq.serial
    mixed = (seq.serial * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    return True, mixed ^ (mixed >> 32)
