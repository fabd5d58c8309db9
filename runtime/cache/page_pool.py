"""PagePool: who owns each slot of KV memory.

Pages hold one token each (page size 1), so a page and a slot are the same thing here. A slot
is owned by exactly one of: nobody (free), the radix tree, or a running request. Every move
between owners is checked against the owner array, so a slot can neither be freed twice nor
sit in two places; a wrong move raises and changes nothing.
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
    """Fixed number of slots with one owner each, handed out in a deterministic order.

    Freed slots are reused last in, first out; a fresh pool hands out 0, 1, 2, ...
    """

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"a pool needs at least one slot, not {num_slots}")
        self.num_slots = num_slots
        self._owner = np.zeros(num_slots, dtype=np.uint8)
        self._stack: SlotArray = np.arange(num_slots - 1, -1, -1, dtype=np.int32)
        self._num_free = num_slots
        self._mark = np.zeros(num_slots, dtype=np.int32)

    @property
    def num_free(self) -> int:
        """Slots that nobody owns."""
        return self._num_free

    def num_owned(self, owner: Owner) -> int:
        """Return how many slots `owner` holds (a count over the whole pool)."""
        return int(np.count_nonzero(self._owner == owner))

    def owners(self, slots: SlotArray) -> NDArray[np.uint8]:
        """Return the owner of each slot."""
        return self._owner[slots]

    def alloc(self, count: int) -> SlotArray | None:
        """Give `count` free slots to a request; None when there are not as many."""
        if count > self._num_free:
            return None
        slots = self._stack[self._num_free - count : self._num_free][::-1].copy()
        self._num_free -= count
        self._owner[slots] = Owner.REQUEST
        return slots

    def adopt(self, slots: SlotArray) -> None:
        """Move slots from a request to the tree.

        Raises:
            PageOwnershipError: a slot is not a request's, or is named twice.
        """
        self._expect(slots, Owner.REQUEST)
        self._owner[slots] = Owner.TREE

    def free(self, slots: SlotArray, *, owner: Owner) -> None:
        """Take slots back from `owner`.

        Raises:
            PageOwnershipError: a slot is not `owner`'s (a double free), or is named twice.
        """
        if owner is Owner.FREE:
            raise PageOwnershipError("free slots cannot be freed again")
        self._expect(slots, owner)
        self._owner[slots] = Owner.FREE
        self._stack[self._num_free : self._num_free + len(slots)] = slots[::-1]
        self._num_free += len(slots)

    def check(self) -> None:
        """Compare the free stack with the owner array.

        Raises:
            PageOwnershipError: they disagree.
        """
        stack = self._stack[: self._num_free]
        if len(np.unique(stack)) != self._num_free:
            raise PageOwnershipError("a slot is twice in the free stack")
        if self.num_owned(Owner.FREE) != self._num_free or self._owner[stack].any():
            raise PageOwnershipError("free stack and owner array disagree")

    def _expect(self, slots: SlotArray, owner: Owner) -> None:
        """Raise unless every slot is `owner`'s and named once."""
        found = self._owner[slots]
        if (found != owner).any():
            index = int(np.argmax(found != owner))
            raise PageOwnershipError(
                f"slot {int(slots[index])} belongs to {Owner(int(found[index])).name}, "
                f"not to {owner.name}"
            )
        order = np.arange(len(slots), dtype=np.int32)
        self._mark[slots] = order
        if (self._mark[slots] != order).any():
            raise PageOwnershipError(f"a slot is named twice in {slots.tolist()[:16]}")
