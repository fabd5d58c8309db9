"""Eager mode: the same values, texts, calls and keys as compiled runs and the interpreter."""

import threading
from dataclasses import replace

import pytest
from manual_backend import Background, ManualBackend

import lmc
from lmc.codegen.lower import lower
from lmc.errors import EngineError, RunError, UsageError
from lmc.frontend.capture import capture
from lmc.ir.calls import derive_key
from lmc.ir.interpreter import interpret
from lmc.passes.pipeline import PassManager
from lmc.runtime.eager import call_nested, run_eager
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle

NOTED = []


def note(value):
    """Remember what it was called with."""
    NOTED.append(value)
    return len(NOTED)


@lmc.function
def plain(s, name):
    """Text, a generation, a value in an f-string."""
    s += "Hello " + name + ", "
    s += lmc.gen("x", max_tokens=6) + "|" + lmc.gen("y", stop=["\n", "e"], max_tokens=20)
    s += f" so {s['x']!r:>10}"
    return s["x"] + s["y"]


@lmc.function
def roles(s, question):
    """Turns in all three ways of writing them."""
    s += lmc.system("Be brief.")
    s.user(question)
    with s.assistant():
        s += "I say: "
        s += lmc.gen("answer", max_tokens=8)
    s.user_begin()
    s += "Why?"
    s.user_end()
    s += lmc.assistant_begin()
    s += lmc.select("why", choices=["because", "I do not know"])
    s += lmc.assistant_end()
    return s.messages()


@lmc.function
def forks(s, count):
    """Forks appended to together, one by one, and by a lambda; joined by variable."""
    s += "Start. "
    children = s.fork(count)
    children += "Branch: "
    children += lambda i: f"number {i} "
    for index, child in enumerate(children):
        child += str(index) + lmc.gen("part", max_tokens=4)
        child["index"] = index
    children[0] += "!" + lmc.gen("last", max_tokens=2)
    children.join()
    s += lmc.gen("end", max_tokens=3)
    return s["part"], s["index"], s["last"]


@lmc.function
def merge(s):
    """Texts of children appended to the parent; a copy that goes its own way."""
    s += "Base"
    children = s.fork(2)
    children += [" left", " right"]
    children += lmc.gen("g", max_tokens=3)
    children.join("concate_and_append")
    other = s.copy()
    other += lmc.gen("only", max_tokens=2)
    s += other["only"]
    return s.text()


@lmc.function
def loops(s, items):
    """Loops with a break, a while, and data that grows."""
    found = []
    for item in items:
        s += f"{item}: " + lmc.select("kind", choices=["odd", "even", "stop"]) + "\n"
        if s["kind"] == "stop":
            break
        found.append((item, s["kind"]))
    tries = 0
    while tries < 3 and len(found) < 5:
        tries += 1
        s += lmc.gen("more", max_tokens=2)
        found.append(s["more"])
    return found


@lmc.function
def scopes(s):
    """Variables: set, tested, scoped, typed, sampled; a nameless call."""
    s["a"] = [1, 2]
    s += "x" if "a" in s else "y"
    with s.var_scope("inside"):
        s += "in " + lmc.gen(max_tokens=3)
    s += lmc.gen("n", type=int, max_tokens=20) + lmc.gen("many", n=3, max_tokens=4, temperature=0.7)
    s.set_var("b", s["n"] * 2)
    meta = s.get_meta_info("n")
    return s["inside"], s["b"], len(s["many"]), meta["finish_reason"], s.get_var("a")


@lmc.function
def inner(s, word):
    """A nested program."""
    s += word + lmc.gen("in", max_tokens=5)
    if len(s["in"]) > 3:
        return "long"
    s += lmc.gen("again", max_tokens=5)
    return s["again"]


@lmc.function
def outer(s, words):
    """Nested programs between calls of its own; effects."""
    out = []
    for word in words:
        s += lmc.gen("before", max_tokens=2)
        result = inner(word, temperature=0)
        out.append(result.value)
        note(result["in"])
        s += result.text()
    s += lmc.gen("after", max_tokens=2)
    return out


@lmc.function
def partly(s):
    """Some generations that nothing reads."""
    s += "P"
    children = s.fork(3)
    for child in children:
        child += lmc.gen("a", max_tokens=3)
        child += lmc.gen("b", max_tokens=3)
    values = [child["a"] for child in children]
    return values[1]


CASES = [
    (plain, {"name": "Ada"}, None),
    (plain, {"name": "é🙂"}, {"x": "naïve", "y": "so\nwhat"}),
    (roles, {"question": "Really?"}, None),
    (roles, {"question": ""}, {"why": "because"}),
    (forks, {"count": 1}, None),
    (forks, {"count": 4}, None),
    (merge, {}, None),
    (merge, {}, {"g": ""}),
    (loops, {"items": [3, 4, 5, 6]}, None),
    (loops, {"items": ["a", "b"]}, {"kind": "stop"}),
    (loops, {"items": []}, {"kind": "odd"}),
    (scopes, {}, None),
    (scopes, {}, {"n": "-12"}),
    (outer, {"words": ["one", "two", "three"]}, None),
    (outer, {"words": ["x"]}, {"in": "abc"}),
    (outer, {"words": ["x"]}, {"in": "abcdef"}),
]
MODES = ["eager", "plain", "optimised"]


def run_in(mode, program, args, oracle, **options):
    function = program.__lmc_function__
    if mode == "eager":
        return run_eager(oracle, function, args, **options)
    captured = capture([function], folder=None)
    module = captured.module
    if mode == "optimised":
        module = PassManager.parse().run(module).module
    executor = Executor(oracle, lower(module, oracle.target), captured.host)
    return executor.run(function.__name__, args, **options)


def without_sites(calls):
    return sorted(repr(replace(call, site="")) for call in calls)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("program", "args", "script"), CASES)
def test_every_mode_means_what_the_interpreter_says(mode, program, args, script):
    oracle = Oracle(script)
    captured = capture([program.__lmc_function__], folder=None)
    options = {"seed": 77, "instance": 3, "defaults": {"max_tokens": 7}}
    NOTED.clear()
    meaning = interpret(
        captured.module, program.name, args, model=oracle, target=oracle.target,
        host=captured.host, **options,
    )  # fmt: skip
    expected_notes = list(NOTED)
    NOTED.clear()
    result = run_in(mode, program, args, oracle, **options)
    assert result.value == meaning.value
    assert result.state.variables == meaning.variables
    assert result.text() == meaning.text
    assert result.state.messages() == meaning.messages
    assert expected_notes == NOTED
    demanded = without_sites(call for call, _ in meaning.demanded_calls)
    assert without_sites(record.call for record in result.calls) == demanded


@pytest.mark.parametrize("mode", ["plain", "optimised"])
def test_only_needed_calls_are_listed(mode):
    captured = capture([partly.__lmc_function__], folder=None)
    oracle = Oracle()
    meaning = interpret(captured.module, "partly", {}, model=oracle, target=oracle.target, seed=1)
    result = run_in(mode, partly, {}, oracle, seed=1)
    assert result.value == meaning.value
    assert len(meaning.demanded_calls) == 1
    assert [record.call for record in result.calls] == [c for c, _ in meaning.demanded_calls]


def test_eager_lists_what_was_read():
    result = run_in("eager", partly, {}, Oracle(), seed=1)
    assert {record.name for record in result.calls} == {"a"}
    assert [record.lineage[0] for record in result.calls] == ["fork0.0", "fork0.1", "fork0.2"]


def test_keys_say_where_a_call_stands():
    result = run_in("eager", outer, {"words": ["x", "y"]}, Oracle(), seed=8)
    places = {(r.name, r.lineage, r.ordinal) for r in result.calls if r.name != "again"}
    assert places == {
        ("before", (), 0), ("in", ("call1",), 0), ("before", (), 2), ("in", ("call3",), 0),
        ("after", (), 4),
    }  # fmt: skip
    for record in result.calls:
        assert isinstance(record.call, lmc.ir.calls.GenCall)
        expected = derive_key(8, 0, record.lineage, record.ordinal)
        assert record.call.key == (0 if record.call.params.temperature == 0 else expected)
    assert all(r.call.params.temperature == 0 for r in result.calls if r.lineage), "inherited"


def two_forks(s):
    left, right = s.fork(2)
    left += "L" + lmc.gen("l")
    right += "R" + lmc.gen("r")
    return left["l"] + right["r"]


def test_independent_calls_run_side_by_side():
    backend = ManualBackend()
    run = Background(lambda: run_eager(backend, two_forks, {}, seed=0))
    backend.wait(2)
    backend.named("r").say("right")
    backend.named("l").say("left")
    assert run.result().value == "leftright"


def broken_call(s):
    s += "Before."
    s += lmc.gen("x", max_tokens=-1)
    s += "After."
    return s["x"]


def broken_text(s):
    s += "Before."
    s += 12


def broken_line(s):
    s += "Before."
    return len(s.text()) / 0


def broken_name(s):
    s += lmc.gen("x", max_tokens=1)
    return s["y"]


def broken_role(s):
    s += lmc.user_begin()
    s += lmc.assistant_end()
    return s.text()


def broken_format(s):
    return f"{s}"


def broken_fork(s):
    children = s.fork(3)
    children += ["a", "b"]


def broken_count(s):
    return s.fork("three")


@pytest.mark.parametrize(
    ("function", "line", "message"),
    [
        (broken_call, "s += lmc.gen", "max_tokens must be an int of at least 0, not -1"),
        (broken_text, "s += 12", "only text can be appended to a prompt, not int: 12"),
        (broken_line, "return len(s.text()) / 0", "ZeroDivisionError: division by zero"),
        (broken_name, 'return s["y"]', "no variable 'y'"),
        (broken_role, "s += lmc.assistant_end()", "that of 'user' is open"),
        (broken_format, 'return f"{s}"', "a prompt state is not text"),
        (broken_fork, "children += [", "argument 2 is shorter than argument 1"),
        (broken_count, 's.fork("three")', "cannot fork 'three' children"),
    ],
)
def test_errors_come_from_the_line_that_caused_them(function, line, message):
    with pytest.raises(RunError, match=message) as caught:
        run_eager(Oracle(), function, {}, seed=0)
    location = caught.value.location
    assert location is not None
    assert line in location.text
    assert location.file == "test_eager.py"
    assert not [t for t in threading.enumerate() if t.name == "lmc-executor"]


def unread(s):
    s += "Text." + lmc.gen("x")


def test_a_failure_that_nobody_read_is_raised_at_the_end():
    backend = ManualBackend()
    run = Background(lambda: run_eager(backend, unread, {}, seed=0))
    backend.wait(1)[0].answer(EngineError("no room"))
    with pytest.raises(RunError, match="no room") as caught:
        run.result()
    assert "the prompt ends in 'Text.'" in str(caught.value)


def impatient(s):
    s += lmc.gen("x")
    raise KeyboardInterrupt


def test_an_interrupt_leaves_nothing_running():
    backend = ManualBackend()
    with pytest.raises(KeyboardInterrupt):
        run_eager(backend, impatient, {}, seed=0)
    assert not backend.open
    assert not [t for t in threading.enumerate() if t.name == "lmc-executor"]


def test_a_nested_program_needs_a_running_one():
    with pytest.raises(UsageError, match="called outside a program") as caught:
        call_nested(inner.func, {"word": "word"})
    assert "inner.run(...)" in str(caught.value)


@lmc.function
def runs_inside(s):
    first = inner.run("a", temperature=0.5)
    s += first["in"] + lmc.gen("b", max_tokens=3)
    second = inner(word="b")
    return first.ret_value, second.text()


@lmc.function
def wrong_option_inside(s):
    s += "a"
    inner.run("a", **{"seed": 3})


def test_run_inside_a_program_is_a_nested_call():
    eager = runs_inside.run(backend=Oracle(), seed=3, mode="eager")
    compiled = runs_inside.run(backend=Oracle(), seed=3)
    assert eager.calls[0].lineage == ("call0",)
    assert (eager.value, eager.text(), eager.calls) == (
        compiled.value, compiled.text(), compiled.calls,
    )  # fmt: skip
    assert eager.calls[0].call.params.temperature == 0.5
    with pytest.raises(RunError, match="'seed' of 'inner' is set by the outermost run") as caught:
        wrong_option_inside.run(backend=Oracle(), mode="eager")
    assert caught.value.location.line == wrong_option_inside.func.__code__.co_firstlineno + 3


def endless(s):
    call_nested(endless, {})


def test_nesting_is_bounded():
    with pytest.raises(RunError, match="nested deeper than 200"):
        run_eager(Oracle(), endless, {}, seed=0)


def test_events_are_those_of_a_compiled_run():
    heard = {}
    for mode in MODES:
        events = heard.setdefault(mode, [])
        run_in(
            mode, roles, {"question": "Why?"}, Oracle(), seed=4,
            on_event=lambda *event, to=events: to.append(event),
        )  # fmt: skip
    texts = {mode: "".join(text for _, _, text, _ in events) for mode, events in heard.items()}
    assert texts["eager"] == texts["plain"] == texts["optimised"]
    assert [e for e in heard["eager"] if e[0] != "text"] == [
        e for e in heard["plain"] if e[0] != "text"
    ]
