"""RadixTree and PrefixCache: small cases by hand (test_cache_model.py has the random ones)."""

import numpy as np
import pytest
from cache_world import Holder

from lmc.runtime.cache.page_pool import Owner, PageOwnershipError
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import common_len
from lmc.runtime.cache.radix_tree import RadixTree


def ids(text):
    """Return a word as token ids."""
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)


def fill(cache, text):
    """Compute a word, put it into the tree and let go of it."""
    holder = Holder(cache, ids(text))
    assert holder.compute(len(text))
    holder.share()
    holder.end()
    return holder


def test_common_len():
    assert common_len(ids("abcd"), ids("abxd")) == 2
    assert common_len(ids("abc"), ids("abcde")) == 3
    assert common_len(ids(""), ids("abc")) == 0
    assert common_len(ids("x"), ids("y")) == 0


def test_match_finds_the_longest_prefix_and_its_slots():
    cache = PrefixCache(32)
    first = fill(cache, "abcdef")
    fill(cache, "abcxyz")
    assert cache.match_len(ids("abcdzz")) == 4
    assert cache.match_len(ids("abcxyzzz")) == 6
    assert cache.match_len(ids("b")) == 0
    handle, slots = cache.match_and_lock(ids("abcdzz"))
    assert handle.length == 4
    assert slots.tolist() == first.row[:4].tolist()
    cache.release(handle)
    cache.check()


def test_insert_frees_duplicates_and_rewrites_the_row():
    cache = PrefixCache(32)
    one, two = Holder(cache, ids("abcdef")), Holder(cache, ids("abcxyz"))
    assert one.compute(6)
    assert two.compute(6)
    assert cache.pool.num_free == 20
    one.share()
    two.share()
    assert two.row[:3].tolist() == one.row[:3].tolist()
    assert cache.pool.num_free == 23, "the three duplicates came back"
    assert cache.pool.num_owned(Owner.REQUEST) == 0
    cache.check()
    one.end()
    two.end()
    assert cache.available == 32


def test_inserting_the_same_again_changes_nothing():
    cache = PrefixCache(16)
    fill(cache, "hello")
    version, before = cache.version, len(cache.tree)
    again = Holder(cache, ids("hello"), limit=4)
    assert again.compute(1)
    again.share()
    again.end()
    assert (cache.version, len(cache.tree)) == (version, before)
    cache.check()


def test_a_locked_path_survives_eviction():
    cache = PrefixCache(8)
    fill(cache, "abcd")
    holder = Holder(cache, ids("ab"))
    fill(cache, "xyzw")
    assert cache.alloc(7) is None, "the locked prefix may not go"
    assert cache.alloc(6) is not None
    assert cache.match_len(ids("abcd")) == 2
    holder.end()


def test_eviction_takes_the_oldest_leaf_and_trims_its_end():
    cache = PrefixCache(12)
    fill(cache, "abcdef")
    fill(cache, "uvwxyz")
    Holder(cache, ids("abcdef")).end()  # used just now: the other one is the oldest
    cache.pool.free(cache.tree.evict(2), owner=Owner.TREE)
    assert cache.match_len(ids("uvwxyz")) == 4
    assert cache.match_len(ids("abcdef")) == 6
    cache.pool.free(cache.tree.evict(5), owner=Owner.TREE)
    assert cache.match_len(ids("uvwxyz")) == 0
    assert cache.match_len(ids("abcdef")) == 5
    cache.check()


def test_split_while_locked_keeps_the_handle_valid():
    cache = PrefixCache(32)
    long = Holder(cache, ids("abcdef"))
    assert long.compute(6)
    long.share()
    short = Holder(cache, ids("abc"))
    cache.check()
    short.end()
    cache.check()
    assert cache.tree.protected_len == 6
    long.end()
    assert cache.tree.protected_len == 0
    assert cache.tree.evictable_len == 6


def test_a_handle_cannot_be_used_twice():
    cache = PrefixCache(8)
    handle, _ = cache.match_and_lock(ids("a"))
    cache.release(handle)
    with pytest.raises(PageOwnershipError, match="after its release"):
        cache.release(handle)
    with pytest.raises(RuntimeError, match="without a lock"):
        RadixTree().unlock(RadixTree().root)


def test_lasting_pins_are_dropped_last():
    cache = PrefixCache(8)
    for text, is_lasting in (("ab", True), ("cd", False), ("ef", False)):
        holder = Holder(cache, ids(text))
        assert holder.compute(2)
        holder.share()
        cache.pin(holder.handle, is_lasting=is_lasting)
    left = []
    while cache.drop_oldest_pin():
        cache.flush()
        left.append([text for text in ("ab", "cd", "ef") if cache.match_len(ids(text))])
    assert left == [["ab", "ef"], ["ab"], []]


def test_pins_hold_until_given_back_or_dropped():
    cache = PrefixCache(8)
    holder = Holder(cache, ids("abcd"))
    assert holder.compute(4)
    holder.share()
    pin = cache.pin(holder.handle)
    assert cache.alloc(5) is None
    assert cache.flush() == 0
    assert cache.drop_oldest_pin()
    assert not cache.drop_oldest_pin()
    cache.unpin(pin)  # dropped before: nothing happens
    assert cache.flush() == 4
    assert cache.available == 8


def test_nodes_stay_in_proportion_to_the_cached_tokens():
    cache, rng = PrefixCache(256), np.random.default_rng(1)
    for _ in range(3000):
        holder = Holder(cache, rng.integers(0, 5, size=20, dtype=np.int32))
        assert holder.compute(20)
        holder.share()
        holder.end()
    cache.check()
    nodes = list(cache.tree.nodes())
    assert len(nodes) <= len(cache.tree) <= 256
    assert len(cache.tree.evictions.spare) <= len(nodes)


def test_with_pages_only_whole_ones_are_shared():
    cache = PrefixCache(32, page_size=4)
    first = fill(cache, "abcdefghij")
    assert cache.match_len(ids("abcdefghij")) == 8
    assert cache.match_len(ids("abcdefg")) == 4
    assert cache.match_len(ids("abcxefgh")) == 0
    other = Holder(cache, ids("abcdefxxyy"))
    assert other.handle.length == 4
    assert other.row[:4].tolist() == first.row[:4].tolist()
    assert other.compute(3)
    assert cache.pool.num_owned(Owner.REQUEST) == 4
    assert other.compute(1)
    assert cache.pool.num_owned(Owner.REQUEST) == 4, "the page had a slot left"
    other.share()
    assert other.handle.length == 8
    other.end()
    cache.check()
    assert cache.pool.num_free == 32 - 12


def test_eviction_drops_whole_pages():
    cache = PrefixCache(16, page_size=4)
    fill(cache, "abcdefghijkl")
    assert cache.alloc(5) is not None
    assert cache.match_len(ids("abcdefghijkl")) == 8


def test_slots_that_make_no_page_are_left_out():
    assert PrefixCache(19, page_size=4).num_slots == 16
    with pytest.raises(ValueError, match="at least one page of 4"):
        PrefixCache(3, page_size=4)


def test_held_leaves_go_by_rank_and_what_is_needed_first_last():
    cache = PrefixCache(12)
    ranks = {"aa": (2, 0), "bb": (0, 1), "cc": (1, 5)}
    for text, rank in ranks.items():
        fill(cache, text)
        cache.tree.hold(cache.find(ids(text)), rank)
    fill(cache, "dd")
    gone = []
    for _ in range(4):
        cache.pool.free(cache.tree.evict(2), owner=Owner.TREE)
        cache.check()
        left = [text for text in (*ranks, "dd") if cache.match_len(ids(text))]
        gone.append("".join(left))
    assert gone == ["aabbcc", "bbcc", "bb", ""]


def test_what_is_used_again_is_no_longer_dead_even_if_nothing_was_used_meanwhile():
    cache = PrefixCache(8)
    fill(cache, "aa")
    fill(cache, "bb")
    cache.mark_dead(cache.find(ids("bb")), 2, 0)
    handle, _ = cache.match_and_lock(ids("bb"))
    cache.release(handle)
    cache.tree.evict(2)
    assert cache.match_len(ids("bb")) == 2
    assert cache.match_len(ids("aa")) == 0
