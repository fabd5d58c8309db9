"""gen(append=True) and unordered blocks: the same in every mode, wrong use is told."""

from pathlib import Path

import pytest

import lmc
from lmc.errors import LmcError
from lmc.frontend.load import load_module
from lmc.ir.types import STATE

MODES = [{"mode": "eager"}, {"passes": ""}, {}]
LISTS = load_module(Path(__file__).resolve().parents[1] / "programs" / "lists.py")


@pytest.mark.parametrize("name", ["added", "free"])
def test_every_mode_does_the_same(name):
    report = lmc.check(getattr(LISTS, name), examples=15)
    assert report.is_equal, report


@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_generation_goes_on_with_the_programs_list(options):
    first = ["1", "2"]
    run = LISTS.added.run(first=first, width=3, backend=lmc.Oracle({"xs": "7"}), **options)
    assert run["xs"] == ["1", "2", "7", "7"]
    assert run.value[3] == [["1", "2", "7"], ["1", "2", "7", "7"], ["1", "2", "7", "7"]]
    assert first == ["1", "2"], "the caller's list is its own"


WRONG = {
    "no name": ("    s += 'a' + lmc.gen(append=True)\n", 4, "needs the name"),
    "samples": ("    s += 'a' + lmc.gen('x', append=True, n=2)\n", 4, "one generation"),
    "choices": ("    s += 'a' + lmc.gen('x', append=True, choices=['a'])\n", 4, "one generation"),
    "no list": ("    s.set('x', 3)\n    s += 'a' + lmc.gen('x', append=True)\n", 5, "list"),
    "reasoning": (
        "    s += lmc.separate_reasoning(lmc.gen('x', append=True), model_type='qwen3')\n",
        4, "cannot add to a list",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=str)
@pytest.mark.parametrize("options", MODES, ids=str)
def test_what_cannot_be_added_is_told_at_its_line(load, case, options):
    body, line, text = WRONG[case]
    with pytest.raises(LmcError, match=text) as caught:
        load("@lmc.function\ndef p(s):\n" + body).p.run(backend="oracle", **options)
    assert caught.value.location.line == line


def sides(module):
    return [op.attributes["side"] for op in module.walk() if op.name == "lm.unordered"]


def test_marks_stay_until_the_order_is_chosen():
    exact = "fold,unroll,fold,dce,hoist-prefix,batch-forks"
    found = sides(LISTS.free.compile("oracle", passes=exact).module)
    assert found.count("begin") == found.count("end") >= 2
    assert sides(LISTS.free.compile("oracle").module) == []


PIECES = """
@lmc.function
def p(s, words):
    with lmc.unordered(s):
        s += "one"
        x = 1
        for word in words:
            s += word
            s += ", "
        for word in words:
            x += 1
        if x > 2:
            s += "two"
        s += lmc.gen("a", max_tokens=1) + "three"
    return x
"""


def test_a_statement_is_a_piece_and_so_is_each_round_of_a_loop(load):
    module = load(PIECES).p.trace()
    main = module.functions["p"].body
    assert sides(module) == ["begin", "next", "next", "next", "next", "end"]
    assert [op.attributes["side"] for op in main.ops if op.name == "lm.unordered"] == [
        "begin", "next", "next", "next", "end",
    ]  # fmt: skip
    (loop,) = (op for op in main.ops if op.name == "cf.for" and op.results[0].type == STATE)
    names = [op.name for op in loop.blocks[0].ops if op.name.startswith("lm.")]
    assert names == ["lm.extend", "lm.extend", "lm.unordered"]
