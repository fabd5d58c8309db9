"""What a listener is told of every state: the same in every mode, and the state's own text."""

from collections import defaultdict

import pytest
from examples_support import ESSAY, MODES, program

import lmc
from lmc.ir.printer import print_module
from lmc.runtime.oracle import Oracle

ARGUMENTS = {
    "judge": {"essay": ESSAY},
    "few_shot": {"question": "How many?"},
    "react": {"question": "How high?"},
    "extract": {"text": "Ada Lovelace was born in London in 1815."},
    "chat": {"messages": ["Hello!", "Bye."]},
}


@lmc.function
def forked_at_once(s):
    s += "Think. "
    forks = s.fork(3)
    for fork, word in zip(forks, ["one", "two", "three"], strict=True):
        fork += "Give a tip: " + word + lmc.gen("tip", max_tokens=4)
    s += "Tips: " + forks[0]["tip"] + forks[2]["tip"]


@lmc.function
def forked_twice(s, topic):
    s += topic
    for fork in s.fork(2):
        fork += "A view: "
        for inner in fork.fork(2):
            inner += "A view: as told "
            inner += lmc.gen("view", max_tokens=3)
        fork += lmc.gen("whole", max_tokens=3)
    s += lmc.gen("end", max_tokens=3)


@lmc.function
def one_choice(s):
    s += lmc.user("Choose " + lmc.select("only", choices=["this"]))
    forks = s.fork(2)
    forks += lmc.assistant("I choose" + lmc.gen("x", max_tokens=2))
    forks.join("concate_and_append")


def streams(chosen, arguments, script=None, **options):
    """Return what a listener was told, by lineage, and the run."""
    told = defaultdict(str)

    def listen(kind, name, text, lineage):
        assert text
        assert kind in ("text", "gen", "select")
        assert kind == "text" or name
        told[lineage] += text

    run = chosen.run(**arguments, backend=Oracle(script), seed=7, on_event=listen, **options)
    return dict(told), run


CASES = {
    **{name: (lambda name=name: program(name), arguments) for name, arguments in ARGUMENTS.items()},
    "forked_at_once": (lambda: forked_at_once, {}),
    "forked_twice": (lambda: forked_twice, {"topic": "T. "}),
    "one_choice": (lambda: one_choice, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_state_is_told_alike_in_every_mode(name):
    find, arguments = CASES[name]
    told = {mode: streams(find(), arguments, **options) for mode, options in MODES.items()}
    whole = told["eager"][0]
    for mode, (stream, run) in told.items():
        assert stream[()] == whole[()] == run.text(), mode
        for lineage, text in stream.items():
            # What nobody reads may end earlier, but is never another text.
            assert whole[lineage].startswith(text), (mode, lineage)
    assert name != "judge" or len(told["optimised"][0]) == 4


def test_what_moved_ahead_of_a_fork_is_told_with_the_children():
    stream, _ = streams(forked_at_once, {})
    assert stream[()].startswith("Think. Tips: ")
    assert stream[("fork0.2",)].startswith("Give a tip: three")
    assert "told = 1" in print_module(forked_at_once.compile("oracle").module)


def test_text_is_told_before_the_call_behind_it_is_made():
    told = []
    seen = []

    def script(name, prompt, call):
        seen.append("".join(told))
        return f"<{name}>"

    @lmc.function
    def steps(s):
        s += "a" + lmc.gen("x", max_tokens=8) + "b" + lmc.gen("y", max_tokens=8)

    steps.run(backend=Oracle(script), on_event=lambda *event: told.append(event[2]))
    assert "".join(told) == "a<x>b<y>"
    assert (seen[0], seen[-1]) == ("a", "a<x>b")
