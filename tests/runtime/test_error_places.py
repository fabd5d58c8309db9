"""Errors name the line that caused them and the prompt's end, wherever in a run it is."""

import inspect
from pathlib import Path

import pytest

import lmc
from lmc.errors import RunError

MODES = ("compiled", "eager")


@lmc.function
def inner(s, word: str):
    s += "Inner " + word
    s += lmc.gen("age", type=int, max_tokens=1, stop="9")  # fails
    return s["age"]


@lmc.function
def in_a_nested_program(s):
    s += "Outer "
    s += str(inner("one").value)


@lmc.function
def in_a_child(s):
    s += "Parent "
    forks = s.fork(3)
    for i, q in enumerate(forks):
        q += f"child {i} "
        if i == 1:
            q += lmc.gen("age", type=int, max_tokens=1)  # fails
    s += str(forks[1]["age"])


@lmc.function
def in_a_nested_child(s):
    s += "Parent "
    for q in s.fork(2):
        q += "child "
        s += str(inner(q.text()).value)


def helper(st, word):
    st += "helped " + word
    st += lmc.gen("age", type=int, max_tokens=1)  # fails
    return st["age"]


@lmc.function
def in_a_helper(s):
    s += "Top "
    s += str(helper(s, "here"))


@lmc.function
def in_what_is_appended(s, items: list[str]):
    s += "Has "
    s += items  # fails


PROGRAMS = {
    "in_a_nested_program": (in_a_nested_program, inner, {}, "Inner one"),
    "in_a_child": (in_a_child, in_a_child, {}, "Parent child 1 "),
    "in_a_nested_child": (in_a_nested_child, inner, {}, "Inner Parent child "),
    "in_a_helper": (in_a_helper, helper, {}, "Top helped here"),
    "in_what_is_appended": (in_what_is_appended, in_what_is_appended, {"items": ["a"]}, "Has "),
}


def failing_line(function) -> int:
    """Return the number of the line that is marked."""
    lines, first = inspect.getsourcelines(getattr(function, "func", function))
    return first + next(i for i, line in enumerate(lines) if line.endswith("# fails\n"))


def run_once(program, args, mode):
    return program.run(**args, backend="oracle", seed=1, mode=mode)


def run_in_a_batch(program, args, mode):
    return program.run_batch([args] * 3, backend="oracle", seed=1, mode=mode)


def run_streamed(program, args, mode):
    handle = program.run(**args, backend="oracle", seed=1, mode=mode, stream=True)
    return list(handle.text_iter())


@pytest.mark.parametrize("run", [run_once, run_in_a_batch, run_streamed])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_error_tells_its_line_and_the_prompts_end(name, mode, run):
    """In nested programs, children and helpers; run alone, in a batch and as a stream."""
    program, where, args, end = PROGRAMS[name]
    with pytest.raises(RunError) as caught:
        run(program, args, mode)
    assert caught.value.location.line == failing_line(where)
    assert caught.value.location.file.endswith("test_error_places.py")
    assert f"{end!r}"[1:-1] in (caught.value.hint or "")


PLACED = lmc.gen("constant", type=int, max_tokens=1)  # constant
LISTED = [
    lmc.gen("listed", type=int, max_tokens=1),  # listed
    "text",
]


def made(limit):
    return lmc.gen("made", type=int, max_tokens=limit)  # made


def appended(s, piece, other=lmc.gen("default", type=int, max_tokens=1)):  # noqa: B008  # default
    s += "piece "
    s += piece
    s += other


@lmc.function
def of_a_line_before(s):
    age = lmc.gen("age", type=int, max_tokens=1)  # line before
    s += "Age: " + age


@lmc.function
def of_a_helper(s):
    piece = made(1)
    appended(s, piece)


@lmc.function
def of_a_default(s):
    appended(s, "x")


@lmc.function
def of_a_constant(s):
    s += "x" + PLACED


@lmc.function
def of_a_list(s):
    for piece in LISTED:
        s += piece


@lmc.function
def of_a_turn(s):
    turn = lmc.user(
        lmc.gen("turn", type=int, max_tokens=1)  # turn
    )
    s += turn


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("program", "mark"),
    [
        (of_a_line_before, "line before"), (of_a_helper, "made"), (of_a_default, "default"),
        (of_a_constant, "constant"), (of_a_list, "listed"), (of_a_turn, "turn"),
    ],
)  # fmt: skip
def test_a_generation_fails_where_it_was_written(program, mark, mode):
    """An expression is told by its own place, wherever it is appended."""
    with pytest.raises(RunError) as caught:
        program.run(backend=lmc.Oracle(lambda *_: "1234567"), seed=1, mode=mode)
    lines = Path(__file__).read_text().splitlines()
    assert lines[caught.value.location.line - 1].endswith(f"# {mark}")
