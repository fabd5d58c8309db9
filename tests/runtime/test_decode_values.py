"""Penalties, biases, log-probabilities of the engine against a slow walk over the fake model."""

import random
import re

import numpy as np
import pytest

from lmc.runtime.engine.sampler import TokenRules, pick_token, token_logprobs

PROMPT = (5, 9, 12, 7, 30, 5, 9, 22)


def walk(fakes, call, model=None):
    """Generate token by token from whole-sequence logits, with the documented arithmetic."""
    model, params = model or fakes.FakeModel(), call.params
    rules = TokenRules(fakes.FakeTokenizer(), model.config.vocab_size)
    blocked, output, logprobs, tops = rules.blocked(params), [], [], []
    while len(output) < params.max_tokens:
        raw = model.logits_after((*call.context, *output))
        row = raw.copy()
        for token_id in set(output):
            count = output.count(token_id)
            factor = np.float32(params.repetition_penalty)
            row[token_id] = row[token_id] / factor if row[token_id] > 0 else row[token_id] * factor
            row[token_id] -= np.float32(count) * np.float32(params.frequency_penalty)
            row[token_id] -= np.float32(params.presence_penalty)
        for token_id, bias in params.logit_bias:
            row[token_id] += np.float32(bias)
        late = len(output) >= params.min_tokens
        row[blocked.late if late else blocked.early] = -np.inf
        token_id = pick_token(row, params, key=call.key, position=len(output))
        if token_id in blocked.ends:
            break
        output.append(token_id)
        logprobs += token_logprobs(raw, (token_id,))
        order = sorted(range(len(raw)), key=lambda i: (-raw[i], i))[: params.top_logprobs_num]
        tops.append(tuple(zip(order, token_logprobs(raw, order), strict=True)))
    return tuple(output), tuple(logprobs), tuple(tops)


CASES = {
    "plain": {},
    "frequency": {"frequency_penalty": 1.5},
    "presence": {"presence_penalty": -2.0},
    "repetition": {"repetition_penalty": 1.7},
    "encouraged": {"repetition_penalty": 0.4},
    "bias": {"logit_bias": ((5, 3.0), (11, -100.0))},
    "end": {"logit_bias": ((1, 100.0),), "min_tokens": 3},
    "all": {"frequency_penalty": 0.5, "presence_penalty": 0.3, "repetition_penalty": 1.2,
            "logit_bias": ((4, 1.0), (40, 2.0)), "top_k": 20, "top_p": 0.9},
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_engine_does_the_documented_arithmetic(fakes, case, temperature):
    options = {"max_tokens": 24, "return_logprob": True, "top_logprobs_num": 4, **CASES[case]}
    call = fakes.gen(PROMPT, temperature=temperature, key=77, **options)
    with fakes.make_engine() as engine:
        found = fakes.run_all(engine, [call])[0]
    ids, logprobs, tops = walk(fakes, call)
    assert (found.token_ids, found.logprobs, found.top_logprobs) == (
        ids[: len(found.token_ids)], logprobs[: len(found.token_ids)],
        tops[: len(found.token_ids)],
    )  # fmt: skip
    assert found.usage.output_tokens == len(ids)


def test_penalties_do_not_look_at_the_context(fakes):
    """A context full of one token is penalised for nothing; output tokens are."""
    model = fakes.FakeModel(favourite=7)
    plain = fakes.gen([7] * 30, max_tokens=4, ignore_eos=True)
    fined = fakes.gen([7] * 30, max_tokens=4, ignore_eos=True, repetition_penalty=9.0)
    with fakes.make_engine(model) as engine:
        one, other = fakes.run_all(engine, [plain, fined])
    assert one.token_ids == (7, 7, 7, 7)
    assert other.token_ids[0] == 7
    assert 7 not in other.token_ids[1:]


def test_a_forbidden_token_stays_forbidden_whatever_its_bias(fakes):
    """Control tokens, ids without a meaning, and end ids before min_tokens."""
    bias = ((0, 90.0), (1, 90.0), (2, 90.0), (79, 90.0))
    call = fakes.gen(PROMPT, max_tokens=9, min_tokens=4, logit_bias=bias)
    with fakes.make_engine() as engine:
        found = fakes.run_all(engine, [call])[0]
    assert len(found.token_ids) == 4
    assert found.finish_reason == "stop"


@pytest.mark.parametrize("start", [0, 1, 5, 7, 8, 50])
@pytest.mark.parametrize("max_tokens", [0, 1, 5])
def test_prompt_logprobs_beside_a_cached_prefix(fakes, start, max_tokens):
    """Cold, warm, and after another prompt that shares a part: the same, one entry per token."""
    model = fakes.FakeModel()
    call = fakes.gen(
        PROMPT, max_tokens=max_tokens, ignore_eos=True, return_logprob=True,
        logprob_start_len=start, top_logprobs_num=2,
    )  # fmt: skip
    expected = [
        None if place == 0
        else token_logprobs(model.logits_after(PROMPT[:place]), [PROMPT[place]])[0]
        for place in range(start, len(PROMPT))
    ]  # fmt: skip
    with fakes.make_engine() as engine:
        cold = fakes.run_all(engine, [call])[0]
        warm = fakes.run_all(engine, [call])[0]
        engine.flush_cache()
        fakes.run_all(engine, [fakes.gen((*PROMPT[:5], 3, 4), max_tokens=2)])
        shared = fakes.run_all(engine, [call])[0]
        engine.check()
    assert cold == warm == shared
    assert list(cold.prompt_logprobs) == expected
    assert len(cold.prompt_top_logprobs) == len(expected)
    assert [top is None for top in cold.prompt_top_logprobs] == [e is None for e in expected]
    assert len(cold.logprobs) == len(cold.token_ids) == max_tokens
    assert len(cold.top_logprobs) == max(1, max_tokens)


def test_no_token_may_be_made_and_the_likeliest_next_ones_be_told(fakes):
    """With max_tokens 0 the one entry of top_logprobs is what could come next."""
    call = fakes.gen(PROMPT, max_tokens=0, return_logprob=True, top_logprobs_num=5)
    row = fakes.FakeModel().logits_after(PROMPT)
    order = sorted(range(80), key=lambda i: (-row[i], i))[:5]
    with fakes.make_engine() as engine:
        for _ in range(2):
            found = fakes.run_all(engine, [call])[0]
            assert found.top_logprobs == (
                tuple(zip(order, token_logprobs(row, order), strict=True)),
            )
            assert (found.text, found.logprobs) == ("", ())
        assert found.usage.cached_tokens == len(PROMPT) - 1
        engine.check()


def test_more_likeliest_tokens_than_the_model_has(fakes):
    call = fakes.gen(PROMPT, max_tokens=1, return_logprob=True, top_logprobs_num=500)
    with fakes.make_engine() as engine:
        found = fakes.run_all(engine, [call])[0]
    assert len(found.top_logprobs[0]) == 80


def test_a_wrong_stop_pattern_fails_its_call_only(fakes):
    with fakes.make_engine() as engine:
        waiter = fakes.Waiter()
        engine.submit_gen(fakes.gen(PROMPT, stop_regex=(r"(.)\1",)), waiter)
        assert "back-reference" in str(waiter.outcome())
        assert fakes.run_all(engine, [fakes.gen(PROMPT)])[0].token_ids
        engine.check()


# -- everything together -------------------------------------------------------------------------


def random_options(rng, table):
    """Return parameters that meet each other: limits, ends, stops, penalties, choices of ids."""
    # No half characters, so that a text is the tokens' texts joined.
    broken = {i: -100.0 for i, piece in enumerate(table) if piece and not piece.isascii()}
    pieces = ["th", "e", "an", "0", " ", "in", "abc", "9", ", ", "the", "er"]
    least = rng.choice([0, 0, 2, 5])
    return {
        "max_tokens": rng.randint(least, 20),
        "min_tokens": least,
        "temperature": rng.choice([0.0, 0.7, 1.3]),
        "key": rng.randrange(10**6),
        "top_k": rng.choice([-1, 5]),
        "top_p": rng.choice([1.0, 0.8]),
        "min_p": rng.choice([0.0, 0.05]),
        "stop": tuple(rng.sample(pieces, rng.randint(0, 2))),
        "stop_regex": tuple(rng.sample(["[aeiou]{2}", "[0-9][a-z]", " .[b-d]"], rng.randint(0, 1))),
        "stop_token_ids": tuple(rng.sample(range(3, 60), rng.randint(0, 2))),
        "ignore_eos": rng.random() < 0.5,
        "frequency_penalty": rng.choice([0.0, 0.8]),
        "repetition_penalty": rng.choice([1.0, 1.4]),
        "logit_bias": tuple(sorted({**broken, 5: 2.0, 1: 3.0}.items())),
        "return_logprob": True,
        "top_logprobs_num": rng.choice([0, 2]),
        "logprob_start_len": rng.choice([-1, 0, 3]),
    }


def cut_of(text, first, stops, patterns):
    """Return where the first stop to be complete begins; None where none comes.

    It begins at `first` or later; of those that end at a character the longest counts.
    """
    for end in range(first + 1, len(text) + 1):
        begins = [end - len(s) for s in stops if text[:end].endswith(s) and end - len(s) >= first]
        if begins:
            return min(begins)
        found = [re.compile(pattern).search(text[:end], first) for pattern in patterns]
        if any(found):
            return min(match.start() for match in found if match)
    return None


@pytest.mark.parametrize("seed", range(3))
def test_parameters_that_meet_each_other(fakes, seed):
    """Random calls, together in a small pool, are answered as a plain reading of the rules says."""
    rng = random.Random(seed)
    tokenizer = fakes.FakeTokenizer()
    calls = [
        fakes.gen(PROMPT[: rng.randint(3, 8)], **random_options(rng, tokenizer.table))
        for _ in range(40)
    ]
    with fakes.make_engine(num_slots=100, token_budget=32) as engine:
        results = fakes.run_all(engine, calls)
        engine.check()
    reasons = set()
    for call, result in zip(calls, results, strict=True):
        ids, logprobs, tops = walk(fakes, call)
        text, params = tokenizer.decode(ids), call.params
        first = len(tokenizer.decode(ids[: params.min_tokens]))
        cut = cut_of(text, first, params.stop, params.stop_regex)
        assert result.text == (text if cut is None else text[:cut])
        kept = len(result.token_ids)
        assert result.token_ids == ids[:kept]
        assert tokenizer.decode(ids[:kept]) + result.tail == result.text
        assert result.logprobs == logprobs[:kept]
        if params.top_logprobs_num and params.max_tokens:
            assert result.top_logprobs == tops[:kept]
        is_cut_or_ended = cut is not None or len(ids) < params.max_tokens
        assert result.finish_reason == ("stop" if is_cut_or_ended else "length")
        assert (result.prompt_logprobs is None) == (params.logprob_start_len < 0)
        reasons.add((result.finish_reason, cut is None))
    assert reasons == {("stop", True), ("stop", False), ("length", True)}
