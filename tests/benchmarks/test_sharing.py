"""Tokens computed on workloads of real text, against what any schedule has to compute.

The model's answers are decided beforehand (benchmarks/sharing/replay.py); contexts, cache and
scheduler are the real ones, the tokenizer is SmolLM2's.
"""

import time

import pytest
from sharing.measure import offline, pool_of, run_workload
from sharing.offline import schedule_cost
from sharing.workloads import MAKERS, DataMissing, conversations, hotpot

from lmc.backends import open_target
from lmc.runtime.executor.executor import PlanRunner

LARGE = 400_000
QUICK = {"gsm8k": 0.2, "mmlu": 0.2, "judge": 0.2, "tree": 0.1, "react": 0.15, "branches": 0.15,
         "agents": 0.2, "chat": 0.2}  # fmt: skip
HALF = [("judge", 0.3), ("judge", 1.0), ("mmlu", 0.2), ("mmlu", 0.4), ("chat", 0.4)]
"""Workloads that plain eviction serves badly, large enough for half their trie to be a pool."""

NEAR = 1.05
"""How near to the offline optimum a run comes with half the memory."""

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def target():
    """SmolLM2's tokenizer and template, without weights."""
    return open_target(None)


def made(name, size):
    """Return a workload; skip where its data is missing."""
    try:
        return MAKERS[name](size)
    except DataMissing as missing:
        pytest.skip(str(missing))


def check_large_pool(workload, target, mode):
    run = run_workload(workload, target, num_slots=LARGE, mode=mode)
    assert len(run.calls) >= len(workload.batch)
    assert run.least <= run.computed <= run.least + run.allowance
    return run


@pytest.mark.parametrize("name", MAKERS)
def test_with_room_for_all_a_token_is_computed_once(target, name):
    check_large_pool(made(name, QUICK[name]), target, "compiled")


@pytest.mark.long
@pytest.mark.parametrize("mode", ["compiled", "eager"])
@pytest.mark.parametrize("name", MAKERS)
def test_with_room_for_all_a_token_is_computed_once_whole(target, name, mode):
    check_large_pool(made(name, 1.0), target, mode)


def check_half_pool(workload, target):
    large = check_large_pool(workload, target, "compiled")
    pool = pool_of(large)
    assert pool == large.trie // 2, "the workload is too small to halve its memory"
    best = offline(large.offline_calls(), pool).best
    assert large.least <= best <= large.least + len(large.calls), "the optimum is known"
    half = run_workload(workload, target, num_slots=pool)
    assert half.values == large.values
    assert half.computed <= NEAR * best
    return half.computed / best


@pytest.mark.parametrize(("name", "size"), HALF)
def test_with_room_for_half_little_is_computed_again(target, name, size):
    check_half_pool(made(name, size), target)


def test_how_fast_a_batch_is_started_changes_little(target, monkeypatch):
    """The calls of a batch are handed over together, so that slow starts cost no sharing."""
    workload = made("mmlu", 0.2)
    large = check_large_pool(workload, target, "compiled")
    starter = PlanRunner.starter

    def slow(self, args, instance):
        start = starter(self, args, instance)
        time.sleep(0.01)
        return start

    monkeypatch.setattr(PlanRunner, "starter", slow)
    half = run_workload(workload, target, num_slots=pool_of(large))
    assert half.values == large.values
    assert half.computed <= NEAR * large.least


@pytest.mark.long
@pytest.mark.parametrize("name", MAKERS)
def test_with_room_for_half_little_is_computed_again_whole(target, name):
    check_half_pool(made(name, 1.0), target)


def test_plain_lru_in_order_of_arrival_computes_more(target):
    workload = made("judge", 1.0)
    large = run_workload(workload, target, num_slots=LARGE)
    plain = {"order": "arrival", "eviction": "recency"}
    run = run_workload(workload, target, num_slots=pool_of(large), **plain)
    assert run.computed > 1.2 * large.least


def test_without_a_cache_the_bound_is_broken(target):
    """The measure can fail: prompts that share their head are computed again each time."""
    run = run_workload(made("mmlu", QUICK["mmlu"]), target, num_slots=LARGE, cache="none")
    again = sum(len(call.call.context) + len(call.made) for call in run.calls)
    assert run.least + run.allowance < run.computed
    assert again <= run.computed


def test_the_record_is_what_is_answered(target):
    workload = made("react", QUICK["react"])
    run = run_workload(workload, target, num_slots=LARGE)
    recorded = hotpot(QUICK["react"])
    for given, actions in zip(workload.batch, run.values, strict=True):
        tail = f"{recorded.batch[0]['instruction']}{given['question']}\nThought 1: x\nAction 1:"
        first = next(iter(workload.answer("action", tail)))
        assert actions[0] == first.removesuffix("\nAction")
        assert len(actions) == len(given["observations"])


def test_answers_do_not_depend_on_mode_or_memory(target):
    workload = made("chat", QUICK["chat"])
    large = run_workload(workload, target, num_slots=LARGE)
    small = run_workload(workload, target, num_slots=pool_of(large))
    eager = run_workload(workload, target, num_slots=LARGE, mode="eager")
    assert large.values == small.values == eager.values
    assert conversations(QUICK["chat"]).batch == workload.batch


def test_the_offline_schedule_meets_the_bound(target):
    """The calls of these workloads can be ordered so that half the memory costs nothing."""
    run = run_workload(made("mmlu", QUICK["mmlu"]), target, num_slots=LARGE)
    calls, pool = run.offline_calls(), pool_of(run)
    assert run.least <= offline(calls, pool).best <= run.least + len(run.calls)
    as_listed = sorted(range(len(calls)), key=lambda number: run.owners[number])
    assert schedule_cost(calls, as_listed, pool, "recency") > 2 * run.least
