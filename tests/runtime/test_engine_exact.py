"""The same calls give the same bits, whatever was cached, batched, chunked or preempted."""

import random

import pytest
from model_support import TINY, smollm, smollm_path, write_model

from lmc.ir.calls import Constraint
from lmc.runtime.engine import room
from lmc.runtime.engine.engine import Engine
from lmc.runtime.models import CausalModel

PATTERNS = (r"[a-z]{2,6} [0-9]{3}", r"(the |a )?(abc|then|9)+\.", r"-?[0-9]+(\.[0-9]+)?")


@pytest.fixture(autouse=True)
def admit_eagerly(monkeypatch):
    """Keep no room for output when admitting, so that a small pool leads to preemptions."""
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)


def mixed_calls(fakes, prompts, *, max_tokens, num_options=3):
    """Return calls of every kind over prompts, the same for the same prompts."""
    rng = random.Random(0)
    calls = []
    for index, prompt in enumerate(prompts):
        options = {
            "max_tokens": max_tokens,
            "temperature": (0.0, 0.8, 1.5)[index % 3],
            "top_p": (1.0, 0.9)[index % 2],
            "top_k": (-1, -1, 20)[index % 3],
            "min_p": (0.0, 0.0, 0.0, 0.05)[index % 4],
            "return_logprob": index % 2 == 0,
            "min_tokens": (0, 3)[index % 2],
            "stop": ((), ("e",), ("th", "1"))[index % 3],
            "ignore_eos": index % 5 == 0,
            "key": index * 7919,
            "frequency_penalty": (0.0, 0.7)[index % 2],
            "presence_penalty": (0.0, 0.0, 0.4)[index % 3],
            "repetition_penalty": (1.0, 1.3, 1.0, 0.8)[index % 4],
            "logit_bias": ((), ((5, 2.5), (9, -3.0)))[index % 2],
            "stop_regex": ((), ("[aeiou]{2}",), ())[index % 3],
            "top_logprobs_num": (3, 0, 1, 0)[index % 4],
            "logprob_start_len": (0, -1, len(prompt) // 2, -1)[index % 4],
        }
        if index % 4 >= 2:
            options["constraint"] = Constraint("regex", PATTERNS[index % 3])
        calls.append(fakes.gen(prompt, **options))
        if index % 3 == 0:
            endings = [
                tuple(rng.choice(prompt) for _ in range(rng.randint(1, 5)))
                for _ in range(num_options)
            ]
            calls.append(fakes.score(prompt, endings))
    return calls


def one_by_one(fakes, engine, calls, *, flush):
    """Run calls one after the other, on an empty cache each if `flush`."""
    results = []
    for call in calls:
        if flush:
            engine.flush_cache()
        results += fakes.run_all(engine, [call])
    return results


def check_matrix(fakes, make, calls, *, small_pool, budgets=(16, 64, 512), batches=(1, 7, 32)):
    """Compare every way of running the calls with each call alone on an empty cache."""
    with make() as engine:
        cold = one_by_one(fakes, engine, calls, flush=True)
        warm = one_by_one(fakes, engine, calls, flush=False)
        assert warm == cold
        assert fakes.run_all(engine, calls) == cold
    assert sum(r.usage.cached_tokens for r in warm) > sum(r.usage.cached_tokens for r in cold)
    for budget in budgets:
        for batch in batches:
            with make(token_budget=budget, max_running=batch) as engine:
                assert fakes.run_all(engine, calls) == cold, (budget, batch)
                engine.check()
    with make(num_slots=small_pool, token_budget=64, max_running=32) as engine:
        for _ in range(5):  # on a busy machine calls may come too late to be in each other's way
            assert fakes.run_all(engine, calls) == cold, "preempted"
            if engine.stats().preemptions > 0:
                break
        assert engine.stats().preemptions > 0
        assert fakes.run_all(engine, calls[::-1]) == cold[::-1], "after evictions"
        engine.check()
    with make(token_budget=64, overlap=True) as engine:
        assert fakes.run_all(engine, calls) == cold, "steps are chosen ahead"
        assert engine._core.overlap.ahead.num_taken > 0
    for page_size in (4, 16):
        with make(num_slots=small_pool + 40, token_budget=64, page_size=page_size) as engine:
            assert fakes.run_all(engine, calls) == cold, f"pages of {page_size}"
            engine.check()


def branching_prompts(count, *, vocab, longest, seed):
    """Return prompts over ids below `vocab` that share beginnings."""
    rng = random.Random(seed)
    stems = [[rng.randrange(3, vocab) for _ in range(longest)] for _ in range(4)]
    return [
        (*rng.choice(stems)[: rng.randrange(longest)], *rng.choices(range(3, vocab), k=4))
        for _ in range(count)
    ]


def test_a_fake_model_in_every_schedule(fakes):
    vocab = fakes.FakeTokenizer().vocab_size
    prompts = branching_prompts(60, vocab=vocab, longest=70, seed=1)
    calls = mixed_calls(fakes, prompts, max_tokens=24)
    check_matrix(fakes, fakes.make_engine, calls, small_pool=160)


def test_a_tiny_random_llama_in_every_schedule(fakes, tmp_path):
    model = CausalModel.load(write_model(tmp_path, TINY))
    vocab = fakes.FakeTokenizer().vocab_size
    prompts = branching_prompts(24, vocab=vocab, longest=60, seed=2)
    calls = mixed_calls(fakes, prompts, max_tokens=16)

    def make(**options):
        return fakes.make_engine(model, **options)

    check_matrix(fakes, make, calls, small_pool=120, budgets=(16, 512), batches=(7, 32))


def test_a_quantized_random_llama_in_every_schedule(fakes, tmp_path):
    path = write_model(tmp_path, TINY)
    model = CausalModel.load(path, weights="int8", activations="int8")
    vocab = fakes.FakeTokenizer().vocab_size
    prompts = branching_prompts(12, vocab=vocab, longest=60, seed=2)
    calls = mixed_calls(fakes, prompts, max_tokens=16)

    def make(**options):
        return fakes.make_engine(model, **options)

    check_matrix(fakes, make, calls, small_pool=120, budgets=(16,), batches=(7,))


@pytest.mark.model
def test_the_real_model_in_every_schedule(fakes):
    from lmc.codegen.target import load_target

    target = load_target(smollm_path())
    encode = target.tokenizer.encode
    head = "You are a careful judge. Read the text and answer briefly.\n\nText: "
    texts = ("The river rose overnight.", "2 + 2 = 4, said Ann.", "L'été à Zürich 😀 東京")
    asks = ("\nSummary:", "\nThe number is", "\nIs it true? Answer:")
    prompts = [tuple(encode(head + text + ask)) for text in texts for ask in asks]
    calls = mixed_calls(fakes, prompts, max_tokens=10)

    def make(**options):
        return Engine(smollm(), target, **{"num_slots": 2048, **options})

    check_matrix(fakes, make, calls, small_pool=56, budgets=(16, 512), batches=(32,))


@pytest.mark.model
def test_the_real_model_shares_a_prefix_from_an_empty_cache(fakes):
    from lmc.codegen.target import load_target

    target = load_target(smollm_path())
    encode = target.tokenizer.encode
    common = tuple(encode("The essay argues that rivers shape cities. " * 8))
    branches = [(*common, *encode(f" Criterion {name}:")) for name in ("A", "B", "C")]
    with Engine(smollm(), target, num_slots=2048) as engine:
        results = fakes.run_all(engine, [fakes.gen(branch, max_tokens=4) for branch in branches])
        computed = engine.stats().computed_tokens
    shared = next(i for i, (a, b) in enumerate(zip(*branches[:2], strict=False)) if a != b)
    assert shared >= len(common)
    assert computed == sum(map(len, branches)) - 2 * shared
    assert sorted(r.usage.cached_tokens for r in results) == [0, shared, shared]
