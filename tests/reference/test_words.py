"""The words' parameters mean what they mean in the reference frontend, in every mode."""

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import lmc
from lmc.errors import CompileError, LmcError, UsageError
from lmc.frontend import dsl
from lmc.frontend.capture import capture
from lmc.ir.calls import Constraint
from lmc.ir.interpreter import interpret
from lmc.ir.reasoning import REASONING, split_reasoning
from lmc.runtime.oracle import Oracle

SEED = 3
MODES: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "unoptimised": {"passes": ""},
    "optimised": {},
}
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
SCHEMA_TEXT = json.dumps(SCHEMA, separators=(",", ":"))


def everywhere(program: Any, script: dict[str, str], **arguments: Any) -> Any:
    """Run in every mode and by the reference interpreter; all must agree. Returns one result."""
    made = capture([program])
    oracle = Oracle(script)
    walked = interpret(
        made.module, program.name, arguments, model=oracle, target=oracle.target, seed=SEED,
        host=made.host,
    )  # fmt: skip
    told = (walked.value, dict(walked.variables), walked.text, walked.messages)
    calls = [call for call, _ in walked.demanded_calls]
    for options in MODES.values():
        result = program.run(**arguments, backend=Oracle(script), seed=SEED, **options)
        state = result.state
        assert (result.value, state.variables, result.text(), result.messages()) == told
        assert [record.call for record in result.calls] == calls
    return result


# -- constraints -------------------------------------------------------------------------------


@lmc.function
def of_constant_schema(s):
    s += lmc.gen("made", json_schema=SCHEMA, max_tokens=60)
    return json.loads(s["made"])["age"] + 1


@lmc.function
def of_given_schema(s, schema, limit: int):
    s += lmc.user("As JSON.")
    s += lmc.assistant(lmc.gen("made", max_tokens=limit, json_schema=schema))


def test_a_schema_gives_text() -> None:
    """The variable is the JSON text, constrained by the schema."""
    result = everywhere(of_constant_schema, {"made": '{"age": 41}'})
    assert (result["made"], result.value) == ('{"age": 41}', 42)
    assert result.calls[0].call.constraint == Constraint("json_schema", SCHEMA_TEXT)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA_TEXT, json.dumps(SCHEMA, indent=2), True])
def test_a_schema_may_be_known_at_run_time(schema: Any) -> None:
    """Without a graph break; a dict is what its text is."""
    result = everywhere(of_given_schema, {}, schema=schema, limit=60)
    assert result.calls[0].call.constraint.kind == "json_schema"
    if schema is not True:
        assert result.calls[0].call.constraint.source == SCHEMA_TEXT
        assert isinstance(json.loads(result["made"])["age"], int)


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
@pytest.mark.parametrize("schema", ["{", 5, [1], {"a": {1}}])
def test_what_is_no_schema_is_told_at_the_line(schema: Any, options: dict[str, Any]) -> None:
    """In every mode, with the parameter's name."""
    with pytest.raises(LmcError, match="json_schema must be") as caught:
        of_given_schema.run(schema=schema, limit=9, backend=Oracle(), **options)
    assert caught.value.location is not None


@pytest.mark.parametrize("other", [{"regex": "a"}, {"type": int}, {"dtype": str}, {"dtype": "int"}])
def test_a_schema_excludes_other_constraints(other: dict[str, Any]) -> None:
    """One of them can hold."""
    with pytest.raises(UsageError, match="beside"):
        lmc.gen("x", json_schema=SCHEMA, **other)


@lmc.function
def quoted(s):
    s += '{"name": ' + lmc.gen_string("name") + ', "town": '
    s += lmc.gen("town", dtype=str, stop="\n") + ', "job": ' + lmc.gen(dtype="str")
    s += ', "age": ' + lmc.gen_int("age", 8) + "}"
    return s["age"] + 1


@pytest.mark.parametrize("seed", range(4))
def test_strings_come_with_their_quotes(seed: int) -> None:
    """So that they can stand in JSON; numbers are values."""
    script = {"name": '"Ada"', "age": "36"} if seed else {}
    result = everywhere(quoted, script)
    assert result["name"].startswith('"')
    assert result["town"].startswith('"')
    assert result["age"] == result.value - 1
    kinds = {record.call.constraint.source for record in result.calls}
    assert kinds == {lmc.REGEX_STR, r"-?(0|[1-9][0-9]{0,17})"}


def test_a_pattern_beside_quoted_words_is_refused() -> None:
    """They have one of their own."""
    with pytest.raises(UsageError, match="dtype=str has a pattern of its own"):
        lmc.gen("x", dtype=str, regex="a")


# -- positions ---------------------------------------------------------------------------------

PLACED = (
    "said", 9, 2, 1, ["\n"], [5], ["z+"], 0.5, 0.9, 20, 0.1, 0.25, 0.5, True, True, 0, 2, False,
)  # fmt: skip


@lmc.function
def by_position(s):
    s += "Say: " + lmc.gen(
        "said", 9, 2, 1, ["\n"], [5], ["z+"], 0.5, 0.9, 20, 0.1, 0.25, 0.5, True, True, 0, 2, False
    )  # fmt: skip
    s += lmc.gen_int("number", 9, 1, ["\n"], [5], [], 0.5)
    s += lmc.gen_string("word", 9, 1, ["\n"], [5], [], 0.5)
    s += lmc.select("chosen", ["a", "b"], 0.0, lmc.greedy_token_selection)


@lmc.function
def by_name(s):
    s += "Say: " + lmc.gen(
        name="said", max_tokens=9, min_tokens=2, n=1, stop=["\n"], stop_token_ids=[5],
        stop_regex=["z+"], temperature=0.5, top_p=0.9, top_k=20, min_p=0.1,
        frequency_penalty=0.25, presence_penalty=0.5, ignore_eos=True, return_logprob=True,
        logprob_start_len=0, top_logprobs_num=2, return_text_in_logprobs=False,
    )  # fmt: skip
    s += lmc.gen_int("number", max_tokens=9, stop=["\n"], stop_token_ids=[5],
                     temperature=0.5)  # fmt: skip
    s += lmc.gen_string("word", max_tokens=9, stop=["\n"], stop_token_ids=[5], temperature=0.5)
    s += lmc.select("chosen", choices=["a", "b"], choices_method="greedy_token_selection")


def test_positions_are_those_of_the_reference() -> None:
    """The same calls by position as by name."""
    placed, named = everywhere(by_position, {}), everywhere(by_name, {})
    assert [r.call for r in placed.calls] == [r.call for r in named.calls]


def test_capture_knows_the_positions_of_the_functions() -> None:
    """The table that capture reads is the signature."""
    kinds = inspect.signature(lmc.gen).parameters.values()
    positional = [p.name for p in kinds if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert tuple(positional) == dsl.GEN_ORDER
    assert dsl.GEN_ORDER[: len(PLACED)] == (
        *dsl.SHORT_ORDER[:2],
        "min_tokens",
        *dsl.SHORT_ORDER[2:],
    )


@pytest.mark.parametrize("word", [lmc.gen_int, lmc.gen_string])
def test_too_many_or_doubled_positions_are_refused(word: Any) -> None:
    """As Python does it."""
    with pytest.raises(TypeError, match="positional"):
        word(*range(30))
    with pytest.raises(TypeError, match="multiple values"):
        word("x", 5, max_tokens=6)


# -- turns -------------------------------------------------------------------------------------


@lmc.function
def open_turn(s, first: str):
    s += lmc.user(first)
    before = s.messages()
    s += lmc.assistant_begin()
    s += "\n " + lmc.gen("said", max_tokens=4)
    within = s.messages()
    s += lmc.assistant_end()
    return before, within, s.messages()


@lmc.function
def own_system(s):
    s += lmc.system("  Be kind. ")
    s += lmc.user()
    return s.messages()


def test_messages_are_the_closed_turns() -> None:
    """The template's own system turn counts; contents begin with no blank."""
    result = everywhere(open_turn, {"said": " hm "}, first="\t Hi ")
    before, within, after = result.value
    assert [turn["role"] for turn in after] == ["system", "user", "assistant"]
    assert before == within == after[:2]
    assert after[0]["content"] in result.text()
    assert after[0]["content"].startswith("You are")
    assert [turn["content"] for turn in after[1:]] == ["Hi ", "hm "]


def test_a_system_turn_of_the_program_is_the_only_one() -> None:
    """The template writes none then."""
    assert everywhere(own_system, {}).value == [
        {"role": "system", "content": "Be kind. "}, {"role": "user", "content": ""},
    ]  # fmt: skip


# -- streams -----------------------------------------------------------------------------------


@lmc.function
def told_slowly(s, question: str):
    s += lmc.user(question)
    s += lmc.assistant(lmc.gen("said", return_logprob=True, max_tokens=40, stop="é"))


async def streamed(program: Any, name: str, **options: Any) -> tuple[list[Any], Any]:
    """Return the pairs of an async stream, and the run."""
    run = program.run("Why?", stream=True, **options)
    return [pair async for pair in run.text_async_iter(name, return_meta_data=True)], run


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_every_piece_comes_with_what_is_known_of_it(options: dict[str, Any], seed: int) -> None:
    """Counts so far, the piece's own log-probabilities; no piece is empty."""
    pairs, run = asyncio.run(
        streamed(told_slowly, "said", backend=Oracle(seed=seed), seed=SEED, **options)
    )
    whole = run.get_meta_info("said")
    assert whole["output_token_logprobs_length"] == whole["completion_tokens"]
    assert "".join(piece for piece, _ in pairs) == run["said"]
    assert all(piece for piece, _ in pairs)
    triples, count = [], 0
    for _, meta in pairs:
        triples += meta["output_token_logprobs"]
        assert meta["completion_tokens"] == meta["output_token_logprobs_length"] == len(triples)
        assert meta["completion_tokens"] >= count
        count = meta["completion_tokens"]
    assert triples == whole["output_token_logprobs"][: len(triples)]
    assert len(triples) >= whole["completion_tokens"] - 1 or not run["said"]


# -- reasoning ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REASONING)
def test_reasoning_ends_where_it_is_closed(kind: str) -> None:
    """Openings before it go, whatever else stands there stays as it was written."""
    marks = REASONING[kind]
    opened, closed = marks.opening, marks.closing
    assert split_reasoning(f"{opened} a {closed}\n b ", kind) == (" a ", "\n b ")
    assert split_reasoning(f"{opened}{opened}a{closed}b{closed}c", kind) == ("a", f"b{closed}c")
    assert split_reasoning(f"x{opened}y{closed}z", kind) == (f"x{opened}y", "z")
    assert split_reasoning(f"{opened}no end", kind) == ("no end", "")
    plain = f"a{closed}b"
    assert split_reasoning(plain, kind) == (("a", "b") if marks.is_assumed else ("", plain))
    assert split_reasoning("plain", kind) == (("plain", "") if marks.is_assumed else ("", "plain"))
    if marks.interruption:
        text = f"{opened}why {marks.interruption}f"
        assert split_reasoning(text, kind) == ("why ", f"{marks.interruption}f")


@lmc.function
def thinks(s, question: str):
    s += lmc.user(question)
    s += lmc.assistant(lmc.separate_reasoning(lmc.gen("said", max_tokens=40), "Qwen3"))
    s += lmc.user("So?")
    s += lmc.assistant(lmc.gen("end", max_tokens=5))
    return s["said"], s["said_reasoning_content"]


@pytest.mark.parametrize(
    "said", ["<think>hm </think>\n four ", "four", "<think>no end", "a</think>b"]
)
def test_the_prompt_goes_on_with_the_answer_as_it_is(said: str) -> None:
    """In every mode; the kind's name may be written in capitals."""
    result = everywhere(thinks, {"said": said}, question="2+2?")
    reasoning, answer = split_reasoning(said, "qwen3")
    assert result.value == (answer, reasoning)
    assert f"assistant\n{answer}<|im_end|>" in Oracle().spell(result.calls[1].call.context)


# -- functions of the program's surroundings ------------------------------------------------------


def calculators(log: list[str]) -> tuple[Any, Any]:
    """Programs beside the functions that they call, which no module has by a name."""

    def outer(base: int) -> Any:
        def calculate(expression: str) -> str:
            log.append(expression)
            return str(eval(expression) + base)

        return calculate

    calculate, other = outer(0), outer(100)

    @lmc.function
    def computed(s, left: int):
        s += f"calc({left}+1) = " + calculate(f"{left}+1") + "; "
        s += "calc(" + lmc.gen("what", stop=")") + ") = "
        with s.var_scope("answer"):
            s += calculate(s["what"])
        return other(s["what"])

    return computed, calculate


@pytest.mark.filterwarnings("error")
def test_local_functions_are_called_where_they_are(tmp_path: Path) -> None:
    """By every mode in this process; an artifact cannot find them, and says so at the line."""
    log: list[str] = []
    computed, _ = calculators(log)
    result = everywhere(computed, {"what": "6*7"}, left=4)
    assert (result["answer"], result.value) == ("42", "142")
    assert log == ["4+1", "6*7", "6*7"] * 4
    assert lmc.check(computed, examples=4, rounds=1).is_equal
    with pytest.raises(CompileError, match="'calculate' is defined inside a function") as raised:
        computed.compile("oracle").save(tmp_path / "computed.lmc")
    assert raised.value.location is not None
    assert not list(tmp_path.iterdir())


# -- methods of states ------------------------------------------------------------------------


@lmc.function
def by_keyword(s, question: str):
    s += lmc.system(expr="Be kind.")
    s.user(expr=question + lmc.gen(name="more", max_tokens=2))
    forks = s.fork(position_ids_offset=[0, 9], size=2)
    forks += "c" + lmc.gen("x", max_tokens=2)
    forks.join(mode="gather_variable")
    with s.copy(position_ids_offset=None) as aside:
        aside += "z"
    with s.var_scope(name="scope"):
        s += "y" + lmc.select(name="k", choices=("a", "b"), temperature=0.0)
    s.set_var(value=s.get_var(name="scope") + "!", name="told")
    return s.get_meta_info(name="more")["completion_tokens"], s["told"]


@lmc.function
def in_order(s, question: str):
    s += lmc.system("Be kind.")
    s.user(question + lmc.gen("more", 2))
    forks = s.fork(2, [0, 9])
    forks += "c" + lmc.gen("x", 2)
    forks.join("gather_variable")
    with s.copy(None) as aside:
        aside += "z"
    with s.var_scope("scope"):
        s += "y" + lmc.select("k", ("a", "b"), 0.0)
    s.set_var("told", s.get_var("scope") + "!")
    return s.get_meta_info("more")["completion_tokens"], s["told"]


@pytest.mark.filterwarnings("error")
def test_methods_take_their_parameters_by_name_or_place() -> None:
    """In whatever order they are named."""
    named, placed = (everywhere(p, {"k": "b"}, question="Why?") for p in (by_keyword, in_order))
    assert (named.value, named.text()) == (placed.value, placed.text())
    assert [r.call for r in named.calls] == [r.call for r in placed.calls]
    assert named["told"] == "yb!"


@lmc.function
def misnamed(s):
    forks = s.fork(2, count=3)
    forks += "a"


def test_a_parameter_that_a_method_lacks_is_told() -> None:
    """At its place, with those that there are."""
    with pytest.raises(CompileError, match="no free parameter count") as caught:
        misnamed.trace()
    assert "size" in str(caught.value)
