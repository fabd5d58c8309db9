"""The reference interpreter against runs computed by hand on a tiny model.

The tokenizer's ids: 3 opens a text run at the start, merges are 4 "ab", 5 "abc", 6 "the ",
7 "no", 8 "yes"; a character is 9 + its code ("a" is 106); 2 is the control token `<|m|>`.
"""

from typing import Any

import pytest

from lmc.errors import EngineError, RunError, UsageError
from lmc.ir import Module, interpret, parse_module, verify
from lmc.ir.calls import (
    Constraint,
    GenCall,
    GenResult,
    SamplingParams,
    ScoreCall,
    ScoreResult,
    derive_key,
)
from lmc.ir.interpreter import Interpretation

A, B, C, D, Z, DOT, NL = (9 + ord(char) for char in "abcdz.\n")


def program(body: str, *, params: str = "", more: str = "", table: str = "") -> Module:
    """Return a module whose program `p` has this body and these parameters."""
    names = params.split()
    arguments = "".join(f", %{name}: py" for name in names)
    listed = ", ".join(f'{{name = "{name}"}}' for name in names)
    text = (
        f'module "m" {{}} {{\n entry @p\n func @p program (%effect: effect{arguments}) '
        f"{{params = [{listed}]}} {{\n{body}\n}}\n{more}\n}}\n{table}"
    )
    module = parse_module(text)
    verify(module)
    return module


@pytest.fixture
def run(tiny_target: Any, tiny_model: Any) -> Any:
    """Interpret a body; answers and likes go to the model, the rest to `interpret`."""

    def interpreted(
        body: str, args: Any = None, *, answers: Any = None, likes: Any = (), more: str = "",
        **options: Any,
    ) -> Interpretation:  # fmt: skip
        args = args or {}
        table = options.pop("table", "")
        module = program(body, params=" ".join(args), more=more, table=table)
        model = options.pop("model", None) or tiny_model(answers or {}, likes)
        return interpret(module, "p", args, model=model, target=tiny_target, **options)

    return interpreted


def gen(out: str, state: str, name: str = "x", params: str = "", kind: str = "text") -> str:
    """Return the text of a generation; its state, value and meta are %out, %out_v, %out_m."""
    return (
        f"%{out}: state, %{out}_v: {kind}, %{out}_m: meta = lm.gen %{state} "
        f'{{name = "{name}", params = {{{params}}}, dynamic = []}}'
    )


def text(out: str, value: str) -> str:
    """Return the text of a constant."""
    return f'%{out}: text = val.const {{value = "{value}"}}'


END = "func.return %effect, %s, %s_v"


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


# Forks, joins, variables.


def forked(join: str) -> str:
    """Return a program with two children that differ, joined."""
    return f"""%r: state = lm.prompt
      {text("a", "a")}
      %r1: state = lm.extend %r, %a
      %r2: state = lm.set %r1, %a {{name = "old"}}
      %p: state, %f: list<state> = lm.fork %r2 {{count = 2}}
      %i: int = val.const {{value = 0}}
      %j: int = val.const {{value = 1}}
      %c: state = val.index %f, %i
      %d: state = val.index %f, %j
      %c0: state, %d0: state = lm.group %p, %c, %d
      {gen("c1", "c0", "x")}
      %c2: state = lm.set %c1, %c1_v {{name = "old"}}
      {gen("d1", "d0", "y")}
      %l: list<state> = val.list %c2, %d1
      %s: state = lm.join %p, %l {{mode = "{join}"}}
      %t: text = lm.text %s
      func.return %effect, %s, %t"""


def test_join_gathers_what_is_new(run: Any) -> None:
    made = run(forked("gather_variable"), answers={"x": "no", "y": "yes"})
    assert made.variables == {"old": "a", "x": ["no"], "y": ["yes"]}
    assert made.value == "a"


def test_join_appends_what_the_children_added(run: Any) -> None:
    made = run(forked("concate_and_append"), answers={"x": "no", "y": "yes"})
    assert made.value == "anoyes"
    assert made.variables == {"old": "a"}
    assert made.state.context(made_tokenizer(run)) == (3, A, 7, 8)


def made_tokenizer(run: Any) -> Any:
    """Return the tokenizer that `run` uses."""
    return next(
        cell.cell_contents.tokenizer for cell in run.__closure__
        if hasattr(cell.cell_contents, "tokenizer") and hasattr(cell.cell_contents, "template")
    )  # fmt: skip


def test_reading_variables(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {gen("s", "r")}
      {text("n", "x")}
      %a: bool = lm.has %s, %n
      %b: bool = lm.has %s {{name = "y"}}
      %c: py = lm.get %s {{name = "x"}}
      %d: meta = lm.meta %s, %n
      %l: py = val.tuple %a, %b, %c, %d
      func.return %effect, %s, %l"""
    value = run(body, answers={"x": "ab"}).value
    assert value[:3] == (True, False, "ab")
    assert value[3]["token_ids"] == [4]
    with pytest.raises(RunError, match="no variable 'y'") as caught:
        run(body.replace('lm.get %s {name = "x"}', 'lm.get %s {name = "y"}'), answers={"x": "ab"})
    assert "set so far: 'x'" in str(caught.value)


# Control flow, functions, the host.


def test_a_loop_stops_when_told(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("start", "")}
      %s: state, %s_v: py = cf.for %items, %r, %start {{}} {{ (%item: py, %st: state, %acc: py)
        %st1: state = lm.extend %st, %item
        {gen("g", "st1")}
        {text("stop", "no")}
        %go: py = val.compare %g_v, %stop {{op = "!="}}
        %b: bool = val.truth %go
        %sum: py = val.binary %acc, %g_v {{op = "+"}}
        cf.yield %b, %g, %sum
      }}
      {END}"""
    answers = {"x": lambda call: "no" if call.context[-1] == C else "d"}
    made = run(body, {"items": ["a", "b", "c", "d"]}, answers=answers)
    assert made.value == "ddno"
    assert made.text == "adbdcno"
    assert run(body, {"items": []}).value == ""
    with pytest.raises(RunError, match="not iterable"):
        run(body, {"items": 3})


def test_a_while_loop_runs_at_least_once(run: Any) -> None:
    body = """%r: state = lm.prompt
      %one: int = val.const {value = 1}
      %n: py = cf.while %k {} { (%c: py)
        %d: py = val.binary %c, %one {op = "-"}
        %go: bool = val.truth %d
        cf.yield %go, %d
      }
      func.return %effect, %r, %n"""
    assert run(body, {"k": 3}).value == 0
    with pytest.raises(RunError, match="unsupported operand"):
        run(body, {"k": "a"})


NESTED = """ func @q program (%effect: effect, %k: py) {params = [{name = "k"}]} {
  %r: state = lm.prompt
  %s: state, %v: text, %m: meta = lm.gen %r {name = "q", params = {top_p = 0.5}, dynamic = []}
  func.return %effect, %s, %k
 }
 func @h helper (%effect: effect, %k: py) {params = [{name = "k"}]} {
  %b: bool = val.truth %k
  %e: effect, %v: py = cf.if %b {} {
    %one: int = val.const {value = 1}
    %less: py = val.binary %k, %one {op = "-"}
    %e1: effect, %w: py = func.apply %effect, %less {callee = "h"}
    %sum: py = val.binary %k, %w {op = "+"}
    cf.yield %e1, %sum
  } {
    cf.yield %effect, %k
  }
  func.return %e, %v
 }"""


def test_a_nested_program_has_its_own_prompt_lineage_and_defaults(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {gen("s", "r")}
      %k: int = val.const {{value = 3}}
      %e: effect, %s1: state, %c: state, %v: py = func.call %effect, %s, %k {{callee = "q", defaults = {{top_k = 5}}}}
      {gen("t", "s1", "y")}
      func.return %e, %t, %c"""  # noqa: E501
    made = run(body, answers={"x": "a", "q": "b", "y": "d"}, more=NESTED,
               defaults={"temperature": 0.5, "top_k": 2})  # fmt: skip
    first, nested, last = (call for call, _ in made.calls)
    assert first.params == SamplingParams(temperature=0.5, top_k=2)
    assert nested.params == SamplingParams(temperature=0.5, top_k=5, top_p=0.5)
    assert nested.context == (0,)
    assert nested.key == derive_key(0, 0, ("call1",), 0)
    assert last.key == derive_key(0, 0, (), 2)
    assert made.value.text == "b"
    assert made.value.variables["q"].value == "b"


def test_helpers_recurse_up_to_a_depth(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = func.apply %effect, %k {callee = "h"}
      func.return %e, %r, %v"""
    assert run(body, {"k": 150}, more=NESTED).value == 150 * 151 // 2
    with pytest.raises(RunError, match="nested deeper than 200"):
        run(body, {"k": 250}, more=NESTED)


def test_host_calls_are_recorded_in_order(run: Any) -> None:
    body = """%r: state = lm.prompt
      %two: int = val.const {value = 2}
      %e1: effect, %v: py = host.call %effect, %a, %two {callee = "m:f", keywords = ["k"]}
      %p: py = host.pure %v {callee = "math:sqrt"}
      %e2: effect, %u: py = host.method %e1, %a, %p {name = "append"}
      %l: py = val.tuple %p, %a
      func.return %e2, %r, %l"""
    made = run(body, {"a": [7]}, host={"m:f": lambda a, k: a[0] + k})
    assert made.host_calls == [("m:f", (([7],), {"k": 2})), (".append", (([7], 3.0), {}))]
    assert made.value == (3.0, [7, 3.0])
    found = run(body, {"a": [2]}, resolve_host=lambda callee: lambda *a, **k: 9.0)
    assert found.value == (9.0, [2, 9.0])


def test_async_functions_run_to_their_end(run: Any) -> None:
    async def twice(value: int) -> int:
        return 2 * value

    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect, %k {callee = "m:f"}
      func.return %e, %r, %v"""
    assert run(body, {"k": 4}, host={"m:f": twice}).value == 8


def test_a_state_is_neither_text_nor_an_argument_of_the_host(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect, %r {callee = "m:f"}
      func.return %e, %r, %v"""
    with pytest.raises(RunError, match="cannot be handed to a function of your own"):
        run(body, host={"m:f": print})
    body = """%r: state = lm.prompt
      %t: text = val.concat %r
      func.return %effect, %r, %t"""
    with pytest.raises(RunError, match="a prompt state is not text"):
        run(body)


def test_errors_of_the_host_are_told_at_its_line(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect {callee = "m:f"} loc(#0)
      func.return %e, %r, %v"""
    table = '#0 = "p.py":4:5-4:9 "    f()"'
    with pytest.raises(RunError, match="m:f raised ZeroDivisionError") as caught:
        run(body, host={"m:f": lambda: 1 // 0}, table=table)
    assert str(caught.value).splitlines()[1] == "  at p.py:4:5"
    with pytest.raises(RunError, match="cannot be imported"):
        run(body, table=table)


# Errors.


def test_only_text_can_be_appended(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("a", "the end")}
      %r1: state = lm.extend %r, %a
      %s: state = lm.extend %r1, %k
      func.return %effect, %s, %k"""
    with pytest.raises(RunError, match="not int: 3") as caught:
        run(body, {"k": 3})
    assert "the prompt ends in 'the end'" in str(caught.value)


def test_undefined_names_fail_where_they_are_read(run: Any) -> None:
    body = """%r: state = lm.prompt
      %u: py = val.undefined {name = "v"}
      %s: state = lm.set %r, READ {name = "w"}
      func.return %effect, %s, %k"""
    assert run(body.replace("READ", "%k"), {"k": 1}).variables == {"w": 1}
    with pytest.raises(RunError, match="'v' has no value on the path"):
        run(body.replace("READ", "%u"), {"k": 1})


def test_errors_of_the_model_get_the_line_and_the_tail(run: Any) -> None:
    class Full:
        def generate(self, call: GenCall) -> GenResult:
            raise EngineError("the pool is full", hint="wait")

    body = f"%r: state = lm.prompt\n{gen('s', 'r')}\n{END}"
    with pytest.raises(RunError, match="the pool is full") as caught:
        run(body, model=Full())
    assert caught.value.hint == "wait\nthe prompt ends in ''"


def test_roles_need_a_template_and_turns_must_match(run: Any, tiny_target: Any) -> None:
    body = """%r: state = lm.prompt
      %r1: state = lm.begin %r {role = "user"}
      %s: state = lm.end %r1 {role = "system"}
      %t: text = lm.text %s
      func.return %effect, %s, %t"""
    with pytest.raises(
        RunError, match=r"no turn of .system. can be closed: that of .user. is open"
    ):
        run(body)
    with pytest.raises(RunError, match="no control token '<x>'"):
        run(body.replace('lm.begin %r {role = "user"}', 'lm.control %r {token = "<x>"}'))
    tiny_target.template = None
    with pytest.raises(RunError, match="has no chat template"):
        run(body)


def test_arguments_are_bound_by_name(tiny_target: Any, tiny_model: Any) -> None:
    module = program("%r: state = lm.prompt\nfunc.return %effect, %r, %a", params="a")
    module.functions["p"].params[0].has_default = True
    module.functions["p"].params[0].default = [1]
    options = {"model": tiny_model(), "target": tiny_target}
    first = interpret(module, "p", {}, **options)
    first.value.append(2)
    assert interpret(module, "p", {}, **options).value == [1]
    with pytest.raises(UsageError, match="no parameter 'b'"):
        interpret(module, "p", {"b": 1}, **options)
    module.functions["p"].params[0].has_default = False
    with pytest.raises(UsageError, match="needs a value for 'a'"):
        interpret(module, "p", {}, **options)
    with pytest.raises(UsageError, match="has no program 'q'"):
        interpret(module, "q", {}, **options)
