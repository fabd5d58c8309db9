"""Generations that do not need each other are asked at the same time, though nobody forked."""

import time

import pytest
from manual_backend import TIMEOUT, Background, ManualBackend

import lmc
from lmc.compiler import compile_program


@lmc.function
def two_prompts(s, topic):
    pros, cons = s.copy(), s.copy()
    pros += f"Pros of {topic}:"
    pros += lmc.gen("pros", max_tokens=4)
    cons += f"Cons of {topic}:"
    cons += lmc.gen("cons", max_tokens=4)
    s += pros["pros"] + cons["cons"]
    s += lmc.gen("verdict", max_tokens=4)


@lmc.function
def part(s, word):
    s += f"Tell of {word}:"
    s += lmc.gen("part", max_tokens=4)
    return s["part"]


@lmc.function
def two_programs(s):
    first = part(word="one")
    second = part(word="two")
    s += first["part"] + second["part"]
    s += lmc.gen("verdict", max_tokens=4)


def generations(backend, count):
    """Wait until so many generations are open; prefixes are answered meanwhile."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        opened = list(backend.open)
        for each in opened:
            if each.name == "prefill":
                backend.pin(each)
        found = [each for each in opened if each.name != "prefill"]
        if len(found) == count:
            return found
        time.sleep(0.005)
    raise AssertionError(f"open: {backend.open}, not {count} generations")


@pytest.mark.parametrize("passes", ["", None], ids=["unoptimised", "optimised"])
@pytest.mark.parametrize(
    ("program", "args", "names"),
    [(two_prompts, {"topic": "x"}, ["cons", "pros"]), (two_programs, {}, ["part", "part"])],
    ids=["prompts", "programs"],
)
def test_independent_generations_are_asked_together(program, args, names, passes):
    backend = ManualBackend()
    compiled = compile_program(program, target=backend.target, passes=passes)
    run = Background(lambda: compiled.run(**args, backend=backend))
    together = generations(backend, 2)
    assert sorted(each.name for each in together) == names
    for each in together:
        each.say(" yes")
    backend.named("verdict").say(" no")
    assert run.result()["verdict"] == " no"
