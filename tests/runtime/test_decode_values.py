"""Penalties, biases, log-probabilities of the engine against a slow walk over the fake model."""

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
        engine.submit_gen(fakes.gen(PROMPT, stop_regex=(r"(a)\1",)), waiter)
        assert "back-reference" in str(waiter.outcome())
        assert fakes.run_all(engine, [fakes.gen(PROMPT)])[0].token_ids
        engine.check()
