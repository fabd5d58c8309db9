"""The engine over a fake model: generations under a constraint."""

import threading

from engine_expected import PROMPT, regex

from lmc.errors import ConstraintError
from lmc.runtime.engine.sampler import token_logprobs


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
        engine.submit_gen(fakes.gen(PROMPT, constraint=regex("(.)\\1")), waiters[2])
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
