"""Words of grammar notation: names, strings, patterns, classes and marks, with their places."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lmc.ir.grammar.model import Position, refuse

MAX_SOURCE = 1_000_000
_BLANK = re.compile(r"(?:\s+|#[^\n]*)+")
_LARK_BLANK = re.compile(r"(?:\s+|(?:#|//)[^\n]*)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DASHED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NUMBER = re.compile(r"[0-9]+")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_REGEX = re.compile(r"/(?![*/])((?:[^/\\\n]|\\.)+)/([a-z]*)")
_CLASS = re.compile(r"\[\^?(?:[^\]\\\n]|\\.)+\]")
_DIRECTIVE = re.compile(r"%[A-Za-z_]*")
_MARKS = ("::=", "->", "..", ":", "|", "(", ")", "[", "]", "{", "}", "?", "*", "+", "~", ",",
          ".", "!", ";", "=", "&", "$", "<", ">", "-")  # fmt: skip
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "b": "\b", "0": "\0"}
_CODE = re.compile(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """One word: a name, number, string, regex, class, directive, mark, or the end.

    `kind` says which; that of a mark is the mark. `flags` are letters behind a string or regex.
    """

    kind: str
    text: str
    position: Position
    flags: str = ""


def is_lark(source: str) -> bool:
    """Return whether a grammar is written in lark's notation: `name: ...`, not `name ::= ...`."""
    bare = re.sub(rf"{_STRING.pattern}|{_CLASS.pattern}|(?:#|//)[^\n]*", " ", source)
    first = re.search(r"::=|:", bare)
    return first is None or first.group() == ":"


def tokens(source: str, *, lark: bool) -> Iterator[Token]:
    """Yield the words of a grammar, and an end.

    Raises:
        ConstraintError: it is too long, or something is no word.
    """
    if len(source) > MAX_SOURCE:
        raise refuse(
            None, f"{len(source)} characters are too long", f"at most {MAX_SOURCE} are read"
        )
    starts = [0, *(match.end() for match in re.finditer("\n", source))]
    line, at = 0, 0
    blank, name = (_LARK_BLANK, _NAME) if lark else (_BLANK, _DASHED)
    while True:
        found = blank.match(source, at)
        at = found.end() if found else at
        while line + 1 < len(starts) and starts[line + 1] <= at:
            line += 1
        position = (line + 1, at - starts[line] + 1)
        if at == len(source):
            yield Token("end", "", position)
            return
        token, at = _token(source, at, position, name, lark)
        yield token


def _token(
    source: str, at: int, position: Position, name: re.Pattern[str], lark: bool
) -> tuple[Token, int]:
    if found := name.match(source, at):
        return Token("name", found.group(), position), found.end()
    if found := _NUMBER.match(source, at):
        return Token("number", found.group(), position), found.end()
    if found := _STRING.match(source, at):
        end = found.end()
        flags = "i" if lark and re.match(r"i\b", source[end : end + 2]) else ""
        return Token("string", unescape(found.group()[1:-1], position), position, flags), (
            end + len(flags)
        )
    if lark and (found := _REGEX.match(source, at)):
        return Token("regex", found.group(1), position, found.group(2)), found.end()
    if not lark and (found := _CLASS.match(source, at)):
        return Token("class", found.group(), position), found.end()
    if found := _DIRECTIVE.match(source, at):
        return Token("directive", found.group(), position), found.end()
    for mark in _MARKS:
        if source.startswith(mark, at):
            return Token(mark, mark, position), at + len(mark)
    if source[at] in "\"'":
        raise refuse(position, "the string does not end on its line", f"close it by {source[at]}")
    raise refuse(position, f"{source[at : at + 12]!r} is no part of a grammar", "take it out")


def unescape(text: str, position: Position) -> str:
    """Return the characters that a string means.

    Raises:
        ConstraintError: an escape is not known.
    """

    def one(match: re.Match[str]) -> str:
        code = match.group(1)
        if _CODE.fullmatch(code):
            number = int(code[1:], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise refuse(position, f"escape '\\{code}' is no character", "use another one")
            return chr(number)
        if code in _ESCAPES:
            return _ESCAPES[code]
        if code.isalnum():
            raise refuse(position, f"escape '\\{code}' is not known", r"write \\ for a backslash")
        return code

    return _ESCAPE.sub(one, text)


def class_pattern(text: str, position: Position) -> str:
    """Return a class such as `[^a-z\\n]` as a pattern of Python's."""
    inside = text[1:-1]
    negated = inside.startswith("^")
    members = re.findall(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)|.",
                         inside[negated:], re.DOTALL)  # fmt: skip
    spans: list[str] = []
    index = 0
    while index < len(members):
        low = high = _code_point(members[index], position)
        if index + 2 < len(members) and members[index + 1] == "-":
            high = _code_point(members[index + 2], position)
            index += 2
        if low > high:
            raise refuse(position, f"the range in {text!r} runs backwards", "swap its ends")
        spans.append(f"\\U{low:08x}-\\U{high:08x}")
        index += 1
    return f"[{'^' if negated else ''}{''.join(spans)}]"


def _code_point(member: str, position: Position) -> int:
    return ord(unescape(member, position)) if member.startswith("\\") else ord(member)
