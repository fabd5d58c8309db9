"""RadixTree and PrefixCache: small cases by hand, and both against a naive model.

The naive model keeps one entry per cached token, named by the whole prefix that ends with it.
Locks and times are per token, and eviction removes one token at a time: the unlocked token
without a successor that was used longest ago.
"""

import random

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lmc.runtime.cache.page_pool import Owner, PageOwnershipError
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_tree import RadixTree, common_len


def ids(text):
    """Return a word as token ids."""
    return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32)


class Holder:
    """A request of the tests: its tokens, its row, and how much of it is computed."""

    def __init__(self, cache, tokens, limit=None):
        self.cache, self.tokens = cache, tokens
        self.row = np.full(len(tokens) + 1, -1, dtype=np.int32)
        self.handle, slots = cache.match_and_lock(tokens[:limit])
        self.row[: len(slots)] = slots
        self.done = self.handle.length

    def compute(self, count):
        """Take slots for the next tokens; False when there are none."""
        count = min(count, len(self.tokens) - self.done)
        slots = self.cache.alloc(count)
        if slots is None:
            return False
        self.row[self.done : self.done + count] = slots
        self.done += count
        return True

    def share(self):
        """Put what is computed into the tree."""
        self.handle = self.cache.insert(self.handle, self.tokens[: self.done], self.row)

    @property
    def own(self):
        """Slots that belong to the request."""
        return self.row[self.handle.length : self.done]

    def end(self):
        """Give everything back."""
        self.cache.free(self.own.copy())
        self.cache.release(self.handle)
        self.done = self.handle.length


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
    assert len(cache.tree._heap) <= len(nodes)


class Naive:
    """Cached tokens, each by the prefix that ends with it: [slot, time, locks]."""

    def __init__(self):
        self.entries, self.clock = {}, 0

    def path(self, tokens):
        """Return the cached prefixes of `tokens`, shortest first."""
        found = []
        for size in range(1, len(tokens) + 1):
            if tuple(tokens[:size]) not in self.entries:
                break
            found.append(tuple(tokens[:size]))
        return found

    def touch(self, prefixes):
        self.clock += 1
        for prefix in prefixes:
            self.entries[prefix][1] = self.clock

    def lock(self, prefix, by):
        for size in range(1, len(prefix) + 1):
            self.entries[prefix[:size]][2] += by

    def evict(self, count):
        """Remove tokens one by one; return their slots."""
        gone = []
        while len(gone) < count:
            inner = {prefix[:-1] for prefix in self.entries}
            free = [p for p, e in self.entries.items() if p not in inner and e[2] == 0]
            if not free:
                break
            oldest = min(free, key=lambda prefix: self.entries[prefix][1])
            gone.append(self.entries.pop(oldest)[0])
        return gone

    def evictable(self):
        return sum(entry[2] == 0 for entry in self.entries.values())


SLOTS = 14


class World:
    """A cache and its naive model, driven side by side; every step compares them."""

    def __init__(self):
        self.cache, self.naive = PrefixCache(SLOTS), Naive()
        self.live, self.pins = [], []

    def start(self, text, is_short):
        tokens = ids(text)
        limit = len(tokens) - 1 if is_short else len(tokens)
        holder = Holder(self.cache, tokens, limit)
        path = self.naive.path(tokens[:limit].tolist())
        assert holder.row[: holder.handle.length].tolist() == self.slots(path)
        self.naive.touch(path)
        self.naive.lock(path[-1] if path else (), 1)
        self.live.append(holder)

    def compute(self, holder, count):
        count = min(count, len(holder.tokens) - holder.done)
        missing = count - self.cache.pool.num_free
        can = missing <= self.naive.evictable()
        assert holder.compute(count) == can
        if can and missing > 0:
            assert len(self.naive.evict(missing)) == missing

    def share(self, holder):
        was, own = holder.handle.length, holder.row.copy()
        tokens = holder.tokens[: holder.done].tolist()
        holder.share()
        if was == holder.done:
            return
        for size in range(len(self.naive.path(tokens)) + 1, len(tokens) + 1):
            self.naive.entries[tuple(tokens[:size])] = [int(own[size - 1]), 0, 0]
        path = self.naive.path(tokens)
        self.naive.touch(path)
        self.naive.lock(tuple(tokens), 1)
        self.naive.lock(tuple(tokens[:was]), -1)
        assert holder.row[: holder.done].tolist() == self.slots(path)

    def end(self, holder):
        self.live.remove(holder)
        self.naive.lock(self.locked(holder), -1)
        holder.end()

    def pin(self, holder):
        self.live.remove(holder)
        self.cache.free(holder.own.copy())
        self.pins.append((self.cache.pin(holder.handle), self.locked(holder)))

    def unpin(self, index):
        number, prefix = self.pins.pop(index)
        self.naive.lock(prefix, -1)
        self.cache.unpin(number)

    def drop_pin(self):
        assert self.cache.drop_oldest_pin() == bool(self.pins)
        if self.pins:
            self.naive.lock(self.pins.pop(0)[1], -1)

    def look(self, text):
        assert self.cache.match_len(ids(text)) == len(self.naive.path(ids(text).tolist()))

    def flush(self):
        assert self.cache.flush() == len(self.naive.evict(SLOTS))

    def slots(self, path):
        return [self.naive.entries[prefix][0] for prefix in path]

    @staticmethod
    def locked(holder):
        return tuple(holder.tokens[: holder.handle.length].tolist())

    def check(self):
        self.cache.check([holder.own for holder in self.live])
        assert self.cache.tree.evictable_len == self.naive.evictable()
        assert len(self.cache.tree) == len(self.naive.entries)
        for node in self.cache.tree.nodes():
            assert (
                node.slots.tolist() == self.slots(self.naive.path(self.prefix(node)))[-len(node) :]
            )
        private = sum(len(holder.own) for holder in self.live)
        assert self.cache.pool.num_free + len(self.cache.tree) + private == SLOTS

    @staticmethod
    def prefix(node):
        parts = []
        while node is not None:
            parts.append(node.key)
            node = node.parent
        return np.concatenate(parts[::-1]).tolist()


def random_step(world, rng):
    """Do one random operation; requests end often enough for the pool to move."""
    holder = rng.choice(world.live) if world.live else None
    text = "".join(rng.choices("ab", k=rng.randint(1, 9)))
    operation = rng.choice(["start", *["go"] * 8, "end", "end", "pin", "unpin", "look", "rare"])
    if operation == "start" or holder is None:
        if len(world.live) < 5:
            world.start(text, rng.random() < 0.5)
    elif operation == "go":
        world.compute(holder, rng.randint(1, 6))
        if rng.random() < 0.7:
            world.share(holder)
    elif operation == "end":
        world.end(holder)
    elif operation == "pin" and len(world.pins) < 2:
        world.pin(holder)
    elif operation == "unpin" and world.pins:
        world.unpin(rng.randrange(len(world.pins)))
    elif operation == "look":
        world.look(text)
    elif operation == "rare" and rng.random() < 0.2:
        rng.choice([world.flush, world.drop_pin])()


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_random_operations_match_the_naive_model(seed):
    world, rng = World(), random.Random(seed)
    for _ in range(2500):
        random_step(world, rng)
        world.check()


@pytest.mark.long
def test_a_million_random_operations_match_the_naive_model():
    for seed in range(100, 200):
        world, rng = World(), random.Random(seed)
        for _ in range(10_000):
            random_step(world, rng)
            world.check()


class CacheMachine(RuleBasedStateMachine):
    """The same operations, chosen by hypothesis, which shrinks what fails."""

    @initialize()
    def begin(self):
        self.world = World()

    @rule(text=st.text("ab", min_size=1, max_size=9), is_short=st.booleans())
    def start(self, text, is_short):
        self.world.start(text, is_short)

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9), count=st.integers(1, 6), is_shared=st.booleans())
    def go(self, index, count, is_shared):
        holder = self.world.live[index % len(self.world.live)]
        self.world.compute(holder, count)
        if is_shared:
            self.world.share(holder)

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9))
    def end(self, index):
        self.world.end(self.world.live[index % len(self.world.live)])

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9))
    def pin(self, index):
        self.world.pin(self.world.live[index % len(self.world.live)])

    @precondition(lambda self: self.world.pins)
    @rule(index=st.integers(0, 9))
    def unpin(self, index):
        self.world.unpin(index % len(self.world.pins))

    @rule()
    def drop_pin(self):
        self.world.drop_pin()

    @rule(text=st.text("ab", max_size=9))
    def look(self, text):
        self.world.look(text)

    @rule()
    def flush(self):
        self.world.flush()

    @invariant()
    def owners_are_right(self):
        self.world.check()


CacheMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, derandomize=True
)
TestCacheMachine = CacheMachine.TestCase
