"""The engine over a fake model: what calls give, what they count, and how they end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lmc.errors import Cancelled, ConstraintError, EngineError
from lmc.ir.calls import Constraint, GenCall, SamplingParams
from lmc.runtime.engine.sampler import pick_token, token_logprobs

PROMPT = tuple(range(3, 40))


def regex(source):
    return Constraint("regex", source)


def expected_tokens(fakes, call, model=None):
    """Return what a free call must give, looking at whole sequences one token at a time."""
    model, tokenizer = model or fakes.FakeModel(), fakes.FakeTokenizer()
    eos, params = tokenizer.eos_ids, call.params
    ids, logprobs = list(call.context) or [tokenizer.empty_context_id], []
    for position in range(params.max_tokens):
        row = model.logits_after(ids)
        raw = row.copy()
        row[[0, 2]] = -np.inf
        row[tokenizer.vocab_size :] = -np.inf
        if params.ignore_eos or position < params.min_tokens:
            row[list(eos)] = -np.inf
        token = pick_token(row, params, key=call.key, position=position)
        if token in eos:
            break
        ids.append(token)
        logprobs += token_logprobs(raw, [token])
    return tuple(ids[len(ids) - len(logprobs) :]), tuple(logprobs)


def keep_clean(tokens, tokenizer):
    """Drop the ids of an unfinished last character."""
    while tokens and tokenizer.decode(tokens).endswith("\ufffd"):
        tokens = tokens[:-1]
    return tokens


# -- tokens --------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_tokens_and_logprobs_are_the_models_own(fakes, temperature):
    calls = [
        fakes.gen(
            range(3, 3 + size),
            max_tokens=12,
            temperature=temperature,
            top_p=0.9,
            key=size,
            return_logprob=True,
        )
        for size in range(1, 40, 3)
    ]
    with fakes.make_engine() as engine:
        results = fakes.run_all(engine, calls)
    for call, result in zip(calls, results, strict=True):
        tokens, logprobs = expected_tokens(fakes, call)
        kept = len(result.token_ids)
        assert result.token_ids == tokens[:kept]
        assert result.logprobs == logprobs[:kept]
        assert kept >= len(keep_clean(tokens, engine.target.tokenizer))
        assert result.usage.output_tokens == len(tokens)
        assert result.text == engine.target.tokenizer.decode(result.token_ids) + result.tail


def test_an_end_token_ends_the_call_and_is_in_nothing(fakes):
    model = fakes.FakeModel(favourite=1)
    with fakes.make_engine(model) as engine:
        plain, ignoring, waiting = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT),
                fakes.gen(PROMPT, ignore_eos=True),
                fakes.gen(PROMPT, min_tokens=5),
            ],
        )
    assert (plain.token_ids, plain.text, plain.finish_reason) == ((), "", "stop")
    assert plain.matched_stop is None
    assert plain.usage.output_tokens == 0
    assert plain.usage.decode_steps == 1
    assert (ignoring.usage.output_tokens, ignoring.finish_reason) == (8, "length")
    assert (waiting.usage.output_tokens, waiting.finish_reason) == (5, "stop")


def test_a_stop_id_ends_the_call_but_not_before_min_tokens(fakes):
    model = fakes.FakeModel(favourite=9)
    with fakes.make_engine(model) as engine:
        early, late, control = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT, stop_token_ids=(9,)),
                fakes.gen(PROMPT, stop_token_ids=(9,), min_tokens=3),
                fakes.gen(PROMPT, stop_token_ids=(2,), max_tokens=4),
            ],
        )
    assert (early.token_ids, early.matched_stop, early.finish_reason) == ((), 9, "stop")
    assert (late.usage.output_tokens, late.matched_stop) == (3, 9)
    assert 9 not in late.token_ids
    assert control.token_ids == (9, 9, 9, 9)


@pytest.mark.parametrize("favourite", [0, 2, 75])
def test_control_ids_and_ids_beyond_the_tokenizer_are_never_produced(fakes, favourite):
    model = fakes.FakeModel(favourite=favourite)
    with fakes.make_engine(model) as engine:
        size = engine.target.tokenizer.vocab_size
        assert size <= 75 < model.config.vocab_size
        free, sampled, bound = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT, max_tokens=20, ignore_eos=True),
                fakes.gen(PROMPT, max_tokens=20, temperature=2.0, ignore_eos=True),
                fakes.gen(PROMPT, max_tokens=20, constraint=regex("a+")),
            ],
        )
    for result in (free, sampled):
        assert all(3 <= token < size for token in result.token_ids)
    assert set(bound.text) <= {"a"}


def test_no_tokens_asked_for_means_no_step(fakes):
    model = fakes.FakeModel()
    with fakes.make_engine(model) as engine:
        free, full, partial = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT, max_tokens=0),
                fakes.gen(PROMPT, max_tokens=0, constraint=regex("a*")),
                fakes.gen(PROMPT, max_tokens=0, constraint=regex("a+")),
            ],
        )
    assert model.batches == []
    assert (free.text, free.token_ids, free.finish_reason) == ("", (), "length")
    assert (full.complete, partial.complete) == (False, False), "both could have gone on"


def test_an_empty_context_reads_the_stand_in_token(fakes):
    with fakes.make_engine() as engine:
        empty, stand_in = fakes.run_all(engine, [fakes.gen(()), fakes.gen((0,))])
        assert empty.token_ids == stand_in.token_ids
        assert empty.usage.prompt_tokens == 1
        assert empty.usage.cached_tokens == 0
        (scored,) = fakes.run_all(engine, [fakes.score((), [(5, 6)])])
        assert len(scored.logprobs[0]) == 2


# -- stops ---------------------------------------------------------------------------------


def test_stop_strings_end_the_text_at_the_earliest_match(fakes):
    with fakes.make_engine() as engine:
        (free,) = fakes.run_all(engine, [fakes.gen(PROMPT, max_tokens=40, ignore_eos=True)])
        for start in range(len(free.text) - 3):
            stop = free.text[start : start + 3]
            if "\ufffd" in stop:
                continue
            (cut,) = fakes.run_all(
                engine,
                [fakes.gen(PROMPT, max_tokens=40, ignore_eos=True, stop=("~~", stop))],
            )
            assert cut.text == free.text[: free.text.index(stop)]
            assert (cut.finish_reason, cut.matched_stop) == ("stop", stop)
            kept = len(cut.token_ids)
            assert cut.token_ids == free.token_ids[:kept]
            assert cut.usage.output_tokens <= len(free.token_ids)


def test_a_stop_counts_only_after_min_tokens(fakes):
    tokenizer = fakes.FakeTokenizer()
    model = fakes.FakeModel(favourite=tokenizer.id_of(b"\n"))
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(
            engine, [fakes.gen(PROMPT, stop=("\n",), min_tokens=6, max_tokens=12)]
        )
    assert (result.text, result.finish_reason, result.matched_stop) == ("\n" * 6, "stop", "\n")
    assert len(result.token_ids) == 6


def test_undecodable_output_streams_and_can_be_stopped(fakes):
    tokenizer = fakes.FakeTokenizer()
    model = fakes.FakeModel(favourite=tokenizer.id_of(b"\xff"))
    with fakes.make_engine(model) as engine:
        waiter = fakes.Waiter()
        engine.submit_gen(fakes.gen(PROMPT, max_tokens=300), waiter, waiter.pieces.append)
        assert waiter.result().text == "\ufffd" * 300
        assert waiter.pieces == ["\ufffd"] * 300
        (stopped,) = fakes.run_all(
            engine, [fakes.gen(PROMPT, max_tokens=300, stop=("\ufffd\ufffd\ufffd",))]
        )
    assert stopped.usage.output_tokens == 3


def test_an_unfinished_character_at_the_limit_is_dropped(fakes):
    tokenizer = fakes.FakeTokenizer()
    model = fakes.FakeModel(favourite=tokenizer.id_of(b"\xf0\x9f"))
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(engine, [fakes.gen(PROMPT, max_tokens=1, return_logprob=True)])
    assert (result.text, result.token_ids, result.logprobs) == ("", (), ())
    assert (result.finish_reason, result.usage.output_tokens) == ("length", 1)


# -- constraints ---------------------------------------------------------------------------


def test_constrained_text_matches_and_forced_tokens_are_not_sampled(fakes):
    import re

    pattern = r"\[[0-9]{2}\] (yes|no), [a-c]{3}\."
    calls = [
        fakes.gen(PROMPT, constraint=regex(pattern), temperature=1.0, key=key, max_tokens=40)
        for key in range(20)
    ]
    with fakes.make_engine() as engine:
        results = fakes.run_all(engine, calls)
    for result in results:
        assert re.fullmatch(pattern, result.text)
        assert (result.finish_reason, result.complete) == ("stop", True)
        usage = result.usage
        assert usage.forced_tokens > 0
        assert usage.output_tokens == usage.decode_steps + usage.forced_tokens
    assert len({result.text for result in results}) > 10


def test_forced_runs_are_one_step_and_the_end_needs_none(fakes):
    model = fakes.FakeModel()
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(
            engine, [fakes.gen(PROMPT, constraint=regex("z9(x|y)88zz7"), max_tokens=40)]
        )
    lengths = [tokens for _, tokens in model.batches]
    assert lengths == [len(PROMPT) + 2], "the head joins the prefill, the rest ends the call"
    assert result.usage.forced_tokens == result.usage.output_tokens - 1
    assert result.usage.prompt_tokens == len(PROMPT)


def test_a_run_in_the_middle_is_computed_at_once(fakes):
    model = fakes.FakeModel()
    with fakes.make_engine(model) as engine:
        fakes.run_all(engine, [fakes.gen(PROMPT, constraint=regex("(x|y)z98z(x|y)"))])
    assert [tokens for _, tokens in model.batches] == [len(PROMPT), 5]


def test_a_fully_forced_text_needs_no_step_unless_logprobs_are_wanted(fakes):
    model = fakes.FakeModel()
    call = fakes.gen(PROMPT, constraint=regex("z9y8"))
    wanting = fakes.gen(PROMPT, constraint=regex("z9y8"), return_logprob=True)
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(engine, [call])
        assert model.batches == []
        assert (result.text, result.usage.prompt_tokens) == ("z9y8", 0)
        (result,) = fakes.run_all(engine, [wanting])
    assert [tokens for _, tokens in model.batches] == [len(PROMPT) + 3]
    ids = [*PROMPT]
    for token, logprob in zip(result.token_ids, result.logprobs, strict=True):
        assert [logprob] == token_logprobs(model.logits_after(ids), [token])
        ids.append(token)


def test_a_limit_under_a_constraint_says_so(fakes):
    with fakes.make_engine() as engine:
        cut, open_end, whole = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT, constraint=regex("[a-z]{20}[0-9]"), max_tokens=4),
                fakes.gen(PROMPT, constraint=regex("[a-z]*"), max_tokens=4, ignore_eos=True),
                fakes.gen(PROMPT, constraint=regex("[a-z]{4}"), max_tokens=4),
            ],
        )
    assert (cut.finish_reason, cut.complete, cut.usage.output_tokens) == ("length", False, 4)
    assert (open_end.finish_reason, open_end.complete) == ("length", False), "a match, but cut"
    assert (whole.finish_reason, whole.complete) == ("stop", True)


def test_a_stop_inside_a_constraint_tells_whether_the_rest_still_matches(fakes):
    with fakes.make_engine() as engine:
        whole, broken = fakes.run_all(
            engine,
            [
                fakes.gen(PROMPT, constraint=regex("z9(8zz)?y"), stop=("y",), max_tokens=20),
                fakes.gen(PROMPT, constraint=regex("z9(y7)?|q"), stop=("y",), max_tokens=20),
            ],
        )
    assert (whole.matched_stop, whole.complete) == ("y", False)
    assert (broken.text == "z9") == broken.complete or broken.text == "q"


def test_an_end_token_comes_only_where_the_constraint_can_end(fakes):
    model = fakes.FakeModel(favourite=1)
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(
            engine, [fakes.gen(PROMPT, constraint=regex("[a-d]{3}([a-d]{5})?"), max_tokens=20)]
        )
    assert len(result.text) == 3
    assert (result.finish_reason, result.complete) == ("stop", True)


def test_a_wrong_constraint_ends_its_own_call_only(fakes):
    with fakes.make_engine() as engine:
        waiters = [fakes.Waiter() for _ in range(3)]
        engine.submit_gen(fakes.gen(PROMPT, constraint=regex("(((")), waiters[0])
        engine.submit_gen(fakes.gen(PROMPT), waiters[1])
        engine.submit_gen(fakes.gen(PROMPT, constraint=regex("(a)\\1")), waiters[2])
        assert isinstance(waiters[0].outcome(), ConstraintError)
        assert isinstance(waiters[2].outcome(), ConstraintError)
        assert waiters[1].result().usage.output_tokens > 0
        engine.check()


def test_calls_are_served_while_a_constraint_compiles(fakes, monkeypatch):
    with fakes.make_engine(max_running=2) as engine:
        compile_constraint, go = engine._compile, threading.Event()

        def slow(constraint):
            go.wait(30)
            return compile_constraint(constraint)

        monkeypatch.setattr(engine, "_compile", slow)
        slow_waiters = [fakes.Waiter() for _ in range(2)]
        for waiter in slow_waiters:
            engine.submit_gen(fakes.gen(PROMPT, constraint=regex("a|b")), waiter)
        plain = [fakes.gen(PROMPT), fakes.gen(range(3, 60))]
        assert len(fakes.run_all(engine, plain)) == 2
        assert not any(waiter.outcomes for waiter in slow_waiters)
        go.set()
        assert all(waiter.result().text in "ab" for waiter in slow_waiters)


# -- scores and prefixes -------------------------------------------------------------------


def expected_scores(fakes, context, options):
    model, scores = fakes.FakeModel(), []
    for option in options:
        ids, found = list(context), []
        for token in option:
            found += token_logprobs(model.logits_after(ids), [token])
            ids.append(token)
        scores.append(tuple(found))
    return tuple(scores)


OPTIONS = [(5, 6, 7), (5, 6, 8), (5,), (9, 9, 9, 9), (5, 6, 7, 10), (), (5, 6, 7)]


def test_scores_are_the_models_own_and_share_everything(fakes):
    model = fakes.FakeModel()
    with fakes.make_engine(model) as engine:
        cold, warm = (fakes.run_all(engine, [fakes.score(PROMPT, OPTIONS)])[0] for _ in range(2))
        assert cold.logprobs == expected_scores(fakes, PROMPT, OPTIONS)
        assert warm.logprobs == cold.logprobs
        distinct = {(5,), (5, 6), (5, 6, 7), (9,), (9, 9), (9, 9, 9)}
        assert cold.usage.prompt_tokens == len(PROMPT) + len(distinct)
        assert cold.usage.computed_tokens == sum(t for _, t in model.batches[:2])
        assert cold.usage.cached_tokens == 0
        engine.check()
        (nothing,) = fakes.run_all(engine, [fakes.score(PROMPT, [(), ()])])
        assert nothing.logprobs == ((), ())


def test_scores_after_the_context_was_generated_upon(fakes):
    with fakes.make_engine() as engine:
        fakes.run_all(engine, [fakes.gen(PROMPT)])
        (result,) = fakes.run_all(engine, [fakes.score(PROMPT, OPTIONS)])
    assert result.logprobs == expected_scores(fakes, PROMPT, OPTIONS)
    assert result.usage.cached_tokens == len(PROMPT) - 1


def test_a_prefix_is_computed_once_and_kept(fakes):
    with fakes.make_engine(num_slots=64) as engine:
        waiter = fakes.Waiter()
        engine.submit_prefill(PROMPT, waiter)
        prefix = waiter.result()
        assert prefix.computed_tokens == len(PROMPT)
        again = fakes.Waiter()
        engine.submit_prefill(PROMPT, again)
        assert again.result().computed_tokens == 0
        fakes.run_all(engine, [fakes.gen([70, i], max_tokens=20) for i in range(3, 20)])
        (result,) = fakes.run_all(engine, [fakes.gen((*PROMPT, 5))])
        assert result.usage.cached_tokens == len(PROMPT), "pinned: other requests left it alone"
        engine.flush_cache()
        prefix.release()
        prefix.release()
        assert engine.flush_cache() == 0
        again.result().release()
        assert engine.flush_cache() == len(PROMPT)
        engine.check()


def test_an_empty_prefix_is_nothing(fakes):
    with fakes.make_engine() as engine:
        waiter = fakes.Waiter()
        engine.submit_prefill((), waiter)
        prefix = waiter.result()
        assert prefix.computed_tokens == 0
        prefix.release()


# -- counting ------------------------------------------------------------------------------


def test_calls_that_start_together_compute_their_common_prefix_once(fakes):
    model = fakes.FakeModel()
    with fakes.make_engine(model) as engine:
        before = engine.stats()
        calls = [fakes.gen((*PROMPT, 3 + i, 5), max_tokens=3, ignore_eos=True) for i in range(8)]
        results = fakes.run_all(engine, calls)
        run = engine.stats() - before
    assert sum(result.usage.computed_tokens for result in results) == len(PROMPT) + 16
    assert run.prompt_tokens == 8 * (len(PROMPT) + 2)
    assert run.computed_tokens == len(PROMPT) + 16
    assert run.cached_tokens == 7 * len(PROMPT)
    assert run.output_tokens == run.decode_steps == 24
    assert run.forward_tokens == len(PROMPT) + 16 + 8 * 2
    assert run.engine_steps == len(model.batches)
    assert (run.requests, run.finished_requests) == (8, 8)
    assert run.busy_seconds > 0


def test_usage_counts_are_within_their_bounds_after_preemptions(fakes):
    calls = [fakes.gen(range(3, 10 + i), max_tokens=40, ignore_eos=True) for i in range(12)]
    with fakes.make_engine(num_slots=80) as engine:
        results = fakes.run_all(engine, calls)
        assert engine.stats().preemptions > 0
    for call, result in zip(calls, results, strict=True):
        assert result.usage.prompt_tokens == len(call.context)
        assert 0 <= result.usage.cached_tokens < len(call.context)
        assert result.usage.output_tokens == 40


def test_times_are_ordered(fakes):
    with fakes.make_engine() as engine:
        (result,) = fakes.run_all(engine, [fakes.gen(PROMPT, ignore_eos=True)])
    usage = result.usage
    assert 0 < usage.queue_seconds < usage.first_token_seconds < usage.total_seconds


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
