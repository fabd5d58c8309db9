"""Every mistake of the corpus is found at its line and column, and nothing else is told.

A mistake's line ends in `# CODE text`: the code, and the text that stands where it begins.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from lmc.frontend.load import load_programs
from lmc.linting.program import lint_program
from lmc.passes.lint import CODES

FOLDER = Path(__file__).resolve().parent / "mistakes"
FILES = sorted(FOLDER.glob("*.py"))
MARK = re.compile(r"  # (LMC\d{3}) (.+)$")


def marked(path: Path) -> list[tuple[int, str, str]]:
    """Return line, code and beginning of the mistakes of a file."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        mark = MARK.search(line)
        if mark:
            found.append((number, mark[1], mark[2]))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_mistakes_are_found_where_they_are(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    told = lint_program(list(load_programs(path).values()), model="oracle")
    wanted = {(line, code): text for line, code, text in marked(path)}
    found = {(each.line, each.code): lines[each.line - 1][each.column - 1 :] for each in told}
    missing = wanted.keys() - found.keys()
    assert not missing, f"not found: {sorted(missing)}"
    more = [str(each) for each in told if (each.line, each.code) not in wanted]
    assert not more, "\n".join(more)
    elsewhere = [key for key, text in wanted.items() if not found[key].startswith(text)]
    assert not elsewhere, f"at another column: {elsewhere}"
    assert len(told) == len(marked(path))


def test_the_corpus_is_wide():
    counted = Counter(code for path in FILES for _, code, _ in marked(path))
    assert counted.total() >= 180
    assert set(counted) == set(CODES)
    for code in ("LMC101", "LMC102", "LMC103", "LMC201", "LMC301", "LMC503"):
        assert counted[code] >= 7, code


def test_each_program_alone_is_told_the_same():
    path = FOLDER / "values.py"
    programs = load_programs(path)
    together = lint_program(list(programs.values()), model="oracle")
    alone = {
        each for program in programs.values() for each in lint_program(program, model="oracle")
    }
    assert set(together) == alone
    assert together == sorted(together, key=lambda each: (each.line, each.column))
