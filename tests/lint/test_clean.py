"""Programs without mistakes are told no error and no warning, and few hints."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from test_shapes import SHAPES

from lmc.frontend.load import load_programs
from lmc.linting.program import Diagnostic, lint_program

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "tests" / "programs"
MINE = {
    ("control.py", "maybe_undefined"): {"LMC502"},  # what it is about
    ("keys.py", "missing"): {"LMC502"},  # what it is about
    ("control.py", "asserts"): {"LMC203"},  # begins with a generation
    ("pictures.py", "branches"): {"LMC501"},  # a join by text leaves the variables where they are
}
"""Programs of the tests that hold a mistake on purpose; none of them is a shape."""

HINTS = {"LMC105", "LMC106", "LMC201", "LMC602"}
"""Hints that may be told of good programs: true, but a matter of taste or of the data."""


@cache
def told(path: Path) -> dict[str, list[Diagnostic]]:
    """Return what is found in each program of a file."""
    programs = load_programs(path)
    return {name: lint_program(program, model="oracle") for name, program in programs.items()}


def complaints(found: list[Diagnostic], allowed: set[str]) -> list[str]:
    return [
        str(each)
        for each in found
        if each.code not in allowed and (each.severity != "hint" or each.code not in HINTS)
    ]


FILES = [
    # Equal calls whose first one nobody reads stand in twins.py on purpose.
    *(path for path in sorted(PROGRAMS.glob("*.py")) if path.stem != "twins"),
    *sorted((ROOT / "examples").glob("*.py")),
    ROOT / "tests" / "reference" / "programs.py",
    *sorted((Path(__file__).resolve().parent / "clean").glob("*.py")),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_false_alarm(path):
    wrong = []
    for name, found in told(path).items():
        wrong += complaints(found, MINE.get((path.name, name), set()))
    assert not wrong, "\n\n".join(wrong)


def test_hints_on_the_shapes_are_rare():
    hints: Counter[str] = Counter()
    for path in sorted(PROGRAMS.glob("*.py")):
        names = {n.partition(".")[2] for ns in SHAPES.values() for n in ns if path.stem in n}
        hints.update(
            each.code for name, found in told(path).items() if name in names for each in found
        )
    assert hints.total() <= 10, hints
