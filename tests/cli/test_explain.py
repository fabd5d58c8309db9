"""`lmc explain` prints bounds by line, and hints; no run takes more."""

import json
import re
from pathlib import Path

import pytest
from command_support import EXAMPLES

PROGRAM = """
import lmc


@lmc.function
def ask(s, question: str, width: int = 2):
    s += "Question: " + question + "\\nAnswer it in a few words, and give a reason for it.\\n"
    for fork in s.fork(width):
        fork += "Answer:" + lmc.gen("answer", max_tokens=5)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program whose question stands before constant text."""
    path = tmp_path / "ask.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_bounds_stand_by_line(lmc, program):
    told = lmc("explain", program, "--model", "oracle", "--arg", "question=Is it wet?")
    assert told.code == 0
    assert "ask on oracle, one run:" in told.out
    assert re.search(r"calls +2$", told.out, re.M)
    assert re.search(r"decode steps +0\.\.5  one after another", told.out)
    assert re.search(r'^9:\d+ +2 .*fork \+= "Answer:"', told.out, re.M)
    assert "hint" not in told.out


def test_an_argument_left_out_may_be_anything(lmc, program):
    told = lmc("explain", program, "--model", "oracle")
    assert told.code == 0
    assert re.search(r"prefill tokens +\d+\.\.\?  with an empty cache", told.out)
    assert "hint: 'question' at token " in told.out
    assert "no bound at ask.py:7:10: the length of this text is not known" in told.out
    assert "hint: give the arguments that are known: --arg question=..." in told.out


def test_an_artifact_is_explained_as_its_source(lmc, program, tmp_path):
    artifact = tmp_path / "ask.lmc"
    assert lmc("compile", program, "--model", "oracle", "-o", artifact).code == 0
    args = ("--model", "oracle", "--arg", "question=Is it wet?")
    assert lmc("explain", artifact, *args).out == lmc("explain", program, *args).out


def test_a_run_stays_within_the_bounds(lmc):
    args = (EXAMPLES / "judge.py", "--model", "oracle", "--arg", f"essay=@{EXAMPLES / 'essay.txt'}")
    told = lmc("explain", *args).out
    (most,) = re.findall(r"decode tokens +0\.\.(\d+)", told)
    (calls,) = re.findall(r"calls +1\.\.(\d+)", told)
    usage = json.loads(lmc("run", *args, "--json").out)["usage"]
    assert usage["output_tokens"] <= int(most)
    assert usage["calls"] <= int(calls)


def test_wrong_use_is_told(lmc, program, tmp_path):
    assert "has no argument 'topic'" in lmc("explain", program, "--arg", "topic=x").err
    told = lmc("explain", tmp_path / "none.py")
    assert told.code == 2
    assert told.err.startswith("error: ")
