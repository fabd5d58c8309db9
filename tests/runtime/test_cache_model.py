"""Radix tree, page pool and prefix cache against the naive model of cache_world.py."""

import random
from collections import Counter

import pytest
from cache_world import NAMESPACES, World, run
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

SIZES = (1, 4, 16)
COUNTS = {1: 40_000, 4: 30_000, 16: 30_000}
"""Operations by page size: 100,000 in all."""


@pytest.mark.parametrize("page_size", SIZES)
def test_a_hundred_thousand_operations_match_the_naive_model(page_size):
    total = Counter()
    for seed in range(10):
        rng = random.Random(1000 * page_size + seed)
        total += run(World(page_size), rng, COUNTS[page_size] // 10, every=50)
    assert total.total() == COUNTS[page_size]
    assert min(total.values()) > 100, total


@pytest.mark.parametrize("page_size", SIZES)
def test_everything_holds_after_every_single_operation(page_size):
    counts = run(World(page_size, debug=True), random.Random(page_size), 600, every=1)
    assert sum(counts.values()) == 600


@pytest.mark.long
@pytest.mark.parametrize("page_size", SIZES)
def test_a_million_operations_match_the_naive_model(page_size):
    for seed in range(35):
        rng = random.Random(f"{page_size} {seed}")
        run(World(page_size, debug=seed == 0), rng, 10_000, every=8)


class CacheMachine(RuleBasedStateMachine):
    """The same operations, chosen by hypothesis, which shrinks what fails."""

    @initialize(page_size=st.sampled_from(SIZES))
    def begin(self, page_size):
        self.world = World(page_size, debug=True)

    namespaces = st.sampled_from(NAMESPACES)
    letters = st.text("abc", max_size=8)

    def holder(self, index):
        return self.world.live[index % len(self.world.live)]

    @rule(namespace=namespaces, letters=letters, tail=st.integers(0, 15), is_short=st.booleans())
    def start(self, namespace, letters, tail, is_short):
        tokens = self.world.tokens(letters, tail)
        if tokens:
            self.world.start(namespace, tokens, is_short)

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9), count=st.integers(1, 40), is_shared=st.booleans())
    def go(self, index, count, is_shared):
        holder = self.holder(index)
        self.world.compute(holder, count)
        if is_shared:
            self.world.share(holder)

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9))
    def end(self, index):
        self.world.end(self.holder(index))

    @precondition(lambda self: self.world.live)
    @rule(index=st.integers(0, 9), is_lasting=st.booleans())
    def pin(self, index, is_lasting):
        self.world.pin(self.holder(index), is_lasting)

    @precondition(lambda self: self.world.pins)
    @rule(index=st.integers(0, 9))
    def unpin(self, index):
        self.world.unpin(index % len(self.world.pins))

    @rule()
    def drop_pin(self):
        self.world.drop_pin()

    @rule(namespace=namespaces, letters=letters, rank=st.tuples(*[st.integers(0, 2)] * 2))
    def hold(self, namespace, letters, rank):
        self.world.hold(namespace, self.world.tokens(letters), rank)

    @precondition(lambda self: self.world.wishes)
    @rule(index=st.integers(0, 9))
    def unhold(self, index):
        self.world.unhold(index % len(self.world.wishes))

    @precondition(lambda self: self.world.wishes)
    @rule(index=st.integers(0, 9), rank=st.tuples(*[st.integers(0, 2)] * 2))
    def rerank(self, index, rank):
        self.world.rerank(index % len(self.world.wishes), rank)

    @rule(namespace=namespaces, letters=letters, tail=st.integers(0, 15))
    def look(self, namespace, letters, tail):
        self.world.look(namespace, self.world.tokens(letters, tail))

    @rule(count=st.integers(1, 14))
    def take_and_free(self, count):
        self.world.take_and_free(count)

    @rule()
    def flush(self):
        self.world.flush()

    @invariant()
    def all_is_right(self):
        self.world.check()


CacheMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, derandomize=True
)
TestCacheMachine = CacheMachine.TestCase
