"""The engine's switches: they change what is computed and in which order, never a result."""

import itertools
import random
import threading

import pytest

from lmc.errors import UsageError
from lmc.ir.calls import Constraint

POLICIES = [
    {"cache": cache, "order": order, "eviction": eviction}
    for cache, order, eviction in itertools.product(
        ("radix", "none"), ("plan", "arrival", "random"), ("plan", "recency")
    )
]


def mixed_calls(fakes, count=40, *, seed=3):
    """Return generations and scores over contexts that share beginnings."""
    rng = random.Random(seed)
    stems = [[rng.randrange(3, 40) for _ in range(90)] for _ in range(4)]
    calls = []
    for index in range(count):
        context = [*rng.choice(stems)[: rng.randint(5, 90)], rng.randrange(3, 40)]
        if index % 5 == 4:
            options = [[rng.randrange(3, 40) for _ in range(3)] for _ in range(3)]
            calls.append(fakes.score(context, options))
        elif index % 5 == 3:
            calls.append(fakes.gen(context, constraint=Constraint("regex", "(the|he)[a-z]{3}")))
        else:
            calls.append(fakes.gen(context, temperature=0.7 * (index % 2), key=index))
    return calls


@pytest.mark.parametrize("slots", [110, 4096])
def test_results_are_bit_equal_under_every_policy(fakes, slots):
    calls = mixed_calls(fakes)
    outcomes = []
    for policy in POLICIES:
        with fakes.make_engine(num_slots=slots, token_budget=48, **policy) as engine:
            outcomes.append(fakes.run_all(engine, calls))
            engine.check()
    assert all(outcome == outcomes[0] for outcome in outcomes[1:])


def computed(fakes, calls, **options):
    with fakes.make_engine(**options) as engine:
        fakes.run_all(engine, calls)
        stats = engine.stats()
        engine.check()
    return stats


def test_without_a_cache_every_call_computes_its_context(fakes):
    calls = [fakes.gen([*range(3, 40), key], key=key, max_tokens=1) for key in range(3, 13)]
    plain = computed(fakes, calls, cache="none")
    shared = computed(fakes, calls, cache="radix")
    assert (plain.cached_tokens, plain.forward_tokens) == (0, 10 * 38)
    assert shared.forward_tokens == 37 + 10


def served(fakes, order):
    """Return the first tokens of contexts in the order in which one at a time they start."""
    firsts, is_busy, all_are_in = [], threading.Event(), threading.Event()

    def note(batch):
        is_busy.set()
        assert all_are_in.wait(30)
        if batch.positions[0] == 0:
            firsts.append(int(batch.token_ids[0]))

    model = fakes.FakeModel(before_forward=note)
    calls = [fakes.gen([token, 3, 3, 3], max_tokens=1) for token in range(10, 40)]
    blocker = fakes.gen([5] * 40, max_tokens=3)
    with fakes.make_engine(model, order=order, max_running=1) as engine:
        waiters = [fakes.Waiter() for _ in range(31)]
        for call, waiter in zip([blocker, *calls], waiters, strict=True):
            engine.submit_gen(call, waiter)
            assert is_busy.wait(30)
        all_are_in.set()
        for waiter in waiters:
            waiter.result()
    return firsts[1:]


def test_arrival_is_first_come_first_served_and_random_is_not_but_repeats(fakes):
    assert served(fakes, "arrival") == list(range(10, 40))
    shuffled = served(fakes, "random")
    assert sorted(shuffled) == list(range(10, 40))
    assert shuffled != list(range(10, 40))
    assert shuffled == served(fakes, "random")


@pytest.mark.parametrize(
    "wrong", [{"cache": "tree"}, {"order": "fifo"}, {"eviction": ""}, {"order": None}]
)
def test_an_unknown_choice_is_refused_and_told(fakes, wrong):
    with pytest.raises(UsageError, match=rf"{next(iter(wrong))}=.* is no choice"):
        fakes.make_engine(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(
            ({name: value}, rf"{name}=.* is no count")
            for name in ("num_slots", "token_budget", "max_running", "page_size", "threads")
            for value in (0, -5, "x", 1.5, True)
        ),
        ({"cache_events": -1}, "cache_events=-1 is no count"),
        ({"constraint_seconds": 0}, "constraint_seconds=0 is no time"),
        ({"constraint_seconds": "1"}, "constraint_seconds='1' is no time"),
        ({"constraint_seconds": float("nan")}, "constraint_seconds=nan is no time"),
        ({"num_slots": 10, "page_size": 16}, "num_slots=10 holds no page of page_size=16"),
    ],
)
def test_sizes_that_hold_nothing_are_refused(fakes, wrong, message):
    with pytest.raises(UsageError, match=message) as caught:
        fakes.make_engine(**wrong)
    assert caught.value.hint
