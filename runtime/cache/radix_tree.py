"""RadixTree: which token prefixes have their KV cached, and in which slots.

A compressed trie over token ids (the idea is RadixAttention's, Zheng et al. 2024): every node
holds a run of tokens and the slots of their KV. Locks protect a path from eviction; eviction
goes leaf first and trims the end of a leaf when only a part of it is needed: first what is
marked as dead, then the least recently used; what somebody *holds*, since a call will need it,
goes only when nothing else is left, the hold of the highest rank first. Time is a counter, so
equal histories give equal trees.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TokenArray = NDArray[np.int32]
SlotArray = NDArray[np.int32]

LATEST = 2**62
"""Rank behind all others."""

_NO_TOKENS: TokenArray = np.zeros(0, dtype=np.int32)


Rank = tuple[int, ...]


@dataclass(slots=True, eq=False)
class Hold:
    """A wish to keep the path to a node: it does not protect it, but it is evicted late.

    When the node is evicted, the hold moves up to what is left of its path.
    """

    node: "RadixNode"
    rank: Rank


class RadixNode:
    """A run of tokens below its parent, and the slots that hold their KV.

    `lock_ref` counts the locks taken at this node or below; `holders` those at this node.
    `hold_ref` and `holds` are the same for holds.
    """

    __slots__ = (
        "children",
        "heap_key",
        "hold_ref",
        "holders",
        "holds",
        "in_heap",
        "is_dead",
        "key",
        "lock_ref",
        "parent",
        "serial",
        "slots",
        "stamp",
    )

    def __init__(
        self, parent: "RadixNode | None", key: TokenArray, slots: SlotArray, *, serial: int
    ) -> None:
        self.parent = parent
        self.key = key
        self.slots = slots
        self.serial = serial
        self.children: dict[int, RadixNode] = {}
        self.lock_ref = 0
        self.holders = 0
        self.hold_ref = 0
        self.holds: dict[Hold, None] = {}
        self.is_dead = False
        self.stamp = 0
        self.in_heap = False
        self.heap_key: HeapKey = (False, 0, 0)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def is_evictable(self) -> bool:
        """Whether the node is a leaf that nobody has locked (the root never is)."""
        return not self.children and self.lock_ref == 0 and self.parent is not None

    @property
    def is_spare(self) -> bool:
        """Whether the node may be evicted and nobody holds it."""
        return self.hold_ref == 0 and self.is_evictable

    @property
    def eviction_key(self) -> "HeapKey":
        """What orders spare leaves for eviction: dead ones first, then the oldest."""
        return not self.is_dead, self.stamp, self.serial


HeapKey = tuple[bool, int, int]


class RadixTree:
    """Token-level prefix tree; see the module's text for what it promises."""

    def __init__(self) -> None:
        self.root = RadixNode(None, _NO_TOKENS, _NO_TOKENS, serial=0)
        self.evictable_len = 0
        self.protected_len = 0
        self.held_len = 0
        self.version = 0
        self._clock = 0
        self._serial = 0
        self._heap: list[tuple[HeapKey, int, RadixNode]] = []
        self._num_offers = 0

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return self.evictable_len + self.protected_len

    # -- reading ---------------------------------------------------------------------------

    def match_len(self, key: TokenArray) -> int:
        """Return how many leading tokens of `key` are cached; changes nothing."""
        _, depth, inner = self._walk(self.root, key, 0)
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
        parts: list[SlotArray] = []
        step: RadixNode | None = node
        while step is not None:
            parts.append(step.slots)
            step = step.parent
        return np.concatenate(parts[::-1])

    def path_len(self, node: RadixNode) -> int:
        """Return the tokens from the root down to the end of `node`."""
        length = 0
        step: RadixNode | None = node
        while step is not None:
            length += len(step)
            step = step.parent
        return length

    # -- growing ---------------------------------------------------------------------------

    def match(self, key: TokenArray) -> tuple[RadixNode, int]:
        """Return the node that ends the longest cached prefix of `key`, and its length.

        Splits a node when the prefix ends inside it, and refreshes the path.
        """
        node, length = self.find(key)
        self._touch(node)
        return node, length

    def find(self, key: TokenArray) -> tuple[RadixNode, int]:
        """Return the same as `match`, refreshing nothing."""
        node, depth, inner = self._walk(self.root, key, 0)
        if inner:
            node = self._split(node.children[int(key[depth])], inner)
        return node, depth + inner

    def insert(
        self, key: TokenArray, slots: SlotArray, *, start: RadixNode, start_len: int
    ) -> tuple[RadixNode, int, SlotArray]:
        """Add `key` with its `slots`; `start` is a node that ends `key[:start_len]`.

        Returns the node that ends `key`; how many leading tokens were there already; and the
        tree's slots of `key[start_len:]`. The tree adopts `slots[existing:]`; the caller's
        own `slots[start_len:existing]` are duplicates that it must free.
        """
        node, depth, inner = self._walk(start, key, start_len)
        existing = depth + inner
        if inner:
            node = self._split(node.children[int(key[depth])], inner)
        shared = self._slots_between(start, node)
        if existing < len(key):
            node = self._add_leaf(node, key[existing:].copy(), slots[existing:].copy())
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
        return made

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

        Returns their slots: exactly `count`, or all that could be dropped.
        """
        dropped: list[SlotArray] = []
        missing = count
        while missing > 0 and self._heap:
            node = self._pop_leaf()
            if node is None:
                continue
            part = self._drop_end(node, missing)
            dropped.append(part)
            missing -= len(part)
        while missing > 0 and (held := self._last_held()) is not None:
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
        key, _, node = heapq.heappop(self._heap)
        if not node.in_heap or key != node.heap_key:
            return None
        node.in_heap = False
        if not node.is_spare:
            return None
        if key != node.eviction_key:
            self._offer(node)
            return None
        return node

    def _last_held(self) -> RadixNode | None:
        """Return the leaf that is needed last; called once nothing else can be evicted."""
        leaves = [node for node in self.nodes() if node.is_evictable]
        return max(leaves, key=_need, default=None)

    def _drop_end(self, node: RadixNode, count: int) -> SlotArray:
        """Remove the last `count` tokens of a free leaf, or the leaf; return the slots."""
        if count < len(node):
            keep = len(node) - count
            part = node.slots[keep:]
            node.key, node.slots = node.key[:keep].copy(), node.slots[:keep].copy()
            self._offer(node)
        else:
            part = node.slots
            parent = node.parent
            assert parent is not None, "the root is never evicted"
            del parent.children[int(node.key[0])]
            node.parent = None
            for hold in node.holds:
                hold.node = parent
            parent.holds.update(node.holds)
            self._offer(parent)
        self.evictable_len -= len(part)
        self.held_len -= len(part) if node.hold_ref else 0
        return part

    # -- inner steps -----------------------------------------------------------------------

    def _walk(self, start: RadixNode, key: TokenArray, depth: int) -> tuple[RadixNode, int, int]:
        """Follow `key[depth:]` below `start`.

        Returns the last node matched to its end, the tokens down to there, and how many more
        matched inside one of its children.
        """
        node, total = start, len(key)
        while depth < total:
            child = node.children.get(int(key[depth]))
            if child is None:
                break
            common = common_len(child.key, key[depth:])
            if common < len(child):
                return node, depth, common
            node, depth = child, depth + common
        return node, depth, 0

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut `node` after `at` tokens; return the new upper part.

        The object `node` keeps the lower part, so that handles to it stay valid.
        """
        parent = node.parent
        assert parent is not None, "the root is never split"
        upper = self._new_node(parent, node.key[:at].copy(), node.slots[:at].copy())
        upper.lock_ref, upper.stamp = node.lock_ref, node.stamp
        upper.hold_ref, upper.is_dead = node.hold_ref, node.is_dead
        node.key, node.slots = node.key[at:].copy(), node.slots[at:].copy()
        node.parent = upper
        upper.children[int(node.key[0])] = node
        parent.children[int(upper.key[0])] = upper
        return upper

    def _add_leaf(self, parent: RadixNode, key: TokenArray, slots: SlotArray) -> RadixNode:
        """Append a new leaf below `parent`."""
        leaf = self._new_node(parent, key, slots)
        parent.children[int(key[0])] = leaf
        self.evictable_len += len(leaf)
        self.version += 1
        leaf.stamp = self._clock
        self._offer(leaf)
        return leaf

    def _new_node(self, parent: RadixNode, key: TokenArray, slots: SlotArray) -> RadixNode:
        self._serial += 1
        return RadixNode(parent, key, slots, serial=self._serial)

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
        """Put `node` into the eviction heap if it is a spare leaf and not there early enough."""
        if not node.is_spare:
            return
        key = node.eviction_key
        if not node.in_heap or key < node.heap_key:
            node.in_heap, node.heap_key = True, key
            self._num_offers += 1
            heapq.heappush(self._heap, (key, self._num_offers, node))

    # -- invariants ------------------------------------------------------------------------

    def check(self) -> None:
        """Verify every invariant of the tree.

        Raises:
            AssertionError: one is broken; the message says which.
        """
        evictable = protected = held = 0
        seen: set[int] = set()
        for node in [self.root, *self.nodes()]:
            self._check_node(node)
            if node.lock_ref == 0:
                evictable += len(node)
                held += len(node) if node.hold_ref else 0
            else:
                protected += len(node)
            slots = node.slots.tolist()
            assert not seen.intersection(slots), f"a slot is twice in the tree: {slots}"
            seen.update(slots)
        assert evictable == self.evictable_len, (evictable, self.evictable_len)
        assert protected == self.protected_len, (protected, self.protected_len)
        assert held == self.held_len, (held, self.held_len)
        entries = [id(node) for key, _, node in self._heap if node.in_heap and key == node.heap_key]
        assert len(entries) == len(set(entries)), "a node is twice in the eviction heap"

    def _check_node(self, node: RadixNode) -> None:
        assert len(node.key) == len(node.slots), "key and slots differ in length"
        assert (len(node) == 0) == (node is self.root), "only the root is empty"
        below = sum(child.lock_ref for child in node.children.values())
        assert node.lock_ref == node.holders + below, "lock_ref is not the locks below"
        below = sum(child.hold_ref for child in node.children.values())
        assert node.hold_ref == len(node.holds) + below, "hold_ref is not the holds below"
        assert all(hold.node is node for hold in node.holds), "a hold names another node"
        assert not node.is_spare or node.in_heap, "a spare leaf is missing from the heap"
        for first, child in node.children.items():
            assert child.parent is node, "a child has another parent"
            assert int(child.key[0]) == first, "a child sits under another token"
            assert child.stamp <= node.stamp, "a child was used after its parent"


def _need(node: RadixNode) -> Rank:
    """Return the rank of a leaf's most urgent hold."""
    return min((hold.rank for hold in node.holds), default=(LATEST,))


def common_len(left: TokenArray, right: TokenArray) -> int:
    """Return the length of the longest common prefix of two token arrays."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    index = int(differs.argmax()) if size else 0
    return size if size == 0 or not differs[index] else index
