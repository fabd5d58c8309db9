"""The alternatives that a regex lists at its top, by their own source."""

import re

MAX_ALTERNATIVES = 24


def top_alternatives(pattern: str) -> list[str]:
    """Return the alternatives of `a|b|c` or `(a|b|c)`; empty for other patterns."""
    while True:
        parts = _split(pattern)
        if len(parts) > 1:
            return parts if len(parts) <= MAX_ALTERNATIVES and all(map(_is_regex, parts)) else []
        inner = _unwrapped(pattern)
        if inner is None:
            return []
        pattern = inner


def literal(pattern: str) -> str | None:
    """Return the text of a pattern without special characters."""
    plain = re.sub(r"\\([^A-Za-z0-9])", r"\1", pattern)
    return plain if re.escape(plain) == pattern or re.fullmatch(r"[\w ]*", pattern) else None


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


def _unwrapped(pattern: str) -> str | None:
    """Return what one pair of brackets around the whole pattern holds."""
    if not pattern.startswith("(") or not pattern.endswith(")"):
        return None
    inner = pattern[1:-1]
    if inner.startswith("?:"):
        inner = inner[2:]
    elif inner.startswith("?"):
        return None
    return inner if _is_regex(inner) else None


def _is_regex(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
