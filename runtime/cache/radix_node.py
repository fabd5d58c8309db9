"""RadixNode: a run of tokens in the prefix tree, with its locks and holds."""

from collections.abc import Hashable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.cache.holds import HoldGroup

TokenArray = NDArray[np.int32]
SlotArray = NDArray[np.int32]


class RadixNode:
    """A run of tokens below its parent, and the slots that hold their KV.

    `lock_ref` counts the locks taken at this node or below; `holders` those at this node.
    `hold_ref` counts the holds that end at this node or below; `groups` has those at this node,
    by the token that follows in their paths (see holds.py). `begin` tokens stand before it.
    `edge` is the key of its parent's `children` that leads here.
    """

    __slots__ = (
        "begin",
        "children",
        "data",
        "edge",
        "groups",
        "heap_key",
        "held_key",
        "hold_ref",
        "holders",
        "in_heap",
        "is_dead",
        "key",
        "lock_ref",
        "namespace",
        "parent",
        "serial",
        "slots",
        "stamp",
    )

    def __init__(
        self,
        parent: "RadixNode | None",
        key: TokenArray,
        slots: SlotArray,
        *,
        serial: int,
        edge: Hashable = None,
        namespace: str = "",
    ) -> None:
        self.parent = parent
        self.begin = 0 if parent is None else parent.end
        self.edge = edge
        self.namespace = namespace
        self.hold_tokens(key, slots)
        self.serial = serial
        self.children: dict[Hashable, RadixNode] = {}
        self.lock_ref = 0
        self.holders = 0
        self.hold_ref = 0
        self.groups: dict[int, HoldGroup] = {}
        self.is_dead = False
        self.stamp = 0
        self.in_heap = False
        self.heap_key: HeapKey = (False, 0, 0)
        self.held_key: HeldKey | None = None

    def hold_tokens(self, key: TokenArray, slots: SlotArray) -> None:
        """Set the run of tokens, also as bytes, which are the fastest to compare."""
        self.key = key
        self.slots = slots
        self.data = key.astype(np.int32, copy=False).tobytes()

    def __len__(self) -> int:
        return len(self.key)

    @property
    def end(self) -> int:
        """How many tokens there are from the root down to its end."""
        return self.begin + len(self.key)

    @property
    def is_evictable(self) -> bool:
        """Whether the node is a leaf that nobody has locked (the root never is)."""
        return not self.children and self.lock_ref == 0 and self.parent is not None

    @property
    def need(self) -> "HeldKey":
        """What orders held leaves for eviction: that of the highest rank first, then the oldest.

        The numbers of the most urgent hold's rank, negative.
        """
        rank = min([group.best for group in self.groups.values()])
        return *(-place for place in rank), self.stamp

    @property
    def is_spare(self) -> bool:
        """Whether the node may be evicted and nobody holds it."""
        return self.hold_ref == 0 and self.is_evictable

    @property
    def eviction_key(self) -> "HeapKey":
        """What orders spare leaves for eviction: dead ones first, then the oldest."""
        return not self.is_dead, self.stamp, self.serial


HeapKey = tuple[bool, int, int]
HeldKey = tuple[int, ...]


class TreeListener(Protocol):
    """Told of every change of what is cached."""

    def stored(self, leaf: RadixNode) -> None:
        """Take note of a new leaf."""
        ...

    def dropping(self, leaf: RadixNode, keep: int) -> None:
        """Take note that a leaf loses all but its first `keep` tokens: it still has them all."""
        ...


def common_len(left: TokenArray, right: TokenArray) -> int:
    """Return the length of the longest common prefix of two token arrays."""
    size = min(len(left), len(right))
    differs = left[:size] != right[:size]
    index = int(differs.argmax()) if size else 0
    return size if size == 0 or not differs[index] else index


def path(node: RadixNode) -> Iterator[RadixNode]:
    """Yield the nodes from `node` up to the root."""
    step: RadixNode | None = node
    while step is not None:
        yield step
        step = step.parent
