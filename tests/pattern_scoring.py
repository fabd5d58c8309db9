"""How right patterns are: public collections of regular expressions against Python's own."""

import json
import random
import re
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import lmc

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REGEX = DATA / "regex"


class Bytes:
    """A tokenizer whose tokens are the bytes."""

    fingerprint = "one token per byte"
    vocab_size = 257
    eos_ids = frozenset([256])
    start_ids = ()
    empty_context_id = 256
    growth = 1

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        return list(text.encode())

    def token_bytes(self) -> Sequence[bytes | None]:
        return [*(bytes([i]) for i in range(256)), None]

    def cut(self, text: str) -> int:
        return len(text)

    def forced_ids(self, text: str, written: list[int], crosses: object) -> list[int] | None:
        ids = self.encode(text)
        return ids[len(written) :] if ids[: len(written)] == written else None


BYTES = Bytes()


@dataclass
class PatternVerdict:
    """What came of a pattern: refused, or the texts on which Python says otherwise."""

    pattern: str
    refusal: lmc.ConstraintError | None
    seconds: float
    wrong: list[str]

    @property
    def is_right(self) -> bool:
        """Whether it says what Python says; one without any match is refused as such."""
        is_known = self.refusal is None or "matches no text" in self.refusal.message
        return is_known and not self.wrong


def score_pattern(pattern: str, texts: Iterable[str]) -> PatternVerdict:
    """Compile a pattern and compare with `re.fullmatch`."""
    python = re.compile(pattern)
    started = time.thread_time()
    refusal = None
    try:
        limit = lmc.Constraint.regex(pattern).compile(BYTES)
    except lmc.ConstraintError as error:
        refusal, limit = error, None
    seconds = time.thread_time() - started
    wrong = [
        text
        for text in texts
        if (refusal is None or "matches no text" in refusal.message)
        and (python.fullmatch(text) is not None) != _matches(limit, text)
    ]
    return PatternVerdict(pattern, refusal, seconds, wrong)


def _matches(limit: lmc.CompiledConstraint | None, text: str) -> bool:
    if limit is None:
        return False
    matcher = limit.matcher()
    return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.can_end()


def patterns_with_texts() -> dict[str, list[str]]:
    """Return the distinct patterns of public regex tests that Python compiles, with texts."""
    found: dict[str, set[str]] = {}
    for line in (REGEX / "cpython_re_tests.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found.setdefault(row["pattern"], set()).add(row["subject"])
    for path in sorted((REGEX / "rust_regex").rglob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8"))["test"]:
            patterns = [row["regex"]] if isinstance(row["regex"], str) else row["regex"]
            for pattern in patterns:
                found.setdefault(pattern, set()).add(row["haystack"])
    return {
        pattern: sorted(_more_texts(pattern, texts))
        for pattern, texts in found.items()
        if is_python(pattern)
    }


def is_python(pattern: str) -> bool:
    """Return whether Python compiles a pattern."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _more_texts(pattern: str, texts: Iterable[str]) -> set[str]:
    """Return texts with parts and small changes of them."""
    rng = random.Random(pattern)
    letters = sorted({*pattern, *"aZ0_ \n-é"})
    made = {"", "\n"}
    for text in texts:
        made |= {text, text + "\n"}
        for _ in range(30):
            start, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
            part = text[start:end][:60]
            at = rng.randint(0, len(part))
            made |= {part, part[:at] + rng.choice(letters) + part[at:]}
    made |= {"".join(rng.choices(letters, k=rng.randint(1, 5))) for _ in range(20)}
    return {text for text in made if not re.search("[\ud800-\udfff]", text)}


def written_patterns() -> dict[str, list[str]]:
    """Return the patterns that people write in schemas, as far as Python compiles them."""
    lines = (REGEX / "json_schema_patterns.jsonl").read_text(encoding="utf-8").splitlines()
    patterns = (json.loads(line)["pattern"] for line in lines)
    return {pattern: [] for pattern in patterns if is_python(pattern)}


def pattern_figures(verdicts: Sequence[PatternVerdict]) -> str:
    """Return the figures of a collection of patterns."""
    seconds = sorted(v.seconds for v in verdicts)
    compiled = sum(v.refusal is None for v in verdicts)
    right = sum(v.is_right for v in verdicts)
    return (
        f"{len(verdicts)} patterns: {compiled} compiled ({compiled / len(verdicts):.1%}), "
        f"{right} right ({right / len(verdicts):.1%}), "
        f"{sum(bool(v.wrong) for v in verdicts)} wrong; ms {percentiles(seconds)}"
    )


def percentiles(seconds: Sequence[float]) -> str:
    """Return what half, nine in ten and all but one in a hundred took at the most."""
    last = len(seconds) - 1
    shown = [f"p{n} {1000 * seconds[min(last, n * len(seconds) // 100)]:.0f}" for n in (50, 90, 99)]
    return " ".join(shown)


PATTERNS = {"regex": patterns_with_texts, "written": written_patterns}
