"""RadixTree: which token prefixes have their KV cached, and in which slots.

A compressed trie over token ids (the idea is RadixAttention's, Zheng et al. 2024): every node
holds a run of tokens and the slots of their KV. Locks protect a path from eviction; eviction
goes leaf first and trims the end of a leaf when only a part of it is needed: first what is
marked as dead, then the least recently used; what somebody *holds*, since a call will need it,
goes only when nothing else is left, the hold of the highest rank first (see eviction.py). Time
is a counter, so equal histories give equal trees.

With pages of more than one token every node holds whole pages: keys are cut to whole pages,
nodes are split at borders of pages and eviction drops whole ones. Equal tokens in different
namespaces are different paths; locks, holds and eviction do not look at namespaces.
"""

from collections.abc import Hashable, Iterator

import numpy as np

from lmc.runtime.cache.eviction import EvictionQueue
from lmc.runtime.cache.holds import NO_TOKEN, Hold, Rank, gather, group_at
from lmc.runtime.cache.radix_node import (
    RadixNode,
    SlotArray,
    TokenArray,
    TreeListener,
    common_len,
    path,
)

TOKEN_BYTES = 4
"""Bytes of a token in a node's key."""

_NO_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)


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
        self.evictions = EvictionQueue()

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
        return np.concatenate([step.slots for step in path(node)][::-1])

    def path_tokens(self, node: RadixNode) -> TokenArray:
        """Return the tokens from the root down to the end of `node`."""
        return np.concatenate([step.key for step in path(node)][::-1])

    def unlocked_len(self, node: RadixNode) -> int:
        """Return how many tokens of the path to `node` a lock of it would protect."""
        top: RadixNode | None = node
        while top is not None and top.lock_ref == 0:
            top = top.parent
        return node.end - (0 if top is None else top.end)

    # -- growing ---------------------------------------------------------------------------

    def find(self, key: TokenArray, namespace: str = "") -> tuple[RadixNode, int]:
        """Return the node that ends the longest cached prefix of `key`, and its length.

        Splits a node when the prefix ends inside it; counts as no use of the path (see `touch`).
        """
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
            self._clock += 1  # so that a new leaf is younger than one that was added just now
        self.touch(node)
        if existing < len(key):
            edge = self.edge_of(node, key, existing, namespace)
            rest = key[existing:].copy(), slots[existing:].copy()
            name = namespace if node is self.root else node.namespace
            node = self._add_leaf(node, *rest, edge=edge, namespace=name)
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
            step = step.parent
        self.evictions.offer(node)  # what lies above it is no leaf

    # -- holds -----------------------------------------------------------------------------

    def hold(self, node: RadixNode, rank: Rank, token: int = NO_TOKEN) -> Hold:
        """Hold the path to `node`, which goes on with `token` where that is cached.

        Of the held leaves that of the highest rank goes first.
        """
        group = group_at(node, token)
        made = Hold(group, rank)
        group.add(made)
        self._hold_down_to(node, None)
        return made

    def follow(self, hold: Hold, key: TokenArray, namespace: str = "") -> int:
        """Move a hold, whose path `key` begins with, down along it as far as that is cached now.

        Returns the length of the path that is held then. Splits a node when the path ends
        inside it; counts as no use.
        """
        held = hold.node
        node, depth, inner = self._walk(held, key, held.end, namespace)
        if inner:
            node = self._split(node.children[self.edge_of(node, key, depth, namespace)], inner)
        length = depth + inner
        if node is held:
            return length
        is_watched = hold in hold.group.watched
        hold.group.remove(hold)
        group_at(node, int(key[length]) if length < len(key) else NO_TOKEN).add(hold)
        if is_watched:
            hold.group.watched[hold] = None
        self._hold_down_to(node, held)
        return length

    def _hold_down_to(self, node: RadixNode, start: RadixNode | None) -> None:
        """Count one more hold in the nodes below `start`, or from the root on, down to `node`."""
        step: RadixNode | None = node
        while step is not start:
            assert step is not None, "start is no ancestor"
            if step.hold_ref == 0 and step.lock_ref == 0:
                self.held_len += len(step)
            step.hold_ref += 1
            step = step.parent
        self.evictions.offer(node)

    def rerank(self, hold: Hold, rank: Rank) -> None:
        """Give a hold another rank."""
        if hold.rank != rank:
            hold.group.rerank(hold, rank)
            self.evictions.offer(hold.node)

    def unhold(self, hold: Hold) -> None:
        """Give a hold back.

        Raises:
            KeyError: it was given back before.
        """
        node = hold.node
        hold.group.remove(hold)
        step: RadixNode | None = node
        while step is not None:
            step.hold_ref -= 1
            if step.hold_ref == 0 and step.lock_ref == 0:
                self.held_len -= len(step)
            step = step.parent
        self.evictions.offer(node)  # what lies above it is no leaf

    def mark_dead(self, node: RadixNode, length: int, keep: int) -> None:
        """Say that nothing will need the path to `node`, of `length`, behind `keep` tokens.

        What somebody holds or locks stays as it is; what is used again is no longer dead.
        """
        step: RadixNode | None = node
        while step is not None and step.parent is not None and length - len(step) >= keep:
            if step.hold_ref == 0 and step.lock_ref == 0:
                step.is_dead = True
                self.evictions.offer(step)
            length -= len(step)
            step = step.parent
        self._clock += 1  # so that the next use of the path is seen as one

    # -- eviction --------------------------------------------------------------------------

    def evict(self, count: int) -> SlotArray:
        """Drop up to `count` unlocked tokens: dead ones, then old ones, then held ones.

        Returns their slots: exactly `count`, made up to whole pages, or all that could be dropped.
        """
        dropped: list[SlotArray] = []
        missing = count + -count % self.page_size
        while missing > 0 and (leaf := self.evictions.pop()) is not None:
            part = self._drop_end(leaf, missing)
            dropped.append(part)
            missing -= len(part)
        if dropped:
            self.version += 1
        return np.concatenate(dropped) if dropped else _NO_TOKENS

    def _drop_end(self, node: RadixNode, count: int) -> SlotArray:
        """Remove the last `count` tokens of a free leaf, or the leaf; return the slots."""
        keep = max(0, len(node) - count)
        for listener in self.listeners:
            listener.dropping(node, keep)
        if keep:
            part = node.slots[keep:]
            gather(node, node, int(node.key[keep]))
            node.hold_tokens(node.key[:keep].copy(), node.slots[:keep].copy())
            self.evictions.offer(node)
        else:
            part = node.slots
            parent = node.parent
            assert parent is not None, "the root is never evicted"
            del parent.children[node.edge]
            node.parent = None
            self.num_nodes -= 1
            gather(node, parent, int(node.key[0]))
            self.evictions.offer(parent)
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
        node.begin = upper.end
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
        self.evictions.offer(leaf)
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

    def touch(self, node: RadixNode) -> None:
        """Mark the path to `node` as just used."""
        if node.stamp == self._clock:
            return  # so has all of its path, and nothing was used since
        self._clock += 1
        step: RadixNode | None = node
        while step is not None:
            step.stamp = self._clock
            step.is_dead = False
            step = step.parent
