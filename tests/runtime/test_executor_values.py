"""The executor on IR text: values that are read, states and what is refused."""

import pytest
from manual_backend import ManualBackend, executor_of, run_in_background

from lmc.errors import RunError
from lmc.runtime.oracle import Oracle
from lmc.runtime.result import RunState

TYPED = """
    %s: state = lm.prompt
    %b: state, %x: py, %m: meta = lm.gen %s {name = "n",
        params = {type = "KIND", max_tokens = 3}, dynamic = []} loc(#0)
    func.return %effect, %b, %x
"""


def typed(kind):
    body = TYPED.replace("KIND", kind)
    return (
        'module "m" {} {\n  entry @main\n  func @main program (%effect: effect) {} {'
        + body + '}\n}\n#0 = "t.py":7:1-7:4 "s += gen()"\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("int", "-12", -12), ("float", "0.50", 0.5), ("bool", "False", False), ("str", "7", "7")],
)
def test_typed_generations_are_read(kind, text, value):
    backend = ManualBackend()
    run = run_in_background(executor_of(typed(kind), backend))
    backend.wait(1)[0].say(text)
    result = run.result()
    assert result.value == value
    assert type(result.value) is type(value)
    assert result["n"] == value


def test_a_typed_generation_that_was_cut_is_an_error():
    backend = ManualBackend()
    run = run_in_background(executor_of(typed("float"), backend))
    backend.wait(1)[0].say("0.", complete=False, finish_reason="length")
    with pytest.raises(RunError, match=r"cut before it was complete: '0\.'") as caught:
        run.result()
    assert "max_tokens (now 3)" in str(caught.value)
    assert "t.py:7:1" in str(caught.value)


def test_a_plain_generation_that_was_cut_can_be_read():
    text = typed("str").replace('type = "str"', 'regex = "[0-9]+"')
    backend = ManualBackend()
    run = run_in_background(executor_of(text, backend))
    backend.wait(1)[0].say("12", complete=False, finish_reason="length")
    result = run.result()
    assert result.value == "12"
    assert result.state.get_meta_info("n")["complete"] is False


STATES = """
    %s: state = lm.prompt
    %t: text = val.const {value = "T"}
    %a: state = lm.extend %s, %t
    %one: int = val.const {value = 1}
    %b: state = lm.set %a, %one {name = "x"}
    %list: list<state> = val.list %a, %b
    %key: text = val.const {value = "states"}
    %d: dict = val.dict %key, %list
    func.return %effect, %b, %d
"""


def test_states_in_the_return_value_can_be_read():
    result = executor_of(STATES, Oracle()).run("main", {}, seed=0)
    first, second = result.value["states"]
    assert isinstance(first, RunState)
    assert (first.text(), first.variables) == ("T", {})
    assert second["x"] == 1
    assert "x" in second
    with pytest.raises(RunError, match="no variable 'y'"):
        second["y"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%r: state = lm.extend %s, %five", "only text can be appended.*int: 5"),
        ("%r: state = val.index %list, %five", "IndexError"),
        ("%w: py = val.index %word, %zero\n%f: state, %r: list<state> = lm.fork %s, %w {}",
         "cannot fork 'w' children"),
        ("%r: py = lm.get %s {name = \"no\"}", "no variable 'no'"),
        ("%r: meta = lm.meta %s {name = \"no\"}", "no generation set"),
        ("%r: py = lm.get %s, %five {}", "name is a str, not 5"),
        ("%r: text = val.format %s, %word {conversion = \"\"}", "a prompt state is not text"),
        ("%r: py = host.pure %s {callee = \"builtins:print\"}", "cannot be handed"),
        ("%u: py = val.undefined {name = \"foo\"}\n%r: state = lm.extend %s, %u",
         "'foo' has no value on the path"),
        ("%r: state, %x: py, %m: meta = lm.gen %s {params = {top_p = 1.5}, dynamic = []}",
         "top_p must be above 0 and at most 1, not 1.5"),
        ("%r: state, %x: py, %m: meta = lm.gen %s, %word {params = {}, dynamic = [\"max_tokens\"]}",
         "max_tokens must be an int of at least 0, not 'word'"),
        ("%r: state, %x: text, %m: meta = lm.select %s, %list {params = {}, dynamic = []}",
         "nothing to choose from"),
        ("%r: state, %x: text, %m: meta = lm.select %s, %word {params = {}, dynamic = []}",
         "choices must be a list of str"),
        ("%r: py = cf.for %five, %five {} {\n(%i: py, %c: py)\n"
         "%go: bool = val.const {value = true}\ncf.yield %go, %c\n}", "not iterable"),
    ],
)  # fmt: skip
def test_wrong_values_are_told_at_their_op(body, message):
    text = f"""
    %s: state = lm.prompt
    %five: int = val.const {{value = 5}}
    %zero: int = val.const {{value = 0}}
    %word: text = val.const {{value = "word"}}
    %list: py = val.list
    {body}
    %out: py = val.list %r
    func.return %effect, %s, %out
    """
    with pytest.raises(RunError, match=message):
        executor_of(text, Oracle()).run("main", {}, seed=0)
