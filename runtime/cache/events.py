"""Events and counts of a prefix cache: what a router needs to know which engine has a prefix.

Each event tells of one piece of a path, by its tokens and by the hash of the path before it and
with it. Whoever applies them in the order of their numbers knows at every moment what is cached.
"""

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from lmc.runtime.cache.radix_node import RadixNode, TokenArray
from lmc.runtime.cache.radix_tree import RadixTree

EventKind = Literal["stored", "evicted", "flushed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheEvent:
    """One change of what is cached.

    Attributes:
        kind: "stored"; "evicted", for want of memory; "flushed", because somebody asked for it.
        number: 1, 2, ...; a gap tells that events were lost, since nobody took them in time.
        namespace: where the path is.
        parent_hash: `path_hash` of the path before these tokens.
        hash: `path_hash` of the path with them.
        token_ids: the tokens that are cached now, or are no more.
        start: tokens of the path before them.
    """

    kind: EventKind
    number: int
    namespace: str
    parent_hash: int
    hash: int
    token_ids: tuple[int, ...]
    start: int

    @property
    def num_tokens(self) -> int:
        """How many tokens are cached more, or less."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheStats:
    """What a prefix cache holds, and totals since it was made.

    Attributes:
        num_slots: tokens that fit, of which `free` are unused.
        cached: tokens in the tree; of these `locked` ones are in use or pinned, `held` ones
            will be needed, the rest is evicted first.
        private: slots of requests, which nobody shares yet.
        nodes: nodes of the tree.
        pins: paths that are pinned.
        namespaces: tokens in the tree by namespace.
        starts: sequences that were looked up when they started (again).
        hit_tokens: of their tokens, found in the tree.
        missed_tokens: of their tokens, not found.
        stored_tokens: tokens that came into the tree.
        evicted_tokens: tokens that left it for want of memory.
        flushed_tokens: tokens that left it because somebody asked for it.
    """

    num_slots: int
    free: int
    cached: int
    locked: int
    held: int
    private: int
    nodes: int
    pins: int
    namespaces: dict[str, int]
    starts: int
    hit_tokens: int
    missed_tokens: int
    stored_tokens: int
    evicted_tokens: int
    flushed_tokens: int


@dataclass(slots=True)
class CacheTotals:
    """Totals of CacheStats while they grow."""

    starts: int = 0
    hit_tokens: int = 0
    missed_tokens: int = 0
    stored_tokens: int = 0
    evicted_tokens: int = 0
    flushed_tokens: int = 0


def path_hash(namespace: str, token_ids: TokenArray) -> int:
    """Return the 64-bit hash of a path: blake2b of its namespace, with its length, and tokens.

    Tokens are taken as 4 bytes each, little end first.
    """
    name = namespace.encode("utf-8", "surrogatepass")
    framed = len(name).to_bytes(4, "little") + name + token_ids.astype("<i4").tobytes()
    return int.from_bytes(hashlib.blake2b(framed, digest_size=8).digest(), "little")


@dataclass(slots=True)
class EventLog:
    """The last events of a tree, until they are taken.

    Args:
        tree: the tree, whose listener this becomes.
        limit: events that wait to be taken at the most; of more the oldest are lost.
    """

    tree: RadixTree
    limit: int
    is_flushing: bool = False
    _events: deque[CacheEvent] = field(init=False)
    _number: int = 0

    def __post_init__(self) -> None:
        self._events = deque(maxlen=self.limit)
        self.tree.listeners.append(self)

    def take(self) -> list[CacheEvent]:
        """Return the events since the last time, oldest first."""
        events = list(self._events)
        self._events.clear()
        return events

    def stored(self, leaf: RadixNode) -> None:
        """Note a new leaf."""
        self._note("stored", leaf, 0)

    def dropping(self, leaf: RadixNode, keep: int) -> None:
        """Note that a leaf loses its end."""
        self._note("flushed" if self.is_flushing else "evicted", leaf, keep)

    def _note(self, kind: EventKind, leaf: RadixNode, keep: int) -> None:
        path = self.tree.path_tokens(leaf)
        start = len(path) - len(leaf) + keep
        self._number += 1
        self._events.append(
            CacheEvent(
                kind=kind,
                number=self._number,
                namespace=leaf.namespace,
                parent_hash=path_hash(leaf.namespace, path[:start]),
                hash=path_hash(leaf.namespace, path),
                token_ids=tuple(path[start:].tolist()),
                start=start,
            )
        )
