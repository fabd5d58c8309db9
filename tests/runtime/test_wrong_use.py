"""Wrong words and wrong arguments are told at once, alike in eager and compiled runs."""

import enum
import warnings
from pathlib import Path
from typing import Literal

import pytest

import lmc
from lmc.errors import LmcError, ScriptWarning, UsageError
from lmc.frontend.load import load_module

MODES = ("eager", "compiled")


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def program_of(tmp_path: Path, body: str):
    """Return the program of a file whose body begins at line 6."""
    path = tmp_path / "wrong.py"
    path.write_text(f"import lmc\n\n\n@lmc.function\ndef p(s):\n{body}", encoding="utf-8")
    return load_module(path).p


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        ('lmc.gen("a", max_toks=3)', "gen has no parameter 'max_toks'", "'max_tokens'"),
        ('lmc.gen("a", stopp="x")', "gen has no parameter 'stopp'", "'stop'"),
        ('lmc.gen("a", zzz=3)', "gen has no parameter 'zzz'", "it has: name"),
        ('lmc.gen_int("a", tempature=0)', "gen_int has no parameter 'tempature'", "'temperature'"),
        ('lmc.gen_string("a", regx="a")', "gen_string has no parameter 'regx'", "'regex'"),
        ('lmc.select("a", chioces=["b"])', "select has no parameter 'chioces'", "'choices'"),
        ('lmc.select("a", ["b"], method="x")', "select has no parameter 'method'", "choices_"),
    ],
)
def test_unknown_parameter_is_told_with_a_remedy(tmp_path, mode, call, message, remedy):
    program = program_of(tmp_path, f'    s += "x"\n    s += "y" + {call}\n')
    with pytest.raises(LmcError) as caught:
        program.run(backend="oracle", mode=mode)
    assert caught.value.message == message
    assert remedy in caught.value.hint
    assert caught.value.location.line == 7


@pytest.mark.parametrize(
    "given",
    ["temperature=-1", 'max_tokens="9"', "top_p=2", "n=0", 'stop=[""]', "logit_bias=3",
     "min_tokens=5, max_tokens=2", 'stop_regex="("', "seed=0.5", "ignore_eos=1"],
)  # fmt: skip
def test_wrong_constant_is_told_where_the_call_is_written(tmp_path, mode, given):
    """Not where the call is appended, which may be later or never."""
    body = f'    later = lmc.gen("a", {given})\n    s += "x"\n    s += "y" + later\n'
    with pytest.raises(LmcError) as caught:
        program_of(tmp_path, body).run(backend="oracle", mode=mode)
    assert caught.value.location.line == 6


class Colour(enum.Enum):
    RED = "red"


class Number:
    """A whole number of another package."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value

    def __float__(self):
        return float(self.value)


@lmc.function
def typed(
    s,
    n: int = 0,
    x: float = 0.0,
    t: str = "",
    flag: bool = False,
    words: list[str] = (),  # type: ignore[assignment]
    table: dict[str, int] = None,  # type: ignore[assignment]  # noqa: RUF013
    kind: Literal["a", "b"] = "a",
    maybe: int | None = None,
    colour: Colour = None,  # type: ignore[assignment]
    free=None,
):
    s += "x"


WRONG = [
    ("n", "3"), ("n", 2.5), ("n", None), ("n", [1]), ("x", "2"), ("x", None), ("x", [1.0]),
    ("t", 5), ("t", None), ("t", ["a"]), ("t", b"a"), ("flag", "yes"), ("flag", 0.5),
    ("words", "abc"), ("words", 3), ("words", {"a": 1}), ("words", ["a", 2]), ("words", None),
    ("table", [("a", 1)]), ("table", "a"), ("table", 3), ("maybe", "1"), ("maybe", 1.5),
    ("kind", "c"),
]  # fmt: skip
RIGHT = [
    ("n", 3), ("n", True), ("n", Number(4)), ("x", 2), ("x", 2.5), ("x", Number(1)), ("t", "a"),
    ("flag", True), ("flag", 1), ("words", ["a"]), ("words", ("a", "b")), ("words", []),
    ("table", {"a": 1}), ("table", None), ("maybe", None), ("maybe", 3), ("colour", "red"),
    ("free", object), ("free", [1]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_argument_is_refused_before_the_run(mode, name, value):
    """In every way of running, with the argument's name and both kinds."""
    for run in (
        lambda: typed.run(**{name: value}, backend="oracle", mode=mode),
        lambda: typed.run(**{name: value}, backend="oracle", mode=mode, stream=True),
        lambda: typed.run_batch([{}, {name: value}], backend="oracle", mode=mode),
        lambda: typed.bind(**{name: value}),
    ):
        with pytest.raises(UsageError, match=f"argument '{name}' must be") as caught:
            run()
        assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_argument_that_may_be_meant_is_taken(name, value):
    """Numbers of other packages, tuples, subclasses, what is not annotated plainly."""
    assert typed.run(**{name: value}, backend="oracle", mode="eager").text() == "x"


def test_wrong_item_of_a_batch_is_named():
    """By its place."""
    with pytest.raises(UsageError, match="item 1 of the batch: program 'typed': argument 'n'"):
        typed.run_batch([{"n": 1}, {"n": "2"}], backend="oracle")


@lmc.function
def caller(s):
    """Calls a program with what its annotation does not say: Python's own rules hold there."""
    s += typed(n="3").text()


def test_nested_calls_follow_python(mode):
    assert caller.run(backend="oracle", mode=mode).text() == "x"


@lmc.function
def scripted(s):
    s += "A" + lmc.gen("answer", max_tokens=3) + lmc.select("kind", ["b", "c"])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ({"anwser": "x"}, "anwser"),
        ({"answers": "x", "kind": "b"}, "answers"),
        ({"knd": "b"}, "knd"),
    ],
)
def test_misspelt_name_of_a_script_is_told_once(mode, script, told):
    """With what may have been meant, at the line that runs the program."""
    oracle = lmc.Oracle(script)
    with pytest.warns(ScriptWarning, match=f"answers '{told}'.* did you mean") as caught:
        scripted.run(backend=oracle, mode=mode)
    assert [str(each.filename) for each in caught] == [__file__]
    scripted.run(backend=oracle, mode=mode)


@pytest.mark.parametrize("script", [{"answer": "x", "answers": "y"}, {"zebra": "x"}, {}, None])
def test_scripts_of_several_programs_are_left_alone(mode, script):
    """A name that is like none, or like one that is answered, may be another program's."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = scripted.run(backend=lmc.Oracle(script), mode=mode)
    assert told == []
    assert "answer" in run


@lmc.function
def warmed(s, heat: float):
    try:
        s += "a" + lmc.gen("x", temperature=heat, max_tokens=3)
    except lmc.errors.RunError as error:
        return f"caught: {error}"
    return s["x"]


@lmc.function
def nested(s):
    with s.user():
        s += "a"
        with s.assistant():
            s += "b"


@lmc.function
def unclosed(s):
    s += lmc.user_begin() + "a"
    s += lmc.assistant_begin() + "b" + lmc.gen("x", max_tokens=2)


def test_a_wrong_value_that_is_computed_is_caught_alike(mode):
    run = warmed.run(heat=-1.0, backend=lmc.Oracle(), mode=mode)
    assert run.value == "caught: temperature must be a number of at least 0, not -1.0"
    run = warmed.run(heat=0.5, backend=lmc.Oracle(), seed=1, mode=mode)
    assert run.value == run["x"]


@pytest.mark.parametrize("program", [nested, unclosed])
def test_a_turn_within_a_turn_is_told_at_its_line(program, mode):
    with pytest.raises(LmcError, match="'assistant' cannot begin within that of 'user'") as caught:
        program.run(backend=lmc.Oracle(), mode=mode)
    assert "assistant" in caught.value.location.text


@pytest.mark.parametrize("timeout", ["1", True, 0, -1, [2]])
def test_a_wrong_time_limit_is_told(timeout, mode):
    with pytest.raises(UsageError, match="timeout must be a number of seconds above 0"):
        nested.run(backend=lmc.Oracle(), timeout=timeout, mode=mode)


@lmc.function
def stubborn(s, trips: int):
    for _ in range(trips):
        try:
            s += "a" + lmc.gen("x", max_tokens=3)
        except:  # noqa: E722
            s += "!"


def test_an_interrupt_is_not_caught_by_a_bare_except(monkeypatch):
    """The first one ends the run, whatever the body catches."""
    from lmc.runtime.executor.session import Job

    waits = []

    def interrupted(job, slot):
        waits.append(slot)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stubborn.run(trips=50, backend=lmc.Oracle(), mode="eager")
    assert len(waits) == 1


def test_the_oracle_takes_no_options_of_an_engine():
    with pytest.raises(UsageError, match="no engine, so it takes no disk_tier and no overlap"):
        lmc.open_backend("oracle", disk_tier="kv", overlap=True)
    with pytest.raises(UsageError, match="it takes no draft_model"):
        lmc.open_backend("oracle", draft_model="smollm2")
    assert lmc.open_backend("oracle").target.name == "oracle"


def test_modules_of_the_reference_frontend_are_attributes():
    assert lmc.lang.choices.token_length_normalized is lmc.token_length_normalized
    assert lmc.lang.global_config.global_config is lmc.global_config
    with pytest.raises(AttributeError, match=r"lmc\.lang"):
        _ = lmc.lang.nothing
