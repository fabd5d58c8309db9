"""Drawings of the examples: what they must show, and that graphviz takes them."""

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from command_support import EXAMPLE_NAMES, EXAMPLES

SHARED = "#38761d"
"""The colour of boxes whose text all branches below share."""


def drawing(lmc, name, *args):
    """Return the drawing of an example."""
    told = lmc("viz", EXAMPLES / f"{name}.py", *args)
    assert told.code == 0, told.err
    return told.out


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
@pytest.mark.parametrize("passes", [(), ("--passes=none",)], ids=str)
def test_graphviz_renders_every_example(lmc, name, passes):
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("needs graphviz (apt-get install graphviz)")
    source = drawing(lmc, name, *passes)
    done = subprocess.run([dot, "-Tsvg"], input=source, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    shown = "".join(ElementTree.fromstring(done.stdout).itertext())
    assert f"{name}(" in shown


def test_the_judge_shows_prefix_branch_and_fork(lmc):
    boxes = [line for line in drawing(lmc, "judge").splitlines() if "[label=" in line]

    def box(word):
        (found,) = (line for line in boxes if word in line)
        return found

    assert "You judge texts" in box("prologue: computed once")
    for word in (
        "prologue",
        "{essay}",
        'select \\"kind',
        "kind == 'something else'?",
        "fork into 3",
    ):
        assert SHARED in box(word), word
    assert "shape=diamond" in box("kind == 'something else'?")
    for dimension in ("clarity?", "originality?", "use of evidence?"):
        assert SHARED not in box(dimension)
    assert sum('gen \\"judgment' in line for line in boxes) == 3
    assert SHARED in box("together")


def test_mermaid_shows_the_same(lmc):
    text = drawing(lmc, "judge", "--format", "mermaid")
    assert text.startswith("flowchart TB\n")
    for word in ("prologue: computed once", "fork into 3", "something else'?", "together"):
        assert text.count(word) == 1, word
    assert text.count('("gen #34;judgment#34;') == 3
    opened = [line.strip().partition(" ")[0] for line in text.splitlines()]
    assert opened.count("subgraph") == opened.count("end") == 2


def test_a_dash_is_standard_output(lmc, tmp_path, monkeypatch):
    judge = EXAMPLES / "judge.py"
    monkeypatch.chdir(tmp_path)
    told = lmc("viz", judge, "-o", "-")
    assert told.code == 0
    assert told.out == lmc("viz", judge).out
    refused = lmc("compile", judge, "-o", "-")
    assert refused.code == 2
    assert "give -o a file" in refused.err
    assert not list(tmp_path.glob("-"))


def test_a_name_may_not_be_empty(lmc):
    told = lmc("compile", f"{EXAMPLES / 'judge.py'}:")
    assert told.code == 2
    assert "no program is named in" in told.err


def test_a_constraint_is_drawn_by_the_name_of_its_generation(lmc):
    dot = drawing(lmc, "judge", "--constraint", "grade")
    assert 's0 -> s1 [label="Grade: [A-D]"]' in dot
    assert dot.count("doublecircle") == 2
    mermaid = drawing(lmc, "extract", "--constraint", "record", "--format", "mermaid")
    assert 'title["skeleton of' in mermaid
    assert "capitalization" in mermaid
    told = lmc("viz", EXAMPLES / "judge.py", "--constraint", "nothing")
    assert told.code == 2
    assert "there are: grade" in told.err
    told = lmc("viz", EXAMPLES / "judge.py", "--constraint", "grade", "--format", "html")
    assert told.code == 2
