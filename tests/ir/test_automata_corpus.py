"""Conformance: the automata of public pattern collections against Python's own engine."""

import json
import random
import re
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmc.errors import ConstraintError
from lmc.ir.automata import ByteDfa, compile_regex
from lmc.ir.automata.minimise import distances

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "regex"
REFUSABLE = ("back-reference", "conditional", "matches no text", "too complex", "atomic")
NESTED = re.compile(r"[*+}][^()]*\)+[*+{]")
"""A repeated repetition: Python's engine may take exponential time on longer texts."""

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the regex corpora are not at {DATA}")


class Sampler:
    """Random texts of an automaton's language."""

    def __init__(self, dfa: ByteDfa, rng: random.Random) -> None:
        self.dfa = dfa
        self.rng = rng
        self.nearest = distances(dfa.table, dfa.accepting)[0]

    def text(self, longest: int = 40) -> str:
        """Return a text: a random walk, then the shortest way to an end."""
        dfa, state, text = self.dfa, self.dfa.start, bytearray()
        while True:
            ways = dfa.allowed_bytes(state)
            if dfa.is_accepting(state) and (not ways or self.rng.random() < 0.2):
                return text.decode()
            if len(text) >= longest:
                if dfa.is_accepting(state):
                    return text.decode()
                ways = bytes(
                    [min(ways, key=lambda way: self.nearest[dfa.step(state, bytes([way]))])]
                )
            text.append(self.rng.choice(ways))
            state = dfa.step(state, text[-1:])


def mutations(text: str, letters: str, rng: random.Random) -> Iterator[str]:
    """Yield the text with a character put in, dropped, replaced or doubled."""
    for _ in range(4):
        at, new = rng.randint(0, len(text)), rng.choice(letters)
        yield text[:at] + new + text[at:]
        yield text[:at] + text[at + 1 :]
        yield text[:at] + new + text[at + 1 :]
        yield text[: at + 1] + text[at:]


def subjects(pattern: str, given: str, dfa: ByteDfa | None) -> list[str]:
    """Return texts that are likely to tell a wrong automaton from the right one."""
    rng = random.Random(pattern + given)
    letters = "".join(sorted({*pattern, *given, *"a0_ \n-é😀"}))
    out = ["", "\n", given, given + "\n", "\n" + given]
    out += [given[i : j + 1] for i in range(min(len(given), 10)) for j in range(i, len(given))]
    if dfa is not None:
        sampler = Sampler(dfa, rng)
        for text in [sampler.text() for _ in range(6)]:
            out += [text, text + "\n", *mutations(text, letters, rng)]
    out += ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(15)]
    limit = 10 if NESTED.search(pattern) else 80
    out = [text for text in dict.fromkeys(out) if len(text) <= limit]
    return [text for text in out if not re.search("[\ud800-\udfff]", text)]


def compiled(pattern: str, *, search: bool = False) -> tuple[ByteDfa | None, str]:
    """Return the automaton, or None and why it was refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return compile_regex(pattern, search=search), ""
        except ConstraintError as error:
            refusal = error.message
    assert any(reason in refusal for reason in REFUSABLE), (pattern, refusal)
    return None, refusal


def python_of(pattern: str) -> "re.Pattern[str] | None":
    """Return Python's own compilation, or None if the pattern is not valid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            return re.compile(pattern)
        except re.error:
            return None


def assert_agrees(pattern: str, given: str, *, search: bool = False) -> bool:
    """Compare with Python on many texts; returns whether the pattern was compiled."""
    python = python_of(pattern)
    if python is None:
        with pytest.raises(ConstraintError, match="not valid"):
            compile_regex(pattern)
        return False
    dfa, refusal = compiled(pattern, search=search)
    if dfa is None and "matches no text" not in refusal:
        return False
    says: Callable[[str], object] = python.search if search else python.fullmatch
    for text in subjects(pattern, given, dfa):
        expected = says(text) is not None
        actual = dfa is not None and dfa.matches(text.encode())
        assert actual == expected, (pattern, text)
    return dfa is not None


def test_cpython_patterns() -> None:
    lines = (DATA / "cpython_re_tests.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    done = sum(assert_agrees(row["pattern"], row["subject"]) for row in rows)
    assert len(rows) == 403
    assert done >= 325  # the others are invalid, match nothing, or have back-references


def rust_rows() -> Iterator[tuple[str, str, bool]]:
    """Yield (pattern, subject, whether it is found) of tests that do not depend on Rust."""
    for path in sorted((DATA / "rust_regex").rglob("*.toml")):
        for row in tomllib.loads(path.read_text("utf-8"))["test"]:
            odd = {"bounds", "anchored", "line-terminator", "search-kind", "compiles", "unescape"}
            regex = row["regex"]
            if odd & row.keys() or not isinstance(regex, str) or not row.get("utf8", True):
                continue
            if "\\b{" in regex or "[:" in regex:  # half boundaries, named classes
                continue
            flags = "(?i)" if row.get("case-insensitive") else ""
            flags += "" if row.get("unicode", True) else "(?a)"
            yield flags + regex, row["haystack"], bool(row["matches"])


def test_rust_patterns_by_search() -> None:
    done = agreeing = 0
    for pattern, subject, found in rust_rows():
        python = python_of(pattern)
        if python is None or not assert_agrees(pattern, subject, search=True):
            continue
        done += 1
        agreeing += (python.search(subject) is not None) == found
    assert done > 320
    assert agreeing > 0.97 * done  # else the conversion above would be wrong


def schema_patterns() -> list[str]:
    """Return the patterns of a large collection of JSON schemas."""
    lines = (DATA / "json_schema_patterns.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["pattern"] for line in lines]


def assert_schema_patterns(patterns: list[str]) -> tuple[int, list[float]]:
    """Check patterns under both meanings; returns compiled ones and processor seconds."""
    done, seconds = 0, []
    for pattern in patterns:
        started = time.thread_time()
        compiled_here = compiled(pattern)[0] if python_of(pattern) else None
        seconds.append(time.thread_time() - started)
        done += compiled_here is not None
        if compiled_here is None or compiled_here.state_count < 3_000:
            assert_agrees(pattern, "")
    return done, sorted(seconds)


def test_sample_of_schema_patterns() -> None:
    patterns = schema_patterns()[::20]
    done, seconds = assert_schema_patterns(patterns)
    assert done >= len(patterns) - 4
    assert seconds[len(seconds) // 2] < 0.05


@pytest.mark.long
def test_all_schema_patterns() -> None:
    patterns = schema_patterns()
    done, seconds = assert_schema_patterns(patterns)
    assert len(patterns) == 2_584
    assert done >= 2_570
    assert seconds[int(0.99 * len(seconds))] < 0.5
    assert seconds[-1] < 6.0


@pytest.mark.long
def test_all_schema_patterns_by_search() -> None:
    done = 0
    for pattern in schema_patterns():
        dfa, _ = compiled(pattern, search=True) if python_of(pattern) else (None, "")
        done += dfa is not None
        if dfa is None or dfa.state_count < 3_000:
            assert_agrees(pattern, "", search=True)
    assert done >= 2_570
