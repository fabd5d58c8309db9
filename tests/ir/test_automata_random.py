"""Random patterns against Python's engine and against interegular; sets of characters."""

import itertools
import re
import sys
from functools import cache, partial

import interegular
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lmc.errors import ConstraintError
from lmc.ir.automata import ByteDfa, compile_regex
from lmc.ir.automata.charset import ANY, CASED_LIMIT, cased_text, category, complement
from lmc.ir.automata.parse import parse
from lmc.ir.automata.syntax import Chars

TEXTS = ["".join(part) for size in range(5) for part in itertools.product("ab\n é", repeat=size)]
QUANTIFIERS = ["*", "+", "?", "{1,2}", "{2}", "{,2}", "{2,}", "{0}"]

one_character = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\W", r"\s", "é", r"\n", r"[^\w]", "[b-é]"]
)
anchors = st.sampled_from(["^", "$", r"\A", r"\Z", r"\b", r"\B"])


def fixed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Parts of one length, as Python wants them in a look-behind."""
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}){{{}}}".format, inner, st.integers(0, 2)),
        st.builds("(?:{}|{})".format, one_character, one_character),
        st.builds("(?{}{})".format, st.sampled_from(["=", "!", "<=", "<!"]), inner),
    )


def parts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Parts of any kind made from smaller ones."""
    greed = st.sampled_from(["", "", "?", "+"])
    behind = st.recursive(one_character | anchors, fixed, max_leaves=3)
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{}{}{}".format, inner, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:{}|)".format, inner),
        st.builds("(?:{}){}{}".format, inner, st.sampled_from(QUANTIFIERS), greed),
        st.builds("(?{}{})".format, st.sampled_from(["=", "!"]), inner),
        st.builds("(?{}{})".format, st.sampled_from(["<=", "<!"]), behind),
        st.builds("(?>{})".format, inner),
        st.builds("(?{}:{})".format, st.sampled_from(["i", "m", "s", "a", "ms"]), inner),
    )


patterns = st.builds(
    "{}{}".format,
    st.sampled_from(["", "", "", "(?m)", "(?s)", "(?i)", "(?a)"]),
    st.recursive(one_character | anchors, parts, max_leaves=9),
)


def compile_or_none(pattern: str, *, search: bool = False) -> ByteDfa | None:
    """Return the automaton; None for an empty language; discards undecided patterns."""
    try:
        return compile_regex(pattern, search=search)
    except ConstraintError as error:
        assume("matches no text" in error.message)
        return None


def found_anywhere(python: "re.Pattern[str]", text: str) -> bool:
    """Return what `search` should say.

    Python's own `search` skips ahead by a set of first characters that is built without
    scoped flags: `re.search(r"(?a:[^\\w])", "é")` finds nothing, `re.match` does.
    """
    return any(python.match(text, start) for start in range(len(text) + 1))


def check_against_python(pattern: str, *, search: bool) -> None:
    try:
        python = re.compile(pattern)
    except re.error:
        assume(False)
    dfa = compile_or_none(pattern, search=search)
    says = partial(found_anywhere, python) if search else python.fullmatch
    wrong = [
        text
        for text in TEXTS
        if bool(says(text)) != (dfa is not None and dfa.matches(text.encode()))
    ]
    assert not wrong, (pattern, wrong[:3])


quick = settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@quick
@given(patterns)
def test_random_patterns_match_as_python_fullmatch(pattern: str) -> None:
    check_against_python(pattern, search=False)


@quick
@given(patterns)
def test_random_patterns_match_as_python_search(pattern: str) -> None:
    check_against_python(pattern, search=True)


@pytest.mark.long
@settings(parent=quick, max_examples=10_000)
@given(patterns, st.booleans())
def test_many_random_patterns(pattern: str, search: bool) -> None:
    check_against_python(pattern, search=search)


@quick
@given(st.recursive(st.sampled_from(["a", "b", "[ab]", "[^a]", "c"]), lambda inner: st.one_of(
    st.builds("{}{}".format, inner, inner),
    st.builds("(?:{}|{})".format, inner, inner),
    st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{1,2}"])),
), max_leaves=8))  # fmt: skip
def test_random_patterns_match_as_interegular(pattern: str) -> None:
    machine = interegular.parse_pattern(pattern).to_fsm()
    dfa = compile_or_none(pattern)
    for text in ("".join(t) for size in range(6) for t in itertools.product("abc", repeat=size)):
        assert machine.accepts(text) == (dfa is not None and dfa.matches(text.encode()))


@quick
@given(patterns)
def test_automata_are_minimal_and_live(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        assume(False)
    dfa = compile_or_none(pattern)
    assume(dfa is not None and dfa.state_count < 400)
    labels = [int(end) for end in dfa.accepting]
    while True:  # the plain textbook refinement
        keys = [
            (label, *(labels[to] if to >= 0 else -1 for to in row))
            for label, row in zip(labels, dfa.table.tolist(), strict=True)
        ]
        names = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        finer = [names[key] for key in keys]
        if len(names) == len(set(labels)):
            break
        labels = finer
    assert len(names) == dfa.state_count
    reached = [dfa.start]
    for state in reached:
        reached += {int(to) for to in dfa.table[state]} - {-1, *reached}
    assert len(reached) == dfa.state_count
    assert all(dfa.is_accepting(s) or dfa.allowed_bytes(s) for s in range(dfa.state_count))


@pytest.mark.parametrize("letter", list("dDwWsS"))
@pytest.mark.parametrize("ascii_only", [False, True])
def test_categories_hold_what_python_says(letter: str, ascii_only: bool) -> None:
    found = category(letter, ascii_only)
    flags = re.ASCII if ascii_only else 0
    inside = "".join(map(chr, itertools.chain(*(range(a, b + 1) for a, b in found))))
    outside = complement(found)
    others = "".join(map(chr, itertools.chain(*(range(a, b + 1) for a, b in outside))))
    assert re.fullmatch(f"\\{letter}*", inside, flags)
    assert not re.search(f"\\{letter}", others, flags)
    assert len(inside) + len(others) == 0x110000 - 0x800


def test_no_character_has_another_case_beyond_the_limit() -> None:
    beyond = (chr(point) for point in range(CASED_LIMIT, sys.maxunicode + 1))
    assert all(char.lower() == char and char.upper() == char for char in beyond)


# A long s, sharp s, dotted and dotless i, sigmas, an iota below, a ligature, a digraph.
CASE_SETS = [
    *("(?i)s", "(?i)[k-n]", "(?i)[^k]", r"(?i)\u00df", "(?i)i", r"(?i)\u0131", r"(?i)\u03c2"),
    *(r"(?i)[\u03b1-\u03c9]", r"(?i)\u0345", r"(?i)\ufb05", r"(?i)[^\Wk]", r"(?i)\u01c5"),
    *(r"(?i)\U00010428", r"(?i)\u00b5", r"(?i)[\ua64a-\ua64b]", "(?ia)[^s]", "(?ia)[A-z]"),
]


@cache
def all_text() -> str:
    """Every code point that can stand in a text."""
    return "".join(chr(point) for low, high in ANY for point in range(low, high + 1))


@pytest.mark.parametrize("pattern", CASE_SETS)
def test_case_is_ignored_as_python_does(pattern: str) -> None:
    node, _ = parse(pattern)
    assert isinstance(node, Chars)
    expected = {ord(char) for char in re.findall(pattern, all_text())}
    assert {point for low, high in node.chars for point in range(low, high + 1)} == expected


@pytest.mark.long
def test_case_of_every_cased_character_is_ignored_as_python_does() -> None:
    text = "".join(chr(point) for a, b in ANY for point in range(a, min(b, CASED_LIMIT) + 1))
    for char in cased_text():
        node, _ = parse("(?i)" + re.escape(char))
        assert isinstance(node, Chars)
        expected = set(re.findall("(?i)" + re.escape(char), text))
        assert {chr(p) for a, b in node.chars for p in range(a, b + 1)} == expected, char
