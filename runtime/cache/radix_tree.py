"""RadixTree: which token prefixes have their KV cached, and in which slots.

A compressed trie over token ids (the idea is RadixAttention's, Zheng et al. 2024): every node
holds a run of tokens and the slots of their KV. Locks protect a path from eviction; eviction
goes leaf first and trims the end of a leaf when only a part of it is needed: first what is
marked as dead, then the least recently used; what somebody *holds*, since a call will need it,
goes only when nothing else is left, the hold of the highest rank first. Time is a counter, so
equal histories give equal trees.

With pages of more than one token every node holds whole pages: keys are cut to whole pages,
nodes are split at borders of pages and eviction drops whole ones. Equal tokens in different
namespaces are different paths; locks, holds and eviction do not look at namespaces.
"""

import heapq
from collections.abc import Hashable, Iterator
from typing import Protocol

import numpy as np

from lmc.runtime.cache.radix_node import (
    HeapKey,
    HeldKey,
    Hold,
    RadixNode,
    Rank,
    SlotArray,
    TokenArray,
)

LATEST = 2**62
"""Rank behind all others."""

TOKEN_BYTES = 4
"""Bytes of a token in a node's key."""

_NO_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)


class TreeListener(Protocol):
    """Told of every change of what is cached."""

    def stored(self, leaf: RadixNode) -> None:
        """Take note of a new leaf."""
        ...

    def dropping(self, leaf: RadixNode, keep: int) -> None:
        """Take note that a leaf loses all but its first `keep` tokens: it still has them all."""
        ...


class RadixTree:
    """Prefix tree of pages; see the module's text for what it promises.

    Args:
        page_size: tokens of a page.
    """

    def __init__(self, page_size: int = 1) -> None:
        self.page_size = page_size
        self.listeners: list[TreeListener] = []
        self.namespaces: dict[str, int] = {}
        self.num_nodes = 0
        self.root = RadixNode(None, _NO_TOKENS, _NO_TOKENS, serial=0)
        self.evictable_len = 0
        self.protected_len = 0
        self.held_len = 0
        self.version = 0
        self._clock = 0
        self._serial = 0
        self.spare_heap: list[tuple[HeapKey, int, RadixNode]] = []
        self.held_heap: list[tuple[HeldKey, int, RadixNode]] = []
        self._num_offers = 0

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return self.evictable_len + self.protected_len

    # -- reading ---------------------------------------------------------------------------

    def match_len(self, key: TokenArray, namespace: str = "") -> int:
        """Return how many leading tokens of `key` are cached; changes nothing."""
        _, depth, inner = self._walk(self.root, key, 0, namespace)
        return depth + inner

    def nodes(self) -> Iterator[RadixNode]:
        """Yield every node but the root, parents first."""
        pending = list(self.root.children.values())
        while pending:
            node = pending.pop()
            yield node
            pending.extend(node.children.values())

    def path_slots(self, node: RadixNode) -> SlotArray:
        """Return the slots from the root down to the end of `node`."""
        return np.concatenate([step.slots for step in _path(node)][::-1])

    def path_tokens(self, node: RadixNode) -> TokenArray:
        """Return the tokens from the root down to the end of `node`."""
        return np.concatenate([step.key for step in _path(node)][::-1])

    def path_len(self, node: RadixNode) -> int:
        """Return how many tokens there are from the root down to the end of `node`."""
        return sum(map(len, _path(node)))

    # -- growing ---------------------------------------------------------------------------

    def match(self, key: TokenArray, namespace: str = "") -> tuple[RadixNode, int]:
        """Return the node that ends the longest cached prefix of `key`, and its length.

        Splits a node when the prefix ends inside it, and refreshes the path.
        """
        node, length = self.find(key, namespace)
        self._touch(node)
        return node, length

    def find(self, key: TokenArray, namespace: str = "") -> tuple[RadixNode, int]:
        """Return the same as `match`, refreshing nothing."""
        node, depth, inner = self._walk(self.root, key, 0, namespace)
        if inner:
            node = self._split(node.children[self.edge_of(node, key, depth, namespace)], inner)
        return node, depth + inner

    def insert(
        self,
        key: TokenArray,
        slots: SlotArray,
        *,
        start: RadixNode,
        start_len: int,
        namespace: str = "",
    ) -> tuple[RadixNode, int, SlotArray]:
        """Add `key`, whole pages, with its `slots`; `start` is a node that ends `key[:start_len]`.

        Returns the node that ends `key`; how many leading tokens were there already; and the
        tree's slots of `key[start_len:]`. The tree adopts `slots[existing:]`; the caller's
        own `slots[start_len:existing]` are duplicates that it must free.
        """
        node, depth, inner = self._walk(start, key, start_len, namespace)
        existing = depth + inner
        if inner:
            node = self._split(node.children[self.edge_of(node, key, depth, namespace)], inner)
        shared = self._slots_between(start, node)
        if existing < len(key):
            edge = self.edge_of(node, key, existing, namespace)
            rest = key[existing:].copy(), slots[existing:].copy()
            name = namespace if node is self.root else node.namespace
            node = self._add_leaf(node, *rest, edge=edge, namespace=name)
        self._touch(node)
        return node, existing, np.concatenate([shared, slots[existing:]])

    # -- locks -----------------------------------------------------------------------------

    def lock(self, node: RadixNode) -> None:
        """Protect the path to `node` from eviction."""
        node.holders += 1
        step: RadixNode | None = node
        while step is not None:
            if step.lock_ref == 0:
                self.evictable_len -= len(step)
                self.protected_len += len(step)
                self.held_len -= len(step) if step.hold_ref else 0
            step.lock_ref += 1
            step = step.parent

    def unlock(self, node: RadixNode) -> None:
        """Take one lock of `node` back.

        Raises:
            RuntimeError: nobody holds a lock at `node`.
        """
        if node.holders == 0:
            raise RuntimeError("unlock of a node without a lock")
        node.holders -= 1
        step: RadixNode | None = node
        while step is not None:
            step.lock_ref -= 1
            if step.lock_ref == 0:
                self.evictable_len += len(step)
                self.protected_len -= len(step)
                self.held_len += len(step) if step.hold_ref else 0
            self._offer(step)
            step = step.parent

    # -- holds -----------------------------------------------------------------------------

    def hold(self, node: RadixNode, rank: Rank) -> Hold:
        """Hold the path to `node`; of the held leaves that of the highest rank goes first."""
        made = Hold(node, rank)
        node.holds[made] = None
        step: RadixNode | None = node
        while step is not None:
            if step.hold_ref == 0 and step.lock_ref == 0:
                self.held_len += len(step)
            step.hold_ref += 1
            step = step.parent
        self._offer(node)
        return made

    def rerank(self, hold: Hold, rank: Rank) -> None:
        """Give a hold another rank."""
        if hold.rank != rank:
            hold.rank = rank
            self._offer(hold.node)

    def unhold(self, hold: Hold) -> None:
        """Give a hold back.

        Raises:
            KeyError: it was given back before.
        """
        del hold.node.holds[hold]
        step: RadixNode | None = hold.node
        while step is not None:
            step.hold_ref -= 1
            if step.hold_ref == 0 and step.lock_ref == 0:
                self.held_len -= len(step)
            self._offer(step)
            step = step.parent

    def mark_dead(self, node: RadixNode, length: int, keep: int) -> None:
        """Say that nothing will need the path to `node`, of `length`, behind `keep` tokens.

        What somebody holds or locks stays as it is; what is used again is no longer dead.
        """
        step: RadixNode | None = node
        while step is not None and step.parent is not None and length - len(step) >= keep:
            if step.hold_ref == 0 and step.lock_ref == 0:
                step.is_dead = True
                self._offer(step)
            length -= len(step)
            step = step.parent

    # -- eviction --------------------------------------------------------------------------

    def evict(self, count: int) -> SlotArray:
        """Drop up to `count` unlocked tokens: dead ones, then old ones, then held ones.

        Returns their slots: exactly `count`, made up to whole pages, or all that could be dropped.
        """
        dropped: list[SlotArray] = []
        missing = count + -count % self.page_size
        while missing > 0 and self.spare_heap:
            node = self._pop_leaf()
            if node is None:
                continue
            part = self._drop_end(node, missing)
            dropped.append(part)
            missing -= len(part)
        while missing > 0 and (held := self._pop_held()) is not None:
            part = self._drop_end(held, missing)
            dropped.append(part)
            missing -= len(part)
        if dropped:
            self.version += 1
        return np.concatenate(dropped) if dropped else _NO_TOKENS

    def _pop_leaf(self) -> RadixNode | None:
        """Take the oldest entry of the heap; None when it no longer is a free leaf.

        An entry whose node was used since goes back with its present time.
        """
        key, _, node = heapq.heappop(self.spare_heap)
        if not node.in_heap or key != node.heap_key:
            return None
        node.in_heap = False
        if not node.is_spare:
            return None
        if key != node.eviction_key:
            self._offer(node)
            return None
        return node

    def _pop_held(self) -> RadixNode | None:
        """Take the held leaf that is needed last; None when there is none.

        An entry whose node is needed otherwise since goes back with its present need. Called
        once nothing else can be evicted, so that every leaf that can be is held.
        """
        while self.held_heap:
            key, _, node = heapq.heappop(self.held_heap)
            if key != node.held_key:
                continue
            node.held_key = None
            if not node.is_evictable or not node.holds:
                continue
            if key == node.need:
                return node
            self._offer(node)
        return None

    def _drop_end(self, node: RadixNode, count: int) -> SlotArray:
        """Remove the last `count` tokens of a free leaf, or the leaf; return the slots."""
        keep = max(0, len(node) - count)
        for listener in self.listeners:
            listener.dropping(node, keep)
        if keep:
            part = node.slots[keep:]
            node.hold_tokens(node.key[:keep].copy(), node.slots[:keep].copy())
            self._offer(node)
        else:
            part = node.slots
            parent = node.parent
            assert parent is not None, "the root is never evicted"
            del parent.children[node.edge]
            node.parent = None
            self.num_nodes -= 1
            for hold in node.holds:
                hold.node = parent
            parent.holds.update(node.holds)
            self._offer(parent)
        self._count(node.namespace, -len(part))
        self.evictable_len -= len(part)
        self.held_len -= len(part) if node.hold_ref else 0
        return part

    # -- inner steps -----------------------------------------------------------------------

    def edge_of(self, node: RadixNode, key: TokenArray, at: int, namespace: str) -> Hashable:
        """Return what leads from `node` to a child that begins with `key[at:]`."""
        size = self.page_size
        first: Hashable = int(key[at]) if size == 1 else key[at : at + size].tobytes()
        return (namespace, first) if namespace and node is self.root else first

    def _count(self, namespace: str, tokens: int) -> None:
        """Take note that a namespace has more or fewer tokens."""
        total = self.namespaces.get(namespace, 0) + tokens
        if total:
            self.namespaces[namespace] = total
        else:
            del self.namespaces[namespace]

    def _walk(
        self, start: RadixNode, key: TokenArray, depth: int, namespace: str
    ) -> tuple[RadixNode, int, int]:
        """Follow `key[depth:]`, as far as it is whole pages, below `start`.

        Returns the last node matched to its end, the tokens down to there, and how many more
        matched inside one of its children.
        """
        node, size = start, self.page_size
        total = len(key) - len(key) % size
        data = key.astype(np.int32, copy=False).tobytes() if node.children else b""
        while depth < total:
            child = node.children.get(self.edge_of(node, key, depth, namespace))
            if child is None:
                break
            end = depth + len(child.key)
            if data[TOKEN_BYTES * depth : TOKEN_BYTES * end] == child.data:
                node, depth = child, end
                continue
            common = common_len(child.key, key[depth:])
            common -= common % size
            return node, depth, common
        return node, depth, 0

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut `node` after `at` tokens; return the new upper part.

        The object `node` keeps the lower part, so that handles to it stay valid.
        """
        parent = node.parent
        assert parent is not None, "the root is never split"
        head = node.key[:at].copy(), node.slots[:at].copy()
        upper = self._new_node(parent, *head, edge=node.edge, namespace=node.namespace)
        upper.lock_ref, upper.stamp = node.lock_ref, node.stamp
        upper.hold_ref, upper.is_dead = node.hold_ref, node.is_dead
        node.hold_tokens(node.key[at:].copy(), node.slots[at:].copy())
        node.parent, node.edge = upper, self.edge_of(upper, node.key, 0, node.namespace)
        upper.children[node.edge] = node
        parent.children[upper.edge] = upper
        return upper

    def _add_leaf(
        self,
        parent: RadixNode,
        key: TokenArray,
        slots: SlotArray,
        *,
        edge: Hashable,
        namespace: str,
    ) -> RadixNode:
        """Append a new leaf below `parent`."""
        leaf = self._new_node(parent, key, slots, edge=edge, namespace=namespace)
        parent.children[edge] = leaf
        self.evictable_len += len(leaf)
        self._count(namespace, len(leaf))
        self.version += 1
        leaf.stamp = self._clock
        self._offer(leaf)
        for listener in self.listeners:
            listener.stored(leaf)
        return leaf

    def _new_node(
        self,
        parent: RadixNode,
        key: TokenArray,
        slots: SlotArray,
        *,
        edge: Hashable,
        namespace: str,
    ) -> RadixNode:
        self._serial += 1
        self.num_nodes += 1
        return RadixNode(parent, key, slots, serial=self._serial, edge=edge, namespace=namespace)

    def _slots_between(self, start: RadixNode, node: RadixNode) -> SlotArray:
        """Return the slots below `start` down to the end of `node`."""
        parts: list[SlotArray] = []
        step = node
        while step is not start:
            parts.append(step.slots)
            assert step.parent is not None, "start is no ancestor"
            step = step.parent
        return np.concatenate(parts[::-1]) if parts else _NO_TOKENS

    def _touch(self, node: RadixNode) -> None:
        """Mark the path to `node` as just used."""
        self._clock += 1
        step: RadixNode | None = node
        while step is not None:
            step.stamp = self._clock
            step.is_dead = False
            step = step.parent

    def _offer(self, node: RadixNode) -> None:
        """Put a free leaf into the heap of spare or held ones, if it is not there early enough."""
        if not node.is_evictable:
            return
        if node.hold_ref:
            self._offer_held(node)
            return
        key = node.eviction_key
        if not node.in_heap or key < node.heap_key:
            node.in_heap, node.heap_key = True, key
            self._num_offers += 1
            heapq.heappush(self.spare_heap, (key, self._num_offers, node))

    def _offer_held(self, node: RadixNode) -> None:
        key = node.need
        if node.held_key is not None and key >= node.held_key:
            return
        node.held_key = key
        self._num_offers += 1
        heapq.heappush(self.held_heap, (key, self._num_offers, node))
        if len(self.held_heap) > 2 * self.num_nodes + 64:
            self.held_heap = [
                entry
                for entry in self.held_heap
                if entry[2].parent is not None and entry[0] == entry[2].held_key
            ]  # neither outdated entries nor those of nodes that are gone
            heapq.heapify(self.held_heap)


def common_len(left: TokenArray, right: TokenArray) -> int:
    """Return the length of the longest common prefix of two token arrays."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    index = int(differs.argmax()) if size else 0
    return size if size == 0 or not differs[index] else index


def _path(node: RadixNode) -> Iterator[RadixNode]:
    """Yield the nodes from `node` up to the root."""
    step: RadixNode | None = node
    while step is not None:
        yield step
        step = step.parent
