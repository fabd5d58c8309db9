"""Constraints that are not small are compiled by another process, whichever command asks."""

from pathlib import Path

import pytest

import lmc as package
from lmc.ir.calls import Constraint
from lmc.ir.languages import compiling, finding, forget_languages

PROGRAM = """
import lmc

ROW = {"type": "object", "properties": {f"field {n}": {"type": "integer"} for n in range(60)}}


@lmc.function
def ask(s):
    s += "A number: " + lmc.gen("number", regex="[0-9]{1,90}", max_tokens=9)
    s += "A row: " + lmc.gen("row", json_schema=ROW, max_tokens=900)
    s += "A sum: " + lmc.gen("sum", grammar='root ::= [0-9]{70} ("+" root)?', max_tokens=900)
    s += "A bit: " + lmc.gen("bit", regex="[01]", max_tokens=9)
"""


class Noting:
    """Compile processes that note what they are asked for."""

    def __init__(self) -> None:
        self.asked: list[Constraint] = []

    def compile(self, constraint: Constraint, seconds: float) -> bytes:
        self.asked.append(constraint)
        return compiling.language_to_bytes(compiling.compile_here(constraint))


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    """Give what is asked of compile processes, with nothing compiled before."""
    from lmc.codegen import forced_head
    from lmc.passes import jump_forward

    forget_languages()
    jump_forward._skeleton.cache_clear()
    forced_head._head.cache_clear()
    monkeypatch.setenv("LMC_CONSTRAINT_CACHE", "off")
    made = Noting()
    monkeypatch.setattr(finding, "processes", made)
    return made


@pytest.mark.parametrize(
    "words",
    [
        ["compile", "-o", "made.lmc"],
        ["lint"],
        ["explain"],
        ["viz", "--format", "html", "-o", "made.html"],
    ],
)
def test_commands_compile_each_large_constraint_once_and_elsewhere(
    lmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noting: Noting, words
) -> None:
    path = tmp_path / "ask.py"
    path.write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    model = [] if words[0] == "viz" else ["--model", "oracle"]
    told = lmc(words[0], path, *model, *words[1:])
    assert told.code == 0, told.err
    kinds = sorted(each.kind for each in noting.asked)
    assert kinds == ["ebnf", "json_schema", "regex"]


def test_the_library_does_so_too(noting: Noting) -> None:
    large = package.Constraint.regex("[0-9]{1,90}")
    assert large.compile("oracle").matcher()
    assert "digraph" in large.to_dot()
    assert noting.asked == [large.request()]
