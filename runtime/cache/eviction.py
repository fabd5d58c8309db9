"""EvictionQueue: which leaf of a prefix tree goes first.

Two heaps: leaves that nobody holds (*spare* ones), the dead and then the oldest first; and
held ones, those that are needed last first. Both are lazy: an entry may stand earlier than its
node deserves, never later, and is put right when it comes up. So what changes a node costs
nothing as long as it goes later by it; and which leaf goes is a function of the tree alone.
"""

import heapq

from lmc.runtime.cache.radix_node import HeapKey, HeldKey, RadixNode

_SMALLEST = 64
"""Entries up to which the heap of held leaves is left as it is."""


class EvictionQueue:
    """The free leaves of one tree, in the order in which they are evicted."""

    def __init__(self) -> None:
        self.spare: list[tuple[HeapKey, int, RadixNode]] = []
        self.held: list[tuple[HeldKey, int, RadixNode]] = []
        self._num_offers = 0
        self._most_held = _SMALLEST

    def offer(self, node: RadixNode) -> None:
        """Take note of a node that may have become a free leaf, or one that goes earlier."""
        if node.children or node.lock_ref or node.parent is None:
            return
        if node.hold_ref:
            self._offer_held(node)
            return
        key = node.eviction_key
        if not node.in_heap or key < node.heap_key:
            node.in_heap, node.heap_key = True, key
            self._num_offers += 1
            heapq.heappush(self.spare, (key, self._num_offers, node))

    def pop(self) -> RadixNode | None:
        """Take the leaf that goes first; None when there is none."""
        while self.spare:
            node = self._pop_spare()
            if node is not None:
                return node
        return self._pop_held()

    def _pop_spare(self) -> RadixNode | None:
        """Take the first entry; None when its node no longer is a spare leaf.

        An entry whose node was used since goes back with its present time.
        """
        key, _, node = heapq.heappop(self.spare)
        if not node.in_heap or key != node.heap_key:
            return None
        node.in_heap = False
        if not node.is_spare:
            return None
        if key != node.eviction_key:
            self.offer(node)
            return None
        return node

    def _pop_held(self) -> RadixNode | None:
        """Take the held leaf that is needed last; None when there is none.

        An entry whose node is needed otherwise since goes back with its present need. Called
        once nothing else can be evicted, so that every leaf that can be is held.
        """
        while self.held:
            key, _, node = heapq.heappop(self.held)
            if key != node.held_key:
                continue
            node.held_key = None
            if not node.is_evictable or not node.groups:
                continue
            if key == node.need:
                return node
            self.offer(node)
        return None

    def _offer_held(self, node: RadixNode) -> None:
        key = node.need
        if node.held_key is not None and key >= node.held_key:
            return
        node.held_key = key
        self._num_offers += 1
        heapq.heappush(self.held, (key, self._num_offers, node))
        if len(self.held) > self._most_held:
            # Outdated entries, and those of nodes that are gone, go once they are the most.
            self.held = [
                entry
                for entry in self.held
                if entry[2].parent is not None and entry[0] == entry[2].held_key
            ]
            heapq.heapify(self.held)
            self._most_held = 2 * len(self.held) + _SMALLEST
