"""Modules, functions, blocks, ops and values: the structure of the IR.

SSA with structured control flow: an op holds regions, each region is one block, a block's
ops see the values of the blocks around it. Example of one op in text form:

    %1: state, %name: text, %2: meta = lm.gen %0 {name = "name", params = {max_tokens = 8}}
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmc.ir.location import Location
from lmc.ir.types import Attr, Type


@dataclass(eq=False, slots=True)
class Value:
    """One SSA value: a block argument or the result of an op; `hint` names it in print."""

    type: Type
    hint: str = ""

    def __repr__(self) -> str:
        return f"Value({self.type}, {self.hint!r})"


@dataclass(eq=False, slots=True)
class Op:
    """One operation; `ir.ops.SPECS[name]` says what it takes and means."""

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Attr] = field(default_factory=dict)
    blocks: list["Block"] = field(default_factory=list)
    location: Location | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        assert len(self.results) == 1, f"{self.name} has {len(self.results)} results"
        return self.results[0]

    def __repr__(self) -> str:
        return f"Op({self.name}, {self.attributes})"


@dataclass(eq=False, slots=True)
class Block:
    """A list of ops that ends in a terminator; `arguments` are bound when it is entered."""

    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def terminator(self) -> Op:
        """The last op: `cf.yield` or `func.return`."""
        return self.ops[-1]

    def walk(self) -> Iterator[Op]:
        """Yield all ops in order, those of nested blocks after the op that holds them."""
        for op in self.ops:
            yield op
            for block in op.blocks:
                yield from block.walk()


@dataclass(slots=True)
class Param:
    """A parameter of a program, as its Python signature has it."""

    name: str
    annotation: str = ""
    has_default: bool = False
    default: Attr = None
    keyword_only: bool = False


@dataclass(eq=False, slots=True)
class Function:
    """A program (has a root state) or a helper (takes the states that it changes).

    The body's arguments are an effect token and then one value per parameter. A program
    returns (effect, final root state, return value), a helper (effect, return value, and the
    new values of what it changes).
    """

    name: str
    kind: str  # "program" or "helper"
    params: list[Param]
    body: Block
    attributes: dict[str, Attr] = field(default_factory=dict)
    location: Location | None = None


@dataclass(eq=False, slots=True)
class Module:
    """All functions of a file's programs; `entries` are the names users may run."""

    name: str
    functions: dict[str, Function] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    attributes: dict[str, Attr] = field(default_factory=dict)

    def walk(self) -> Iterator[Op]:
        """Yield every op of every function."""
        for function in self.functions.values():
            yield from function.body.walk()


def replace_values(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Replace operands throughout a block and its nested blocks, following chains."""

    def final(value: Value) -> Value:
        while value in mapping:
            value = mapping[value]
        return value

    if mapping:
        for op in block.walk():
            op.operands = [final(value) for value in op.operands]


def used_values(block: Block) -> set[Value]:
    """Return every value that some op of the block or its nested blocks takes."""
    return {value for op in block.walk() for value in op.operands}


def free_values(block: Block) -> list[Value]:
    """Return the outer values that a block uses, in the order of first use."""
    own: set[Value] = set()
    found: dict[Value, None] = {}

    def visit(inner: Block) -> None:
        own.update(inner.arguments)
        for op in inner.ops:
            for value in op.operands:
                if value not in own:
                    found.setdefault(value)
            for nested in op.blocks:
                visit(nested)
            own.update(op.results)

    visit(block)
    return list(found)


def clone_block(block: Block, mapping: dict[Value, Value]) -> Block:
    """Copy a block; `mapping` (extended in place) tells what stands for each value."""

    copy = Block(_fresh(block.arguments, mapping))
    for op in block.ops:
        operands = [mapping.get(value, value) for value in op.operands]
        blocks = [clone_block(nested, mapping) for nested in op.blocks]
        results = _fresh(op.results, mapping)
        copy.ops.append(
            Op(op.name, operands, results, copy_attr(op.attributes), blocks, op.location)
        )
    return copy


def _fresh(values: list[Value], mapping: dict[Value, Value]) -> list[Value]:
    """Return new values like the given ones, which they stand for from here on."""
    made: list[Value] = []
    for value in values:
        mapping[value] = new = Value(value.type, value.hint)
        made.append(new)
    return made


def copy_attr(value: Any) -> Any:
    """Copy an attribute deeply, so that two ops never share a mutable one."""
    if isinstance(value, dict):
        return {key: copy_attr(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_attr(item) for item in value]
    if isinstance(value, tuple):
        return tuple(copy_attr(item) for item in value)
    return value


def clone_module(module: Module) -> Module:
    """Copy a module with all that it holds."""
    copy = Module(module.name, {}, list(module.entries), copy_attr(module.attributes))
    for name, function in module.functions.items():
        copy.functions[name] = Function(
            function.name,
            function.kind,
            [
                Param(p.name, p.annotation, p.has_default, copy_attr(p.default), p.keyword_only)
                for p in function.params
            ],
            clone_block(function.body, {}),
            copy_attr(function.attributes),
            function.location,
        )
    return copy


def filter_ops(block: Block, keep: Callable[[Op], bool]) -> None:
    """Drop the ops of a block, and of nested blocks, that `keep` refuses."""
    block.ops = [op for op in block.ops if keep(op)]
    for op in block.ops:
        for nested in op.blocks:
            filter_ops(nested, keep)
