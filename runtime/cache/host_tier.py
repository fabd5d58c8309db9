"""HostTier: what the pool evicts, kept in host memory.

A prefix cache of its own over slots of host memory: the same tree, so a path is found, shared
and evicted token by token as in the pool, the longest unused first. It keeps whole paths: what
lies above an evicted leaf is copied too, once, since a prefix can only be used from its
beginning.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.cache.block_file import BLOCK_TOKENS
from lmc.runtime.cache.prefix_cache import PrefixCache, SlotArray, TokenArray

IntArray = NDArray[np.int32]


class KvMover(Protocol):
    """Moves KV between the pool and host memory; all slots are int32 arrays."""

    def save(self, pool_slots: IntArray, host_slots: IntArray) -> None:
        """Copy tokens of the pool to host memory."""
        ...

    def load(self, host_slots: IntArray, pool_slots: IntArray) -> None:
        """Copy tokens of host memory to the pool."""
        ...

    def write(self, host_slots: IntArray, data: memoryview, first: int) -> None:
        """Put bytes of KV, without their first tokens, into host memory."""
        ...


class HostTier:
    """Paths of the prefix cache in host memory.

    Args:
        num_slots: tokens that it holds.
        page_size: tokens of a page of the pool, and of its own.
        mover: copies the KV.

    Attributes:
        stored: tokens copied from the pool.
        loaded: tokens copied to the pool.
        evicted: tokens forgotten for want of room.
    """

    def __init__(self, num_slots: int, mover: KvMover, *, page_size: int = 1) -> None:
        self._cache = PrefixCache(num_slots, page_size=page_size)
        self._mover = mover
        self.stored = 0
        self.loaded = 0
        self.evicted = 0

    def __len__(self) -> int:
        """Return how many tokens are kept."""
        return len(self._cache.tree)

    def match_len(self, token_ids: TokenArray, namespace: str = "") -> int:
        """Return how many leading tokens are kept; changes nothing."""
        return self._cache.match_len(token_ids, namespace)

    def keep(self, token_ids: TokenArray, slots: SlotArray, namespace: str = "") -> None:
        """Copy a path of the pool, or the beginning of it that fits."""

        def copy(own: SlotArray, start: int) -> None:
            self._mover.save(slots[start : start + len(own)], own)
            self.stored += len(own)

        self._add(token_ids, copy, namespace)

    def put(
        self,
        token_ids: TokenArray,
        start: int,
        blocks: Sequence[memoryview],
        namespace: str = "",
    ) -> int:
        """Add the KV of whole blocks that begin at token `start`; return how many were new.

        Nothing is done where the tokens before `start` are not kept.
        """

        def copy(own: SlotArray, have: int) -> None:
            end = have + len(own)
            for index, data in enumerate(blocks):
                first = start + index * BLOCK_TOKENS
                at, to = max(first, have), min(first + BLOCK_TOKENS, end)
                if at < to:
                    self._mover.write(own[at - have : to - have], data, at - first)

        if self.match_len(token_ids, namespace) < start:
            return 0
        return self._add(token_ids, copy, namespace)

    def load(
        self,
        token_ids: TokenArray,
        start: int,
        give: Callable[[int], SlotArray],
        namespace: str = "",
    ) -> int:
        """Copy what is kept of `token_ids` from `start` on into slots of the pool.

        `give` returns as many slots as it is asked for. Returns how many were copied.
        """
        handle, slots = self._cache.match_and_lock(token_ids, namespace)
        count = max(0, handle.length - start)
        if count:
            try:
                # The path is locked: what `give` evicts from the pool may come down here.
                self._mover.load(slots[start:], give(count))
            except BaseException:
                self._cache.release(handle)
                raise
            self.loaded += count
        self._cache.release(handle)
        return count

    def mark_dead(self, token_ids: TokenArray, keep: int, namespace: str = "") -> None:
        """Say that nothing will need the path behind `keep` tokens."""
        node, length = self._cache.tree.find(token_ids, namespace)
        self._cache.tree.mark_dead(node, length, keep)

    def flush(self) -> None:
        """Forget everything."""
        self._cache.flush()

    def check(self) -> None:
        """Verify that every slot has one owner, the tree or nobody.

        Raises:
            AssertionError, PageOwnershipError: one has none, or two.
        """
        self._cache.check()

    def _add(
        self, token_ids: TokenArray, copy: Callable[[SlotArray, int], None], namespace: str
    ) -> int:
        """Add what is missing of a path, as far as it fits; `copy` fills new slots."""
        handle, slots = self._cache.match_and_lock(token_ids, namespace)
        have = handle.length
        size = self._cache.whole(min(len(token_ids), have + self._cache.available))
        before = len(self._cache.tree)
        own = self._cache.alloc(size - have)
        assert own is not None, "what is available can be given"
        self.evicted += before - len(self._cache.tree)
        if len(own):
            try:
                copy(own, have)
                row = np.concatenate([slots, own])
            except BaseException:
                self._cache.free(own)
                self._cache.release(handle)
                raise
            handle = self._cache.insert(handle, token_ids[:size], row)
        self._cache.release(handle)
        return len(own)
