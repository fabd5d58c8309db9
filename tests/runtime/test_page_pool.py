"""PagePool: one owner per slot, and no way around it."""

import numpy as np
import pytest

from lmc.runtime.cache.page_pool import Owner, PageOwnershipError, PagePool


def slots(*numbers):
    return np.array(numbers, dtype=np.int32)


def test_slots_come_in_order_and_are_reused_last_in_first_out():
    pool = PagePool(6)
    assert pool.alloc(3).tolist() == [0, 1, 2]
    assert pool.alloc(2).tolist() == [3, 4]
    pool.free(slots(1, 3), owner=Owner.REQUEST)
    assert pool.alloc(3).tolist() == [1, 3, 5]
    assert pool.alloc(1) is None
    assert pool.num_free == 0


def test_a_failed_alloc_takes_nothing():
    pool = PagePool(4)
    assert pool.alloc(5) is None
    assert pool.num_free == 4
    pool.check()


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda pool: pool.free(slots(0), owner=Owner.REQUEST), "slot 0 belongs to FREE"),
        (lambda pool: pool.free(slots(2, 2), owner=Owner.REQUEST), "twice"),
        (lambda pool: pool.free(slots(1), owner=Owner.REQUEST), "slot 1 belongs to TREE"),
        (lambda pool: pool.free(slots(2), owner=Owner.TREE), "slot 2 belongs to REQUEST"),
        (lambda pool: pool.free(slots(0), owner=Owner.FREE), "cannot be freed again"),
        (lambda pool: pool.adopt(slots(0)), "slot 0 belongs to FREE"),
        (lambda pool: pool.adopt(slots(3, 1)), "slot 1 belongs to TREE"),
        (lambda pool: pool.adopt(slots(3, 3)), "twice"),
    ],
)
def test_wrong_moves_raise_and_change_nothing(action, words):
    pool = PagePool(5)
    pool.alloc(4)
    pool.free(slots(0), owner=Owner.REQUEST)
    pool.adopt(slots(1))
    before = pool.owners(np.arange(5, dtype=np.int32)).tolist()
    with pytest.raises(PageOwnershipError, match=words):
        action(pool)
    assert pool.owners(np.arange(5, dtype=np.int32)).tolist() == before
    assert pool.num_free == 2
    pool.check()


def test_counts_by_owner_always_add_up():
    pool, rng = PagePool(50), np.random.default_rng(0)
    mine: list[int] = []
    tree: list[int] = []
    for _ in range(2000):
        choice = rng.integers(4)
        if choice == 0:
            got = pool.alloc(int(rng.integers(1, 6)))
            mine += [] if got is None else got.tolist()
        elif choice == 1 and mine:
            pool.free(slots(mine.pop(int(rng.integers(len(mine))))), owner=Owner.REQUEST)
        elif choice == 2 and mine:
            tree.append(mine.pop())
            pool.adopt(slots(tree[-1]))
        elif tree:
            pool.free(slots(tree.pop(0)), owner=Owner.TREE)
        assert pool.num_owned(Owner.REQUEST) == len(mine)
        assert pool.num_owned(Owner.TREE) == len(tree)
        assert pool.num_free == 50 - len(mine) - len(tree)
    pool.check()


def test_a_pool_needs_a_slot():
    with pytest.raises(ValueError, match="at least one"):
        PagePool(0)


def test_pages_are_handed_out_whole_and_come_back_by_their_first_slots():
    pool = PagePool(19, page_size=4)
    assert pool.num_slots == pool.num_free == 16
    assert pool.alloc(5).tolist() == [*range(8)]
    pool.free(slots(4, 5), owner=Owner.REQUEST)
    assert (pool.num_free, pool.num_owned(Owner.REQUEST)) == (12, 4)
    assert pool.alloc(1).tolist() == [4, 5, 6, 7]
    pool.check()


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda pool: pool.free(slots(1, 2, 3), owner=Owner.REQUEST), "no pages in order"),
        (lambda pool: pool.free(slots(0, 1, 2, 3, 8), owner=Owner.REQUEST), "slot 8 belongs"),
        (lambda pool: pool.free(slots(0, 1, 2, 3, 0), owner=Owner.REQUEST), "twice"),
        (lambda pool: pool.free(slots(0, 1, 3, 2), owner=Owner.REQUEST), "no pages in order"),
        (lambda pool: pool.adopt(slots(0, 1)), "whole pages only"),
    ],
)
def test_wrong_pages_are_refused(action, words):
    pool = PagePool(16, page_size=4)
    pool.alloc(8)
    with pytest.raises(PageOwnershipError, match=words):
        action(pool)
    assert pool.num_free == 8
    pool.check()
