"""Differences that were found once stay away."""

from pathlib import Path

import pytest

from lmc.checking.program import check_program
from lmc.frontend.load import load_programs

PROGRAMS = load_programs(Path(__file__).parent / "regressions.py")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_runs_alike(name: str) -> None:
    """A few examples are enough: each showed its difference at once."""
    report = check_program(PROGRAMS[name], examples=6, rounds=1)
    assert report.is_equal, report
