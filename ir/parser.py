"""Reads IR text: the inverse of `ir.printer`.

The grammar is `lmir.lark`. Lark's LALR parser gives raw pieces bottom-up; a second walk gives
names their values. Whatever the text, the outcome is a module or a ParseError with line,
column and caret; size and nesting are limited so that hostile text is refused quickly.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from lmc.errors import ParseError
from lmc.ir.core import Function, Module, Op
from lmc.ir.location import Location
from lmc.ir.parser_names import (
    Places,
    Problem,
    RawBlock,
    RawFunction,
    RawModule,
    RawOp,
    make_module,
)
from lmc.ir.printer import quote
from lmc.ir.types import SCALAR_NAMES, Attr, Type
from lmc.ir.verifier import verify

if TYPE_CHECKING:
    from lark import Lark, Token
    from lark.exceptions import UnexpectedInput

MAX_CHARS = 8 * 1024 * 1024
MAX_DEPTH = 150
MAX_SHOWN = 200

_BRACKETS = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|[({\[<]|[)}\]>]')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SHORT = {
    '"': '"', "\\": "\\", "/": "/", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f",
}  # fmt: skip
_CONSTANTS: dict[str, Attr] = {
    "none": None, "true": True, "false": False,
    "inf": float("inf"), "-inf": float("-inf"), "nan": float("nan"),
}  # fmt: skip
_WORDS = {
    "STRING": "a string", "NUMBER": "a number", "KEY": "a name", "KIND": "'program' or 'helper'",
    "CONSTANT": "a constant", "TYPE_NAME": "a type", "OP_NAME": "an op such as lm.extend",
    "SYMBOL": "a function name such as @judge", "USE": "a value such as %s",
    "DEFINITION": "a definition such as '%s: state'", "LOCATION_ID": "a location such as #0",
    "LPAR": "'('", "RPAR": "')'", "LBRACE": "'{'", "RBRACE": "'}'", "LSQB": "'['", "RSQB": "']'",
    "LESSTHAN": "'<'", "MORETHAN": "'>'", "COMMA": "','", "COLON": "':'", "EQUAL": "'='",
    "MINUS": "'-'", "AT": "'@'", "LOC": "'loc'", "MODULE": "'module'", "ENTRY": "'entry'",
    "FUNC": "'func'", "$END": "the end of the text",
}  # fmt: skip


@dataclass(slots=True)
class _Definitions:
    """A list of definitions, told apart from other lists while pieces are put together."""

    items: list[tuple["Token", Type]]


def parse_module(text: str, file: str = "<ir>") -> Module:
    """Read a module.

    Args:
        text: IR text as `print_module` writes it; `//` starts a comment.
        file: the text's name in errors.

    Raises:
        ParseError: the text is no module; says where and what was expected.
    """
    return _read(_Source(text, file))[0]


def read_module(text: str, file: str = "<ir>") -> Module:
    """Read a module and verify it; what is wrong is told at its place in the text.

    Args:
        text: as in `parse_module`.
        file: the text's name in errors.

    Raises:
        ParseError: the text is no module; says where and what was expected.
        VerifyError: it is one that breaks rules of the IR; says where each.
    """
    source = _Source(text, file)
    module, places = _read(source)

    def place_of(owner: Module | Function | Op) -> Location:
        token = places[owner]
        return source.location(token.line or 1, token.column or 1, len(token))

    verify(module, place_of=place_of)
    return module


def _read(source: "_Source") -> tuple[Module, Places]:
    source.check_limits()
    from lark.exceptions import UnexpectedInput

    try:
        raw: Any = _grammar().parse(source.text)
        return make_module(raw)
    except Problem as problem:
        token = problem.token
        source.fail(problem.message, token.line or 1, token.column or 1, len(token))
    except UnexpectedInput as error:
        source.fail_unexpected(error)


@cache
def _grammar() -> "Lark":
    from lark import Lark

    grammar = resources.files("lmc.ir").joinpath("lmir.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", maybe_placeholders=False, transformer=_Assembler())


@dataclass(frozen=True, slots=True)
class _Source:
    """The text, for limits and for errors that point into it."""

    text: str
    file: str

    def check_limits(self) -> None:
        if len(self.text) > MAX_CHARS:
            raise ParseError(
                f"{self.file} has {len(self.text)} characters; the limit is {MAX_CHARS}",
                hint="split the module",
            )
        depth = 0
        for match in _BRACKETS.finditer(self.text):
            mark = match.group()
            depth += (mark in "({[<") - (mark in ")}]>")
            if depth > MAX_DEPTH:
                line = self.text.count("\n", 0, match.start()) + 1
                column = match.start() - self.text.rfind("\n", 0, match.start())
                self.fail(f"nesting is deeper than the limit of {MAX_DEPTH}", line, column, 1)

    def fail(self, message: str, line: int, column: int, width: int) -> NoReturn:
        """Raise ParseError at a place; a very long line is shown in part."""
        shown = self._line(line)
        if len(shown) > MAX_SHOWN:
            message += f"; near {shown[max(0, column - 21) : column + 20]!r}"
        raise ParseError(message, location=self.location(line, column, width)) from None

    def location(self, line: int, column: int, width: int) -> Location:
        """Return a place in the text, with its line unless that is very long."""
        shown = self._line(line)
        shown = shown if len(shown) <= MAX_SHOWN else ""
        return Location(self.file, line, column, line, column + max(1, width), shown)

    def _line(self, line: int) -> str:
        lines = self.text.split("\n")
        return lines[line - 1].rstrip("\r") if line <= len(lines) else ""

    def fail_unexpected(self, error: "UnexpectedInput") -> NoReturn:
        """Raise ParseError for what the grammar refuses."""
        from lark.exceptions import UnexpectedCharacters, UnexpectedToken

        expected: Iterable[str] = ()
        width, found = 1, "the end of the text"
        line, column = self._end()
        if isinstance(error, UnexpectedCharacters):
            expected = error.allowed or ()
            line, column, found = error.line, error.column, quote(error.char)
            if error.char == '"':
                found = "a string that does not end on its line"
        elif isinstance(error, UnexpectedToken):
            expected = error.accepts or error.expected
            if error.token.type != "$END":
                line, column = error.line, error.column
                width, found = len(error.token), quote(str(error.token)[:40])
        words = sorted({_WORDS.get(name, name.lower()) for name in expected} - {"comment", "space"})
        wanted = f"expected {' or '.join(words)}, " if words else ""
        self.fail(f"{wanted}found {found}", line, column, width)

    def _end(self) -> tuple[int, int]:
        text = self.text.rstrip()
        return text.count("\n") + 1, len(text) - text.rfind("\n")


class _Assembler:
    """Lark calls the method named after each rule with the rule's pieces, innermost first."""

    def start(self, pieces: list[Any]) -> RawModule:
        raw: RawModule = pieces[0]
        for token, location in pieces[1:]:
            if token.value in raw.table:
                raise Problem(f"{token.value} is defined twice", token)
            raw.table[token.value] = location
        return raw

    def module(self, pieces: list[Any]) -> RawModule:
        functions = [piece for piece in pieces[2:] if isinstance(piece, RawFunction)]
        entries = [piece for piece in pieces[2:] if isinstance(piece, str)]
        return RawModule(pieces[0], _unquote(pieces[0]), pieces[1], entries, functions, {})

    def entry(self, pieces: list[Any]) -> str:
        return pieces[0][1]

    def function(self, pieces: list[Any]) -> RawFunction:
        (token, name), kind, *rest = pieces
        arguments = rest.pop(0).items if isinstance(rest[0], _Definitions) else []
        attributes = rest.pop(0)
        location = rest.pop(0) if rest and not isinstance(rest[0], RawOp) else None
        body = RawBlock(arguments, rest)
        return RawFunction(token, name, str(kind), attributes, body, location)

    def op(self, pieces: list[Any]) -> RawOp:
        results = pieces.pop(0).items if isinstance(pieces[0], _Definitions) else []
        made = RawOp(pieces[0], results, [], {}, [], None)
        for piece in pieces[1:]:
            match piece:
                case RawBlock():
                    made.blocks.append(piece)
                case dict():
                    made.attributes = piece
                case list():
                    made.operands = piece
                case _:
                    made.location = piece
        return made

    def block(self, pieces: list[Any]) -> RawBlock:
        arguments = pieces.pop(0).items if pieces and isinstance(pieces[0], _Definitions) else []
        return RawBlock(arguments, pieces)

    def results(self, pieces: list[Any]) -> _Definitions:
        return pieces[0]

    arguments = results

    def operands(self, pieces: list[Any]) -> list[Any]:
        return pieces

    def definitions(self, pieces: list[Any]) -> _Definitions:
        return _Definitions(pieces)

    def definition(self, pieces: list[Any]) -> tuple["Token", Type]:
        return pieces[0], pieces[1]

    def value_type(self, pieces: list[Any]) -> Type:
        token = pieces[0]
        if (len(pieces) == 2) != (token == "list"):
            raise Problem("a list type is written list<type>, other types have no element", token)
        if len(pieces) == 1 and token not in SCALAR_NAMES:
            raise Problem(f"unknown type {token.value!r}; types: {', '.join(SCALAR_NAMES)}", token)
        return Type(str(token), *pieces[1:])

    def location(self, pieces: list[Any]) -> "Token":
        return pieces[0]

    def location_line(self, pieces: list[Any]) -> tuple["Token", Location]:
        for token in pieces[2:6]:
            if not token.isdigit():
                raise Problem("lines and columns are whole numbers", token)
        numbers = [_number(token) for token in pieces[2:6]]
        return pieces[0], Location(_unquote(pieces[1]), *numbers, _unquote(pieces[6]))

    def symbol(self, pieces: list[Any]) -> tuple["Token", str]:
        token = pieces[0]
        return token, _unquote(token) if token.type == "STRING" else token[1:]

    def attributes(self, pieces: list[Any]) -> dict[str, Attr]:
        made: dict[str, Attr] = {}
        for token, key, value in pieces:
            if key in made:
                raise Problem(f"attribute {key!r} is given twice", token)
            made[key] = value
        return made

    def attribute(self, pieces: list[Any]) -> tuple["Token", str, Attr]:
        return *pieces[0], pieces[1]

    def key(self, pieces: list[Any]) -> tuple["Token", str]:
        token = pieces[0]
        return token, _unquote(token) if token.type == "STRING" else str(token)

    def constant(self, pieces: list[Any]) -> Attr:
        return _CONSTANTS[pieces[0]]

    def number(self, pieces: list[Any]) -> int | float:
        return _number(pieces[0])

    def string(self, pieces: list[Any]) -> str:
        return _unquote(pieces[0])

    def make_list(self, pieces: list[Any]) -> Attr:
        return pieces

    def make_tuple(self, pieces: list[Any]) -> Attr:
        return tuple(pieces)


def _number(token: "Token") -> Any:
    text = str(token)
    try:
        if "x" in text:
            return int(text, 16)
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        raise Problem(
            f"a number of {len(text)} digits is too long; write it as 0x...", token
        ) from None


def _unquote(token: "Token") -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code is None:
            if match.group(3) not in _SHORT:
                raise Problem(f"unknown escape {match.group()}", token)
            return _SHORT[match.group(3)]
        if int(code, 16) > 0x10FFFF:
            raise Problem(f"{match.group()} is beyond the last character \\U0010ffff", token)
        return chr(int(code, 16))

    # A pair of surrogate escapes stays two characters: only so does every str survive.
    return _ESCAPE.sub(unescape, token[1:-1])
