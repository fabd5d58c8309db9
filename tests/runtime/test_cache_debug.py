"""Shadow tokens find a slot that is used wrongly; events rebuild what is cached; counts add up."""

import random

import numpy as np
import pytest
from cache_world import Driver, Holder, World

from lmc.runtime.cache.events import path_hash
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.shadow import ShadowError


def ids(*tokens):
    return np.array(tokens, dtype=np.int32)


def computed(cache, *tokens, namespace=""):
    """Compute tokens and share them; return the holder."""
    holder = Holder(cache, ids(*tokens), namespace=namespace)
    assert holder.compute(len(tokens))
    holder.share()
    return holder


# -- shadow tokens -------------------------------------------------------------------------


def test_a_slot_that_holds_another_token_is_found_when_it_is_matched():
    cache = PrefixCache(16, is_debug=True)
    computed(cache, 1, 2, 3).end()
    node = cache.find(ids(1, 2, 3))
    node.slots[1], node.slots[2] = node.slots[2], node.slots[1]
    with pytest.raises(ShadowError, match="stands for token 2 of a path and holds 3"):
        cache.match_and_lock(ids(1, 2, 3))
    with pytest.raises(ShadowError):
        cache.check()


def test_the_same_token_behind_other_tokens_is_found():
    cache = PrefixCache(16, is_debug=True)
    one, other = computed(cache, 1, 7), computed(cache, 2, 7)
    node = cache.find(ids(1, 7))
    node.slots[1] = other.row[1]
    with pytest.raises(ShadowError, match="or the same behind other tokens"):
        cache.match_and_lock(ids(1, 7))
    assert one.row[1] != other.row[1]


def test_another_namespace_is_another_path():
    cache = PrefixCache(16, is_debug=True)
    computed(cache, 1, 2)
    other = computed(cache, 1, 2, namespace="a")
    cache.find(ids(1, 2)).slots[:] = other.row[:2]
    with pytest.raises(ShadowError):
        cache.match_and_lock(ids(1, 2))


def test_a_row_that_was_freed_is_not_computed_upon():
    cache = PrefixCache(16, is_debug=True)
    holder = Holder(cache, ids(1, 2, 3))
    assert holder.compute(2)
    cache.free(holder.own.copy())
    with pytest.raises(ShadowError):
        holder.compute(1)


def test_an_engine_in_debug_mode_answers_alike_and_stops_at_a_wrong_slot(fakes, monkeypatch):
    calls = [fakes.gen(range(5, 25 + n), max_tokens=6, key=n) for n in range(6)]
    with fakes.make_engine() as engine:
        expected = fakes.run_all(engine, calls)
    with fakes.make_engine(debug=True, num_slots=90, page_size=4) as engine:
        assert fakes.run_all(engine, calls) == expected
        engine._ask(lambda: engine._core.cache.shadow.forget(ids(0, 1, 2, 3)))
        waiter = fakes.Waiter()
        engine.submit_gen(calls[0], waiter)
        assert "the engine stopped" in str(waiter.outcome())
    monkeypatch.setenv("LMC_DEBUG", "1")
    with fakes.make_engine() as engine:
        assert engine._core.cache.shadow is not None


# -- events --------------------------------------------------------------------------------


class Follower:
    """Rebuilds what is cached from events alone: paths of whole pages by their hashes."""

    def __init__(self, page_size):
        self.page_size = page_size
        self.paths, self.number = {path_hash(name, ids()): () for name in ("", "a", "b")}, 0

    def apply(self, event):
        self.number += 1
        assert event.number == self.number
        tokens = self.paths[event.parent_hash]
        assert len(tokens) == event.start
        for at in range(0, event.num_tokens, self.page_size):
            tokens += event.token_ids[at : at + self.page_size]
            name = path_hash(event.namespace, ids(*tokens))
            if event.kind == "stored":
                assert name not in self.paths
                self.paths[name] = tokens
            else:
                assert self.paths.pop(name) == tokens
        assert name == event.hash


class ToldWorld(World):
    """A world with events."""

    def make_cache(self, *, debug):
        return PrefixCache(self.num_slots, page_size=self.size, max_events=1000)


@pytest.mark.parametrize("page_size", [1, 4])
def test_events_rebuild_what_is_cached(page_size):
    world, follower = ToldWorld(page_size), Follower(page_size)
    driver = Driver(world, random.Random(page_size))
    kinds = set()
    for _ in range(1500):
        driver.step()
        for event in world.cache.events.take():
            follower.apply(event)
            kinds.add(event.kind)
        assert page_size * (len(follower.paths) - 3) == len(world.cache.tree)
    ends = {path_hash(name, ids(*tokens)) for name, tokens in world.naive.pages}
    assert ends <= follower.paths.keys()
    assert kinds == {"stored", "evicted", "flushed"}


def test_events_that_nobody_takes_leave_a_gap():
    cache = PrefixCache(64, max_events=2)
    for first in range(5):
        computed(cache, first, 7).end()
    assert [event.number for event in cache.events.take()] == [4, 5]
    assert cache.events.take() == []


def test_engines_tell_events_and_counts(fakes):
    with fakes.make_engine(cache_events=100) as engine:
        tenant = engine.in_namespace("a")
        for backend in (engine, tenant, tenant):
            waiter = fakes.Waiter()
            backend.submit_gen(fakes.gen(range(5, 25), max_tokens=1), waiter)
            waiter.result()
        events = engine.take_cache_events()
        assert [(e.kind, e.namespace, e.num_tokens) for e in events] == [
            ("stored", "", 20),
            ("stored", "a", 20),
        ]
        stats = engine.cache_stats()
        assert (stats.starts, stats.hit_tokens, stats.missed_tokens) == (3, 19, 38)
        assert (stats.cached, stats.nodes, stats.namespaces) == (40, 3, {"": 20, "a": 20})
        assert (stats.free, stats.private, stats.locked, stats.pins) == (4096 - 40, 0, 0, 0)
        assert engine.flush_cache() == 40
        assert {e.kind for e in engine.take_cache_events()} == {"flushed"}
        assert engine.cache_stats().flushed_tokens == 40
        assert engine.cache_stats().stored_tokens == 40


def test_an_engine_without_events_has_none(fakes):
    with fakes.make_engine() as engine:
        assert engine.take_cache_events() == []


def test_counts_of_a_cache_add_up():
    world = World(4)
    driver = Driver(world, random.Random(5))
    for _ in range(800):
        driver.step()
        stats = world.cache.stats()
        assert stats.free + stats.cached + stats.private == stats.num_slots
        gone = stats.evicted_tokens + stats.flushed_tokens
        assert stats.stored_tokens - gone == stats.cached == sum(stats.namespaces.values())
        assert stats.nodes == len(list(world.cache.tree.nodes()))
        assert stats.pins == len(world.pins)
