"""PagePool: who owns each slot of KV memory.

A slot holds one token; a page is `page_size` slots in a row, and slot s is in page s // page_size.
Pages are what is owned, by exactly one of: nobody (free), the radix tree, or a running request.
Every move between owners is checked against the owner array, so a page can neither be freed
twice nor sit in two places; a wrong move raises and changes nothing. From outside all is told in
slots: those of whole pages in order, but for the last page of a request, of which it may name
the leading slots only.
"""

import enum

import numpy as np
from numpy.typing import NDArray

SlotArray = NDArray[np.int32]


class Owner(enum.IntEnum):
    """Who holds a slot."""

    FREE = 0
    TREE = 1
    REQUEST = 2


class PageOwnershipError(RuntimeError):
    """A slot was moved by somebody who does not own it: a bug of ours, never of a user."""


class PagePool:
    """Fixed number of pages with one owner each, handed out in a deterministic order.

    Freed pages are reused last in, first out; a fresh pool hands out 0, 1, 2, ...

    Args:
        num_slots: slots in all; those that make no whole page are left out.
        page_size: slots of a page.

    Raises:
        ValueError: there is not one page.
    """

    def __init__(self, num_slots: int, page_size: int = 1) -> None:
        if page_size < 1:
            raise ValueError(f"a page needs at least one slot, not {page_size}")
        num_pages = num_slots // page_size
        if num_pages < 1:
            raise ValueError(
                f"a pool needs at least one page of {page_size}, not {num_slots} slots"
            )
        self.page_size = page_size
        self.num_slots = num_pages * page_size
        self._owner = np.zeros(num_pages, dtype=np.uint8)
        self._stack: SlotArray = np.arange(num_pages - 1, -1, -1, dtype=np.int32)
        self._free_pages = num_pages
        self._mark = np.zeros(num_pages, dtype=np.int32)
        self._within: SlotArray = np.arange(page_size, dtype=np.int32)

    @property
    def num_free(self) -> int:
        """Slots that nobody owns."""
        return self._free_pages * self.page_size

    def num_owned(self, owner: Owner) -> int:
        """Return how many slots `owner` holds (a count over the whole pool)."""
        return int(np.count_nonzero(self._owner == owner)) * self.page_size

    def owners(self, slots: SlotArray) -> NDArray[np.uint8]:
        """Return the owner of each slot."""
        return self._owner[slots // self.page_size]

    def alloc(self, count: int) -> SlotArray | None:
        """Give free pages of at least `count` slots to a request; None when there are not as many.

        Returns all slots of the pages.
        """
        wanted = -(-count // self.page_size)
        if wanted > self._free_pages:
            return None
        pages = self._stack[self._free_pages - wanted : self._free_pages][::-1].copy()
        self._free_pages -= wanted
        self._owner[pages] = Owner.REQUEST
        return pages if self.page_size == 1 else self._slots_of(pages)

    def adopt(self, slots: SlotArray) -> None:
        """Move whole pages from a request to the tree.

        Raises:
            PageOwnershipError: a page is not a request's, is named twice or not whole.
        """
        if len(slots) % self.page_size:
            raise PageOwnershipError("the tree takes whole pages only")
        pages = self.pages_of(slots)
        self._expect(pages, Owner.REQUEST)
        self._owner[pages] = Owner.TREE

    def free(self, slots: SlotArray, *, owner: Owner) -> None:
        """Take pages back from `owner`; of the last one only the first slots need be named.

        Raises:
            PageOwnershipError: a page is not `owner`'s (a double free), or is named twice.
        """
        if owner is Owner.FREE:
            raise PageOwnershipError("free slots cannot be freed again")
        pages = self.pages_of(slots)
        self._expect(pages, owner)
        self._owner[pages] = Owner.FREE
        self._stack[self._free_pages : self._free_pages + len(pages)] = pages[::-1]
        self._free_pages += len(pages)

    def pages_of(self, slots: SlotArray) -> SlotArray:
        """Return the pages of slots that begin at the border of one.

        Raises:
            PageOwnershipError: they are not the slots of pages in order.
        """
        if self.page_size == 1:
            return slots
        pages = slots[:: self.page_size] // self.page_size
        if (self._slots_of(pages)[: len(slots)] != slots).any():
            raise PageOwnershipError(f"these slots are no pages in order: {slots.tolist()[:16]}")
        return pages

    def _slots_of(self, pages: SlotArray) -> SlotArray:
        return (pages[:, None] * self.page_size + self._within).reshape(-1)

    def check(self) -> None:
        """Compare the free stack with the owner array.

        Raises:
            PageOwnershipError: they disagree.
        """
        stack = self._stack[: self._free_pages]
        if len(np.unique(stack)) != self._free_pages:
            raise PageOwnershipError("a page is twice in the free stack")
        if self.num_owned(Owner.FREE) != self.num_free or self._owner[stack].any():
            raise PageOwnershipError("free stack and owner array disagree")

    def _expect(self, pages: SlotArray, owner: Owner) -> None:
        """Raise unless every page is `owner`'s and named once."""
        found = self._owner[pages]
        if (found != owner).any():
            index = int(np.argmax(found != owner))
            raise PageOwnershipError(
                f"slot {int(pages[index]) * self.page_size} belongs to "
                f"{Owner(int(found[index])).name}, not to {owner.name}"
            )
        order = np.arange(len(pages), dtype=np.int32)
        self._mark[pages] = order
        if (self._mark[pages] != order).any():
            raise PageOwnershipError(f"a page is named twice in {pages.tolist()[:16]}")
