"""Programs with grammars: every mode gives the same, mistakes are told where they are."""

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


@pytest.mark.model
def test_the_model_keeps_to_a_grammar():
    backend = lmc.open_backend()
    result = short.run(grammar=NEST, backend=backend, seed=1, temperature=1.5)
    for name, grammar in (("sum", SUMS), ("deep", NEST)):
        is_complete = result.get_meta_info(name)["complete"]
        assert is_text(grammar, result[name]) or not is_complete
        reading = Machine(compile_grammar(grammar).network)
        assert reading.read(reading.start, result[name].encode()) is not None
