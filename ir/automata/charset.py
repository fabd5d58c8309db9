"""Sets of code points, and the ones that Python's regular expressions name.

A set is a tuple of inclusive ranges, sorted and disjoint, never holding a surrogate: text
that the automaton describes is UTF-8, which has none. What `\\w` or a case-insensitive
class contains is asked of Python's own engine, so both agree by construction.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

CharSet = tuple[tuple[int, int], ...]

MAX_CODE_POINT = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
CASED_LIMIT = 0x20000
"""No character at or above this has another case (a test holds this for the Python used)."""

ANY: CharSet = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))


def charset(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Return the set that covers the given inclusive ranges, without surrogates."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return _without_surrogates(merged)


def _without_surrogates(ranges: Iterable[tuple[int, int]]) -> CharSet:
    first, last = SURROGATES
    kept: list[tuple[int, int]] = []
    for low, high in ranges:
        if low < first:
            kept.append((low, min(high, first - 1)))
        if high > last:
            kept.append((max(low, last + 1), high))
    return tuple(kept)


def complement(chars: CharSet) -> CharSet:
    """Return every code point (no surrogate) that is not in `chars`."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in chars:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        gaps.append((start, MAX_CODE_POINT))
    return _without_surrogates(gaps)


def clip(chars: CharSet, low: int, high: int) -> CharSet:
    """Return the part of `chars` between two code points, both included."""
    return tuple((max(a, low), min(b, high)) for a, b in chars if a <= high and b >= low)


NEWLINE: CharSet = ((10, 10),)
NOT_NEWLINE: CharSet = complement(NEWLINE)


def _text_of(low: int, high: int) -> str:
    """Return the text of all code points of a span without surrogates."""
    return np.arange(low, high + 1, dtype="<u4").tobytes().decode("utf-32-le")


def _scan(source: str, flags: int, text: str) -> list[tuple[int, int]]:
    """Return the code points of `text` that one-character pattern `source` matches.

    Runs of neighbours in `text` are taken as ranges: it must ascend without gaps.
    """
    found = re.compile(f"(?:{source})+", flags).finditer(text)
    return [(ord(text[run.start()]), ord(text[run.end() - 1])) for run in found]


@lru_cache(maxsize=64)
def category(letter: str, ascii_only: bool) -> CharSet:
    """Return the set of `\\d`, `\\D`, `\\w`, `\\W`, `\\s` or `\\S`, given its letter."""
    if letter.isupper():
        return complement(category(letter.lower(), ascii_only))
    if ascii_only:
        return charset(_scan("\\" + letter, re.ASCII, _text_of(0, 127)))
    ranges = [span for low, high in ANY for span in _scan("\\" + letter, 0, _text_of(low, high))]
    return charset(ranges)


@lru_cache(maxsize=1)
def cased_text() -> str:
    """Return every character that has another case, in order."""
    text = "".join(_text_of(low, high) for low, high in clip(ANY, 0, CASED_LIMIT - 1))
    forms = zip(text, map(str.lower, text), map(str.upper, text), strict=True)
    return "".join(char for char, lower, upper in forms if not lower == char == upper)


@lru_cache(maxsize=1024)
def fold_case(source: str, ascii_only: bool, plain: CharSet) -> CharSet:
    """Return what a one-character pattern matches under IGNORECASE.

    Args:
        source: the pattern, written with escapes only.
        ascii_only: whether the ASCII flag is set.
        plain: what the pattern matches without IGNORECASE; right where no case exists.
    """
    text = cased_text()
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    matched = {ord(char) for char in re.findall(source, text, flags)}
    missed = charset((ord(char), ord(char)) for char in text if ord(char) not in matched)
    kept = complement(charset(complement(plain) + missed))
    return charset(kept + tuple((point, point) for point in matched))
