"""The engine over a fake model: what calls give and what they count."""

import pytest
from engine_expected import OPTIONS, PROMPT, expected_scores, expected_tokens, regex


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


# -- scores and prefixes -------------------------------------------------------------------


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
