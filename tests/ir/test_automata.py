"""compile_regex and ByteDfa: meaning in small cases, refusals, budgets, the stored form."""

import dataclasses
import re
import resource
import time

import numpy as np
import pytest

from lmc.errors import ArtifactError, ConstraintError
from lmc.ir.automata import DEAD, ByteDfa, compile_regex


def texts(dfa: ByteDfa, limit: int = 50) -> set[str]:
    """Return all texts of a small finite language."""
    found: set[str] = set()
    queue = [(dfa.start, b"")]
    while queue:
        state, text = queue.pop()
        if dfa.is_accepting(state):
            found.add(text.decode())
        assert len(found) <= limit
        queue.extend(
            (dfa.step(state, bytes([b])), text + bytes([b])) for b in dfa.allowed_bytes(state)
        )
    return found


@pytest.mark.parametrize(
    ("pattern", "language"),
    [
        ("x(y|)z", {"xz", "xyz"}),
        ("(|a)b", {"b", "ab"}),
        ("(a||c)", {"a", "", "c"}),
        ("", {""}),
        ("(?i)ab", {"ab", "aB", "Ab", "AB"}),
        ("(?P<n>x)", {"x"}),
        ("(?=a)[ab]", {"a"}),
        ("(?<!x)y", {"y"}),
        ("^a$", {"a"}),
        ("a$\\n", {"a\n"}),
        (r"\Aab\Z", {"ab"}),
        (r"\bab\b", {"ab"}),
        ("[]a]", {"]", "a"}),
        ("a{,2}", {"", "a", "aa"}),
        ("a{2}?", {"aa"}),
        ("[é-ê]", {"é", "ê"}),
        ("(?>a|ab)", {"a"}),
        ("a?+b", {"ab", "b"}),
        ("(?:^a|^b)", {"a", "b"}),
        ("(?i:ß)", {"ß", "ẞ"}),
        (r"\u00e9\x41\101", {"éAA"}),
        ("(?x) a  # comment (\n b", {"ab"}),
        ("(?s:.){0}a", {"a"}),
        ("(?!foo)(?:foo|bar)", {"bar"}),
    ],
)
def test_language_of_small_patterns(pattern: str, language: set[str]) -> None:
    dfa = compile_regex(pattern)
    assert texts(dfa) == language
    assert all(re.fullmatch(pattern, text) for text in language)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("o+k", "book1", True), ("o+k", "ok", True), ("o+k", "ko", False), ("^b$", "b", True),
     ("^b$", "ab", False), ("^b|c$", "xc", True), ("b$", "ab\n", True), ("", "x", True),
     (r"\bok\b", "is ok.", True), (r"\bok\b", "book", False)],
)  # fmt: skip
def test_search_meaning(pattern: str, text: str, found: bool) -> None:
    assert (re.search(pattern, text) is not None) == found
    assert compile_regex(pattern, search=True).matches(text.encode()) == found


@pytest.mark.parametrize(
    ("pattern", "construct", "position"),
    [
        (r"(.)\1", "back-reference", 3),
        (r"[\1](a)b(?P<q>.)(?P=q)", "back-reference", 16),
        (r"(?#\1)\101(.)\1", "back-reference", 13),
        (r"(a)?(?(1)b|c)", "conditional", 4),
        (r"b(?>a*b?)c", "atomic", 1),
        (r"(?>a)(?:a|b?)*+c", "atomic", 13),
        ("[]", "unterminated character set", 0),
        ("a**", "multiple repeat", 2),
        ("a(", "missing )", 1),
        (r"\p{L}", r"bad escape \p", 0),
        ("a{2}{3}", "multiple repeat", 4),
    ],
)
def test_refusals_name_construct_and_position(pattern: str, construct: str, position: int) -> None:
    with pytest.raises(ConstraintError) as caught:
        compile_regex(pattern)
    assert construct in caught.value.message
    assert f"position {position}" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("pattern", [r"a\Bb$c", "a^b", "(?!)", r"[^\s\S]", r"a\bb", "(?=a)b"])
def test_empty_language_is_refused(pattern: str) -> None:
    with pytest.raises(ConstraintError, match="matches no text"):
        compile_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "((a|b)*c(a|b){150}){1,40}",
        r"(Q: .*\n(A: .*\n)*)?" * 10,
        "(a|b)*a(a|b){200}",
        "((a|b)*a(a|b){150}){1,40}",
        "(a{1000}){1000}",
        "((a?){300}){300}",
        "(?:(?=.*a.{60})b|c)*",
        r"(?<!a(?:b|c){30})(?:a|b|c)*",
        "(?:.{1,64}@){1,40}x",
        r"\w{1,100000}",
    ],
)
def test_costly_patterns_are_ready_or_refused_in_time(pattern: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    refusal = ""
    try:
        compile_regex(pattern)
    except ConstraintError as error:
        refusal = error.message
    assert refusal == "" or "too complex" in refusal
    assert time.process_time() - started < 6.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024


@pytest.mark.parametrize("opener", ["(", "(?:", "(?=", "(?P<n>"])
def test_deep_nesting_is_refused_at_once(opener: str) -> None:
    started = time.process_time()
    with pytest.raises(ConstraintError, match="nesting too deep"):
        compile_regex(opener * 25_000 + "a" + ")" * 25_000)
    assert time.process_time() - started < 1.0


def test_very_long_pattern_is_refused_at_once() -> None:
    with pytest.raises(ConstraintError, match="too long: 5000000 characters"):
        compile_regex("a" * 5_000_000)


def test_nesting_up_to_the_limit_compiles() -> None:
    assert compile_regex("(?:" * 99 + "a" + ")*" * 99).matches(b"aaa")


def test_nested_set_warning_becomes_a_refusal_when_warnings_are_errors() -> None:
    with pytest.raises(ConstraintError, match="nested set"):
        compile_regex("[[:alpha:]]")


def test_caps_are_arguments() -> None:
    assert compile_regex("a{100}", max_states=101).state_count == 101
    with pytest.raises(ConstraintError, match="more than 100 states"):
        compile_regex("a{100}", max_states=100)
    with pytest.raises(ConstraintError, match="not compiled within 0 s"):
        compile_regex("[a-z]{3000}", max_seconds=0)


def test_unicode_lengths_and_bytes() -> None:
    dfa = compile_regex("[😀-😏]{2}")
    assert dfa.matches("😀😏".encode())
    assert not dfa.matches("😀😐".encode())
    state = dfa.step(dfa.start, "😀".encode()[:2])
    assert all(0x80 <= byte < 0xC0 for byte in dfa.allowed_bytes(state))
    assert (dfa.shortest_len(), dfa.longest_len()) == (8, 8)


def test_surrogates_and_overlong_forms_are_never_produced() -> None:
    dfa = compile_regex("(?s).*")
    for broken in (b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80",
                   b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\x80"):  # fmt: skip
        assert dfa.step(dfa.start, broken) == DEAD
    with pytest.raises(ConstraintError, match="no text"):
        compile_regex("[\ud800-\udfff]")


def test_any_text_is_the_utf8_automaton() -> None:
    dfa = compile_regex("(?s:.)*")
    assert dfa.state_count == 8  # between characters, and seven places inside one
    for point in (0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        assert dfa.matches(chr(point).encode())


@pytest.mark.parametrize(
    ("pattern", "lengths"),
    [("a|bcd", (1, 3)), ("a*", (0, None)), ("", (0, 0)), ("(ab){2,5}", (4, 10)),
     ("é{1,3}", (2, 6)), ("a(b|c)*d", (2, None))],
)  # fmt: skip
def test_lengths(pattern: str, lengths: tuple[int, int | None]) -> None:
    dfa = compile_regex(pattern)
    assert (dfa.shortest_len(), dfa.longest_len()) == lengths


def test_forced_heads_are_where_forced_text_begins() -> None:
    for pattern in ("abc", "(x|y)abc(d|e)fg?", "[ab]*cd", "a{3}(b|c)", "[éè]x"):
        dfa = compile_regex(pattern)
        states = range(dfa.state_count)
        forced = {s for s in states if dfa.forced_bytes(s)}
        after_choice = {
            dfa.step(s, bytes([byte])) for s in states if s not in forced
            for byte in dfa.allowed_bytes(s)
        }  # fmt: skip
        assert dfa.forced_heads() == sorted(forced & (after_choice | {dfa.start}))
        assert {s for s in states if dfa.is_forced(s)} == forced


def test_forced_bytes_stop_at_branch_and_at_end() -> None:
    dfa = compile_regex(r'\{"name": "[a-z]+", "ok": (?:true|false)\}')
    assert dfa.forced_bytes(dfa.start) == b'{"name": "'
    middle = dfa.step(dfa.start, b'{"name": "x"')
    assert dfa.forced_bytes(middle) == b', "ok": '
    assert compile_regex("abc?").forced_bytes(0) == b"ab"
    assert compile_regex("[éè]").forced_bytes(0) == b"\xc3"
    assert compile_regex("a*").forced_bytes(0) == b""


@pytest.mark.parametrize(
    "forms",
    [
        ["(?:a|b)*c", "[ab]*c", "(?:b*a*)*?c", "(?=.*c$)(?!.*c.)(?:a|c|b)+"],
        ["[aé]x|[bè]y", "ax|éx|by|èy", "è(?=y).|(?:b|(?!è).)y(?<=by)|[éa]x"],
        [r"\w+", r"(?:\d|[^\W\d])(?:[^\W_]|_)*", r"(?!$)\w*\b"],
        ["(?i)k", "[kK\u212a]"],
        ["(?s).*", "(?:.|\n)*", "(?s)(?:(?<=.)|^).*(?!.)"],
    ],
)
def test_equal_languages_give_equal_automata(forms: list[str]) -> None:
    assert len({compile_regex(form).to_bytes() for form in forms}) == 1


def test_stored_form_round_trips_and_is_stable() -> None:
    dfa = compile_regex(r"(?:\w+@[a-z]{1,5}\.(?:org|net))?")
    data = dfa.to_bytes()
    again = ByteDfa.from_bytes(data)
    for name in ("table", "classes", "accepting"):
        assert np.array_equal(getattr(dfa, name), getattr(again, name))
    assert again.to_bytes() == data
    assert again.matches("é@ab.org".encode())


def test_damaged_stored_forms_are_refused() -> None:
    data = compile_regex("a[bc]+").to_bytes()
    broken = [b"", b"LMC", b"x" * 100, data[:-1], data + b"\0", b"LMCDFA99" + data[8:]]
    broken += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for item in broken:
        with pytest.raises(ArtifactError):
            ByteDfa.from_bytes(item)


def test_automaton_is_immutable() -> None:
    dfa = compile_regex("ab")
    with pytest.raises(ValueError, match="read-only"):
        dfa.table[0, 0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        dfa.table = dfa.table  # type: ignore[misc]


def test_lm_ir_does_not_import_automata() -> None:
    import subprocess
    import sys

    code = "import sys, lmc.ir; print('lmc.ir.automata' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
