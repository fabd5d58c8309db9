"""The reference interpreter against runs computed by hand on a tiny model.

The tokenizer's ids: 3 opens a text run at the start, merges are 4 "ab", 5 "abc", 6 "the ",
7 "no", 8 "yes"; a character is 9 + its code ("a" is 106); 2 is the control token `<|m|>`.
"""

from typing import Any

import pytest
from ir_program_text import END, gen, text

from lmc.errors import RunError
from lmc.ir.calls import (
    Constraint,
    GenCall,
    GenResult,
    SamplingParams,
    ScoreCall,
    ScoreResult,
    derive_key,
)

A, B, C, D, Z, DOT, NL = (9 + ord(char) for char in "abcdz.\n")


# What the tokens of a context are.


def test_appended_text_is_one_run_whatever_the_cuts(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("a", "a")}
      {text("bc", "bc.")}
      %r1: state = lm.extend %r, %a
      %r2: state = lm.extend %r1, %bc
      {gen("s", "r2")}
      {END}"""
    made = run(body, answers={"x": "d"})
    (call, _), = made.calls  # fmt: skip
    assert call.context == (3, 5, DOT)
    assert made.text == "abc.d"
    assert made.value == "d"
    assert made.variables == {"x": "d"}


def test_an_empty_prompt_has_the_stand_in_for_its_context(run: Any) -> None:
    made = run(f"%r: state = lm.prompt\n{gen('s', 'r')}\n{END}", answers={"x": "ab"})
    assert made.calls[0][0].context == (0,)


def test_start_ids_open_every_context(run: Any, tiny_target: Any, tiny_tokenizer: Any) -> None:
    tiny_target.tokenizer = tiny_tokenizer(start_ids=(2,))
    body = f"""%r: state = lm.prompt
      {text("a", "ab")}
      %r1: state = lm.extend %r, %a
      {gen("s", "r1")}
      {gen("t", "s", "y")}
      func.return %effect, %t, %t_v"""
    made = run(body, answers={"x": "c", "y": ""})
    assert [call.context for call, _ in made.calls] == [(2, 3, 4), (2, 3, 4, C)]


def test_generated_ids_are_kept_and_never_merge(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("a", "a")}
      {text("c", "c")}
      %r1: state = lm.extend %r, %a
      {gen("s", "r1")}
      %s1: state = lm.extend %s, %c
      {gen("t", "s1", "y")}
      func.return %effect, %t, %t_v"""
    made = run(body, answers={"x": "b", "y": "d"})
    assert made.calls[1][0].context == (3, A, B, C)
    assert made.text == "abcd"


def test_text_left_of_a_cut_starts_the_next_text_run(run: Any) -> None:
    answer = GenResult(token_ids=(B,), text="ba", tail="a", matched_stop="bc")
    body = f"""%r: state = lm.prompt
      {text("b", "b")}
      {gen("s", "r")}
      %s1: state = lm.extend %s, %b
      {gen("t", "s1", "y")}
      func.return %effect, %t, %s_m"""
    made = run(body, answers={"x": answer, "y": ""})
    assert made.calls[1][0].context == (B, 4)
    assert made.text == "bab"
    assert made.value == {
        "finish_reason": "stop", "matched_stop": "bc", "complete": True, "prompt_tokens": 1,
        "completion_tokens": 1, "token_ids": [B], "logprobs": None,
    }  # fmt: skip


def test_roles_come_from_the_template_and_controls_bound_text(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("a", "a")}
      %r1: state = lm.begin %r {{role = "user"}}
      %r2: state = lm.extend %r1, %a
      %r3: state = lm.end %r2 {{role = "user"}}
      %r4: state = lm.begin %r3 {{role = "assistant"}}
      {gen("s", "r4")}
      %s1: state = lm.end %s {{role = "assistant"}}
      %t: state = lm.control %s1 {{token = "<|m|>"}}
      %m: py = lm.messages %t
      func.return %effect, %t, %m"""
    made = run(body, answers={"x": "no"})
    user = [9 + ord(char) for char in "user:a\n"]
    assistant = [9 + ord(char) for char in "assistant:"]
    greeting = [9 + ord(char) for char in "hi\n"]
    assert made.calls[0][0].context == (2, *greeting, 2, *user, 2, *assistant)
    assert made.value == [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "no"},
    ]  # fmt: skip
    assert made.text == "<|m|>hi\n<|m|>user:a\n<|m|>assistant:no\n<|m|>"


def test_a_prologue_means_the_ops_that_it_lists(run: Any) -> None:
    pieces = '[["begin", "user"], ["text", "ab"], ["end", "user"], ["control", "<|m|>"]]'
    short = run(f"%r: state = lm.prologue {{pieces = {pieces}}}\n{gen('s', 'r')}\n{END}",
                answers={"x": ""})  # fmt: skip
    body = f"""%r: state = lm.prompt
      {text("a", "ab")}
      %r1: state = lm.begin %r {{role = "user"}}
      %r2: state = lm.extend %r1, %a
      %r3: state = lm.end %r2 {{role = "user"}}
      %r4: state = lm.control %r3 {{token = "<|m|>"}}
      {gen("s", "r4")}
      {END}"""
    long = run(body, answers={"x": ""})
    assert short.calls == long.calls
    assert short.messages == long.messages == [{"role": "user", "content": "ab"}]


# Parameters, keys, values.


def test_parameters_come_from_the_call_then_the_run_then_the_defaults(run: Any) -> None:
    params = 'max_tokens = 0, stop = "\\n", temperature = none'
    made = run(
        f"%r: state = lm.prompt\n{gen('s', 'r', params=params)}\n{END}",
        answers={"x": ""},
        defaults={"max_tokens": 9, "temperature": 0.25, "stop": ["a", "b"]},
    )
    assert made.calls[0][0].params == SamplingParams(max_tokens=0, temperature=0.25, stop=("\n",))


def test_dynamic_parameters_come_as_operands(run: Any) -> None:
    body = """%r: state = lm.prompt
      %s: state, %s_v: text, %m: meta = lm.gen %r, %k, %name {params = {}, dynamic = ["top_k", "name"]}
      func.return %effect, %s, %s_v"""  # noqa: E501
    made = run(body, {"k": 7, "name": "z"}, answers={"z": "ab"})
    assert made.calls[0][0].params == SamplingParams(top_k=7)
    assert made.variables == {"z": "ab"}


def test_keys_follow_lineage_and_ordinal(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {gen("s", "r", "a")}
      %p: state, %f: list<state> = lm.fork %s {{count = 2}}
      %one: int = val.const {{value = 1}}
      %c: state = val.index %f, %one
      {gen("t", "c", "b")}
      {gen("u", "t", "c")}
      {gen("v", "p", "d")}
      %w: state = lm.tick %v {{n = 4}}
      {gen("x", "w", "e")}
      {gen("g", "x", "f", "temperature = 0")}
      {gen("h", "g", "h", "top_k = 1")}
      func.return %effect, %h, %u_v"""
    answers = dict.fromkeys("abcdefh", "no")
    made = run(body, answers=answers, seed=5, instance=3)
    keys = [call.key for call, _ in made.calls]
    assert keys == [
        derive_key(5, 3, (), 0),
        derive_key(5, 3, ("fork1.1",), 0),
        derive_key(5, 3, ("fork1.1",), 1),
        derive_key(5, 3, (), 2),
        derive_key(5, 3, (), 7),
        0,
        0,
    ]


def test_samples_differ_in_the_key_and_the_prompt_takes_the_first(run: Any) -> None:
    answers = {"x": lambda call: "yes" if call.key == derive_key(0, 0, (), 0, 0) else "no"}
    made = run(f"%r: state = lm.prompt\n{gen('s', 'r', params='n = 3', kind='py')}\n{END}",
               answers=answers)  # fmt: skip
    assert [call.key for call, _ in made.calls] == [derive_key(0, 0, (), 0, i) for i in range(3)]
    assert made.value == ["yes", "no", "no"]
    assert made.text == "yes"
    assert made.demanded == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [("int", "-12", -12), ("float", "1.5", 1.5), ("bool", "False", False), ("str", "12", "12")],
)
def test_typed_values_are_read(run: Any, kind: str, answer: str, value: object) -> None:
    params = f'type = "{kind}"'
    made = run(f"%r: state = lm.prompt\n{gen('s', 'r', params=params, kind='py')}\n{END}",
               answers={"x": answer})  # fmt: skip
    assert made.value == value
    assert type(made.value) is type(value)
    call = made.calls[0][0]
    assert (call.constraint is None) == (kind == "str")


def test_a_cut_typed_value_is_an_error_and_a_cut_text_is_not(run: Any) -> None:
    cut = GenResult(token_ids=(58,), text="1", finish_reason="length", complete=False)
    body = "%r: state = lm.prompt\n{}\n" + END
    made = run(body.format(gen("s", "r", params='regex = "12"')), answers={"x": cut})
    assert made.value == "1"
    assert made.calls[0][0].constraint == Constraint("regex", "12")
    with pytest.raises(RunError, match="max_tokens") as caught:
        run(body.format(gen("s", "r", params='type = "int", max_tokens = 6')), answers={"x": cut})
    assert "6" in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [
        "max_tokens = -1", "temperature = -0.5", "top_p = 0", "top_k = 0", "min_p = 2", "n = 0",
        'max_tokens = "8"', "stop = 3", "stop = [1]", "ignore_eos = 1", 'stop_token_ids = ["a"]',
        "max_tokens = true", "regex = 1", "temperature = inf", "temperature = nan",
    ],
)  # fmt: skip
def test_parameters_are_checked(run: Any, params: str) -> None:
    with pytest.raises(RunError, match=params.split()[0]):
        run(f"%r: state = lm.prompt\n{gen('s', 'r', params=params)}\n{END}", answers={"x": ""})


# Choices.


def select(params: str = "", choices: str = '"no", "yes"') -> str:
    """Return a program that chooses after the text `ab`."""
    return f"""%r: state = lm.prompt
      {text("a", "ab")}
      %r1: state = lm.extend %r, %a
      %ch: py = val.const {{value = [{choices}]}}
      %s: state, %s_v: text, %m: meta = lm.select %r1, %ch {{name = "x", params = {{{params}}}, dynamic = []}}
      func.return %effect, %s, %m"""  # noqa: E501


def test_options_are_scored_from_the_last_stable_border(run: Any) -> None:
    made = run(select(choices='"c", "yes"'), likes=["yes"])
    # "ab" may become "abc", so only the opening blank is stable.
    assert made.calls[0][0] == ScoreCall((3,), ((5,), (4, 8)))
    assert made.text == "abyes"
    assert made.variables == {"x": "yes"}
    assert made.value == {
        "choices": ["c", "yes"], "scores": [-51.0, -1.0], "logprobs": [[-51.0], [-1.0, -1.0]],
        "finish_reason": "stop", "normalized_prompt_logprobs": [-51.0, -1.0],
        "input_token_logprobs": [[(-51.0, 5, "abc")], [(-1.0, 4, "ab"), (-1.0, 8, "yes")]],
        "output_token_logprobs": [[], []],
    }  # fmt: skip


class Scores:
    """A model that gives fixed scores, one ScoreResult per call."""

    def __init__(self, *results: tuple[tuple[float, ...], ...]) -> None:
        self.results = list(results)

    def generate(self, call: GenCall) -> GenResult:
        raise AssertionError("nothing is generated here")

    def score(self, call: ScoreCall) -> ScoreResult:
        return ScoreResult(logprobs=self.results.pop(0))


@pytest.mark.parametrize(
    ("method", "scores", "chosen"),
    [
        ("token_length_normalized", [((-1.0, -3.0), (-2.0,))], "no"),  # a tie: the first
        ("token_length_normalized", [((-1.0, -3.5), (-2.0,))], "yes"),
        ("greedy_token_selection", [((-1.0, -9.0), (-2.0,))], "no"),
        ("greedy_token_selection", [((-2.0, -9.0), (-2.0,))], "yes"),  # padded with its mean
        ("unconditional_likelihood_normalized", [((-4.0,), (-3.0,)), ((-9.0,), (-3.0,))], "no"),
    ],
)
def test_methods_of_choice(run: Any, method: str, scores: Any, chosen: str) -> None:
    made = run(select(f'choices_method = "{method}"'), model=Scores(*scores))
    assert made.variables == {"x": chosen}


def test_the_unconditional_score_is_of_the_option_alone(run: Any) -> None:
    made = run(select('choices_method = "unconditional_likelihood_normalized"'), likes=["no"])
    assert made.calls[1][0] == ScoreCall((0,), ((3, 7), (3, 8)))
    assert made.demanded == {0, 1}


def test_one_choice_needs_no_call_and_none_is_an_error(run: Any) -> None:
    made = run(select(choices='"no"'))
    assert made.calls == []
    assert made.text == "abno"
    with pytest.raises(RunError, match="nothing to choose from"):
        run(select(choices=""))
    with pytest.raises(RunError, match="must be a str"):
        run(select(choices="1, 2"))
    with pytest.raises(RunError, match="temperature"):
        run(select("temperature = 0.5"))
