"""Functions, live objects and pieces of the language as values that depend on the path.

Which functions and which expressions of the language a program has is known when it is
captured; which of them a name holds may be known at run time only. Such a value is a tuple: the
number of its template, and the values that the template leaves open.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lmc.frontend.capture.appending import Appending
from lmc.frontend.capture.values import (
    Abstract,
    Builtin,
    Closure,
    HostObject,
    Known,
    Packed,
    PackedKind,
    Piece,
    Pieces,
    Plain,
    ProgramRef,
    Ref,
    Word,
    is_opaque,
)
from lmc.ir.core import Block, Value
from lmc.ir.types import BOOL, INT, PY, Type


@dataclass(frozen=True, slots=True)
class Template:
    """What is known of an opaque value; `rebuild` makes it of the values left open."""

    key: tuple[Any, ...]
    kinds: tuple[Type, ...]
    rebuild: Callable[[list[Value]], Abstract]


class Packing(Appending):
    """Packs what is no data into values, and works with such values."""

    def pack(  # type: ignore[override]
        self, value: Abstract, node: ast.AST, *, is_forced: bool = False
    ) -> Abstract:
        """Return an opaque value, or any constant if `is_forced`, as a packed one."""
        is_constant = is_forced and isinstance(value, Known)
        if isinstance(value, Packed) or not (is_opaque(value) or is_constant):
            return value
        template, values = self._template(value, node)
        number = self._number_of(template)
        operands = [self.constant(number, node), *values]
        made = self.emit("val.tuple", operands, [PY], node)[0]
        return Packed(PackedKind("packed", ids=(number,)), made)

    def packed_kind(self, value: Abstract, node: ast.AST) -> PackedKind:  # type: ignore[override]
        """Return the kind that an opaque value has when it is packed, leaving no ops."""
        block, self.block = self.block, Block()
        made = self.pack(value, node, is_forced=True)
        self.block = block
        assert isinstance(made, Packed)
        return made.kind

    def _number_of(self, template: Template) -> int:
        for number, known in enumerate(self.templates):
            if (known.key, known.kinds) == (template.key, template.kinds):
                return number
        self.templates.append(template)
        return len(self.templates) - 1

    def _template(self, value: Abstract, node: ast.AST) -> tuple[Template, list[Value]]:
        match value:
            case Pieces():
                return self._pieces_template(value)
            case Closure():
                return self._closure_template(value, node)
            case HostObject(obj=obj):
                key: Any = id(obj)
            case Known(constant):
                key = (type(constant).__name__, repr(constant))
            case Builtin(name) | Word(name):
                key = name
            case ProgramRef(program):
                key = id(program)
            case _:
                raise AssertionError(value)
        return Template((type(value).__name__, key), (), lambda _: value), []

    def _closure_template(self, value: Closure, node: ast.AST) -> tuple[Template, list[Value]]:
        """Leave open the defaults of an inner function: each making has its own."""
        every = [*value.defaults, *(item for item in value.keyword_defaults if item is not None)]
        if any(isinstance(item, Ref) or is_opaque(item) for item in every):
            self.fail(node, "a function whose defaults are no plain data, by path or in a list",
                      "use texts, numbers or None as defaults")  # fmt: skip
        first = len(value.defaults)

        def rebuild(values: list[Value]) -> Abstract:
            given = iter([Plain(item) for item in values[first:]])
            named = tuple(None if d is None else next(given) for d in value.keyword_defaults)
            positional = tuple(Plain(item) for item in values[:first])
            return replace(value, defaults=positional, keyword_defaults=named)

        key = ("Closure", id(value.node), id(value.frame))
        values = [self.read(item, node) for item in every]
        return Template(key, tuple(item.type for item in values), rebuild), values

    def _pieces_template(self, value: Pieces) -> tuple[Template, list[Value]]:
        """Leave open the texts, dynamic parameters, choices and computed names."""
        self.escaped.update(part.serial for part in value.calls())
        values = value.values()
        kinds = tuple(item.type for item in values)
        key = ("Pieces", *map(_key_of, value.parts))
        return Template(key, kinds, lambda given: value.with_values(iter(given))), values

    def unpacked(self, packed: Packed, number: int, node: ast.AST) -> Abstract:
        """Return the value of one template."""
        template = self.templates[number]
        if not template.kinds:
            return template.rebuild([])
        kinds = [INT, *template.kinds]
        _, *made = self.emit("val.unpack", [packed.value], kinds, node)
        return template.rebuild(made)

    def by_template(
        self, packed: Packed, node: ast.AST, use: Callable[[Abstract], Abstract]
    ) -> Abstract:
        """Do something with whatever a packed value is, in a branch for each possibility."""
        return self._by_template(packed, sorted(packed.kind.ids), node, use)

    def _by_template(
        self, packed: Packed, ids: list[int], node: ast.AST, use: Callable[[Abstract], Abstract]
    ) -> Abstract:
        if len(ids) == 1:
            return use(self.unpacked(packed, ids[0], node))
        is_first = self.is_template(packed, ids[:1], node)
        return self.choose(
            node,
            is_first,
            lambda: use(self.unpacked(packed, ids[0], node)),
            lambda: self._by_template(packed, ids[1:], node, use),
        )

    def is_template(self, packed: Packed, ids: list[int], node: ast.AST) -> Plain:
        """Return whether a packed value is of one of some templates."""
        operands = [packed.value, self.constant(0, node)]
        tag = self.emit("val.index", operands, [PY], node)[0]
        wanted = [tag, self.constant(ids, node)]
        made = self.emit("val.compare", wanted, [PY], node, op="in")[0]
        return Plain(self.emit("val.truth", [made], [BOOL], node)[0])

    def is_constant(self, packed: Packed, value: Any, node: ast.AST) -> Known | Plain:
        """Return whether a packed value is a constant such as None."""
        wanted = ("Known", (type(value).__name__, repr(value)))
        ids = [number for number in packed.kind.ids if self.templates[number].key == wanted]
        if not ids or len(ids) == len(packed.kind.ids):
            return Known(bool(ids))
        return self.is_template(packed, ids, node)


def _key_of(part: Piece) -> tuple[Any, ...]:
    """Return what tells a piece from others, apart from the values in it."""
    is_open = isinstance(part.name, Value)
    return (
        part.kind, id(part.node), part.word, part.reasoning, part.append, repr(part.params),
        tuple(name for name, _ in part.dynamic), part.choices is None,
        None if is_open else (part.name,),
        tuple(tuple(map(_key_of, option.parts)) for option in part.options),
    )  # fmt: skip
