"""Programs of the field and the examples run alike in every mode."""

import sys
from pathlib import Path
from typing import Any

import pytest

from lmc.checking.program import check_program
from lmc.frontend.load import load_programs

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests" / "programs").glob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_programs_of_the_field(path: Path) -> None:
    """With the arguments that stand beside them, answers of every manner."""
    programs = load_programs(path)
    arguments: dict[str, Any] = sys.modules[path.stem].ARGUMENTS
    for name, program in programs.items():
        if name in arguments:
            report = check_program(program, arguments=arguments[name], examples=6, rounds=1)
            assert report.is_equal, report


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    """With arguments drawn from their signatures."""
    for program in load_programs(path).values():
        report = check_program(program, examples=8, rounds=1)
        assert report.is_equal, report
        # Texts of typed generations may be cut short.
        assert report.failed <= report.examples / 2
