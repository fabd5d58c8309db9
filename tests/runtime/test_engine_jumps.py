"""Forced text in the engine: the same results as token by token, in fewer passes.

Two oracles: an engine with `jumps=False`, which takes a step for every token; and for masked
calls the fake model's logits, sampled one token at a time.
"""

import random
from collections import Counter

import numpy as np
import pytest
from engine_expected import PROMPT, regex

from lmc.ir.automata import compile_regex
from lmc.runtime.constraint import RegexConstraint
from lmc.runtime.engine.sampler import pick_token

TEMPLATE = r"\[the abc: [0-9]{1,3}, then: (an|the) [a-c]{2}\.\], 1200"
PATTERNS = (
    TEMPLATE,
    r"(the |a )?(abc|then|9)+\.",
    r"(abc, ){1,3}\[[ \n]{0,3}12-00[ \n]{0,3}\]",
    r"[a-e]{0,9}: 12é12",
    r"(ab|abcd|the)abc[0-9]12",
    r"(the: [a-c0-4]{6}, then: ){3,5}\.",
)


def calls_of(fakes, count, mode, **options):
    """Return calls under constraints that force text, with parameters of many kinds."""
    rng = random.Random(count)
    return [
        fakes.gen(
            PROMPT[: rng.randint(1, 30)],
            constraint=regex(PATTERNS[key % len(PATTERNS)]),
            constraint_mode=mode,
            temperature=rng.choice((0.0, 0.7, 1.5)),
            max_tokens=rng.choice((1, 3, 6, 90, 90)),
            min_tokens=rng.choice((0, 0, 1)),
            stop=rng.choice(((), ("abc",), ("c: ", "00"), ("the",))),
            stop_regex=rng.choice(((), ("[0-9]{2}",))),
            stop_token_ids=rng.choice(((), (), (3 + rng.randrange(60),))),
            frequency_penalty=rng.choice((0.0, 0.5)),
            return_logprob=rng.choice((True, False)),
            top_logprobs_num=rng.choice((0, 2)),
            key=key,
            **options,
        )
        for key in range(count)
    ]


@pytest.mark.parametrize("mode", ["canonical", "mask"])
def test_results_are_those_of_a_step_per_token(fakes, mode):
    """Cases 68 and 72: stops, limits and log-probabilities hold within forced text."""
    calls = calls_of(fakes, 150, mode)
    with fakes.make_engine(jumps=False) as engine:
        plain = fakes.run_all(engine, calls)
        plain_steps = engine.stats().decode_steps
    with fakes.make_engine(debug=True) as engine:
        jumped = fakes.run_all(engine, calls)
        stats = engine.stats()
    assert jumped == plain
    assert stats.decode_steps < plain_steps
    assert len({(r.finish_reason, r.matched_stop is not None) for r in jumped}) == 3
    if mode == "canonical":
        assert sum(r.usage.forced_tokens for r in jumped) > 300
    else:
        assert stats.accepted_tokens > 30


@pytest.mark.parametrize("mode", ["canonical", "mask"])
def test_forced_runs_survive_preemption_and_small_steps(fakes, mode):
    calls = calls_of(fakes, 40, mode)
    with fakes.make_engine(jumps=False) as engine:
        plain = fakes.run_all(engine, calls)
    model = fakes.FakeModel()
    with fakes.make_engine(model, token_budget=5, max_running=8, debug=True) as engine:
        scheduler, within = engine._core.scheduler, []

        def preempt():
            """Stop a call between two steps; note whether a run was computed in part."""
            seqs = [seq for seq in scheduler.running if not seq.is_prefilling]
            if seqs:
                within.append(
                    seqs[-1].extend_len > 1 and seqs[-1].cached_len > seqs[-1].context_len
                )
                scheduler.room.preempt(seqs[-1])

        model.before_forward = lambda batch: engine._post(preempt)
        assert fakes.run_all(engine, calls) == plain
        assert len(within) == engine.stats().preemptions > 40
        assert any(within)
        engine.check()


def test_forced_runs_beside_a_step_chosen_ahead_and_other_drafts(fakes):
    for mode in ("canonical", "mask"):
        calls = calls_of(fakes, 40, mode)
        with fakes.make_engine(jumps=False) as engine:
            plain = fakes.run_all(engine, calls)
        with fakes.make_engine(overlap=True, max_running=8) as engine:
            assert fakes.run_all(engine, calls) == plain
        with fakes.make_engine(drafts="ngram", max_running=8) as engine:
            assert fakes.run_all(engine, calls) == plain


def test_passes_are_the_sampled_tokens(fakes):
    model = fakes.FakeModel()
    call = fakes.gen(PROMPT, constraint=regex(TEMPLATE), max_tokens=60)
    with fakes.make_engine(model) as engine:
        (result,) = fakes.run_all(engine, [call])
    usage = result.usage
    assert usage.decode_steps == len(model.batches) == usage.output_tokens - usage.forced_tokens
    assert usage.forced_tokens > 0.6 * usage.output_tokens
    assert result.complete


def test_cancelled_within_a_forced_run(fakes):
    """Nothing is left behind, and the next call is as if it had been alone."""
    model = fakes.FakeModel()
    with fakes.make_engine(model, token_budget=2, debug=True) as engine:
        waiter = fakes.Waiter()
        call = fakes.gen(PROMPT, constraint=regex(r"(x|y)z98z98z98z98(x|y)"), max_tokens=60)
        seen = []

        def cancel_in_the_run(batch):
            seen.append(len(batch.token_ids))
            if len(seen) == len(PROMPT) // 2 + 3:
                ticket.cancel()

        model.before_forward = cancel_in_the_run
        with fakes.held(engine):
            ticket = engine.submit_gen(call, waiter)
        assert type(waiter.outcome()).__name__ == "Cancelled"
        model.before_forward = None
        (after,) = fakes.run_all(engine, [call])
        engine.check()
    with fakes.make_engine(jumps=False) as engine:
        assert fakes.run_all(engine, [call]) == [after]


def expected_under_mask(fakes, call):
    """Sample a call by the fake model's logits under the constraint's mask, token by token."""
    model, tokenizer = fakes.FakeModel(), fakes.FakeTokenizer()
    constraint = RegexConstraint(compile_regex(call.constraint.source), tokenizer)
    matcher, ids = constraint.matcher(), list(call.context)
    words = np.zeros(constraint.vocabulary.words, dtype=np.int32)
    while not matcher.is_terminated() and len(ids) - len(call.context) < call.params.max_tokens:
        row = model.logits_after(ids)
        matcher.fill_bitmask(words)
        allowed = np.unpackbits(words.view(np.uint8), bitorder="little")[: len(row)].astype(bool)
        row[
            ~np.resize(np.append(allowed, np.zeros(len(row) - len(allowed), bool)), len(row))
        ] = -np.inf
        position = len(ids) - len(call.context)
        token = pick_token(row, call.params, key=call.key, position=position)
        if token in tokenizer.eos_ids:
            break
        matcher.accept_token(token)
        ids.append(token)
    return tuple(ids[len(call.context) :])


def test_masked_text_is_that_of_plain_masked_decoding(fakes):
    calls = [
        fakes.gen(
            PROMPT,
            constraint=regex(PATTERNS[key % len(PATTERNS)]),
            constraint_mode="mask",
            temperature=(0.0, 1.0)[key % 2],
            max_tokens=50,
            key=key,
        )
        for key in range(60)
    ]
    with fakes.make_engine() as engine:
        results = fakes.run_all(engine, calls)
        stats = engine.stats()
    assert [r.token_ids for r in results] == [expected_under_mask(fakes, call) for call in calls]
    assert stats.accepted_tokens > 0
    assert stats.decode_steps < stats.output_tokens


def spread(fakes, count):
    """Return how often each text came of a masked call, and how often it should."""
    pattern, masked = r"(x|y)(ab|an)", {"constraint_mode": "mask"}
    calls = [
        fakes.gen(PROMPT[:4], constraint=regex(pattern), temperature=1.0, key=key, **masked)
        for key in range(count)
    ]
    with fakes.make_engine() as engine:
        found = Counter(result.token_ids for result in fakes.run_all(engine, calls))
    model, tokenizer = fakes.FakeModel(), fakes.FakeTokenizer()
    constraint = RegexConstraint(compile_regex(pattern), tokenizer)
    chances = {}

    def walk(matcher, ids, chance):
        if matcher.is_terminated():
            chances[tuple(ids)] = chance
            return
        row = model.logits_after([*PROMPT[:4], *ids]).astype(np.float64)
        allowed = [
            token
            for token in range(3, tokenizer.vocab_size)
            if constraint.advance(matcher.state, token) >= 0
        ]
        weights = np.exp(row[allowed] - row[allowed].max())
        for token, share in zip(allowed, weights / weights.sum(), strict=True):
            after = matcher.fork()
            after.accept_token(token)
            walk(after, [*ids, token], chance * share)

    walk(constraint.matcher(), [], 1.0)
    assert found.keys() <= chances.keys()
    return found, {ids: chance * count for ids, chance in chances.items()}


def assert_chi_square(found, expected):
    """The sum of squared deviations stays within what comes by chance once in 1,000 times."""
    least = {ids: number for ids, number in expected.items() if number >= 5}
    rest = sum(expected.values()) - sum(least.values())
    cells = [(found[ids], number) for ids, number in least.items()]
    if rest >= 5:
        cells.append((sum(found.values()) - sum(n for n, _ in cells), rest))
    freedom = len(cells) - 1
    total = sum((seen - number) ** 2 / number for seen, number in cells)
    # Wilson and Hilferty: the cube root of chi-square by its freedom is nearly normal.
    spread = 2 / (9 * freedom)
    assert (total / freedom) ** (1 / 3) < 1 - spread + 3.09 * spread**0.5


def test_masked_samples_are_spread_as_the_mask_says(fakes):
    assert_chi_square(*spread(fakes, 1000))


@pytest.mark.long
def test_10_000_masked_samples_are_spread_as_the_mask_says(fakes):
    assert_chi_square(*spread(fakes, 10_000))


def test_flexible_white_space_is_not_jumped(fakes):
    """Case 69: what may be white space is sampled, and its bound holds."""
    pattern = r"\[[ \n]{0,4}the: 12[ \n]{0,4}\]"
    calls = [
        fakes.gen(PROMPT, constraint=regex(pattern), temperature=2.0, key=key, max_tokens=40)
        for key in range(40)
    ]
    with fakes.make_engine() as engine:
        results = fakes.run_all(engine, calls)
    with fakes.make_engine(jumps=False) as engine:
        assert fakes.run_all(engine, calls) == results
    assert all(result.complete for result in results)
    lengths = {len(result.text) for result in results}
    assert len(lengths) > 4, "white space of many lengths"


def test_a_free_part_is_not_jumped(fakes):
    """Case 74: while what comes is free, as a chain of thought is, nothing is forced."""
    tokenizer = fakes.FakeTokenizer()
    constraint = RegexConstraint(compile_regex(r"[a-z ]{3,30}\.\n\[the: [0-9]\]"), tokenizer)
    ids = tokenizer.encode("the abc then.")
    state = constraint.dfa.start
    for at, token_id in enumerate(ids):
        assert constraint.runs.after(state, ids[:at]) == ()
        state = constraint.advance(state, token_id)
    assert tokenizer.decode(constraint.runs.after(state, ids)) == "\n[the: "
