"""The alternatives that a regex lists, at its top and in its brackets, by their own source."""

import re
from collections.abc import Iterator

MAX_ALTERNATIVES = 24
_GROUP = re.compile(r"\?(:|P<\w+>)")
"""What begins brackets that only group; others that begin with `?` look around or set flags."""


def alternatives(pattern: str) -> Iterator[list[str]]:
    """Yield the lists of alternatives that a pattern has, outer ones first.

    A pattern that no regex engine reads has none; parts that look around or set flags are left
    out, and so are lists that are very long.
    """
    if not _is_regex(pattern):
        return
    parts = _split(pattern)
    if 1 < len(parts) <= MAX_ALTERNATIVES and all(map(_is_regex, parts)):
        yield parts
    for inner in _bracketed(pattern):
        yield from alternatives(inner)


def _split(pattern: str) -> list[str]:
    """Split a pattern at the bars that stand in no bracket and no set of characters."""
    parts, depth, start, index = [], 0, 0, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(pattern, index)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "|" and depth == 0:
            parts.append(pattern[start:index])
            start = index + 1
        index += 1
    return [*parts, pattern[start:]]


def _class_end(pattern: str, index: int) -> int:
    """Return where a set of characters ends; a bracket at its beginning is one of them."""
    index += 2 if pattern.startswith("[^", index) else 1
    index += pattern.startswith("]", index)
    while index < len(pattern) and pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index


def _bracketed(pattern: str) -> Iterator[str]:
    """Yield what the outer brackets of a pattern hold, without what only names the group."""
    depth, start, index = 0, 0, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(pattern, index)
        elif char == "(":
            depth += 1
            start = index + 1 if depth == 1 else start
        elif char == ")":
            depth -= 1
            inner = pattern[start:index] if depth == 0 else "?"
            head = _GROUP.match(inner)
            if not inner.startswith("?") or head is not None:
                yield inner[head.end() :] if head is not None else inner
        index += 1


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
