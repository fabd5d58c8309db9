"""gen(append=True) and unordered blocks: the same in every mode, wrong use is told."""

from pathlib import Path

import pytest

import lmc
from lmc.errors import LmcError
from lmc.frontend.load import load_module

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


def test_the_ir_keeps_the_mark_through_every_pass():
    module = LISTS.free.compile("oracle").module
    sides = [op.attributes["side"] for op in module.walk() if op.name == "lm.unordered"]
    assert sides.count("begin") == sides.count("end") >= 2
