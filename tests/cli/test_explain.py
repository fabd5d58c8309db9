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


def test_every_argument_left_out_is_named(lmc, tmp_path):
    path = tmp_path / "many.py"
    head = "import lmc\n@lmc.function\ndef many(s, topic: str, texts: list[str], width: int = 2):\n"
    path.write_text(
        f'{head}    for text in texts:\n        s += text + topic\n    s += lmc.gen("x")\n'
    )
    told = lmc("explain", path, "--model", "oracle")
    assert "hint: give the arguments that are known: --arg topic=... --arg texts=...\n" in told.out
    told = lmc("explain", path, "--model", "oracle", "--arg", "topic=a")
    assert "hint: give the arguments that are known: --arg texts=...\n" in told.out
    told = lmc("explain", path, "--model", "oracle", "--arg", "topic=a", "--arg", 'texts=["b"]')
    assert "hint: give" not in told.out


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


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """Forty sets of arguments."""
    path = tmp_path / "batch.jsonl"
    rows = [{"question": f"What is thing {i} like?"} for i in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_batch_gives_hints_with_numbers(lmc, program, batch):
    told = lmc("explain", program, "--model", "oracle", "--args", batch)
    assert told.code == 0
    assert "ask on oracle, the longest of 40 runs:" in told.out
    found = re.search(
        r"hint: 'question' at token (\d+) keeps (\d+) tokens from being shared by 40 instances: "
        r"move it behind the text before line 9, which saves ([\d,]+) of ([\d,]+) prompt tokens",
        told.out,
    )
    assert found is not None
    assert int(found[3].replace(",", "")) > 30 * 10


def test_json_holds_the_same(lmc, program, batch):
    (line,) = lmc("explain", program, "--model", "oracle", "--args", batch, "--json").out.split(
        "\n"
    )[:1]
    told = json.loads(line)
    assert told["figures"]["calls"] == [2, 2]
    assert told["figures"]["decode_steps"] == [0, 5]
    assert told["instances"] == 40
    (hint,) = told["hints"]
    assert hint["argument"] == "question"
    assert hint["saved"] > 0
    assert sum(each["calls"][1] for each in told["lines"]) == 2
    bound = json.loads(lmc("explain", program, "--model", "oracle", "--json").out)
    assert bound["figures"]["prefill"][1] is None
    assert bound["unbounded"]


CONSTRAINED = """
import lmc


@lmc.function
def graded(s, text: str = "A boat."):
    s += text + lmc.gen("grade", regex=r"Grade: [ABCD][+-]?", max_tokens=90)
"""


def test_a_constraint_is_told(lmc, tmp_path):
    path = tmp_path / "graded.py"
    path.write_text(CONSTRAINED, encoding="utf-8")
    told = lmc("explain", path, "--model", "oracle")
    assert "matches of 8 to 9 bytes; 1..9 tokens" in told.out
    assert re.search(r"decode tokens +\d+\.\.9$", told.out, re.M)
    (constraint,) = json.loads(lmc("explain", path, "--model", "oracle", "--json").out)[
        "constraints"
    ]
    assert (constraint["shortest_bytes"], constraint["longest_bytes"]) == (8, 9)
    # "Grade", ":" and what may be one token with the letter, which is held back.
    assert constraint["expected_steps_saved"] >= 2
    assert constraint["expected_steps_saved"] < constraint["expected_tokens"]
    saved = f"{constraint['expected_steps_saved']:.1f} are forced"
    assert saved in told.out


def test_bytes_are_told_by_the_models_shape(lmc, program):
    told = lmc("explain", program, "--arg", "question=Is it wet?")
    # 30 layers, 3 heads of 64, keys and values of 2 bytes.
    assert "23,040 bytes each in bfloat16" in told.out
    told = lmc("explain", program, "--arg", "question=Is it wet?", "--dtype", "float32", "--json")
    figures = json.loads(told.out)["figures"]
    assert figures["cache_bytes"][1] == figures["cache_tokens"][1] * 46_080


QUESTION_FIRST = """
import lmc


@lmc.function
def first(s, question: str, about: str):
    s += "Question: " + question + "\\nYou know " + about + " well; say it in one word.\\n"
    s += "Take your time and think of the reader.\\nAnswer:" + lmc.gen("answer", max_tokens=2)
"""
QUESTION_BEHIND = """
import lmc


@lmc.function
def behind(s, question: str, about: str):
    s += "Question: " + "\\nYou know " + question + about + " well; say it in one word.\\n"
    s += "Take your time and think of the reader.\\nAnswer:" + lmc.gen("answer", max_tokens=2)
"""
ABOUT_BEHIND = """
import lmc


@lmc.function
def last(s, question: str, about: str):
    s += "Question: " + question + "\\nYou know " + " well; say it in one word.\\n"
    s += "Take your time and think of the reader.\\nAnswer:" + about
    s += lmc.gen("answer", max_tokens=2)
"""
QUESTION_LAST = """
import lmc


@lmc.function
def last(s, question: str, about: str):
    s += "Question: " + "\\nYou know " + about + " well; say it in one word.\\n"
    s += "Take your time and think of the reader.\\nAnswer:" + question
    s += lmc.gen("answer", max_tokens=2)
"""


@pytest.mark.parametrize(
    ("rows", "moved"),
    [
        ([("Is it wet?", f"harbour {i}") for i in range(12)], ABOUT_BEHIND),
        ([(f"Is {i} wet?", "the sea") for i in range(12)], QUESTION_LAST),
        ([(f"Is {i % 3} wet?", f"thing {i}") for i in range(12)], QUESTION_BEHIND),
    ],
)
def test_a_hint_that_is_followed_saves_what_it_says(tmp_path, rows, moved):
    """Tokens computed on an engine, before and after the argument is moved."""
    from lmc.explain import explain_source

    batch = [{"question": question, "about": about} for question, about in rows]
    listed = tmp_path / "batch.jsonl"
    listed.write_text("".join(json.dumps(row) + "\n" for row in batch), encoding="utf-8")
    computed = []
    for name, text in (("before", QUESTION_FIRST), ("after", moved)):
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        computed.append(tokens_of_batch(path, batch))
    told = explain_source(str(tmp_path / "before.py"), "oracle", None, (), rows=listed)
    savings = {hint.blocked.name: hint.saving for hint in told.hints}
    argument = "about" if moved is ABOUT_BEHIND else "question"
    assert savings[argument].saved == computed[0] - computed[1]
    assert savings[argument].now == computed[0]


def tokens_of_batch(path, batch):
    """Return the context tokens that an engine computes for a batch."""
    from cost_runs import open_tiny

    from lmc.sources import find_program

    with open_tiny(num_slots=4096) as engine:
        find_program(str(path))[1].run_batch(batch, backend=engine, seed=1)
        return engine.stats().computed_tokens
