"""A program fails alike in the interpreter, in eager mode, and compiled with and without passes.

Alike: the same line, the same words, the same host calls before it.
"""

import inspect
import re

import pytest

import lmc
from lmc.errors import LmcError
from lmc.ir.interpreter import interpret
from lmc.runtime.oracle import Oracle

NOTES = []


def note(value):
    """Do something that can be seen."""
    NOTES.append(value)
    return value


def broken(value):
    """Fail."""
    raise ValueError(f"no {value}")  # fails


@lmc.function
def unread_index(s, x):
    s += lmc.gen("a", max_tokens=4)
    note(1)
    s["a"].index("~")  # fails
    note(2)


@lmc.function
def unread_number(s, x):
    branch = s.fork(1)[0]
    branch += lmc.gen("a", max_tokens=4)
    note(branch["a"])
    int(branch["a"] + "?")  # fails
    note(2)
    s += "end"


@lmc.function
def missing_variable(s, x):
    s += lmc.gen("a", max_tokens=4)
    s["b"]  # fails
    note(1)


@lmc.function
def missing_meta(s, x):
    s["b"] = 1
    s.get_meta_info("b")  # fails
    note(1)


@lmc.function
def not_text(s, x):
    branch = s.fork(1)[0]
    branch += x  # fails
    note(1)
    s += "end"


@lmc.function
def no_choices(s, x):
    note(0)
    branch = s.fork(1)[0]
    branch += lmc.select("c", choices=x[:0])  # fails
    note(1)


@lmc.function
def wrong_parameter(s, x):
    branch = s.fork(1)[0]
    branch += "a" + lmc.gen("c", max_tokens=-len(x))  # fails
    note(1)


@lmc.function
def wrong_count(s, x):
    s.fork(len(x) - 9)  # fails
    note(1)


@lmc.function
def host_fails(s, x):
    note(0)
    s += lmc.gen("a", max_tokens=4)
    broken("luck")
    note(1)


@lmc.function
def in_a_loop(s, x):
    total = 0
    for index, item in enumerate(["1", "2", "x", "4"]):
        s += item + lmc.gen("a", max_tokens=2)
        note(index)
        total += int(item)  # fails
    return total


@lmc.function
def in_a_branch(s, x):
    s += lmc.gen("a", max_tokens=4)
    if len(s["a"]) >= 0:
        note("yes")
        s["a"][len(s["a"])]  # fails
    else:
        note("no")
    note("after")


@lmc.function
def nested(s, x):
    s += lmc.gen("a", max_tokens=4)
    [1][len(x)]  # fails
    note("inside")


@lmc.function
def in_a_nested_program(s, x):
    s += "out" + lmc.gen("a", max_tokens=4)
    note("before")
    nested(x)
    note("after")


def helper(s, x):
    s += x
    note("helper")
    return {"a": 1}[x]  # fails


@lmc.function
def in_a_helper(s, x):
    helper(s, "b")
    note("after")


@lmc.function
def first_of_two(s, x):
    one, two = s.fork(2)
    one += "1" + lmc.gen("a", max_tokens=3)
    two += "2" + lmc.gen("a", max_tokens=3)
    float(one["a"] + "?")  # fails
    int(two["a"] + "?")


@lmc.function
def typed_too_short(s, x):
    s += "Age: " + lmc.gen("age", type=int, max_tokens=4, stop="7")  # fails
    note(s["age"])


@lmc.function
def wrong_role(s, x):
    s += lmc.user_begin() + "hi"
    s += lmc.assistant_end()  # fails
    return s.text()


@lmc.function
def unpacked(s, x):
    a, b = [*x, "c"]  # fails
    note(a + b)


@lmc.function
def forks_and_values(s, x):
    forks = s.fork(3)
    forks += ["a", "b"]  # fails
    note(1)


@lmc.function
def divided(s, x):
    note(1)
    s += str(1 // (len(x) - 2))  # fails
    note(2)


PROGRAMS = [
    unread_index, unread_number, missing_variable, missing_meta, not_text, no_choices,
    wrong_parameter, wrong_count, host_fails, in_a_loop, in_a_branch, in_a_nested_program,
    in_a_helper, first_of_two, typed_too_short, wrong_role, unpacked, forks_and_values, divided,
]  # fmt: skip
RUNS = {
    "eager": {"mode": "eager"}, "unoptimised": {"passes": ""}, "optimised": {},
}  # fmt: skip


def told(run):
    """Return how a run failed: the line, the words, the host calls before it."""
    NOTES.clear()
    with pytest.raises(LmcError) as caught:
        run()
    error = caught.value
    words = re.sub(r"^\S+ raised ", "", error.message)
    return error.location.line, words, list(NOTES)


CULPRITS = {
    "in_a_nested_program": nested.func, "in_a_helper": helper, "host_fails": broken,
}  # fmt: skip


def failing_line(program):
    """Return the line that is marked as failing, of the program or of what it calls."""
    lines, first = inspect.getsourcelines(CULPRITS.get(program.name, program.func))
    return next(first + i for i, line in enumerate(lines) if "# fails" in line)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_fails_alike_in_every_mode(program):
    arguments = {"x": ["a", "b"]}
    oracle = Oracle({"age": "7", "a": "word"})
    shown = {
        name: told(lambda: program.run(**arguments, backend=oracle, seed=3, **options))  # noqa: B023
        for name, options in RUNS.items()
    }
    module = program.trace()
    host = {"test_errors_alike:note": note, "test_errors_alike:broken": broken}
    shown["interpreter"] = told(
        lambda: interpret(
            module, program.name, arguments, model=oracle, target=oracle.target, seed=3, host=host
        )
    )
    assert {name: found == shown["interpreter"] for name, found in shown.items()} == dict.fromkeys(
        shown, True
    ), shown
    assert shown["eager"][0] == failing_line(program)
