"""Drawings of automata: what is read along their arrows is the language."""

import re
from itertools import product

import pytest

from lmc.ir.automata import compile_regex
from lmc.ir.automata.drawing import Drawing, draw_automaton
from lmc.ir.json_schema import compile_json_schema


def language(drawing: Drawing, longest: int) -> set[str]:
    """Return the texts of a drawing, its labels read as patterns' classes and plain text."""
    found, pending = set(), [(0, "")]
    while pending:
        state, text = pending.pop()
        if state in drawing.ends:
            found.add(text)
        for arrow in drawing.arrows:
            if arrow.source == state:
                for read in texts(arrow.label):
                    if len(text + read) <= longest:
                        pending.append((arrow.target, text + read))
    return found


def texts(label: str) -> set[str]:
    parts = re.findall(r"\[[\w-]+\](?:\{\d+\})?|.", label)
    letters = [
        (set(re.findall(part[: part.index("]") + 1], "abcdexyz")),
         int(part.split("{")[1][:-1]) if "{" in part else 1)
        if part.startswith("[") else ({part}, 1)
        for part in parts
    ]  # fmt: skip
    repeated = [sorted(found) for found, times in letters for _ in range(times)]
    return {"".join(each) for each in product(*repeated)}


@pytest.mark.parametrize(
    "pattern",
    [
        "yes|no|yellow",
        "(ab|cd)*e?",
        "a[bc]{3}d",
        "(a|b)+c",
        "ab(cde)*",
        "x|y|z|ab|cb",
        "é(aé)*",
        "",
    ],
)
def test_a_drawing_reads_the_language(pattern: str) -> None:
    drawing = draw_automaton(compile_regex(pattern))
    assert not drawing.is_skeleton
    letters = sorted({*"abcdexyzé"} & {*pattern} | {*"abcde"})
    words = {"yes", "no", "yellow"} if "yes" in pattern else set()
    words |= {"".join(w) for n in range(6) for w in product(letters, repeat=n)}
    assert language(drawing, 6 if words & {"yellow"} else 5) == {
        word for word in words if re.fullmatch(pattern, word)
    }


def test_chains_are_one_arrow_and_classes_are_told_once() -> None:
    drawing = draw_automaton(compile_regex(r"Grade: [ABCD][+-]?"))
    assert [arrow.label for arrow in drawing.arrows] == ["Grade: [A-D]", r"[+\-]"]
    assert drawing.count == 3
    (arrow,) = draw_automaton(compile_regex("[0-9]{4}-é")).arrows
    assert arrow.label == "[0-9]{4}-é"
    assert draw_automaton(compile_regex('"[^"]*"')).arrows[1].label == '[^"]'


def test_large_automata_are_drawn_as_skeletons() -> None:
    schema = {"properties": {"a": {"enum": ["x", "y"]}, "b": {"format": "email", "type": "string"}},
              "required": ["a", "b"], "type": "object"}  # fmt: skip
    drawing = draw_automaton(compile_json_schema(schema))
    assert drawing.is_skeleton
    labels = [arrow.label for arrow in drawing.arrows]
    assert labels[:2] == ['{"a": "', "x | y"]
    assert labels[-1] == '"}'
    assert drawing.count == len(labels) + 1 < 12


def test_what_languages_of_drawings_read_as_marks_is_escaped() -> None:
    drawing = draw_automaton(compile_regex(r'"\\<b>|\n"'))
    assert r'label="\"\\<b>"' in drawing.to_dot() or r"\\" in drawing.to_dot()
    assert "<b>" not in drawing.to_mermaid()
    assert '""' not in drawing.to_mermaid()
