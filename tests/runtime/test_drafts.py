"""Draft tokens change how many passes a call takes, and nothing else."""

import random
import threading
import time

import numpy as np
import pytest
from model_support import TINY, real_text_ids, smollm, smollm_path, write_model

import lmc
from lmc.backends import open_backend
from lmc.codegen.target import oracle_target
from lmc.errors import Cancelled, EngineError, ModelError, UsageError
from lmc.ir.calls import Constraint
from lmc.runtime.engine import room
from lmc.runtime.engine.engine import Engine
from lmc.runtime.engine.ngram import LONGEST, NgramIndex
from lmc.runtime.guess import Guess
from lmc.runtime.models import CausalModel
from lmc.summary import summary_lines

PATTERNS = (r"[a-z]{2,6} [0-9]{3}", r"(the |a )?(abc|then|9)+\.", r"(ab|cd|ef, )*x?", r"[a-e ]*")


# -- the index -----------------------------------------------------------------------------


def longest_match(ids):
    """Return the length of the longest match of the end of a text, and what may follow it."""
    for length in range(min(LONGEST, len(ids) - 1), 1, -1):
        starts = range(len(ids) - length - 1, -1, -1)
        found = [s for s in starts if ids[s : s + length] == ids[-length:]]
        if found:
            return length, found[0] + length
    return 0, None


@pytest.mark.parametrize("size", [2, 3, 8])
def test_the_index_finds_the_longest_match(size):
    rng = random.Random(size)
    index, ids = NgramIndex(), []
    index.rates = [1.0] * (LONGEST + 1)
    for _ in range(300):
        length, start = longest_match(ids)
        found = index.continuation(6, 0.5)
        if not length:
            assert found == []
        elif size > 2 or length < LONGEST:
            # Few places are looked at, so of many the longest may be missed, not the latest.
            assert len(found) == 6
        if length == LONGEST and size == 8:
            text = [*ids]
            for token in found:
                assert token == text[start + len(text) - len(ids)]
                text.append(token)
        ids.append(rng.randrange(size))
        index.read(ids[-1:])
        index.check(ids)


def test_what_repeats_is_foretold_over_its_own_end():
    index = NgramIndex()
    index.read([1, 2, 3] * 4)
    index.rates = [1.0] * (LONGEST + 1)
    assert index.continuation(7, 0.5) == [1, 2, 3, 1, 2, 3, 1]
    assert index.continuation(2, 0.5) == [1, 2]


def test_forecasts_that_fail_are_not_used_and_come_back_when_they_hold():
    rng = random.Random(0)
    index = NgramIndex()
    index.read([rng.randrange(4) for _ in range(200)])
    index.learn([rng.randrange(4) for _ in range(200)])
    assert index.continuation(8, 0.6) == []
    index.learn([1, 2, 3] * 20)
    assert len(index.continuation(8, 0.6)) > 4


# -- a fake model that repeats itself ------------------------------------------------------


def repeating(fakes, strength):
    """Return a model that mostly goes on by a rule of the last token; KV holds a whole hash."""

    class Repeating(fakes.FakeModel):
        @staticmethod
        def _next(before, token):
            state = fakes.FakeModel._next(before, token)
            return (state & ~np.uint64(0xFF)) | np.uint64(token)

        def logits(self, state):
            values = super().logits(state)
            last = (state & np.uint64(0xFF)).astype(np.int64)
            values[np.arange(len(state)), 3 + (last * 7 + 1) % 12] += np.float32(strength)
            return values

    return Repeating()


def mixed_calls(fakes, prompts, rng, *, max_tokens=40, vocab=60):
    """Return calls with parameters of every kind."""
    calls = []
    for key, prompt in enumerate(prompts):
        options = {
            "max_tokens": rng.randint(1, max_tokens),
            "temperature": rng.choice((0.0, 0.0, 0.3, 1.0)),
            "top_p": rng.choice((1.0, 0.9)),
            "top_k": rng.choice((-1, 20)),
            "min_p": rng.choice((0.0, 0.05)),
            "return_logprob": rng.random() < 0.6,
            "min_tokens": rng.choice((0, 0, 5)),
            "stop": rng.choice(((), (), ("e",), ("th", "bc"))),
            "stop_regex": rng.choice(((), (), ("[aeiou]{2}",))),
            "stop_token_ids": rng.choice(((), (), (7,))),
            "ignore_eos": rng.random() < 0.5,
            "key": key * 7919,
            "frequency_penalty": rng.choice((0.0, 0.0, 0.4)),
            "presence_penalty": rng.choice((0.0, 0.0, 0.4)),
            "repetition_penalty": rng.choice((1.0, 1.0, 1.3, 0.9)),
            "logit_bias": rng.choice(((), ((5, 2.5), (9, -3.0)))),
            "top_logprobs_num": rng.choice((0, 3)),
            "logprob_start_len": rng.choice((-1, 0, len(prompt) // 2)),
        }
        if rng.random() < 0.4:
            options["constraint"] = Constraint("regex", rng.choice(PATTERNS))
        calls.append(fakes.gen(prompt, **options))
    return calls


def looping_prompts(rng, count, *, vocab, longest=30):
    """Return prompts that share beginnings and repeat themselves."""
    stems = [[rng.randrange(3, vocab) for _ in range(longest)] for _ in range(3)]
    return [
        tuple(rng.choice(stems)[: rng.randrange(2, longest)] * rng.randint(1, 2))
        for _ in range(count)
    ]


def answers(fakes, make, calls, **options):
    """Return the results, errors as text, and the totals of an engine that answers all calls."""
    with make(**options) as engine:
        waiters, go = [fakes.Waiter() for _ in calls], threading.Event()
        engine._post(go.wait)  # all calls come together
        for call, waiter in zip(calls, waiters, strict=True):
            engine.submit_gen(call, waiter, waiter.pieces.append)
        go.set()
        outcomes = [waiter.outcome(600) for waiter in waiters]
        engine.check()
        for waiter, outcome in zip(waiters, outcomes, strict=True):
            if not isinstance(outcome, EngineError):
                fakes.check_pieces(waiter.pieces, outcome)
        return [str(o) if isinstance(o, EngineError) else o for o in outcomes], engine.stats()


def kinds(draft_models):
    """Return the options of every way of drafting."""
    yield {"drafts": "ngram"}
    for model in draft_models:
        yield {"draft_model": model}


def check_alike(fakes, make, calls, draft_models, *, small_pool):
    """Compare every way of drafting, in every size of engine, with no drafts at all."""
    plain, _ = answers(fakes, make, calls)
    for drafts in kinds(draft_models):
        accepted = 0
        for sizes in (
            {},
            {"num_drafts": 1, "max_running": 1},
            {"num_drafts": 3, "token_budget": 5, "max_running": 4},
            {"token_budget": 16, "max_running": 7, "page_size": 4},
        ):
            results, stats = answers(fakes, make, calls, **drafts, **sizes)
            assert results == plain, (drafts, sizes)
            assert stats.accepted_tokens <= stats.drafted_tokens
            accepted += stats.accepted_tokens
        assert accepted > 0
        results, stats = answers(
            fakes, make, calls, **drafts, num_slots=small_pool, token_budget=64, max_running=32
        )
        assert results == plain, (drafts, "preempted")
        assert stats.preemptions > 0


def test_a_fake_model_answers_alike_with_drafts(fakes, monkeypatch):
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)
    rng = random.Random(3)
    for strength in (4, 9):
        prompts = looping_prompts(rng, 24, vocab=60)
        calls = mixed_calls(fakes, prompts, rng)
        models = (repeating(fakes, strength), repeating(fakes, 5), fakes.FakeModel())

        def make(strength=strength, **options):
            return fakes.make_engine(repeating(fakes, strength), **options)

        check_alike(fakes, make, calls, models[1:] if strength == 4 else models[:1], small_pool=110)


def test_a_tiny_random_llama_answers_alike_with_drafts(fakes, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)
    model = CausalModel.load(write_model(tmp_path / "a", TINY))
    other = CausalModel.load(write_model(tmp_path / "b", TINY | {"num_hidden_layers": 1}, seed=1))
    rng = random.Random(4)
    prompts = looping_prompts(rng, 16, vocab=60)
    calls = mixed_calls(fakes, prompts, rng, max_tokens=24)

    def make(**options):
        return fakes.make_engine(model, **options)

    check_alike(fakes, make, calls, (model, other), small_pool=90)


# -- what they save ------------------------------------------------------------------------


def test_a_repetitive_text_takes_few_passes(fakes):
    call = fakes.gen(range(3, 30), max_tokens=120, ignore_eos=True, return_logprob=True)

    def make(**options):
        return fakes.make_engine(repeating(fakes, 20), **options)

    (plain,), without = answers(fakes, make, [call])
    (result,), stats = answers(fakes, make, [call], drafts="ngram")
    assert result == plain
    assert without.engine_steps == without.decode_steps == plain.usage.decode_steps == 120
    assert stats.engine_steps == stats.decode_steps == result.usage.decode_steps < 40
    assert stats.accepted_tokens == result.usage.accepted_tokens > 80
    assert stats.accepted_tokens > 0.9 * stats.drafted_tokens
    assert stats.output_tokens == 120
    assert stats.forward_tokens == (
        without.forward_tokens + stats.drafted_tokens - stats.accepted_tokens
    )


def test_a_text_without_repetitions_is_hardly_drafted_for(fakes):
    call = fakes.gen(range(3, 30), max_tokens=400, ignore_eos=True, temperature=1.0)
    (plain,), _ = answers(fakes, fakes.make_engine, [call])
    (result,), stats = answers(fakes, fakes.make_engine, [call], drafts="ngram")
    assert result == plain
    assert stats.drafted_tokens < 40


def test_a_model_that_drafts_for_itself_is_always_right(fakes):
    calls = [
        fakes.gen(range(3, 20 + key), max_tokens=60, ignore_eos=True, key=key, **options)
        for key, options in enumerate(
            (
                {},
                {"temperature": 1.0},
                {"temperature": 0.9, "frequency_penalty": 0.7, "logit_bias": ((5, 2.0),)},
                {"constraint": Constraint("regex", "([a-d]{2}, the [0-9])+"), "temperature": 1.0},
            )
        )
    ]
    plain, without = answers(fakes, fakes.make_engine, calls)
    model = fakes.FakeModel()
    results, stats = answers(fakes, fakes.make_engine, calls, draft_model=model, num_drafts=4)
    assert results == plain
    assert stats.accepted_tokens == stats.drafted_tokens > 100
    assert stats.decode_steps < 0.4 * without.decode_steps


def test_a_draft_model_computes_each_token_once(fakes):
    model = fakes.FakeModel()
    call = fakes.gen(range(3, 40), max_tokens=41, ignore_eos=True, temperature=1.0)
    with fakes.make_engine(draft_model=model, num_drafts=4) as engine:
        fakes.run_all(engine, [call])
        # The first token comes with the prefill; of the last three passes' tokens none is fed.
        assert 37 + 41 - 6 <= sum(tokens for _, tokens in model.batches) <= 37 + 41
        before = len(model.batches)
        fakes.run_all(engine, [call])
        again = sum(tokens for _, tokens in model.batches[before:])
        assert again <= 41, "the draft model's own cache has the context"
        engine.check()


def test_drafts_take_only_what_no_call_needs(fakes):
    model = repeating(fakes, 20)
    sizes = []
    model.before_forward = lambda batch: sizes.append(len(batch.token_ids))
    calls = [fakes.gen(range(3, 30 + i), max_tokens=60, ignore_eos=True) for i in range(6)]
    with fakes.make_engine(model, drafts="ngram", token_budget=12, num_slots=400) as engine:
        fakes.run_all(engine, calls)
        stats = engine.stats()
    # Decodes always leave a prefill three tokens of such a budget.
    assert max(sizes) <= 12 + 3
    assert stats.accepted_tokens > 100
    assert stats.preemptions == 0


def test_work_ahead_of_a_choice_takes_drafts_once_it_is_adopted(fakes):
    """Tokens of an open guess are counted, so nothing is drafted for it; a call's own may be."""
    call = fakes.gen(range(3, 30), max_tokens=200, ignore_eos=True, return_logprob=True)
    beside = fakes.gen(range(9, 40), max_tokens=150, ignore_eos=True)
    plain, _ = answers(fakes, lambda: fakes.make_engine(repeating(fakes, 20)), [call, beside])
    for drafts in kinds([repeating(fakes, 20)]):
        with fakes.make_engine(repeating(fakes, 20), **drafts) as engine:
            guess, ahead, waiter = Guess(is_forced=True), fakes.Waiter(), fakes.Waiter()
            engine.submit_gen(call, ahead, ahead.pieces.append, guess=guess)
            engine.submit_gen(beside, waiter, lambda _: engine.check())
            deadline = time.monotonic() + 60
            while not ahead.pieces:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            assert guess.adopt()
            assert [ahead.result(), waiter.result()] == plain
            fakes.check_pieces(ahead.pieces, ahead.result())
            assert ahead.result().usage.accepted_tokens > 0
            engine.check()


# -- when things go wrong ------------------------------------------------------------------


def test_calls_that_are_cancelled_leave_nothing(fakes):
    rng = random.Random(5)
    for drafts in ({"drafts": "ngram"}, {"draft_model": repeating(fakes, 8)}):
        with fakes.make_engine(repeating(fakes, 9), num_slots=300, **drafts) as engine:
            calls = mixed_calls(fakes, looping_prompts(rng, 30, vocab=60), rng, max_tokens=80)
            waiters, tickets = [], []
            for call in calls:
                waiters.append(fakes.Waiter())
                tickets.append(engine.submit_gen(call, waiters[-1]))
                if rng.random() < 0.6:
                    rng.choice(tickets).cancel()
                    engine.check()
            outcomes = [waiter.outcome() for waiter in waiters]
            assert any(isinstance(outcome, Cancelled) for outcome in outcomes)
            plain, _ = answers(fakes, lambda: fakes.make_engine(repeating(fakes, 9)), calls)
            for outcome, expected in zip(outcomes, plain, strict=True):
                assert isinstance(outcome, Cancelled) or outcome == expected
            engine.check()
            engine.flush_cache()
            assert engine._core.cache.pool.num_free == 300


def test_logits_that_are_not_finite_behind_a_draft_fail_nobody(fakes):
    """A draft that does not come may lead the model anywhere."""

    class Fragile(fakes.FakeModel):
        def logits(self, state):
            values = super().logits(state)
            values[:, 5] += np.float32(4)
            bad = state % np.uint64(40) == 0
            values[bad] = np.nan
            return values

    prompts = [tuple([3 + key, 4, 5, 6] * 4) for key in range(24)]
    calls = [fakes.gen(p, max_tokens=30, temperature=1.0, key=k) for k, p in enumerate(prompts)]

    def make(**options):
        return fakes.make_engine(Fragile(), max_running=2, **options)

    plain, _ = answers(fakes, make, calls)
    assert 3 < sum(isinstance(found, str) for found in plain) < 21
    for drafts in kinds([fakes.FakeModel()]):
        found, stats = answers(fakes, make, calls, **drafts)
        assert found == plain
        assert stats.drafted_tokens > 0


def test_a_draft_model_that_fails_fails_no_call(fakes, caplog):
    drafting = fakes.FakeModel()
    count = iter(range(10**6))

    def fail(batch):
        if next(count) == 20:
            raise MemoryError("no room")

    drafting.before_forward = fail
    calls = [fakes.gen(range(3, 30 + i), max_tokens=30, ignore_eos=True) for i in range(4)]
    plain, _ = answers(fakes, fakes.make_engine, calls)
    results, stats = answers(fakes, fakes.make_engine, calls, draft_model=drafting)
    assert results == plain
    assert stats.drafted_tokens > 0
    assert next(count) == 21, "it was not asked again"
    assert "the draft model failed" in caplog.text


def test_a_draft_model_without_room_drafts_less(fakes):
    calls = [fakes.gen(range(3, 40 + i), max_tokens=40, ignore_eos=True) for i in range(8)]
    plain, _ = answers(fakes, fakes.make_engine, calls)
    short = fakes.FakeModel(fakes.FakeConfig(max_positions=60))
    results, stats = answers(fakes, fakes.make_engine, calls, draft_model=short)
    assert results == plain
    assert stats.drafted_tokens == 0
    narrow = fakes.FakeModel(fakes.FakeConfig(vocab_size=30))
    results, stats = answers(fakes, fakes.make_engine, calls, draft_model=narrow)
    assert results == plain
    wide = fakes.FakeModel(fakes.FakeConfig(vocab_size=100))
    results, stats = answers(fakes, fakes.make_engine, calls, draft_model=wide)
    assert results == plain
    assert stats.accepted_tokens == stats.drafted_tokens > 100


@pytest.mark.parametrize(
    "options",
    [{"drafts": "model"}, {"drafts": "words"}, {"drafts": "ngram", "num_drafts": 0}],
)
def test_options_that_do_not_fit_are_refused(fakes, options):
    with pytest.raises(UsageError):
        fakes.make_engine(**options)


def test_a_draft_model_needs_the_drafts_of_a_model(fakes):
    with pytest.raises(UsageError, match="draft_model was given"):
        fakes.make_engine(drafts="ngram", draft_model=fakes.FakeModel())


# -- real models ---------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.model
def test_the_real_model_answers_twenty_prompts_alike_with_drafts(fakes):
    """The text repeats its own numbers and names; the model drafts for itself without a miss."""
    from lmc.codegen.target import load_target

    target = load_target(smollm_path())
    prompts = [tuple(part.tolist()) for part in real_text_ids(600).split(30)]
    calls = [
        fakes.gen(
            prompt,
            max_tokens=12,
            temperature=(0.0, 0.0, 0.8)[key % 3],
            key=key,
            return_logprob=True,
            frequency_penalty=(0.0, 0.3)[key % 2],
        )
        for key, prompt in enumerate(prompts)
    ]
    assert len(calls) == 20

    def make(**options):
        return Engine(smollm(), target, **{"num_slots": 4096, **options})

    plain, without = answers(fakes, make, calls)
    results, stats = answers(fakes, make, calls, drafts="ngram", max_running=4)
    assert results == plain
    assert 0 < stats.accepted_tokens <= stats.drafted_tokens
    results, stats = answers(fakes, make, calls, draft_model=smollm(), num_drafts=4)
    assert results == plain
    assert stats.accepted_tokens == stats.drafted_tokens > 100
    assert stats.decode_steps < 0.6 * without.decode_steps


@pytest.mark.model
def test_a_draft_model_of_another_tokenizer_is_refused(tmp_path):
    path = write_model(tmp_path, TINY)
    (path / "tokenizer.json").write_text(oracle_target().tokenizer.spec.model_json)
    with pytest.raises(ModelError, match="another tokenizer"):
        open_backend(draft_model=path)


@lmc.function
def greeting(s):
    s += "Hello, my name is" + lmc.gen("answer", max_tokens=12)


@pytest.mark.model
def test_a_backend_opens_with_a_draft_model():
    with open_backend(draft_model="smollm2", num_drafts=3) as backend:
        run = greeting.run(backend=backend, temperature=0)
        assert run.usage.accepted_tokens == run.usage.drafted_tokens > 0
        assert run["answer"] == greeting.run(temperature=0)["answer"]
        lines = summary_lines("greeting", [run], 1.0)
        assert any("draft tokens" in line and "came" in line for line in lines)
