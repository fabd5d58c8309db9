"""docs/errors.md has a section for each code; its examples trigger that code and nothing else."""

import re
from pathlib import Path

import pytest

from lmc.passes.lint import CODES

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "errors.md").read_text()
SECTION = re.compile(r"^### (LMC\d{3}) `([a-z-]+)` \((\w+)[^)]*\)$", flags=re.MULTILINE)


def sections() -> dict[str, tuple[str, str, str]]:
    """Return name, severity and text of each code's section."""
    parts = SECTION.split(PAGE)[1:]
    rows = zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    return {code: (name, severity, text) for code, name, severity, text in rows}


def examples(code: str) -> list[str]:
    """Return the programs of a section."""
    return re.findall(r"^```python\n(.*?)^```$", sections()[code][2], re.DOTALL | re.MULTILINE)


def test_every_code_has_its_section_in_order():
    told = {code: (name, severity) for code, (name, severity, _) in sections().items()}
    assert told == {code: (kind.name, kind.severity) for code, kind in CODES.items()}
    assert list(told) == sorted(CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_example_has_that_mistake_alone(code, lint):
    wrong, _ = examples(code)
    found = lint(wrong)
    assert [each.code for each in found] == [code], [str(each) for each in found]
    assert found[0].severity == CODES[code].severity


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_corrected_example_has_none(code, lint):
    _, right = examples(code)
    assert not lint(right)
