"""Sampler: filters against a slow reference, ties, frequencies, and independence of rows."""

import math
import random

import numpy as np
import pytest

from lmc.errors import EngineError
from lmc.ir.calls import SamplingParams
from lmc.runtime.engine.sampler import (
    TokenRules,
    forbid_unless,
    pick_token,
    token_logprobs,
    uniform,
)


def params(**options):
    return SamplingParams(**{"temperature": 1.0, **options})


def kept_by_reference(row, options):
    """Return the weights that the documented filters leave, as {id: weight}."""
    peak = max(row)
    weights = {i: math.exp((x - peak) / options.temperature) for i, x in enumerate(row)}
    order = sorted(weights, key=lambda i: (-row[i], i))
    if options.top_k > 0:
        order = order[: options.top_k]
    if options.top_p < 1:
        total, so_far, nucleus = sum(weights[i] for i in order), 0.0, []
        for i in order:
            nucleus.append(i)
            so_far += weights[i]
            if so_far >= options.top_p * total:
                break
        order = nucleus
    best = max(weights[i] for i in order)
    return {i: weights[i] for i in order if weights[i] >= options.min_p * best}


@pytest.mark.parametrize("seed", range(30))
def test_draws_follow_the_reference(seed):
    rng = np.random.default_rng(seed)
    row = (rng.integers(-12, 12, size=600) / 4).astype(np.float32)  # many ties
    options = params(
        temperature=float(rng.choice([0.3, 1.0, 1.7])),
        top_k=int(rng.choice([-1, 2, 7, 300, 599, 600, 5000])),
        top_p=float(rng.choice([1.0, 0.2, 0.9, 0.999])),
        min_p=float(rng.choice([0.0, 0.05, 0.6])),
    )
    kept = kept_by_reference(row.tolist(), options)
    total = sum(kept.values())
    for position in range(40):
        number = uniform(seed, position)
        so_far, expected = 0.0, None
        for i in sorted(kept):
            so_far += kept[i]
            if so_far > number * total:
                expected = i
                break
        got = pick_token(row.copy(), options, key=seed, position=position)
        assert got == expected


def test_frequencies_are_the_distribution():
    row = np.log(np.array([0.5, 0.25, 0.125, 0.125], dtype=np.float32))
    count = 20_000
    counts = np.bincount(
        [pick_token(row, params(), key=k, position=0) for k in range(count)], minlength=4
    )
    assert np.abs(counts / count - np.exp(row)).max() < 0.015


def test_uniform_numbers_are_uniform_and_depend_on_both_parts():
    numbers = [uniform(key, position) for key in range(100) for position in range(100)]
    assert len(set(numbers)) == 10_000
    assert all(0 <= number < 1 for number in numbers)
    assert abs(sum(numbers) / len(numbers) - 0.5) < 0.01
    assert uniform(2**64 - 1, 7) == uniform(2**64 - 1, 7)


def test_greedy_takes_the_lowest_of_equal_ids():
    row = np.array([1, 5, 5, 5, 0], dtype=np.float32)
    assert pick_token(row, params(temperature=0.0), key=0, position=0) == 1
    assert pick_token(row, params(top_k=1), key=3, position=0) == 1


@pytest.mark.parametrize("temperature", [1e-3, 1e-20, 1e-300])
def test_a_tiny_temperature_is_nearly_greedy(temperature):
    row = np.array([-1e30, 2, 5, 1, -np.inf], dtype=np.float32)
    options = params(temperature=temperature)
    assert {pick_token(row, options, key=k, position=0) for k in range(20)} == {2}


def test_top_p_of_zero_leaves_the_best_token():
    row = np.array([1, 2, 5, 5], dtype=np.float32)
    assert {pick_token(row, params(top_p=0.0), key=k, position=0) for k in range(20)} == {2}


def test_forbidden_entries_are_never_drawn():
    rng = random.Random(1)
    for key in range(300):
        row = np.zeros(50, dtype=np.float32)
        allowed = set(rng.sample(range(50), rng.randint(1, 4)))
        row[[i for i in range(50) if i not in allowed]] = -np.inf
        options = params(top_k=rng.choice([-1, 3]), top_p=rng.choice([1.0, 0.9]))
        assert pick_token(row, options, key=key, position=rng.randrange(9)) in allowed


def test_a_row_without_an_allowed_token_is_an_error():
    row = np.full(5, -np.inf, dtype=np.float32)
    with pytest.raises(EngineError, match="no token may come next"):
        pick_token(row, params(), key=0, position=0)


def test_the_last_number_below_one_stays_inside():
    row = np.array([0.0, -1.0, -np.inf, -np.inf], dtype=np.float32)
    tokens = {pick_token(row, params(), key=k, position=p) for k in range(60) for p in range(60)}
    assert tokens == {0, 1}


def test_a_row_alone_and_in_a_batch_gives_the_same_bits():
    rng = np.random.default_rng(5)
    batch = rng.normal(size=(33, 4099)).astype(np.float32)
    for index in range(33):
        alone = batch[index].copy()
        assert token_logprobs(alone, [5, 9]) == token_logprobs(batch[index], [5, 9])
        for position in range(3):
            options = params(temperature=0.7, top_p=0.9)
            one = pick_token(alone, options, key=index, position=position)
            assert one == pick_token(batch[index], options, key=index, position=position)


def test_logprobs_are_normalised():
    row = np.array([0, 1000, 999, -np.inf], dtype=np.float32)
    assert token_logprobs(row, [1]) == [pytest.approx(-math.log1p(math.exp(-1)), abs=1e-6)]
    assert token_logprobs(row, [0, 3]) == [pytest.approx(-1000.3, abs=0.1), -math.inf]
    wide = np.random.default_rng(0).normal(size=49152).astype(np.float32) * 4
    logprobs = np.array(token_logprobs(wide, range(49152)))
    assert np.exp(logprobs).sum() == pytest.approx(1, abs=1e-6)
    exact = wide.astype(np.float64) - np.log(np.exp(wide.astype(np.float64)).sum())
    assert np.abs(logprobs - exact).max() < 1e-6


def test_forbidding_keeps_the_rest_as_it_is():
    rng = np.random.default_rng(3)
    row = rng.normal(size=1000).astype(np.float32)
    allowed = rng.integers(0, 2, size=1000, dtype=np.uint8)
    masked = row.copy()
    forbid_unless(masked, allowed)
    assert (masked[allowed == 1] == row[allowed == 1]).all()
    assert (masked[allowed == 0] == -np.inf).all()


@pytest.mark.parametrize("size", [1, 7, 256, 257, 5000])
def test_every_number_finds_its_place(size):
    rng = np.random.default_rng(size)
    row = rng.normal(size=size).astype(np.float32)
    row[rng.random(size) < 0.4] = -np.inf
    row[-1] = 1.0
    weights = np.exp((row - row.max()).astype(np.float64))
    ends = np.cumsum(weights) / weights.sum()
    for position in range(300):
        number = uniform(1, position)
        expected = int(np.searchsorted(ends, number, side="right"))
        assert pick_token(row, params(), key=1, position=position) == expected


def blocked(fakes, *, is_early=False, **options):
    """Return the ids that a call may not produce, over 80 logits."""
    ids = TokenRules(fakes.FakeTokenizer(), 80).blocked(params(**options))
    return set((ids.early if is_early else ids.late).tolist())


def test_control_ids_and_ids_without_a_meaning_are_forbidden(fakes):
    beyond = set(range(fakes.FakeTokenizer().vocab_size, 80))
    assert beyond
    assert blocked(fakes) == {0, 2} | beyond
    assert blocked(fakes, ignore_eos=True) == {0, 1, 2} | beyond
    assert blocked(fakes, stop_token_ids=(2, 9)) == {0} | beyond
    assert blocked(fakes, stop_token_ids=(1,), ignore_eos=True) == {0, 2} | beyond
    assert blocked(fakes, is_early=True, stop_token_ids=(9,)) == {0, 1, 2, 9} | beyond


def test_an_end_id_with_a_text_of_its_own_can_be_ignored(fakes):
    class TextEnd(fakes.FakeTokenizer):
        eos_ids = frozenset({9})

    rules = TokenRules(TextEnd(), 66)
    assert 9 in rules.blocked(params(ignore_eos=True)).late
    assert 9 not in rules.blocked(params()).late
    assert rules.blocked(params()).ends == {9}
    assert len(rules.blocked(params()).end_controls) == 0
