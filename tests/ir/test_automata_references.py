"""Back-references that are written out mean what Python means, and others are refused."""

import re
from itertools import product

import pytest

from lmc.errors import ConstraintError
from lmc.ir.automata import compile_regex

WRITTEN = [
    r"(a|b)\1", r"(a|b)c*\1", r"((a|b)c?)\1\2", r"(?:(a|b)\1)*", r"(a|b)(?:c|\1)*", r"(ab|a)(b?)\1",
    r"(?P<q>['\"])[abc]*(?P=q)", r"(a?)b\1", r"(a{1,2}|c)b\1", r"(?i)(a|b)c\1", r"(?i:(a))(?-i:\1)",
    r"([ab])([bc])\2\1", r"(a)(?=\1)[ab]", r"(b)(?!\1)[ab]", r"(?:(a)\1|(b)\2)c", r"()\1a",
    r"((a|b)\2)\1", r"(a|b)\1?", r"([a-c])\1+",
]  # fmt: skip
REFUSED = [
    (r"(a+)\1", 4), (r"(a|b)*\1", 6), (r"(?:(a)|b)\1", 9), (r"(.)\1", 3), (r"(?:(a)|b\1)*", 8),
    (r"(a|b)(a*+)\1", 10), (r"([a-z]{9})\1", 10), (r"(?=(a))\1", 7), (r"(a)?\1", 4),
]  # fmt: skip


@pytest.mark.parametrize("pattern", WRITTEN)
def test_written_out_references_mean_what_python_means(pattern: str) -> None:
    dfa, python = compile_regex(pattern), re.compile(pattern)
    letters = "abcA" if "i" in pattern else "abc'\""[: 5 if "'" in pattern else 3]
    texts = ["".join(t) for length in range(6) for t in product(letters, repeat=length)]
    found = [text for text in texts if dfa.matches(text.encode())]
    assert found == [text for text in texts if python.fullmatch(text)]
    assert found


def test_a_reference_ignores_case_as_python_does() -> None:
    pattern = "(?i)(k|\xdf|\u017f|i|\u03c9)\\1"
    dfa, python = compile_regex(pattern), re.compile(pattern)
    letters = "kK\u212a\xdf\u1e9esS\u017fiI\u0130\u0131\u03c9\u03a9\u2126"
    for text in map("".join, product(letters, repeat=2)):
        assert dfa.matches(text.encode()) == bool(python.fullmatch(text)), text


@pytest.mark.parametrize(("pattern", "position"), REFUSED)
def test_other_references_are_refused(pattern: str, position: int) -> None:
    with pytest.raises(ConstraintError, match="back-reference") as caught:
        compile_regex(pattern)
    assert caught.value.position == position
