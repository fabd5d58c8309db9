"""Forced text with the real model: all modes alike, choices scored whole, prompts left alone."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import pytest
from model_support import DATA

import lmc
from lmc.backends import load_model
from lmc.frontend.capture import capture
from lmc.ir.calls import Constraint, GenCall, SamplingParams, ScoreCall
from lmc.ir.interpreter import interpret
from lmc.runtime.engine.engine import Engine

pytestmark = pytest.mark.model

RECORD = (
    r'\{"name of the person": "[A-Z][a-z]{2,9}", "years of age": [1-9][0-9], '
    r'"is a member": (true|false)\}'
)
RATINGS = ["Excellent", "Above Average", "Average", "Below Average", "Poor"]


@pytest.fixture(scope="module")
def loaded() -> Any:
    return load_model(None)


@pytest.fixture(scope="module")
def engine(loaded: Any) -> Iterator[Engine]:
    with Engine(loaded.model, loaded.target) as opened:
        yield opened


def answers(engine: Engine, calls: list[Any]) -> list[Any]:
    """Answer calls at once."""
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    for number, call in enumerate(calls):
        submit: Any = engine.submit_gen if isinstance(call, GenCall) else engine.submit_score
        submit(call, lambda outcome, number=number: done.put((number, outcome)))
    found = dict(done.get() for _ in calls)
    for outcome in found.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return [found[number] for number in range(len(calls))]


class OneByOne:
    """The engine as the interpreter sees a model."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def generate(self, call: GenCall) -> Any:
        """Answer a generation."""
        return answers(self._engine, [call])[0]

    def score(self, call: ScoreCall) -> Any:
        """Score options."""
        return answers(self._engine, [call])[0]


@lmc.function
def extract(s, text, how):
    s += "Text: " + text + "\nRecord: "
    s += lmc.gen("record", regex=RECORD, constraint_mode=how, max_tokens=60)
    s += "\nRating: " + lmc.gen(
        "rating", regex="(Excellent|Above Average|Average)", constraint_mode=how, temperature=1.0
    )
    return [s["record"], s["rating"], s.get_meta_info("record")["token_ids"]]


@pytest.mark.parametrize("mode", ["canonical", "mask"])
def test_eager_interpreter_and_compiled_agree(engine: Engine, mode: str) -> None:
    arguments = {"text": "Maria, 41, is not in the club.", "how": mode}
    made = capture([extract.__lmc_function__])
    walked = interpret(
        made.module, "extract", arguments, model=OneByOne(engine), target=engine.target, seed=7
    )
    eager = extract.run(**arguments, backend=engine, seed=7, mode="eager")
    compiled = extract.run(**arguments, backend=engine, seed=7)
    assert walked.value == eager.value == compiled.value
    head = engine.target.tokenizer.encode('{"name of the person":')
    assert (walked.value[2][: len(head)] == head) == (mode == "canonical")


@lmc.function
def constant(s):
    s += "A record of somebody in the club: "
    s += lmc.gen("record", regex=RECORD, max_tokens=60, temperature=0)


def test_what_is_forced_at_the_start_is_computed_with_the_prompt(loaded: Any) -> None:
    """The prefix is counted without it; the generation computes nothing but its first sample."""
    with Engine(loaded.model, loaded.target) as engine:
        usage = constant.run(backend=engine).usage
        (prompt,) = {call.result.usage.prompt_tokens for call in constant.run(backend=engine).calls}
        before = engine.stats()
        usage_again = constant.run(backend=engine).usage
        more = engine.stats() - before
    assert (usage.prologue_tokens, usage_again.prologue_tokens) == (prompt, 0)
    assert more.computed_tokens == 0
    # Behind the pinned head only what is sampled, or forced later, goes through the model.
    assert more.forward_tokens < usage_again.output_tokens


def questions(loaded: Any, count: int) -> list[GenCall]:
    lines = (DATA / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    params = SamplingParams(max_tokens=60, temperature=0.0, constraint_mode="mask")
    encode = loaded.target.tokenizer.encode
    contexts = [tuple(encode(json.loads(line)["question"][:80])) for line in lines[:count]]
    return [GenCall(context, params, Constraint("regex", RECORD)) for context in contexts]


def check_masked(loaded: Any, calls: list[GenCall]) -> None:
    """Drafts under the mask give the text of plain masked decoding, in fewer steps."""
    with Engine(loaded.model, loaded.target, jumps=False) as plain:
        expected = answers(plain, calls)
        assert plain.stats().drafted_tokens == 0
    with Engine(loaded.model, loaded.target) as drafting:
        assert answers(drafting, calls) == expected
        stats = drafting.stats()
    assert stats.accepted_tokens > len(calls)
    assert stats.decode_steps < stats.output_tokens


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
def test_masked_text_is_that_of_plain_masked_decoding(loaded: Any) -> None:
    check_masked(loaded, questions(loaded, 6))


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
def test_300_masked_texts_are_those_of_plain_masked_decoding(loaded: Any) -> None:
    check_masked(loaded, questions(loaded, 300))


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        ("The thing most like the sky is a", [" skill", " cloud"]),
        ("The food was fine, the service slow.\nRating:", [f" {each}" for each in RATINGS]),
    ],
)
def test_choices_are_scored_whole(engine: Engine, prompt: str, choices: list[str]) -> None:
    """Cases 70 and 71: a choice is not a walk under a mask, so long options lose nothing."""
    tokenizer = engine.target.tokenizer

    @lmc.function
    def ask(s, prompt, choices):
        s += prompt + lmc.gen("answer", choices=choices, choices_method="total_likelihood")
        return [s["answer"], s.get_meta_info("answer")["scores"]]

    answer, scores = ask.run(prompt, choices, backend=engine).value
    whole = [tuple(tokenizer.encode(prompt + choice)) for choice in choices]
    start = len(tokenizer.encode(prompt))
    params = SamplingParams(max_tokens=0, return_logprob=True, logprob_start_len=start)
    results = answers(engine, [GenCall(ids, params) for ids in whole])
    expected = [sum(result.prompt_logprobs) for result in results]
    # The scores begin at the last stable border of the prompt, which is the same for all.
    shift = scores[0] - expected[0]
    assert scores == pytest.approx([each + shift for each in expected], abs=1e-4)
    assert answer == choices[expected.index(max(expected))]


def test_the_prompt_before_forced_text_stays_as_it_is(engine: Engine) -> None:
    """Cases 73 and 75: no control token is healed away, and a blank at the end stops nothing."""
    tokenizer = engine.target.tokenizer
    control = tokenizer.control_id("<|im_start|>")
    assert control is not None
    limit = Constraint("regex", r'\{"a": [0-9]\}')
    params = SamplingParams(max_tokens=20, temperature=0.0)
    contexts = [(*tokenizer.encode("Say it:\n"), control), tuple(tokenizer.encode("Say it: "))]
    for context in contexts:
        (result,) = answers(engine, [GenCall(context, params, limit)])
        assert list(result.token_ids) == tokenizer.encode(result.text)
        assert result.usage.prompt_tokens == len(context)
        assert result.usage.forced_tokens >= 3
        assert result.complete


def test_no_control_token_is_forced(engine: Engine) -> None:
    """Case 73: its spelling in a constraint is plain text."""
    tokenizer = engine.target.tokenizer
    limit = Constraint("regex", r"<\|im_end\|>[0-9]<\|im_start\|>")
    params = SamplingParams(max_tokens=40, temperature=0.0)
    (result,) = answers(engine, [GenCall(tuple(tokenizer.encode("Go: ")), params, limit)])
    assert result.text[:10] == "<|im_end|>"
    assert not {tokenizer.control_id("<|im_end|>"), tokenizer.control_id("<|im_start|>")} & {
        *result.token_ids
    }
    assert result.usage.forced_tokens > 4
