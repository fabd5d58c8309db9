"""Choosing the next step while one is computed: schedules, results and statistics stay the same.

The oracle is a run that plans in order: plan by plan, and array by array, both must be equal.
"""

import dataclasses
import random
import threading
import time

import pytest
from scheduler_driver import Driver, contents, random_prompts

from lmc.errors import Cancelled, EngineError
from lmc.ir.calls import Constraint
from lmc.runtime.cache.page_pool import PageOwnershipError
from lmc.runtime.engine import room
from lmc.runtime.engine.overlap import Flight
from lmc.runtime.guess import Guess

# -- the scheduler -----------------------------------------------------------------------------


def play(seed, *, is_ahead, **sizes):
    """Run sequences that come and are aborted at random; return the driver and its plans."""
    driver, draw = Driver(is_ahead=is_ahead, **sizes), random.Random(seed)
    prompts, seqs, plans = random_prompts(24, seed=seed), [], []

    def abort():
        if seqs and draw.random() < 0.06 and not (seq := draw.choice(seqs)).is_finished:
            driver.end(seq, "aborted")

    while prompts or driver.scheduler.has_work:
        for _ in range(draw.randint(1, 4) if draw.random() < 0.2 else 0):
            if prompts:
                seqs.append(driver.submit(prompts.pop(), draw.randint(1, 30)))
        abort()
        plans.append(contents(driver.step(between=abort)))
    driver.assert_clean()
    return driver, plans


@pytest.mark.parametrize(
    ("sizes", "share"),
    [
        ({"slots": 600, "max_running": 4}, 0.5),
        ({"slots": 600, "max_running": 16}, 0.3),
        ({"slots": 152, "max_len": 152, "page_size": 4}, 0.02),
        ({"slots": 110, "max_len": 110}, 0.02),
    ],
    ids=["rows are full", "rows are free", "pages", "memory is full"],
)
def test_plans_are_those_of_a_run_that_plans_in_order(monkeypatch, sizes, share):
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)
    steps = taken = preemptions = 0
    for seed in range(3):
        plain, expected = play(seed, is_ahead=False, **sizes)
        ahead, plans = play(seed, is_ahead=True, **sizes)
        assert plans == expected
        assert (ahead.outputs, ahead.rows, ahead.ended) == (plain.outputs, plain.rows, plain.ended)
        assert ahead.scheduler.num_preemptions == plain.scheduler.num_preemptions
        assert ahead.scheduler.step == plain.scheduler.step
        assert ahead.scheduler.guesses.ledger.needed == plain.scheduler.guesses.ledger.needed
        steps, taken = steps + len(plans), taken + ahead.ahead.num_taken
        preemptions += ahead.scheduler.num_preemptions
    assert taken > share * steps
    assert preemptions > 0 or sizes["slots"] == 600


def started(count, *, max_tokens=6, **sizes):
    """Return a driver that decodes some sequences, with a step of all assumed, and these."""
    driver = Driver(is_ahead=True, **sizes)
    seqs = [driver.submit([10 + n, 20 + n, 30 + n], max_tokens) for n in range(count)]
    driver.step()
    driver.step()
    assert driver.ahead.num_assumed == 2
    return driver, seqs


def test_parts_of_ended_sequences_are_void_and_the_rest_is_numbered_anew():
    driver, seqs = started(4)
    driver.end(seqs[1], "aborted")
    plan = driver.step()
    assert driver.ahead.num_taken == 2, "the second step and this one"
    assert [part.seq for part in plan.extends] == [seqs[0], *seqs[2:]]
    assert [part.first_logit for part in plan.extends] == [0, 1, 2]
    assert plan.token_ids.tolist() == [driver.outputs[part.seq.serial][1] for part in plan.extends]


def test_a_sequence_that_started_again_does_not_get_the_part_of_its_former_run():
    driver, seqs = started(3)
    driver.scheduler.room.preempt(seqs[2])
    plan = driver.step()
    assert driver.ahead.num_taken == 1, "what was assumed is void as a whole"
    again = next(part for part in plan.extends if part.seq is seqs[2])
    assert again.epoch == seqs[2].epoch == 1


@pytest.mark.parametrize("what", ["run of tokens", "no logits", "waiting", "guess", "tenant"])
def test_what_came_otherwise_is_planned_in_order(what):
    driver, seqs = started(3)
    if what == "run of tokens":
        seqs[1].append(7)
        seqs[1].logits_from = seqs[1].total_len - 1
    elif what == "no logits":
        seqs[1].logits_from = seqs[1].total_len
    elif what == "waiting":
        driver.submit([1, 2], 3)
    elif what == "guess":
        driver.submit([1, 2], 3, guess=Guess(is_forced=True))
    else:
        driver.scheduler.tenants._live["other"] = set()
    taken = driver.ahead.num_taken
    driver.step()
    assert driver.ahead.num_taken == taken


def test_a_sequence_that_goes_on_though_its_end_was_expected_is_not_left_out():
    driver = Driver(is_ahead=True)
    for number in range(3):
        chooser = None if number == 1 else object()
        driver.submit([10 + number] * 3, 4, chooser=chooser)
    driver.step()
    assert driver.ahead.num_assumed == 1
    assert len(driver.step().extends) == 3
    assert driver.ahead.num_taken == 0


def test_no_step_is_chosen_ahead_while_prompts_are_computed():
    driver = Driver(is_ahead=True, budget=8)
    for number in range(2):
        driver.submit([10 + number] * 20, 4)
    steps = []
    while any(seq.is_prefilling for seq in driver.scheduler.running) or not steps:
        assert driver.ahead.num_assumed == 0
        steps.append(driver.step())
    assert len(steps) > 4
    driver.step()
    assert driver.ahead.num_assumed > 0


def test_ranks_are_settled_before_held_tokens_are_evicted(monkeypatch):
    driver, _ = started(3)
    settled = []
    monkeypatch.setattr(driver.scheduler.foresight, "settle_ranks", lambda: settled.append(1))
    driver.step()
    assert not settled
    monkeypatch.setattr(type(driver.cache), "spare", 2)
    driver.step()
    assert settled
    assert driver.ahead.num_taken == 3


def test_a_sequence_that_waits_is_no_hindrance_while_rows_are_full():
    driver, _ = started(3, max_running=3)
    driver.submit([1, 2], 3)
    driver.step()
    assert driver.ahead.num_taken == 2


def test_ends_that_are_known_make_room_for_what_waits():
    driver = Driver(is_ahead=True, max_running=3)
    for number in range(4):
        driver.submit([10 + number] * 3, 2)
    driver.step()
    driver.step()
    assert driver.ahead.num_assumed == 1, "after the second step the last one starts"


def test_nothing_is_held_for_a_step_that_is_only_assumed():
    driver, seqs = started(3)
    assert all(seq.alloc_len == seq.cached_len for seq in seqs)
    for seq in seqs:
        driver.end(seq, "aborted")
    driver.assert_clean()
    assert driver.step() is None


def test_no_memory_for_the_arrays_leaves_every_slot_free(monkeypatch):
    driver, seqs = started(3)

    def fail(*_args, **_options):
        raise MemoryError("no room for a plan")

    with monkeypatch.context() as patch:
        patch.setattr("lmc.runtime.engine.plan_ahead.give_slots", fail)
        with pytest.raises(MemoryError):
            driver.step()
    driver.check()
    driver.run()
    assert all(len(driver.outputs[seq.serial]) == 6 for seq in seqs)


# -- what is in flight -------------------------------------------------------------------------


def test_a_slot_that_is_freed_in_flight_is_found():
    driver, seqs = started(2)
    plan, _ = driver.scheduler.plan()
    flight = Flight(plan, driver.scheduler)
    with pytest.raises(PageOwnershipError, match="in flight"):
        driver.scheduler.finish(seqs[0], keep_cache=False)
    flight.landed()
    assert driver.cache.in_flight is None


def test_a_page_table_that_is_changed_in_flight_is_found():
    driver, seqs = started(2)
    plan, _ = driver.scheduler.plan()
    flight = Flight(plan, driver.scheduler)
    driver.scheduler.page_table[seqs[1].row, 2] += 1
    with pytest.raises(PageOwnershipError, match="page table"):
        flight.landed()


# -- the engine --------------------------------------------------------------------------------


def mixed_calls(fakes, count=14, seed=0):
    """Return calls of all kinds: greedy, sampled, bound, stopped, with log-probabilities."""
    draw = random.Random(seed)
    stem = [draw.randrange(3, 40) for _ in range(30)]
    calls = []
    for number in range(count):
        options = {
            "max_tokens": draw.randint(1, 30),
            "temperature": (0.0, 0.9)[number % 2],
            "return_logprob": number % 3 == 0,
            "ignore_eos": number % 4 > 0,
            "stop": (("e", "th"), ())[number % 2],
            "key": number,
        }
        if number % 5 == 4:
            options["constraint"] = Constraint("regex", "(the )+abc[0-9]{3}|[a-f]{4,9}")
        calls.append(fakes.gen([*stem[: draw.randint(1, 30)], 3 + number], **options))
        if number % 6 == 5:
            calls.append(fakes.score(stem[:9], [stem[9:12], stem[9:11], [5, 6, 7]]))
    return calls


def serve(fakes, calls, *, at=None, **options):
    """Serve calls that come together; return outcomes, statistics and the steps chosen ahead.

    `at` are actions by the number of the pass during which they are done; each gets the engine,
    the tickets and the waiters, to which it may add.
    """
    model, tickets, waiters = fakes.FakeModel(), [], [fakes.Waiter() for _ in calls]

    def act(_batch):
        action = (at or {}).get(len(model.batches))
        if action is not None:
            action(engine, tickets, waiters)

    model.before_forward = act
    with fakes.make_engine(model, debug=True, **options) as engine:
        # Constraints are compiled at once, so that all calls are in the first step.
        engine._pool.submit = lambda work, _on_late: work() or True
        with fakes.held(engine):
            for call, waiter in zip(calls, waiters, strict=True):
                submit = engine.submit_score if hasattr(call, "options") else engine.submit_gen
                tickets.append(submit(call, waiter))
        outcomes = [waiter.outcome() for waiter in waiters]
        assert all(len(waiter.outcomes) == 1 for waiter in waiters)
        stats = dataclasses.replace(engine.stats(), busy_seconds=0.0)
        engine.flush_cache()
        assert engine._core.cache.available == engine._core.cache.num_slots
        overlap = engine._core.overlap
        return in_words(outcomes), stats, 0 if overlap is None else overlap.ahead.num_taken


def in_words(outcomes):
    """Return outcomes that can be compared: errors as texts."""
    return [str(each) if isinstance(each, BaseException) else each for each in outcomes]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_running": 4},
        {"num_slots": 100, "max_running": 6},
        {"num_slots": 112, "page_size": 16},
        {"token_budget": 16, "max_running": 5},
        {"drafts": "ngram"},
    ],
    ids=str,
)
def test_results_and_statistics_are_the_same(fakes, monkeypatch, options):
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)
    calls = mixed_calls(fakes)
    off, on = (serve(fakes, calls, overlap=overlap, **options) for overlap in (False, True))
    assert on[:2] == off[:2]
    assert (on[2] > 0) == ("drafts" not in options), "drafts depend on the tokens that come"
    assert on[1].preemptions > 0 or options.get("num_slots") != 100


def events(fakes, draw):
    """Return actions at random passes: clients that leave or come, and a cache that is emptied."""

    def come(engine, _tickets, waiters):
        waiters.append(fakes.Waiter())
        engine.submit_gen(fakes.gen([4, 5, 6], max_tokens=9, ignore_eos=True), waiters[-1])

    def leave(number):
        return lambda _engine, tickets, _waiters: tickets[number].cancel()

    def flush(engine, *_):
        engine._post(engine._core.cache.flush)

    def preempt(engine, *_):
        scheduler = engine._core.scheduler
        engine._post(lambda: scheduler.running and scheduler.room.preempt(scheduler.running[-1]))

    kinds = [come, flush, preempt, *(leave(number) for number in range(8))]
    return {number: draw.choice(kinds) for number in draw.sample(range(2, 30), 8)}


@pytest.mark.parametrize("seed", range(8))
def test_events_while_a_step_is_in_flight_change_nothing_but_their_own(fakes, seed):
    calls, runs = mixed_calls(fakes, seed=seed), []
    options = {"num_slots": (4096, 150)[seed % 2], "max_running": (64, 5)[seed // 2 % 2]}
    for overlap in (False, True):
        at = events(fakes, random.Random(seed))
        runs.append(serve(fakes, calls, at=at, overlap=overlap, **options))
    assert runs[1][:2] == runs[0][:2]
    assert runs[1][2] > 0
    assert str(Cancelled("the request was cancelled")) in runs[0][0]


def failing(fakes, error, at):
    """Return a model whose pass number `at` fails once the step behind it has been chosen."""
    model = fakes.FakeModel()
    model.engine = None

    def fail(batch):
        if len(model.batches) != at:
            return
        ahead = model.engine._core.overlap.ahead
        for _ in range(60_000):
            if ahead._assumed is not None:
                raise error
            time.sleep(0.001)
        raise AssertionError("no step was chosen ahead")

    model.before_forward = fail
    return model


@pytest.mark.parametrize("at", [1, 4])
def test_a_failed_pass_leaves_nothing_of_the_step_that_was_chosen_behind_it(fakes, at):
    calls = [fakes.gen([5 + n] * 9, max_tokens=8, ignore_eos=True) for n in range(5)]
    with fakes.make_engine() as engine:
        expected = fakes.run_all(engine, calls)
    error = RuntimeError("out of luck")
    model = failing(fakes, error, at)
    with fakes.make_engine(model, overlap=True, debug=True, max_running=3) as engine:
        model.engine, waiters = engine, [fakes.Waiter() for _ in calls]
        with fakes.held(engine):
            for call, waiter in zip(calls, waiters, strict=True):
                engine.submit_gen(call, waiter)
        outcomes = [waiter.outcome() for waiter in waiters]
        assert outcomes[:3] == [error] * 3
        assert outcomes[3:] == expected[3:], "those that waited run when the others have failed"
        model.before_forward = None
        assert fakes.run_all(engine, calls) == expected
        assert engine.stats().failed_requests == 3


@pytest.mark.parametrize("overlap", [False, True])
def test_a_pass_that_ends_its_thread_stops_the_engine(fakes, overlap):
    def leave(_batch):
        raise SystemExit("no more")

    model = fakes.FakeModel(before_forward=leave)
    with fakes.make_engine(model, overlap=overlap) as engine:
        waiters = [fakes.Waiter() for _ in range(3)]
        with fakes.held(engine):
            for number, waiter in enumerate(waiters):
                engine.submit_gen(fakes.gen([5, 6, 7 + number]), waiter)
        for waiter in waiters:
            assert isinstance(waiter.outcome(), EngineError)
            assert "the engine stopped: no more" in str(waiter.outcome())


def test_passes_run_beside_the_choice_of_the_next_and_lone_calls_in_order(fakes):
    names, model = [], fakes.FakeModel()
    model.before_forward = lambda _batch: names.append(threading.current_thread().name)
    with fakes.make_engine(model, overlap=True) as engine:
        fakes.run_all(engine, [fakes.gen([5, 6, 7])])
        assert set(names) == {"lmc-engine"}
        waiters = [fakes.Waiter() for _ in range(3)]
        with fakes.held(engine):
            for number, waiter in enumerate(waiters):
                engine.submit_gen(fakes.gen([5, 6, 7 + number], ignore_eos=True), waiter)
        assert all(len(waiter.result().token_ids) == 8 for waiter in waiters)
        assert names.count("lmc-forward") == 8
        thread = engine._core.overlap._thread._thread
    assert not thread.is_alive(), "a closed engine leaves no thread"
