"""Programs with grammars: every mode gives the same, mistakes are told where they are."""

import re

import pytest

import lmc
from lmc.errors import ConstraintError, LmcError, RunError, UsageError
from lmc.ir.grammar import Machine, compile_grammar

SUMS = """
start: start ("+" | "-") term | term
term: NUM | "(" start ")"
NUM: /[0-9]+/
%ignore " "
"""
NEST = 'root ::= "(" root ")" | [a-c]'


@lmc.function
def sums(s, grammar: str):
    s += "Compute: "
    s += lmc.gen("sum", grammar=SUMS, max_tokens=200)
    forks = s.fork(2)
    forks += " " + lmc.gen("deep", max_tokens=200, grammar=grammar)
    forks.join()
    return s["sum"], s["deep"]


@lmc.function
def short(s, grammar: str):
    s += "Compute: " + lmc.gen("sum", grammar=SUMS, max_tokens=24)
    s += " " + lmc.gen("deep", max_tokens=12, grammar=grammar)


def is_text(grammar: str, text: str) -> bool:
    return Machine(compile_grammar(grammar).network).matches(text.encode())


def test_modes_agree_and_texts_are_derived():
    seen = set()
    for seed in range(4):
        backend = lmc.Oracle(seed=seed)
        result = sums.run(grammar=NEST, backend=backend, seed=seed)
        eager = sums.run(grammar=NEST, backend=backend, seed=seed, mode="eager")
        assert result.value == eager.value
        made, deep = result.value
        assert is_text(SUMS, made)
        assert all(is_text(NEST, text) for text in deep)
        seen.add(made)
    assert len(seen) > 2


def test_a_wrong_constant_grammar_is_refused_when_it_is_compiled():
    @lmc.function
    def wrong(s):
        s += lmc.gen("x", grammar='start: "a" b')

    with pytest.raises(ConstraintError, match="rule 'b' is not defined") as caught:
        wrong.compile(lmc.Oracle())
    assert caught.value.position == (1, 12)
    assert "test_grammar_programs.py" in str(caught.value)


def test_a_wrong_grammar_of_a_run_ends_the_run():
    for mode in ("compiled", "eager"):
        with pytest.raises(LmcError, match="is not closed"):
            sums.run(grammar='root ::= ("a"', backend=lmc.Oracle(), mode=mode)
    with pytest.raises(LmcError, match=r"must be (a )?str, not"):
        sums.run(grammar=7, backend=lmc.Oracle())


def test_a_grammar_stands_alone():
    for other in ({"regex": "a"}, {"type": int}, {"json_schema": {}}):
        with pytest.raises(UsageError, match="is given beside"):
            lmc.gen("x", grammar=NEST, **other)
    assert lmc.gen("x", grammar=NEST, type=str).params["grammar"] == NEST


def test_scripted_answers_must_be_derived():
    script = {"sum": "1+(2-3)", "deep": "((a))"}
    assert sums.run(grammar=NEST, backend=lmc.Oracle(script)).value == ("1+(2-3)", ["((a))"] * 2)
    with pytest.raises(RunError, match=r"does not match its ebnf"):
        sums.run(grammar=NEST, backend=lmc.Oracle({"sum": "1+"}))


TOOLS = {"tags": [{"begin": "<call>", "json_schema": {"enum": ["a", {"b": 1}]}, "end": "</call>"}]}


@lmc.function
def tools(s, begin: str):
    s += "Use a tool: "
    s += lmc.gen("free", grammar=TOOLS, max_tokens=60)
    s += " again: " + lmc.gen(
        "one",
        grammar={"tags": [{"begin": begin, "regex": "[0-9]+", "end": ";"}], "at_least": 1,
                 "at_most": 1, "free_text": False},
        max_tokens=60,
    )  # fmt: skip
    return s["free"], s["one"]


def test_structural_tags_in_programs():
    for seed in range(3):
        backend = lmc.Oracle(seed=seed)
        made = tools.run(begin="<n>", backend=backend, seed=seed)
        assert tools.run(begin="<n>", backend=backend, seed=seed, mode="eager").value == made.value
        assert re.fullmatch("<n>[0-9]+;", made["one"])
    script = {"free": 'well <call>"a"</call> done', "one": "<n>7;"}
    assert tools.run(begin="<n>", backend=lmc.Oracle(script)).value == tuple(script.values())
    with pytest.raises(RunError, match="does not match its tags"):
        tools.run(begin="<n>", backend=lmc.Oracle({"free": "<call>x</call>"}))


def test_wrong_tags_are_refused_when_the_program_is_compiled():
    @lmc.function
    def wrong(s):
        s += lmc.gen("x", grammar={"tags": [{"begin": "a", "regex": "("}]})

    with pytest.raises(ConstraintError, match="regex is not valid"):
        wrong.compile(lmc.Oracle())


@pytest.mark.model
def test_the_model_writes_a_control_token_where_it_is_named():
    @lmc.function
    def call(s):
        s += "Call:" + lmc.gen("x", grammar=CONTROL, max_tokens=20)
        s += " and " + lmc.gen("y", max_tokens=2)

    backend = lmc.open_backend()
    result = call.run(backend=backend, temperature=0)
    assert result["x"] == "yes"
    token = result.get_meta_info("x")["completion_tokens"]
    assert token == 1 + len(backend.target.tokenizer.encode("yes"))


CONTROL = {"tags": [{"begin": {"control": "<|im_start|>"}, "regex": "yes"}],
           "free_text": False, "at_least": 1, "at_most": 1}  # fmt: skip


@pytest.mark.model
def test_the_model_keeps_to_a_grammar():
    backend = lmc.open_backend()
    result = short.run(grammar=NEST, backend=backend, seed=1, temperature=1.5)
    for name, grammar in (("sum", SUMS), ("deep", NEST)):
        is_complete = result.get_meta_info(name)["complete"]
        assert is_text(grammar, result[name]) or not is_complete
        reading = Machine(compile_grammar(grammar).network)
        assert reading.read(reading.start, result[name].encode()) is not None
