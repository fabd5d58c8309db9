"""The scheduler core on the fake executor of scheduler_driver.py."""

import itertools
import random
import time

import numpy as np
import pytest
from scheduler_driver import Driver, random_prompts, reference

from lmc.errors import EngineError
from lmc.runtime.engine import room
from lmc.runtime.engine.sequence import SequenceState

# -- what comes out ------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 3, 16, 512])
@pytest.mark.parametrize("max_running", [1, 7, 32])
@pytest.mark.parametrize("slots", [100, 2000])
def test_outputs_do_not_depend_on_the_schedule(budget, max_running, slots):
    driver = Driver(slots=slots, budget=budget, max_running=max_running)
    prompts = random_prompts(24)
    seqs = [driver.submit(prompt, 6) for prompt in prompts]
    driver.run(limit=5000)
    for seq, prompt in zip(seqs, prompts, strict=True):
        assert driver.outputs[seq.serial] == reference(prompt, 6)
        assert driver.ended[seq.serial] == ["done"]
        assert 0 <= seq.first_cached_len < len(prompt)
    driver.assert_clean()


@pytest.mark.parametrize("page_size", [4, 16])
@pytest.mark.parametrize(("slots", "budget"), [(100, 3), (100, 512), (250, 16), (2000, 16)])
def test_outputs_do_not_depend_on_the_page_size(page_size, slots, budget, monkeypatch):
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)  # so that a small pool preempts
    driver = Driver(slots=slots, budget=budget, max_running=12, page_size=page_size, max_len=90)
    prompts = random_prompts(24)
    seqs = [driver.submit(prompt, 16) for prompt in prompts]
    driver.run(limit=5000)
    for seq, prompt in zip(seqs, prompts, strict=True):
        assert driver.outputs[seq.serial] == reference(prompt, 16)
        assert driver.ended[seq.serial] == ["done"]
        assert seq.first_cached_len % page_size == 0
    driver.assert_clean()
    assert slots > 100 or driver.scheduler.num_preemptions > 0


@pytest.mark.parametrize("page_size", [4, 16])
def test_whole_pages_of_a_common_prefix_are_computed_once(page_size):
    driver = Driver(budget=24, slots=4000, max_running=32, page_size=page_size)
    for index in range(8):
        driver.submit([*range(101), 200 + index, 300 + index], 1)
    driver.run()
    shared = 101 - 101 % page_size
    assert driver.computed == shared + 8 * (103 - shared)


def test_namespaces_share_nothing_and_run_side_by_side():
    driver = Driver(budget=24, slots=4000, max_running=32)
    for index in range(9):
        driver.submit([*range(60), index], 1, namespace=("", "a", "b")[index % 3])
    driver.run()
    assert driver.computed == 3 * 60 + 9
    assert driver.cache.tree.namespaces == {"": 63, "a": 63, "b": 63}


def test_decodes_go_on_while_a_long_prompt_is_prefilled_in_chunks():
    driver = Driver(budget=16)
    short = driver.submit([1, 2, 3], 20)
    driver.step()
    driver.submit(range(100), 1)
    for count in range(2, 9):
        plan = driver.step()
        assert len(driver.outputs[short.serial]) == count, "one token in every step"
        assert plan.num_tokens <= 16
        assert plan.extends[0].length == 1


def test_more_decodes_than_budget_all_move_and_leave_room_for_a_prefill():
    driver = Driver(budget=4, max_running=20, slots=2000)
    seqs = [driver.submit([i, i + 1], 60) for i in range(12)]
    while any(not driver.outputs[seq.serial] for seq in seqs):
        driver.step()
    late = driver.submit(range(30), 2)
    for _ in range(32):
        before = {seq.serial: len(driver.outputs[seq.serial]) for seq in seqs}
        driver.step()
        assert all(len(driver.outputs[s.serial]) == before[s.serial] + 1 for s in seqs)
    assert driver.outputs[late.serial] == reference(range(30), 2)


def test_rows_of_logits_come_for_every_wanted_position_in_any_chunking():
    prompt = list(range(40))
    for budget in (1, 7, 64):
        driver = Driver(budget=budget)
        seq = driver.submit(prompt, 0, rows_from=10)
        driver.run()
        assert sorted(driver.rows[seq.serial]) == list(range(10, 40))
        again = driver.submit(prompt, 0, rows_from=10)
        driver.run()
        assert driver.rows[again.serial] == driver.rows[seq.serial]
        assert again.first_cached_len == 10, "no more is matched than leaves the wanted rows"


def test_rows_of_logits_per_step_are_limited():
    driver = Driver(budget=512, max_running=8, slots=2000)
    for start in range(4):
        driver.submit(range(start, start + 200), 0, rows_from=0)
    while driver.scheduler.has_work:
        plan = driver.step()
        if plan is not None:
            assert len(plan.logit_rows) <= driver.scheduler.max_logits


def test_several_tokens_appended_at_once_are_one_extend():
    driver = Driver()
    seq = driver.submit([1, 2, 3], 20)
    driver.step()
    for token in (7, 8, 9):
        seq.append(token)
    seq.logits_from = seq.total_len - 1
    plan = driver.step()
    assert [part.length for part in plan.extends] == [4]
    assert len(plan.logit_rows) == 1


# -- sharing -------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [8, 64, 512])
@pytest.mark.parametrize("count", [2, 8, 30])
def test_requests_that_start_together_compute_their_common_prefix_once(count, budget):
    driver = Driver(budget=budget, slots=4000, max_running=32)
    prefix = list(range(100))
    prompts = [[*prefix, 200 + i, 300 + i, 400 + i] for i in range(count)]
    seqs = [driver.submit(prompt, 1) for prompt in prompts]
    driver.run()
    assert driver.computed == 100 + 3 * count
    assert sum(seq.first_cached_len for seq in seqs) == 100 * (count - 1)


def test_equal_prompts_compute_one_token_each_after_the_first():
    driver = Driver(budget=32, slots=4000, max_running=32)
    for _ in range(10):
        driver.submit(range(90), 1)
    driver.run()
    assert driver.computed == 90 + 9


def test_a_tree_of_prefixes_computes_every_token_once():
    driver = Driver(budget=24, slots=4000, max_running=64)
    prompts = []
    for a, b, c in itertools.product(range(2), range(3), range(2)):
        prompts.append([*range(40), *[100 + a] * 20, *[110 + b] * 10, 120 + c, 130])
    random.Random(3).shuffle(prompts)
    for prompt in prompts:
        driver.submit(prompt, 1)
    driver.run()
    distinct = {tuple(p[:size]) for p in prompts for size in range(1, len(p) + 1)}
    assert driver.computed == len(distinct)


def test_others_start_while_a_follower_waits_for_its_leader():
    driver = Driver(budget=8)
    driver.submit(range(60), 1)
    follower = driver.submit([*range(59), 99], 1)
    other = driver.submit([70, 71], 1)
    for _ in range(9):
        driver.step()
    assert driver.ended[other.serial] == ["done"]
    assert follower.state is SequenceState.WAITING or follower.first_cached_len == 59
    driver.run()
    assert follower.first_cached_len == 59


def test_a_follower_waits_only_for_what_the_tree_lacks():
    driver = Driver(budget=8)
    leader = driver.submit(range(200), 1)
    follower = driver.submit([*range(16), 99], 1)
    queue, running = driver.scheduler.waiting, driver.scheduler.running
    for expected in (True, False):
        driver.step()
        assert queue.must_wait(follower, running) == expected
        assert queue.matched_len(follower) == leader.cached_len


def test_a_follower_goes_on_alone_when_its_leader_is_cancelled():
    driver = Driver(budget=8)
    leader = driver.submit(range(60), 1)
    follower = driver.submit([*range(59), 99], 1)
    for _ in range(3):
        driver.step()
    driver.end(leader, "cancelled")
    driver.run()
    assert follower.first_cached_len == 24, "what the leader had computed is not lost"
    assert driver.computed == 60
    assert driver.outputs[follower.serial] == reference([*range(59), 99], 1)
    driver.assert_clean()


def test_output_is_found_by_a_later_prompt():
    driver = Driver()
    seq = driver.submit(range(20), 8)
    driver.run()
    longer = [*range(20), *driver.outputs[seq.serial], 49]
    again = driver.submit(longer, 3)
    driver.run()
    assert again.first_cached_len == 27, "the last output token itself was never computed"
    assert driver.outputs[again.serial] == reference(longer, 3)


# -- order ---------------------------------------------------------------------------------


def test_the_longest_cached_prefix_starts_first():
    driver = Driver(max_running=1)
    driver.submit(range(40), 1)
    driver.run()
    cold = driver.submit([90, *range(20)], 1)
    warm = driver.submit([*range(39), 1], 1)
    driver.run()
    assert driver.ended.keys() == {1, warm.serial, cold.serial}
    assert list(driver.ended) == [1, warm.serial, cold.serial]


def test_a_cold_request_is_not_starved_by_hits():
    driver = Driver(max_running=1, slots=1000)
    driver.submit(range(100), 1)
    driver.run()
    cold = driver.submit([90, 91, 92], 1)
    for count in range(200):
        driver.submit([*range(99), count % 50], 1)
        driver.step()
        if cold.is_finished:
            break
    assert count < 20


def test_equal_rank_goes_by_arrival():
    driver = Driver(max_running=1)
    seqs = [driver.submit([i * 3, 1, 2], 1) for i in range(6)]
    driver.run()
    assert list(driver.ended) == [seq.serial for seq in seqs]


# -- memory --------------------------------------------------------------------------------


def test_a_full_pool_preempts_the_youngest_and_changes_no_output():
    driver = Driver(slots=120, budget=64, max_running=8)
    prompts = [[i, *range(20)] for i in range(4)]
    seqs = [driver.submit(prompt, 60) for prompt in prompts]
    driver.run(limit=5000)
    assert driver.scheduler.num_preemptions > 0
    assert seqs[0].num_preemptions == 0, "the oldest always moves on"
    for seq, prompt in zip(seqs, prompts, strict=True):
        assert driver.outputs[seq.serial] == reference(prompt, 60)
        assert seq.first_cached_len == 0
    driver.assert_clean()


def test_a_preempted_sequence_starts_again_before_new_ones():
    driver = Driver(budget=512, max_running=2)
    driver.submit(range(120), 30)
    young = driver.submit([40, 41, 42], 30)
    driver.step()
    warm = driver.submit([*range(120), 1], 1)
    driver.scheduler.room.preempt(young)
    assert driver.scheduler.waiting.matched_len(warm) > driver.scheduler.waiting.matched_len(young)
    assert driver.scheduler.waiting.ordered(driver.scheduler.step, "") == [young, warm]
    driver.run()
    assert driver.outputs[young.serial] == reference([40, 41, 42], 30)


def test_a_plan_made_before_a_preemption_no_longer_applies():
    driver = Driver(budget=8)
    seq = driver.submit(range(20), 2)
    stale, _ = driver.scheduler.plan()
    driver.scheduler.room.preempt(seq)
    fresh, _ = driver.scheduler.plan()
    driver.scheduler.commit(stale)
    assert seq.cached_len == 0
    driver.execute(fresh)
    driver.scheduler.commit(fresh)
    assert seq.cached_len == 8
    driver.run()
    assert driver.outputs[seq.serial] == reference(range(20), 2)
    driver.assert_clean()


def test_preemptions_are_rare_enough():
    driver = Driver(slots=150, budget=64, max_running=16)
    count, length = 12, 50
    for i in range(count):
        driver.submit([i, i + 1], length)
    driver.run(limit=5000)
    useful = count * (2 + length - 1)
    assert driver.computed < 1.5 * useful, "preempted work is mostly found in the tree again"


def test_a_request_that_can_never_fit_is_refused_with_both_numbers():
    driver = Driver(slots=512, max_len=4096)
    with pytest.raises(EngineError, match=r"may need 600 tokens .* pool holds 512"):
        driver.submit(range(600), 1)
    with pytest.raises(EngineError, match=r"may need 519 tokens"):
        driver.submit(range(20), 500)
    fitting = [driver.submit([i, *range(19)], 3) for i in range(10)]
    largest = driver.submit(range(13), 500)
    driver.run()
    assert all(driver.ended[seq.serial] == ["done"] for seq in [*fitting, largest])
    assert len(driver.outputs[largest.serial]) == 500
    driver.assert_clean()


def test_a_request_longer_than_the_page_table_is_refused():
    driver = Driver(slots=512, max_len=100)
    with pytest.raises(EngineError, match=r"may need 101 tokens .* model's context holds 100"):
        driver.submit(range(101), 1)


def test_pins_give_way_to_a_request_that_cannot_run_otherwise():
    driver = Driver(slots=100)
    pinned = driver.submit(range(60), 0, rows_from=60)
    while pinned.extend_len:
        plan, _ = driver.scheduler.plan()
        driver.execute(plan)
        driver.scheduler.commit(plan)
    driver.scheduler.finish_pinned(pinned)
    small = driver.submit([*range(60), 1], 3)
    driver.run()
    assert small.first_cached_len == 60
    assert driver.cache.num_pins == 1
    large = driver.submit([99, *range(60)], 40)
    driver.run()
    assert driver.cache.num_pins == 0
    assert driver.outputs[large.serial] == reference([99, *range(60)], 40)
    driver.assert_clean()


def test_a_cached_sequence_without_wanted_logits_needs_no_step():
    driver = Driver()
    driver.submit(range(30), 1)
    driver.run()
    computed = driver.computed
    seq = driver.submit(range(30), 0, rows_from=30)
    assert driver.step() is None
    assert driver.ended[seq.serial] == ["ready"]
    assert driver.computed == computed
    driver.assert_clean()


# -- aborts --------------------------------------------------------------------------------

PHASES = [([1, 2, 3], 3), (list(range(30)), 2), ([*range(29), 77], 3)]


def run_with_events(events):
    """Run three requests; at (step, place) do the given cancels. Returns the driver."""
    driver = Driver(slots=64, budget=8, max_running=2)
    seqs = [driver.submit(prompt, count) for prompt, count in PHASES]

    def cancel(step, place):
        for index in events.get((step, place), ()):
            if not seqs[index].is_finished:
                driver.end(seqs[index], "cancelled")
                driver.check()

    for step in range(40):
        cancel(step, "before")
        driver.step(between=lambda step=step: cancel(step, "inside"))
        if not driver.scheduler.has_work:
            break
    assert driver.ended.keys() == {seq.serial for seq in seqs}
    assert all(len(reasons) == 1 for reasons in driver.ended.values())
    driver.assert_clean()
    for seq, (prompt, count) in zip(seqs, PHASES, strict=True):
        output = driver.outputs[seq.serial]
        assert output == reference(prompt, count)[: len(output)]
        if driver.ended[seq.serial] == ["done"]:
            assert len(output) == count
    return driver


def test_a_cancel_at_every_step_of_every_phase_leaves_nothing_behind():
    assert run_with_events({}).steps <= 12
    for step, place, index in itertools.product(range(12), ("before", "inside"), range(3)):
        run_with_events({(step, place): [index]})


def test_two_cancels_at_any_two_places_leave_nothing_behind():
    places = list(itertools.product(range(12), ("before", "inside")))
    for first, second in itertools.combinations_with_replacement(places, 2):
        for one, two in ((0, 1), (1, 2), (2, 0), (2, 1)):
            if first == second:
                run_with_events({first: [one, two]})
            else:
                run_with_events({first: [one], second: [two]})


def test_a_result_that_comes_after_the_end_is_dropped():
    driver = Driver()
    seq = driver.submit(range(10), 5)
    driver.step(between=lambda: driver.end(seq, "cancelled"))
    assert driver.outputs[seq.serial] == []
    driver.assert_clean()


def test_finishing_twice_does_nothing():
    driver = Driver()
    seq = driver.submit(range(10), 5)
    driver.step()
    driver.scheduler.finish(seq)
    driver.scheduler.finish(seq)
    driver.assert_clean()


def test_a_failed_step_leaves_no_trace_in_the_tree():
    driver = Driver(budget=8)
    seq = driver.submit(range(20), 5)
    driver.step()
    assert driver.cache.match_len(seq.token_ids) == 8
    driver.step(failed={seq})
    assert seq.cached_len == 8
    driver.end(seq, "failed", keep_cache=False)
    assert driver.cache.match_len(np.arange(20, dtype=np.int32)) == 8
    driver.assert_clean()


@pytest.mark.parametrize("seed", range(6))
def test_random_arrivals_cancels_and_failures_in_a_small_pool(seed):
    rng = random.Random(seed)
    driver = Driver(slots=90, budget=rng.choice([5, 16, 64]), max_running=5)
    prompts = iter(random_prompts(60, seed=seed))
    live, expected = [], {}
    for _ in range(400):
        if rng.random() < 0.3:
            prompt = next(prompts, None)
            if prompt is not None:
                count = rng.randint(1, 12)
                live.append(driver.submit(prompt, count))
                expected[live[-1].serial] = reference(prompt, count)
        live = [seq for seq in live if not seq.is_finished]
        victim = rng.choice(live) if live and rng.random() < 0.06 else None
        if victim is not None and rng.random() < 0.5:
            driver.end(victim, "cancelled")
            victim = None
        failed = {victim} if victim is not None else set()
        driver.step(failed=failed)
        for seq in failed:
            driver.end(seq, "failed", keep_cache=False)
    driver.run()
    assert all(len(reasons) == 1 for reasons in driver.ended.values())
    assert driver.ended.keys() == expected.keys()
    for serial, output in driver.outputs.items():
        assert output == expected[serial][: len(output)]
        if driver.ended[serial] == ["done"]:
            assert output == expected[serial]
    driver.assert_clean()


# -- cost ----------------------------------------------------------------------------------


def seconds_per_decode(context_len):
    """Return the scheduler's time for a decode step of 16 sequences of some length."""
    driver = Driver(slots=40_000, max_len=4096, budget=4096, max_running=16)
    for i in range(16):
        driver.submit([i, *range(context_len)], 400)
    while any(not output for output in driver.outputs.values()):
        driver.step()
    times = []
    for _ in range(30):
        begun = time.perf_counter()
        plan, _ = driver.scheduler.plan()
        driver.scheduler.commit(plan)
        times.append(time.perf_counter() - begun)
        for part in plan.extends:
            part.seq.append(1)
            part.seq.logits_from = part.seq.total_len - 1
    return sorted(times)[len(times) // 2]


def test_a_decode_step_costs_the_same_in_a_long_context():
    assert seconds_per_decode(2000) < 3 * seconds_per_decode(20) + 100e-6
