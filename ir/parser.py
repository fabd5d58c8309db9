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
from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.location import Location
from lmc.ir.printer import quote
from lmc.ir.types import SCALAR_NAMES, Attr, Type

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
class _RawBlock:
    """A block whose operands are still names."""

    arguments: list[tuple["Token", Type]]
    ops: list["_RawOp"]


@dataclass(slots=True)
class _RawOp:
    name: str
    results: list[tuple["Token", Type]]
    operands: list["Token"]
    attributes: dict[str, Attr]
    blocks: list[_RawBlock]
    location: "Token | None"


@dataclass(slots=True)
class _RawFunction:
    token: "Token"
    name: str
    kind: str
    attributes: dict[str, Attr]
    body: _RawBlock
    location: "Token | None"


@dataclass(slots=True)
class _Definitions:
    """A list of definitions, told apart from other lists while pieces are put together."""

    items: list[tuple["Token", Type]]


@dataclass(slots=True)
class _RawModule:
    name: str
    attributes: dict[str, Attr]
    entries: list[str]
    functions: list[_RawFunction]
    table: dict[str, Location]


class _Problem(Exception):
    """Text that the grammar allows and the meaning does not; turned into ParseError."""

    def __init__(self, message: str, token: "Token") -> None:
        super().__init__(message)
        self.message = message
        self.token = token


def parse_module(text: str, file: str = "<ir>") -> Module:
    """Read a module.

    Args:
        text: IR text as `print_module` writes it; `//` starts a comment.
        file: the text's name in errors.

    Raises:
        ParseError: the text is no module; says where and what was expected.
    """
    source = _Source(text, file)
    source.check_limits()
    from lark.exceptions import UnexpectedInput

    try:
        raw: Any = _grammar().parse(text)
        return _module(raw)
    except _Problem as problem:
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
        lines = self.text.split("\n")
        shown = lines[line - 1].rstrip("\r") if line <= len(lines) else ""
        if len(shown) > MAX_SHOWN:
            message += f"; near {shown[max(0, column - 21) : column + 20]!r}"
            shown = ""
        where = Location(self.file, line, column, line, column + max(1, width), shown)
        raise ParseError(message, location=where) from None

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

    def start(self, pieces: list[Any]) -> _RawModule:
        raw: _RawModule = pieces[0]
        for token, location in pieces[1:]:
            if token.value in raw.table:
                raise _Problem(f"{token.value} is defined twice", token)
            raw.table[token.value] = location
        return raw

    def module(self, pieces: list[Any]) -> _RawModule:
        functions = [piece for piece in pieces[2:] if isinstance(piece, _RawFunction)]
        entries = [piece for piece in pieces[2:] if isinstance(piece, str)]
        return _RawModule(_unquote(pieces[0]), pieces[1], entries, functions, {})

    def entry(self, pieces: list[Any]) -> str:
        return pieces[0][1]

    def function(self, pieces: list[Any]) -> _RawFunction:
        (token, name), kind, *rest = pieces
        arguments = rest.pop(0).items if isinstance(rest[0], _Definitions) else []
        attributes = rest.pop(0)
        location = rest.pop(0) if rest and not isinstance(rest[0], _RawOp) else None
        body = _RawBlock(arguments, rest)
        return _RawFunction(token, name, str(kind), attributes, body, location)

    def op(self, pieces: list[Any]) -> _RawOp:
        results = pieces.pop(0).items if isinstance(pieces[0], _Definitions) else []
        made = _RawOp(pieces[0].value, results, [], {}, [], None)
        for piece in pieces[1:]:
            match piece:
                case _RawBlock():
                    made.blocks.append(piece)
                case dict():
                    made.attributes = piece
                case list():
                    made.operands = piece
                case _:
                    made.location = piece
        return made

    def block(self, pieces: list[Any]) -> _RawBlock:
        arguments = pieces.pop(0).items if pieces and isinstance(pieces[0], _Definitions) else []
        return _RawBlock(arguments, pieces)

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
            raise _Problem("a list type is written list<type>, other types have no element", token)
        if len(pieces) == 1 and token not in SCALAR_NAMES:
            raise _Problem(f"unknown type {token.value!r}; types: {', '.join(SCALAR_NAMES)}", token)
        return Type(str(token), *pieces[1:])

    def location(self, pieces: list[Any]) -> "Token":
        return pieces[0]

    def location_line(self, pieces: list[Any]) -> tuple["Token", Location]:
        for token in pieces[2:6]:
            if not token.isdigit():
                raise _Problem("lines and columns are whole numbers", token)
        numbers = [_number(token) for token in pieces[2:6]]
        return pieces[0], Location(_unquote(pieces[1]), *numbers, _unquote(pieces[6]))

    def symbol(self, pieces: list[Any]) -> tuple["Token", str]:
        token = pieces[0]
        return token, _unquote(token) if token.type == "STRING" else token[1:]

    def attributes(self, pieces: list[Any]) -> dict[str, Attr]:
        made: dict[str, Attr] = {}
        for token, key, value in pieces:
            if key in made:
                raise _Problem(f"attribute {key!r} is given twice", token)
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
        raise _Problem(
            f"a number of {len(text)} digits is too long; write it as 0x...", token
        ) from None


def _unquote(token: "Token") -> str:
    def unescape(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code is None:
            if match.group(3) not in _SHORT:
                raise _Problem(f"unknown escape {match.group()}", token)
            return _SHORT[match.group(3)]
        if int(code, 16) > 0x10FFFF:
            raise _Problem(f"{match.group()} is beyond the last character \\U0010ffff", token)
        return chr(int(code, 16))

    # A pair of surrogate escapes stays two characters: only so does every str survive.
    return _ESCAPE.sub(unescape, token[1:-1])


def _module(raw: _RawModule) -> Module:
    module = Module(raw.name, {}, raw.entries, raw.attributes)
    for function in raw.functions:
        if function.name in module.functions:
            raise _Problem(f"function @{function.name} is defined twice", function.token)
        module.functions[function.name] = _Resolver(raw.table).function(function)
    return module


def _param(data: Attr, token: "Token") -> Param:
    if not isinstance(data, dict):
        raise _Problem("params holds {name = ...} for each parameter", token)
    rest = dict(data)
    name, annotation = rest.pop("name", None), rest.pop("annotation", "")
    has_default, default = "default" in rest, rest.pop("default", None)
    keyword_only = rest.pop("keyword_only", False)
    sound = isinstance(name, str) and isinstance(annotation, str)
    if not sound or not isinstance(keyword_only, bool) or rest:
        raise _Problem(f"{data!r} is no parameter: name, annotation, default, keyword_only", token)
    return Param(name, annotation, has_default, default, keyword_only)  # type: ignore[arg-type]


class _Resolver:
    """Gives the names of one function their values."""

    def __init__(self, table: dict[str, Location]) -> None:
        self._table = table
        self._values: dict[str, Value] = {}
        self._closed: set[str] = set()

    def function(self, raw: _RawFunction) -> Function:
        listed = raw.attributes.pop("params", [])
        if not isinstance(listed, list):
            raise _Problem("params is a list", raw.token)
        params = [_param(data, raw.token) for data in listed]
        body = self._block(raw.body)
        location = self._location(raw.location)
        return Function(raw.name, raw.kind, params, body, raw.attributes, location)

    def _block(self, raw: _RawBlock) -> Block:
        before = len(self._values)
        block = Block([self._define(*item) for item in raw.arguments])
        block.ops = [self._op(op) for op in raw.ops]
        # Names are never forgotten, so that a name means one value in the whole function.
        self._closed.update(list(self._values)[before:])
        return block

    def _op(self, raw: _RawOp) -> Op:
        operands = [self._use(token) for token in raw.operands]
        results = [self._define(*item) for item in raw.results] if not raw.blocks else []
        blocks = [self._block(block) for block in raw.blocks]
        if raw.blocks:
            results = [self._define(*item) for item in raw.results]
        location = self._location(raw.location)
        return Op(raw.name, operands, results, raw.attributes, blocks, location)

    def _define(self, token: "Token", kind: Type) -> Value:
        if token.value in self._values:
            raise _Problem(f"{token.value} is defined twice in this function", token)
        name = token[1:]
        value = Value(kind, "" if name.isdigit() else name)
        self._values[token.value] = value
        return value

    def _use(self, token: "Token") -> Value:
        if token.value not in self._values:
            raise _Problem(f"{token.value} is not defined before this use", token)
        if token.value in self._closed:
            raise _Problem(f"{token.value} belongs to a block that has ended", token)
        return self._values[token.value]

    def _location(self, token: "Token | None") -> Location | None:
        if token is None:
            return None
        if token.value not in self._table:
            raise _Problem(f"{token.value} is not in the table of locations at the end", token)
        return self._table[token.value]
