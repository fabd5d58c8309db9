"""The second half of reading IR text: raw pieces become ops, names become values."""

from dataclasses import dataclass
from typing import Protocol

from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.location import Location
from lmc.ir.types import Attr, Type


class Token(Protocol):
    """A piece of the text and its place, as Lark gives it."""

    value: str
    line: int | None
    column: int | None

    def __len__(self) -> int:
        """Return the number of characters."""
        ...


@dataclass(slots=True)
class RawBlock:
    """A block whose operands are still names."""

    arguments: list[tuple[Token, Type]]
    ops: list["RawOp"]


@dataclass(slots=True)
class RawOp:
    """An op whose operands are still names, and the token that names it."""

    token: Token
    results: list[tuple[Token, Type]]
    operands: list[Token]
    attributes: dict[str, Attr]
    blocks: list[RawBlock]
    location: Token | None


@dataclass(slots=True)
class RawFunction:
    """A function and the token that names it."""

    token: Token
    name: str
    kind: str
    attributes: dict[str, Attr]
    body: RawBlock
    location: Token | None


@dataclass(slots=True)
class RawModule:
    """All pieces of a module, the token of its name, and the table of locations."""

    token: Token
    name: str
    attributes: dict[str, Attr]
    entries: list[str]
    functions: list[RawFunction]
    table: dict[str, Location]


class Problem(Exception):
    """Text that the grammar allows and the meaning does not; turned into ParseError."""

    def __init__(self, message: str, token: Token) -> None:
        super().__init__(message)
        self.message = message
        self.token = token


Places = dict[Module | Function | Op, Token]
"""The token that names each piece of a module in the text that it was read from."""


def make_module(raw: RawModule) -> tuple[Module, Places]:
    """Return the module and where its pieces stand; raises Problem for names that are wrong."""
    module = Module(raw.name, {}, raw.entries, raw.attributes)
    places: Places = {module: raw.token}
    for function in raw.functions:
        if function.name in module.functions:
            raise Problem(f"function @{function.name} is defined twice", function.token)
        module.functions[function.name] = _Resolver(raw.table, places).function(function)
    return module, places


def _param(data: Attr, token: Token) -> Param:
    if not isinstance(data, dict):
        raise Problem("params holds {name = ...} for each parameter", token)
    rest = dict(data)
    name, annotation = rest.pop("name", None), rest.pop("annotation", "")
    has_default, default = "default" in rest, rest.pop("default", None)
    keyword_only = rest.pop("keyword_only", False)
    sound = isinstance(name, str) and isinstance(annotation, str)
    if not sound or not isinstance(keyword_only, bool) or rest:
        raise Problem(f"{data!r} is no parameter: name, annotation, default, keyword_only", token)
    return Param(name, annotation, has_default, default, keyword_only)  # type: ignore[arg-type]


class _Resolver:
    """Gives the names of one function their values."""

    def __init__(self, table: dict[str, Location], places: Places) -> None:
        self._table = table
        self._places = places
        self._values: dict[str, Value] = {}
        self._closed: set[str] = set()

    def function(self, raw: RawFunction) -> Function:
        listed = raw.attributes.pop("params", [])
        if not isinstance(listed, list):
            raise Problem("params is a list", raw.token)
        params = [_param(data, raw.token) for data in listed]
        body = self._block(raw.body)
        location = self._location(raw.location)
        made = Function(raw.name, raw.kind, params, body, raw.attributes, location)
        self._places[made] = raw.token
        return made

    def _block(self, raw: RawBlock) -> Block:
        before = len(self._values)
        block = Block([self._define(*item) for item in raw.arguments])
        block.ops = [self._op(op) for op in raw.ops]
        # Names are never forgotten, so that a name means one value in the whole function.
        self._closed.update(list(self._values)[before:])
        return block

    def _op(self, raw: RawOp) -> Op:
        operands = [self._use(token) for token in raw.operands]
        results = [self._define(*item) for item in raw.results] if not raw.blocks else []
        blocks = [self._block(block) for block in raw.blocks]
        if raw.blocks:
            results = [self._define(*item) for item in raw.results]
        location = self._location(raw.location)
        made = Op(raw.token.value, operands, results, raw.attributes, blocks, location)
        self._places[made] = raw.token
        return made

    def _define(self, token: Token, kind: Type) -> Value:
        if token.value in self._values:
            raise Problem(f"{token.value} is defined twice in this function", token)
        name = token.value[1:]
        value = Value(kind, "" if name.isdigit() else name)
        self._values[token.value] = value
        return value

    def _use(self, token: Token) -> Value:
        if token.value not in self._values:
            raise Problem(f"{token.value} is not defined before this use", token)
        if token.value in self._closed:
            raise Problem(f"{token.value} belongs to a block that has ended", token)
        return self._values[token.value]

    def _location(self, token: Token | None) -> Location | None:
        if token is None:
            return None
        if token.value not in self._table:
            raise Problem(f"{token.value} is not in the table of locations at the end", token)
        return self._table[token.value]
