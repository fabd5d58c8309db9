"""Questions about patterns end: what costs too much is not answered, and nothing hangs."""

import time

import pytest

from lmc.passes.lint.alternatives import alternatives
from lmc.passes.lint.overlaps import can_match_within, overlap_example

LONG = "(a|b)*a(a|b){14}"
WIDE = ".{0,200}a.{0,200}"
NESTED = "([a-z]{1,30}){1,30}x"
CASES = {
    "many subsets": (LONG, "(a|b)*b(a|b){15}"),
    "long repeats": (WIDE, ".{0,200}b.{0,200}"),
    "nested repeats": (NESTED, "([a-z0-9]{1,40}y?){1,20}x"),
}


@pytest.mark.parametrize("case", CASES)
def test_costly_patterns_have_no_answer_soon(case):
    one, other = CASES[case]
    begun = time.thread_time()
    assert overlap_example(one, other) is None
    assert can_match_within(one, other) is None
    assert time.thread_time() - begun < 15


def test_programs_with_costly_patterns_are_looked_at_soon(lint):
    regex = "(" + "|".join(f"[a-z]{{1,{n}}}[0-9]{{0,{n}}}x{n}" for n in range(2, 24)) + ")"
    bodies = [f"({one}|{other})" for one, other in CASES.values()]
    begun = time.thread_time()
    told = lint("".join(
        f"@lmc.function\ndef p{n}(s, q: str):\n"
        f"    s += q + lmc.gen('x', regex=r'{body}', max_tokens=200, stop_regex=r'{LONG}')\n"
        for n, body in enumerate([*bodies, regex])
    ))  # fmt: skip
    assert told == []
    assert time.thread_time() - begun < 40


@pytest.mark.parametrize(
    ("pattern", "lists"),
    [
        ("a|b", [["a", "b"]]),
        (" (a|b)c", [["a", "b"]]),
        ("(?:a|(b|c)d)", [["a", "(b|c)d"], ["b", "c"]]),
        ("(?P<n>a|b)[|(]x", [["a", "b"]]),
        (r"\(a\|b\)", []),
        ("(?=a|b)a", []),
        ("(?i:a|b)", []),
        ("(a", []),
    ],
)
def test_alternatives_are_those_of_the_brackets(pattern, lists):
    assert list(alternatives(pattern)) == lists
