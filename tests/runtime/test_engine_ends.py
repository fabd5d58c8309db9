"""The engine over a fake model: how calls end, by error, by cancelling and by closing."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from engine_expected import OPTIONS, PROMPT, expected_scores, expected_tokens, regex

from lmc.errors import Cancelled, EngineError
from lmc.ir.calls import GenCall, SamplingParams

# -- ends ----------------------------------------------------------------------------------


def test_a_call_that_can_never_fit_is_refused_and_the_rest_go_on(fakes):
    with fakes.make_engine(num_slots=512) as engine:
        waiters = [fakes.Waiter() for _ in range(13)]
        engine.submit_gen(fakes.gen([3] * 600), waiters[0])
        engine.submit_gen(fakes.gen([3] * 20, max_tokens=500), waiters[1])
        engine.submit_score(fakes.score([3] * 510, [(4,), (5, 6, 7, 8)]), waiters[2])
        for waiter in waiters[3:]:
            engine.submit_gen(fakes.gen([3] * 20), waiter)
        for waiter, needed in zip(waiters, (607, 519, 513), strict=False):
            error = waiter.outcome()
            assert isinstance(error, EngineError)
            assert f"{needed} tokens" in str(error)
            assert "512" in str(error)
        assert all(waiter.result().text for waiter in waiters[3:])
        engine.check()


def test_a_foreign_token_id_is_refused(fakes):
    with fakes.make_engine() as engine:
        for bad in (80, -1, 10**9):
            waiter = fakes.Waiter()
            engine.submit_gen(fakes.gen([5, bad]), waiter)
            with pytest.raises(EngineError, match="outside the model's vocabulary of 80"):
                waiter.result()
        waiter = fakes.Waiter()
        engine.submit_score(fakes.score([5], [(5,), (81,)]), waiter)
        assert isinstance(waiter.outcome(), EngineError)


def test_an_error_in_the_forward_pass_ends_the_calls_of_its_step_only(fakes):
    model, failed = fakes.FakeModel(), []

    def fail_long(batch):
        if len(batch.token_ids) > 100 and not failed:
            failed.append(len(batch.token_ids))
            raise RuntimeError("out of luck")

    model.before_forward = fail_long
    with fakes.make_engine(model, max_running=1) as engine:
        waiters = [fakes.Waiter() for _ in range(3)]
        engine.submit_gen(fakes.gen(PROMPT), waiters[0])
        engine.submit_gen(fakes.gen([5] * 200), waiters[1])
        engine.submit_gen(fakes.gen(range(3, 30)), waiters[2])
        assert isinstance(waiters[1].outcome(), RuntimeError)
        for waiter, context in ((waiters[0], PROMPT), (waiters[2], range(3, 30))):
            tokens, _ = expected_tokens(fakes, fakes.gen(context))
            assert waiter.result().token_ids == tokens[: len(waiter.result().token_ids)]
        engine.check()
        (again,) = fakes.run_all(engine, [fakes.gen([5] * 200)])
        assert again.usage.cached_tokens == 0, "nothing of the failed pass was kept"
        assert engine.stats().failed_requests == 1


def test_logits_that_are_not_finite_end_their_own_call_only(fakes):
    model = fakes.FakeModel()
    honest = model.logits

    def poisoned(state):
        values = honest(state)
        if len(values) > 1:
            values[1, 7] = np.nan
        return values

    model.logits = poisoned
    calls = [fakes.gen([3 + i] * 9, max_tokens=6, ignore_eos=True) for i in range(3)]
    with fakes.make_engine(model) as engine:
        waiters = [fakes.Waiter() for _ in calls]
        gate, is_held = threading.Event(), threading.Event()
        engine._post(lambda: (is_held.set(), gate.wait()))  # all three come into the same step
        assert is_held.wait(60)
        for call, waiter in zip(calls, waiters, strict=True):
            engine.submit_gen(call, waiter)
        gate.set()
        outcomes = [waiter.outcome() for waiter in waiters]
        engine.check()
        model.logits = honest
        again = fakes.run_all(engine, calls)
    assert again[1].usage.cached_tokens == 0, "what the bad pass computed was not kept"
    assert again[0].usage.cached_tokens == again[2].usage.cached_tokens == 8
    bad = [outcome for outcome in outcomes if isinstance(outcome, EngineError)]
    assert len(bad) == 2, "row 1 of the first step, and row 1 of the two that were left"
    assert all("not finite" in str(error) for error in bad)
    good = next(o for o in outcomes if not isinstance(o, EngineError))
    assert good.usage.output_tokens == 6


def test_a_callback_that_raises_harms_nobody_else(fakes, caplog):
    def refuse(_):
        raise ValueError("I do not like it")

    with fakes.make_engine() as engine:
        waiters = [fakes.Waiter() for _ in range(2)]
        engine.submit_gen(fakes.gen(PROMPT), waiters[0], refuse)
        engine.submit_gen(fakes.gen(PROMPT), refuse)
        engine.submit_gen(fakes.gen(PROMPT), waiters[1])
        assert isinstance(waiters[0].outcome(), ValueError)
        assert waiters[1].result().text
        engine.check()
        assert len(waiters[0].outcomes) == 1
    assert "on_done callback raised" in caplog.text


@pytest.mark.parametrize("at", range(14))
def test_a_cancel_at_any_step_ends_with_cancelled_and_frees_everything(fakes, at):
    model, tickets = fakes.FakeModel(), []

    def cancel(_):
        if len(model.batches) == at:
            tickets[0].cancel()

    model.before_forward = cancel
    with fakes.make_engine(model, token_budget=8) as engine:
        waiters = [fakes.Waiter() for _ in range(3)]
        gate = threading.Event()
        engine._post(gate.wait)
        tickets.append(engine.submit_gen(fakes.gen(PROMPT, ignore_eos=True), waiters[0]))
        engine.submit_gen(fakes.gen((*PROMPT, 4), ignore_eos=True), waiters[1])
        engine.submit_score(fakes.score(PROMPT, OPTIONS), waiters[2])
        if at == 0:
            tickets[0].cancel()
        gate.set()
        assert isinstance(waiters[0].outcome(), Cancelled) == (at < 12)
        call = fakes.gen((*PROMPT, 4), ignore_eos=True)
        tokens, _ = expected_tokens(fakes, call)
        kept = waiters[1].result().token_ids
        assert kept == tokens[: len(kept)]
        assert waiters[2].result().logprobs == expected_scores(fakes, PROMPT, OPTIONS)
        engine.check()
        engine.flush_cache()
        assert engine._core.cache.available == 4096
    assert all(len(waiter.outcomes) == 1 for waiter in waiters)


def test_cancelling_after_the_end_changes_nothing(fakes):
    with fakes.make_engine() as engine:
        waiter = fakes.Waiter()
        ticket = engine.submit_gen(fakes.gen(PROMPT), waiter)
        waiter.result()
        ticket.cancel()
        ticket.cancel()
        engine.check()
        assert len(waiter.outcomes) == 1
        assert engine.stats().cancelled_requests == 0


def test_a_cancel_while_the_constraint_compiles(fakes, monkeypatch):
    with fakes.make_engine() as engine:
        compile_constraint, go = engine._compile, threading.Event()
        monkeypatch.setattr(engine, "_compile", lambda c: (go.wait(30), compile_constraint(c))[1])
        waiter = fakes.Waiter()
        ticket = engine.submit_gen(fakes.gen(PROMPT, constraint=regex("a|b")), waiter)
        ticket.cancel()
        assert isinstance(waiter.outcome(), Cancelled)
        go.set()
    assert len(waiter.outcomes) == 1


# -- closing -------------------------------------------------------------------------------


@pytest.fixture(name="threads_left")
def fixture_threads_left():
    """Return what lists the engine threads that the test has started and that still run."""
    before = set(threading.enumerate())

    def left():
        started = set(threading.enumerate()) - before
        return [thread.name for thread in started if thread.name.startswith("lmc-")]

    return left


def test_closing_ends_every_call_and_leaves_no_thread(fakes, threads_left):
    model = fakes.FakeModel(before_forward=lambda batch: time.sleep(0.005))
    engine = fakes.make_engine(model)
    waiters = [fakes.Waiter() for _ in range(20)]
    for i, waiter in enumerate(waiters):
        constraint = regex("[a-z]+") if i % 3 == 0 else None
        engine.submit_gen(
            fakes.gen(PROMPT, max_tokens=3000, ignore_eos=True, constraint=constraint), waiter
        )
    engine.close()
    engine.close()
    assert all(len(waiter.outcomes) == 1 for waiter in waiters)
    assert all(isinstance(waiter.outcomes[0], Cancelled) for waiter in waiters)
    assert threads_left() == []
    late = fakes.Waiter()
    for submit in (
        lambda: engine.submit_gen(fakes.gen(PROMPT), late),
        lambda: engine.submit_gen(fakes.gen(PROMPT, constraint=regex("a")), late),
        lambda: engine.submit_score(fakes.score(PROMPT, OPTIONS), late),
        lambda: engine.submit_prefill(PROMPT, late),
    ):
        late.outcomes.clear()
        submit().cancel()
        assert len(late.outcomes) == 1
        assert "closed" in str(late.outcomes[0])
    engine.check()
    assert engine.stats().cancelled_requests == 20


def test_closing_from_a_callback(fakes, threads_left):
    engine, waiter = fakes.make_engine(), fakes.Waiter()

    def close_then_tell(outcome):
        engine.close()
        waiter(outcome)

    engine.submit_gen(fakes.gen(PROMPT), close_then_tell)
    waiter.result()
    engine.close()
    assert threads_left() == []


def test_callbacks_may_submit_more(fakes):
    with fakes.make_engine() as engine:
        last = fakes.Waiter()

        def chain(left):
            def on_done(result):
                assert isinstance(engine.stats().finished_requests, int)
                if left == 0:
                    last(result)
                else:
                    longer = fakes.gen((*PROMPT, *result.token_ids))
                    engine.submit_gen(longer, chain(left - 1))

            return on_done

        engine.submit_gen(fakes.gen(PROMPT), chain(5))
        assert last.result().text


def test_an_interrupt_reaches_a_thread_that_waits_for_the_engine(fakes, threads_left):
    model = fakes.FakeModel(before_forward=lambda batch: time.sleep(2.0))
    with fakes.make_engine(model) as engine:
        engine.submit_gen(fakes.gen(PROMPT, max_tokens=500), fakes.Waiter())
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            [engine.stats() for _ in range(10)]
        assert time.perf_counter() - begun < 1.8
        timer.join()
    assert threads_left() == []


FORGETFUL = """
import engine_fakes
engine = engine_fakes.make_engine()
engine.submit_gen(engine_fakes.gen(range(3, 9), max_tokens=4000, ignore_eos=True), print)
"""


def test_a_process_that_forgets_to_close_still_ends():
    run = subprocess.run(
        [sys.executable, "-c", FORGETFUL],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stderr == ""
    assert "GenResult" in run.stdout or "cancelled" in run.stdout or "closed" in run.stdout


def test_a_broken_engine_ends_its_calls_and_says_so(fakes, monkeypatch, caplog):
    with fakes.make_engine() as engine:
        monkeypatch.setattr(
            engine._core.scheduler, "plan", lambda: (_ for _ in ()).throw(RuntimeError("no more"))
        )
        waiter = fakes.Waiter()
        engine.submit_gen(fakes.gen(PROMPT), waiter)
        error = waiter.outcome()
        assert isinstance(error, EngineError)
        assert "no more" in str(error)
        engine._thread.join(10)
        late = fakes.Waiter()
        engine.submit_gen(fakes.gen(PROMPT), late)
        assert isinstance(late.outcome(), EngineError)
    assert "the engine stopped" in caplog.text


def test_many_threads_may_submit_at_once(fakes):
    with fakes.make_engine(num_slots=600) as engine:
        outcomes = []

        def work(number):
            for i in range(6):
                call = GenCall(
                    tuple(range(3, 8 + (number * 7 + i) % 30)),
                    SamplingParams(max_tokens=5, temperature=0.9),
                    None,
                    key=number * 100 + i,
                )
                waiter = fakes.Waiter()
                ticket = engine.submit_gen(call, waiter)
                if i % 5 == 4:
                    ticket.cancel()
                outcomes.append((call, waiter.outcome()))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.check()
    assert len(outcomes) == 48
    for call, outcome in outcomes:
        if not isinstance(outcome, Cancelled):
            tokens, _ = expected_tokens(fakes, call)
            assert outcome.token_ids == tokens[: len(outcome.token_ids)]
