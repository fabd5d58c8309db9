"""What tests of diagnostics share: files of programs, looked at for the oracle's tokenizer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lmc.frontend.load import load_programs
from lmc.linting.program import Diagnostic, lint_program

Lint = Callable[[str], list[Diagnostic]]


@pytest.fixture
def lint(tmp_path: Path) -> Lint:
    """Look at the programs of a text, which need not import lmc."""
    made: list[int] = []

    def look(text: str) -> list[Diagnostic]:
        made.append(1)
        path = tmp_path / f"linted_{len(made)}.py"
        path.write_text(f"import lmc\n{text}", encoding="utf-8")
        return lint_program(list(load_programs(path).values()), model="oracle")

    return look
