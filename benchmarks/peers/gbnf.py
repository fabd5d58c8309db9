"""A regex of the workloads as a grammar of llama.cpp.

Its notation has classes, groups, alternatives and counts as regexes have; what differs is that
literal text stands between quotes. Only what the workloads' patterns use is translated.
"""


def gbnf_of(pattern: str) -> str:
    """Return a grammar whose root is a pattern.

    Raises:
        ValueError: the pattern uses more than literals, classes, groups, bars and counts.
    """
    parts: list[str] = []
    literal = ""
    place = 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            literal, place = literal + pattern[place + 1], place + 2
            continue
        if sign not in "[](){}|?*+.^$":
            literal, place = literal + sign, place + 1
            continue
        literal = _close(parts, literal, is_counted=sign in "{?")
        end = place + 1
        if sign in "[{":
            end = pattern.index("]" if sign == "[" else "}", place) + 1
        elif sign not in "()|?":
            raise ValueError(f"{sign!r} in {pattern!r} is not translated")
        parts.append(pattern[place:end])
        place = end
    _close(parts, literal, is_counted=False)
    return "root ::= " + " ".join(parts)


def _close(parts: list[str], literal: str, *, is_counted: bool) -> str:
    """End a literal; its last character stands alone where a count follows."""
    if literal and is_counted and len(literal) > 1:
        _close(parts, literal[:-1], is_counted=False)
        literal = literal[-1]
    if literal:
        parts.append('"' + literal.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return ""
