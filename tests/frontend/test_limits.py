"""gen(constraint=...): what the parameter of its kind means, in every mode; errors at the line."""

import dataclasses
import re
from decimal import Decimal

import pytest

import lmc
from lmc.errors import CaptureError, CompileError, LmcError, UsageError
from lmc.ir.decode_params import check_param, constraint_from
from lmc.ir.printer import print_module

CODE = lmc.Constraint.regex("[A-Z]{2}-[0-9]{3}")
NEST = 'root ::= "(" root ")" | [a-c]'
LIMITS = {"nest": lmc.Constraint.ebnf(NEST), "mood": lmc.Constraint.choices(["good", "b|d"])}
TREE = {
    "$defs": {"t": {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/t"}}}}},
    "$ref": "#/$defs/t",
}
COMPACT = lmc.Constraint.json_schema(TREE, separators=(",", ":"))
TAGS = lmc.Constraint.tags(
    [{"begin": "<n>", "regex": "[0-9]+", "end": ";"}], free_text=False, at_least=1, at_most=1
)


@dataclasses.dataclass
class City:
    name: str


ASK = lmc.gen("ask", constraint=CODE)


def answer(s, name, limit):
    s += lmc.gen(name, constraint=limit, max_tokens=60)
    return s[name]


@lmc.function
def every(s, is_mood: bool):
    s += "Now " + lmc.gen("code", constraint=CODE) + " " + ASK
    s += lmc.gen("nest", constraint=LIMITS["nest"], max_tokens=60)
    s += lmc.gen("tree", constraint=COMPACT, max_tokens=60)
    mood = lmc.Constraint.choices(["good", "bad"])
    s += lmc.gen("mood", constraint=mood) + lmc.gen("tag", constraint=TAGS)
    s += lmc.gen("either", constraint=mood if is_mood else CODE)
    s += lmc.gen("city", constraint=lmc.Constraint.json_schema(City), max_tokens=60)
    s += lmc.gen("cities", constraint=lmc.Constraint.json_schema(list[City]), max_tokens=60)
    number = lmc.gen("number", constraint=lmc.Constraint.regex(pattern="[0-9]{2}"), type=int)
    s += number + lmc.gen("free", constraint=None, max_tokens=2)
    return s[number] + 1, answer(s, "again", LIMITS["mood"])


@pytest.mark.parametrize("is_mood", [True, False])
def test_every_mode_gives_the_same(comparison, is_mood):
    comparison.assert_same(every, {"is_mood": is_mood})
    for seed in range(3):
        backend = lmc.Oracle(seed=seed)
        made = every.run(is_mood=is_mood, backend=backend, seed=seed)
        eager = every.run(is_mood=is_mood, backend=backend, seed=seed, mode="eager")
        assert (made.value, made.text()) == (eager.value, eager.text())
        assert re.fullmatch("[A-Z]{2}-[0-9]{3}", made["code"])
        assert re.fullmatch("[A-Z]{2}-[0-9]{3}", made["ask"])
        assert made["either"] in ("good", "bad") if is_mood else "-" in made["either"]
        assert type(made["number"]) is int
        assert made["again"] in ("good", "b|d")
        assert " " not in made["tree"]


def test_the_ir_has_the_parameter_of_the_kind(comparison):
    text = print_module(comparison.captured(every).module)
    assert "constraint = " not in text.partition("locations")[0]
    assert 'regex = "[A-Z]{2}-[0-9]{3}"' in text
    pairs = {
        "regex": CODE, "grammar": TAGS, "json_schema": COMPACT,
    }  # fmt: skip
    for name, limit in pairs.items():
        made = lmc.gen("x", constraint=limit)
        assert made.params == {name: limit.source}
        assert constraint_from({name: check_param(name, limit.source)}) == limit.request()
    assert lmc.gen("x", constraint=LIMITS["nest"]) == lmc.gen("x", grammar=NEST)
    assert lmc.gen("x", constraint=CODE) == lmc.gen("x", regex=CODE.source)


def test_an_artifact_needs_no_constraint(tmp_path):
    every.compile("oracle").save(tmp_path / "every.lmc")
    loaded = lmc.load(tmp_path / "every.lmc")
    backend = lmc.Oracle(seed=5)
    wanted = every.run(is_mood=True, backend=backend, seed=5)
    assert loaded.run(is_mood=True, backend=backend, seed=5).text() == wanted.text()


def test_text_streams_under_a_constraint():
    handle = every.stream(is_mood=True, backend=lmc.Oracle(seed=1), seed=1)
    parts = list(handle.text_iter("nest"))
    assert "".join(parts) == every.run(is_mood=True, backend=lmc.Oracle(seed=1), seed=1)["nest"]


def test_constraints_of_the_module_are_guarded(comparison, monkeypatch):
    made = comparison.captured(every)
    assert made.is_current()
    monkeypatch.setitem(LIMITS, "nest", lmc.Constraint.ebnf('root ::= "z"'))
    assert not made.is_current()
    assert every.run(is_mood=True, backend=lmc.Oracle(seed=1), seed=1)["nest"] == "z"
    monkeypatch.undo()
    assert made.is_current()
    monkeypatch.setitem(globals(), "CODE", lmc.Constraint.regex("X"))
    assert not made.is_current()


def test_one_thing_alone_says_what_the_text_is():
    wrong = [
        {"regex": "a"}, {"json_schema": {}}, {"grammar": NEST}, {"choices": ["a", "b"]},
        {"dtype": str},
    ]  # fmt: skip
    for other in wrong:
        with pytest.raises(UsageError, match="given beside"):
            lmc.gen("x", constraint=CODE, **other)
    for kind in (int, City, bool):
        with pytest.raises(UsageError, match="constraint is given beside type, and is no regex"):
            lmc.gen("x", constraint=COMPACT, type=kind)
    assert lmc.gen("x", constraint=COMPACT, type=str).params["json_schema"] == COMPACT.source
    for value in ("[0-9]+", lmc.Constraint, CODE.request):
        with pytest.raises(UsageError, match=r"constraint must be an lmc\.Constraint, not"):
            lmc.gen("x", constraint=value)


def _beside(s):
    s += lmc.gen("x", constraint=CODE, regex="a")


def _choices(s):
    s += lmc.gen("x", choices=["a", "b"], constraint=CODE)


def _typed(s):
    s += lmc.gen("x", constraint=LIMITS["nest"], type=City)


def _text(s):
    s += lmc.gen("x", constraint="[0-9]+")


def _no_choices(s):
    s += lmc.gen("x", constraint=lmc.Constraint.choices([]))


def _no_schema(s):
    s += lmc.gen("x", constraint=lmc.Constraint.json_schema("{"))


def _no_such_option(s):
    s += lmc.gen("x", constraint=lmc.Constraint.json_schema({}, blanks=True))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_beside, "constraint is given beside regex"),
        (_choices, "constraint is given beside choices"),
        (_typed, "constraint is given beside type"),
        (_text, r"constraint must be an lmc\.Constraint"),
        (_no_choices, "choices need a list of texts"),
        (_no_schema, "schema is not JSON"),
        (_no_such_option, "blanks"),
    ],
)
def test_what_is_wrong_is_told_at_its_line(function, message):
    program = lmc.function(function)
    with pytest.raises(CompileError, match=message) as caught:
        program.compile("oracle")
    assert "test_limits.py" in str(caught.value)
    with pytest.raises((LmcError, TypeError), match=message):
        program.run(backend=lmc.Oracle(), mode="eager")


def test_a_wrong_constraint_is_refused_where_it_is_used():
    @lmc.function
    def wrong(s):
        s += lmc.gen("x", constraint=lmc.Constraint.ebnf('start: "a" b'))

    with pytest.raises(LmcError, match="rule 'b' is not defined"):
        wrong.compile("oracle")


@lmc.function
def computed(s, digits: int):
    limit = lmc.Constraint.regex(f"[0-9]{{{digits}}}")
    s += lmc.gen("x", constraint=limit)


@lmc.function
def given(s, limit):
    s += lmc.gen("x", constraint=limit)


@pytest.mark.parametrize("program", [computed, given])
def test_what_is_not_known_before_the_run_breaks_with_a_remedy(comparison, program):
    with pytest.raises(CaptureError, match=r"constraint is (made of|not known)") as caught:
        comparison.captured(program)
    assert "regex=, json_schema= or grammar=" in str(caught.value)


def test_it_runs_in_eager_mode_all_the_same():
    backend = lmc.Oracle(seed=1)
    assert len(computed.run(digits=7, backend=backend, mode="eager")["x"]) == 7
    made = given.run(limit=lmc.Constraint.choices(["a"]), backend=backend, mode="eager")
    assert made["x"] == "a"


def test_a_schema_given_as_text_keeps_its_digits_and_its_options():
    text = '{ "minimum" : 0.30000000000000000001,\n"x y":"a\\" b" }'
    assert check_param("json_schema", text) == '{"minimum":0.30000000000000000001,"x y":"a\\" b"}'
    limit = lmc.Constraint.json_schema('{"const": 0.10000000000000000000001}', max_depth=2)
    assert check_param("json_schema", limit.source) == limit.source
    for wrong in (
        "[1, 2]", '[{}, {"separators": ","}]', '[{}, {"max_depth": true}]', '[{}, {"others": 1}]',
        "[{}, {}]", "[{}]", "3", "{", [{}, {"max_depth": 1}], {"minimum": Decimal(1)},
    ):  # fmt: skip
        with pytest.raises(UsageError, match="json_schema must be"):
            check_param("json_schema", wrong)


@lmc.function
def run_time(s, schema):
    s += lmc.gen("x", json_schema=schema)


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_a_schema_of_a_run_that_nests_too_deep_is_refused_in_words(mode):
    nested = {"type": "integer"}
    for _ in range(5000):
        nested = {"type": "array", "items": nested}
    for schema in (nested, '{"items":' * 5000 + "{}" + "}" * 5000, '{"items":' * 150000):
        with pytest.raises(LmcError, match="nesting too deep") as caught:
            run_time.run(schema=schema, backend=lmc.Oracle(), mode=mode)
        assert "recursion" not in str(caught.value)
        assert len(str(caught.value)) < 1000
