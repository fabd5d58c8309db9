"""PrefixCache: tree and pool together, as the engine's one interface to KV memory.

A request's tokens are first covered by a locked path of the tree (shared with others), then
by slots of its own. `insert` moves own slots into the tree and gives back duplicates; after
`release` and `free` a request owns nothing. What is shared are whole pages: a page that is
partly filled belongs to its request alone.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.cache.events import CacheStats, CacheTotals, EventLog
from lmc.runtime.cache.page_pool import Owner, PageOwnershipError, PagePool
from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.cache.radix_tree import RadixTree
from lmc.runtime.cache.shadow import ShadowTokens
from lmc.runtime.cache.tree_check import check_tree

TokenArray = NDArray[np.int32]
SlotArray = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class CacheHandle:
    """A locked path of the tree: its last node and its length in tokens."""

    node: RadixNode
    length: int
    namespace: str = ""
    is_live: bool = True


class LowerTier(Protocol):
    """What keeps the paths that the cache evicts; see lmc.runtime.cache.host_tier."""

    def keep(self, token_ids: TokenArray, slots: SlotArray, namespace: str) -> None:
        """Copy a path of the cache."""
        ...

    def load(
        self, token_ids: TokenArray, start: int, give: Callable[[int], SlotArray], namespace: str
    ) -> int:
        """Copy what is kept from `start` on into the slots that `give` returns."""
        ...

    def mark_dead(self, token_ids: TokenArray, keep: int, namespace: str) -> None:
        """Say that nothing will need a path behind `keep` tokens."""
        ...

    def flush(self) -> None:
        """Forget everything."""
        ...

    def check(self) -> None:
        """Raise when a slot has no owner or two."""
        ...


class _Keeper:
    """Hands what a tree evicts, and is not known to be of no use, to a tier below."""

    def __init__(self, tree: RadixTree, lower: LowerTier) -> None:
        self.tree = tree
        self.lower = lower
        self.is_on = True

    def stored(self, leaf: RadixNode) -> None:
        """Nothing to do: the tier takes what is evicted."""

    def dropping(self, leaf: RadixNode, keep: int) -> None:
        """Have the path to a leaf kept."""
        if self.is_on and not leaf.is_dead:
            tokens, slots = self.tree.path_tokens(leaf), self.tree.path_slots(leaf)
            # Without memory for the copy the tokens are only lost: what evicts them goes on.
            with suppress(MemoryError):
                self.lower.keep(tokens, slots, leaf.namespace)


class PrefixCache:
    """Cached prefixes over a fixed number of slots.

    Args:
        num_slots: tokens of KV memory; what makes no whole page is left out.
        is_shared: whether prefixes are kept and found at all; without it the tree stays
            empty and every request holds slots of its own.
        page_size: tokens of a page, of which only whole ones are shared.
        max_events: cache events that wait to be taken at the most; 0 makes none.
        is_debug: whether slots remember their tokens and are compared with them (ShadowTokens).
    """

    def __init__(
        self,
        num_slots: int,
        *,
        is_shared: bool = True,
        page_size: int = 1,
        max_events: int = 0,
        is_debug: bool = False,
    ) -> None:
        self.pool = PagePool(num_slots, page_size)
        self.tree = RadixTree(page_size)
        self.page_size = page_size
        self.is_shared = is_shared
        self.totals = CacheTotals()
        self.events = EventLog(self.tree, max_events) if max_events else None
        self.shadow = ShadowTokens(self.num_slots) if is_debug else None
        self.in_flight: SlotArray | None = None  # in debug mode: what a launched step uses
        self._keeper: _Keeper | None = None
        self._pins: dict[int, CacheHandle] = {}
        self._lasting: set[int] = set()
        self._next_pin = 0

    @property
    def num_slots(self) -> int:
        """Slots in all."""
        return self.pool.num_slots

    @property
    def available(self) -> int:
        """Slots that `alloc` can give: the free ones and those it may evict."""
        return self.pool.num_free + self.tree.evictable_len

    @property
    def spare(self) -> int:
        """Slots that `alloc` can give without evicting what a call to come is known to need."""
        return self.available - self.tree.held_len

    @property
    def num_pins(self) -> int:
        """Pins that are held."""
        return len(self._pins)

    @property
    def version(self) -> int:
        """A number that changes whenever the set of cached tokens does."""
        return self.tree.version

    # -- pages -----------------------------------------------------------------------------

    def whole(self, length: int) -> int:
        """Return the tokens of the whole pages among `length` leading tokens."""
        return length - length % self.page_size

    def new_slots(self, start: int, end: int) -> int:
        """Return the slots that a request must get for its tokens from `start` to `end`.

        It has those of all pages that its first `start` tokens touch.
        """
        size = self.page_size
        return end - start if size == 1 else (-(-end // size) + -start // size) * size

    def tokens_within(self, start: int, slots: int) -> int:
        """Return how many tokens after the first `start` need no more than `slots` new slots."""
        return slots + -start % self.page_size

    # -- what requests hold ----------------------------------------------------------------

    def match_len(self, token_ids: TokenArray, namespace: str = "") -> int:
        """Return how many leading tokens are cached; changes nothing."""
        return self.tree.match_len(token_ids, namespace)

    def find(self, token_ids: TokenArray, namespace: str = "") -> RadixNode:
        """Return the node that ends the longest cached prefix; counts as no use of it."""
        return self.tree.find(token_ids, namespace)[0]

    def match_and_lock(
        self, token_ids: TokenArray, namespace: str = ""
    ) -> tuple[CacheHandle, SlotArray]:
        """Lock the longest cached prefix; return its handle and its slots."""
        handle = self.lock(*self.tree.find(token_ids, namespace), namespace)
        return handle, self.slots_of(handle, token_ids)

    def lock(self, node: RadixNode, length: int, namespace: str = "") -> CacheHandle:
        """Lock the path to a node, of `length` tokens, which counts as a use; see `find`."""
        self.tree.touch(node)
        self.tree.lock(node)
        return CacheHandle(node, length, namespace)

    def slots_of(self, handle: CacheHandle, token_ids: TokenArray) -> SlotArray:
        """Return the slots of a locked path, which stand for the first of `token_ids`."""
        slots = self.tree.path_slots(handle.node)
        if self.shadow is not None:
            self.shadow.verify(slots, token_ids[: handle.length], handle.namespace)
        return slots

    def wrote(self, handle: CacheHandle, token_ids: TokenArray, row: SlotArray, start: int) -> None:
        """Take note that the KV of `token_ids[start:]` was computed into `row`.

        Raises:
            ShadowError: in debug mode, `row` did not hold the tokens before them.
        """
        if self.shadow is not None:
            self.shadow.write(row, start, token_ids, handle.namespace)

    def note_start(self, handle: CacheHandle, wanted: int) -> None:
        """Count a sequence that starts with `handle` and wanted so many tokens."""
        self.totals.starts += 1
        self.totals.hit_tokens += handle.length
        self.totals.missed_tokens += wanted - handle.length

    def alloc(self, count: int) -> SlotArray | None:
        """Give pages of at least `count` slots to a request, evicting as needed.

        Returns all their slots; None when there cannot be as many.
        """
        count += -count % self.page_size
        missing = count - self.pool.num_free
        if missing > self.tree.evictable_len:
            return None
        if missing > 0:
            slots = self.tree.evict(missing)
            self.totals.evicted_tokens += len(slots)
            self._give_back(slots, Owner.TREE)
        return self.pool.alloc(count)

    def set_lower(self, lower: LowerTier) -> None:
        """Have what is evicted, and not known to be of no use, kept in a tier below."""
        self._keeper = _Keeper(self.tree, lower)
        self.tree.listeners.append(self._keeper)

    def load(
        self, handle: CacheHandle, token_ids: TokenArray, slots: SlotArray
    ) -> tuple[CacheHandle, SlotArray]:
        """Lengthen a locked path of `token_ids` by what the tier below has of them.

        `slots` are the path's; there must be room for what is missing. Returns the new handle
        and slots; `handle` is used up. Without memory for the copy the path stays as it is.
        """
        if self._keeper is None:
            return handle, slots
        own: SlotArray = slots[:0]

        def give(count: int) -> SlotArray:
            nonlocal own
            given = self.alloc(count)
            assert given is not None, "a sequence starts only where there is room for it"
            own = given
            return given

        try:
            self._keeper.lower.load(token_ids, handle.length, give, handle.namespace)
            row = np.concatenate([slots, own])
        except BaseException as error:
            self.free(own)
            if isinstance(error, MemoryError):
                return handle, slots
            self.release(handle)
            raise
        self.wrote(handle, token_ids[: len(row)], row, handle.length)
        return self.insert(handle, token_ids[: len(row)], row), row

    def mark_dead(self, node: RadixNode, length: int, keep: int) -> None:
        """Say that nothing will need the path to `node`, of `length`, behind `keep` tokens."""
        self.tree.mark_dead(node, length, keep)
        if self._keeper is not None:
            self._keeper.lower.mark_dead(self.tree.path_tokens(node), keep, node.namespace)

    def insert(self, handle: CacheHandle, token_ids: TokenArray, row: SlotArray) -> CacheHandle:
        """Move the KV of `token_ids`, held in `row`, into the tree.

        `row[handle.length:len(token_ids)]` are the request's own slots. Where the tree had
        the tokens already, they are freed and `row` is rewritten in place to the tree's.
        Tokens behind the last whole page stay the request's. Returns the handle of the rest of
        the path, locked; `handle` is used up.
        """
        self._expect_live(handle)
        end, namespace = self.whole(len(token_ids)), handle.namespace
        if end == handle.length or not self.is_shared:
            return handle
        if self.shadow is not None:
            self.shadow.verify(row[:end], token_ids[:end], namespace)
        node, existing, slots = self.tree.insert(
            token_ids[:end],
            row[:end],
            start=handle.node,
            start_len=handle.length,
            namespace=namespace,
        )
        self.tree.lock(node)
        self.pool.adopt(row[existing:end])
        self.totals.stored_tokens += end - existing
        if existing > handle.length:
            self._give_back(row[handle.length : existing].copy(), Owner.REQUEST)
            row[handle.length : end] = slots
        self.release(handle)
        return CacheHandle(node, end, namespace)

    def release(self, handle: CacheHandle) -> None:
        """Unlock a path; its tokens stay cached until evicted."""
        self._expect_live(handle)
        handle.is_live = False
        self.tree.unlock(handle.node)

    def free(self, slots: SlotArray) -> None:
        """Take back a request's own slots, all of them behind what it has in the tree."""
        self._give_back(slots, Owner.REQUEST)

    def _give_back(self, slots: SlotArray, owner: Owner) -> None:
        if self.in_flight is not None and np.isin(slots, self.in_flight).any():
            raise PageOwnershipError("a slot was freed that a step in flight uses")
        self.pool.free(slots, owner=owner)
        if self.shadow is not None:
            self.shadow.forget(slots)

    def pin(self, handle: CacheHandle, *, is_lasting: bool = False) -> int:
        """Keep a locked path until `unpin`; return the pin's number. Takes the handle over.

        A lasting pin is dropped for want of memory only when there is no other.
        """
        self._expect_live(handle)
        self._next_pin += 1
        if is_lasting:
            self._lasting.add(self._next_pin)
        self._pins[self._next_pin] = handle
        return self._next_pin

    def unpin(self, pin: int) -> None:
        """Give a pin back; a pin that was dropped before is ignored."""
        handle = self._pins.pop(pin, None)
        self._lasting.discard(pin)
        if handle is not None:
            self.release(handle)

    def drop_oldest_pin(self) -> bool:
        """Give the oldest pin back, lasting ones last, for a request that cannot run otherwise."""
        if not self._pins:
            return False
        oldest = next(iter(self._pins))
        self.unpin(next((pin for pin in self._pins if pin not in self._lasting), oldest))
        return True

    def flush(self) -> int:
        """Drop every unlocked token, and all that the tier below has; return how many."""
        if self.events is not None:
            self.events.is_flushing = True
        if self._keeper is not None:
            self._keeper.is_on = False
            self._keeper.lower.flush()
        slots = self.tree.evict(self.tree.evictable_len)
        if self._keeper is not None:
            self._keeper.is_on = True
        if self.events is not None:
            self.events.is_flushing = False
        self._give_back(slots, Owner.TREE)
        self.totals.flushed_tokens += len(slots)
        return len(slots)

    def stats(self) -> CacheStats:
        """Return what is held, and the totals; the cost grows with the pages of the pool."""
        tree, pool = self.tree, self.pool
        return CacheStats(
            num_slots=self.num_slots,
            free=pool.num_free,
            cached=len(tree),
            locked=tree.protected_len,
            held=tree.held_len,
            private=pool.num_owned(Owner.REQUEST),
            nodes=tree.num_nodes,
            pins=self.num_pins,
            namespaces=dict(tree.namespaces),
            **asdict(self.totals),
        )

    def check(self, private: Iterable[SlotArray] = ()) -> None:
        """Verify tree, pool and ownership; `private` are the slots of live requests.

        In debug mode also what the slots of the tree hold.

        Raises:
            AssertionError, PageOwnershipError, ShadowError: something is owned twice, or by
                nobody, or holds other tokens.
        """
        check_tree(self.tree)
        self.pool.check()
        slots = np.concatenate([self.tree.root.slots, *(n.slots for n in self.tree.nodes())])
        self.pool.pages_of(slots)
        if (self.pool.owners(slots) != Owner.TREE).any():
            raise PageOwnershipError("the tree names a slot that is not its own")
        if self.shadow is not None:
            self.shadow.verify_tree(self.tree)
        if self.pool.num_owned(Owner.TREE) != len(self.tree):
            raise PageOwnershipError("the tree owns slots that it does not name")
        pages = [self.pool.pages_of(slots) for slots in private]
        own = np.concatenate([np.zeros(0, dtype=np.int32), *pages])
        is_own = self.pool.owners(own * self.page_size) == Owner.REQUEST
        if len(np.unique(own)) != len(own) or not is_own.all():
            raise PageOwnershipError("a request names a slot that is not its own")
        if self.pool.num_owned(Owner.REQUEST) != len(own) * self.page_size:
            raise PageOwnershipError("slots are owned by requests that are gone")
        if self._keeper is not None:
            self._keeper.lower.check()

    def _expect_live(self, handle: CacheHandle) -> None:
        if not handle.is_live:
            raise PageOwnershipError("a cache handle was used after its release")
