"""Namespaces of an engine's cache: nothing is shared between them, by calls, prefixes or runs."""

import gc
import threading

import pytest

import lmc
from lmc.errors import UsageError
from lmc.runtime.executor.prologues import prologues_of


def cached(fakes, backend, tokens):
    """Ask for one token after a context; return how much of it was cached."""
    waiter = fakes.Waiter()
    backend.submit_gen(fakes.gen(tokens, max_tokens=1), waiter)
    return waiter.result().usage.cached_tokens


def test_equal_contexts_share_within_a_namespace_only(fakes):
    with fakes.make_engine() as engine:
        backends = [engine, engine.in_namespace("a"), engine.in_namespace("b")]
        tokens = list(range(5, 45))
        assert [cached(fakes, backend, tokens) for backend in backends] == [0, 0, 0]
        assert [cached(fakes, backend, tokens) for backend in backends] == [39, 39, 39]
        engine.check()


def test_scores_and_prefixes_stay_in_their_namespace(fakes):
    with fakes.make_engine() as engine:
        one, other = engine.in_namespace("a"), engine.in_namespace("b")
        pinned = fakes.Waiter()
        one.submit_prefill(tuple(range(5, 45)), pinned)
        assert pinned.result().computed_tokens == 40
        usages = []
        for backend in (other, one):
            scored = fakes.Waiter()
            backend.submit_score(fakes.score(range(5, 45), [[7, 8], [9]]), scored)
            usages.append(scored.result().usage.cached_tokens)
        assert usages[0] < usages[1]
        engine.check()


@lmc.function
def asks(s):
    s += "the constant beginning that both have: "
    s += lmc.gen("a", max_tokens=3)


def test_runs_of_two_namespaces_share_nothing_and_say_the_same(fakes):
    with fakes.make_engine() as engine:
        results = []
        for name in ("a", "b", "a"):
            results.append(asks.run(backend=engine.in_namespace(name), seed=1))
            gc.collect()
        assert len({result["a"] for result in results}) == 1
        first, second, again = (result.usage for result in results)
        assert first.cached_tokens == second.cached_tokens == 0
        assert again.cached_tokens == again.prompt_tokens - 1


def test_the_pins_of_a_namespace_go_with_it(fakes):
    with fakes.make_engine() as engine:
        tenant = engine.in_namespace("a")
        assert engine.in_namespace("a") is tenant
        is_ready = threading.Event()
        prologues_of(tenant).ensure(tenant, tuple(range(5, 25)), lambda _: is_ready.set())
        assert is_ready.wait(30)
        assert engine.flush_cache() == 0
        assert engine._ask(lambda: engine._core.cache.num_pins) == 1
        del tenant
        gc.collect()
        assert engine._ask(lambda: engine._core.cache.num_pins) == 0
        engine.flush_cache()
        assert engine._ask(lambda: len(engine._core.cache.tree)) == 0


@pytest.mark.parametrize("name", [7, None, b"a", "x" * 257])
def test_a_wrong_name_is_refused(fakes, name):
    with fakes.make_engine() as engine:
        with pytest.raises(UsageError, match="a namespace is a text"):
            engine.in_namespace(name)
        with pytest.raises(UsageError, match="a namespace is a text"):
            engine.submit_gen(fakes.gen([5]), fakes.Waiter(), namespace=name)
        assert cached(fakes, engine, [5, 6]) == 0
