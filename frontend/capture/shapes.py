"""Shapes: how the joined value of a name is built from new SSA values."""

import ast
from collections.abc import Callable
from dataclasses import dataclass

from lmc.frontend.capture.emitter import Emitter, kind_of
from lmc.frontend.capture.values import (
    Abstract,
    Broken,
    Called,
    Cell,
    Element,
    Known,
    Packed,
    PackedKind,
    Piece,
    Pieces,
    Plain,
    Ref,
    Tuple,
    Undefined,
    is_opaque,
    join_kinds,
    same,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, PY, TEXT, Type

Fresh = Callable[[Type], Value]


class Shape:
    """How a joined value is built."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SameShape(Shape):
    """Both paths agree, or the value is lost: nothing depends on the path."""

    abstract: Abstract


@dataclass(frozen=True, slots=True)
class PlainShape(Shape):
    """One SSA value."""

    type: Type


@dataclass(frozen=True, slots=True)
class RefShape(Shape):
    """A cell, whose content is joined apart."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class ElementShape(Shape):
    """A slot of one container, by an index that depends on the path."""

    container: "Ref | Element"
    index: Shape
    kind: Type


@dataclass(frozen=True, slots=True)
class TupleShape(Shape):
    """A tuple, item by item."""

    items: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class PiecesShape(Shape):
    """One of two things to append, by the path taken."""

    left: Pieces
    right: Pieces
    node: ast.expr


@dataclass(frozen=True, slots=True)
class CalledShape(Shape):
    """A nested program's state and value."""

    state: Shape
    value: Shape


@dataclass(frozen=True, slots=True)
class PackedShape(Shape):
    """A function or pieces of the language, with the number of its template."""

    kind: PackedKind


def instantiate(shape: Shape, fresh: Fresh) -> Abstract:
    """Build the joined value from new SSA values."""
    match shape:
        case SameShape(abstract):
            return abstract
        case PlainShape(kind):
            return Plain(fresh(kind))
        case RefShape(cell):
            return Ref(cell)
        case ElementShape(container, index, kind):
            made = instantiate(index, fresh)
            assert isinstance(made, (Known, Plain))
            return Element(container, made, kind)
        case PackedShape(kind):
            return Packed(kind, fresh(PY))
        case TupleShape(items):
            return Tuple(tuple(instantiate(item, fresh) for item in items))
        case PiecesShape(left, right, node):
            test = fresh(BOOL)
            options = tuple(
                side.with_values(iter([fresh(_joined_type(value)) for value in side.values()]))
                for side in (left, right)
            )
            return Pieces((Piece("either", node, test=test, options=options),))
        case CalledShape(state, value):
            made = instantiate(state, fresh)
            assert isinstance(made, Ref)
            return Called(made, instantiate(value, fresh))
        case _:
            raise AssertionError(shape)


def scalars(shape: Shape, side: Abstract, emitter: Emitter, node: ast.AST) -> list[Value]:
    """Return the values that one path gives, in the order in which `instantiate` asks."""
    match shape:
        case PlainShape():
            return [emitter.raw(side, node)]
        case PackedShape():
            is_missing = isinstance(side, Undefined)
            if not (is_opaque(side) or is_missing) and kind_of(side) in (TEXT, PY):
                text = emitter.raw(side, node)
                side = Pieces((Piece("text", node, text),))  # type: ignore[arg-type]
            return [emitter.raw(emitter.pack(side, node, is_forced=True), node)]
        case ElementShape(index=index):
            inner = side.index if isinstance(side, Element) else Undefined("an element")
            inner = side if side == Known(None) else inner
            return scalars(index, inner, emitter, node)
        case TupleShape(items):
            inner_sides = (
                side.items
                if isinstance(side, Tuple) and len(side.items) == len(items)
                else tuple(Undefined("an item") for _ in items)
            )
            return [
                value
                for item, inner in zip(items, inner_sides, strict=True)
                for value in scalars(item, inner, emitter, node)
            ]
        case PiecesShape(left, right):
            assert isinstance(side, Pieces)
            found = [emitter.constant(side is left, node)]
            for option in (left, right):
                for value in option.values():
                    is_there = option is side
                    found.append(value if is_there else _absent(value, emitter, node))
            return found
        case CalledShape(state, value):
            if not isinstance(side, Called):
                return [*scalars(value, Undefined("a result"), emitter, node)]
            return [
                *scalars(state, side.state, emitter, node),
                *scalars(value, side.value, emitter, node),
            ]
        case _:
            return []


def _joined_type(value: Value) -> Type:
    """Return the type of a value in an expression that only one path makes."""
    return BOOL if value.type == BOOL else PY


def _absent(value: Value, emitter: Emitter, node: ast.AST) -> Value:
    """Return what stands for a value on the path that does not make it; nobody reads it."""
    # None, since a path that packs the whole into a tuple would fail on an undefined value.
    absent = Known(False) if value.type == BOOL else Known(None)
    return emitter.raw(absent, node)


def wide_enough(shape: Shape | None, wanted: Shape) -> bool:
    """Whether a loop's shape of a name covers what its body left."""
    if isinstance(wanted, SameShape) and not isinstance(wanted.abstract, Broken):
        return True
    if isinstance(shape, PlainShape) and isinstance(wanted, PlainShape):
        return shape.type == wanted.type
    if isinstance(shape, PackedShape) and isinstance(wanted, PackedShape):
        return set(wanted.kind.ids) <= set(shape.kind.ids)
    if isinstance(shape, ElementShape) and isinstance(wanted, ElementShape):
        return same(shape.container, wanted.container) and wide_enough(shape.index, wanted.index)
    if isinstance(shape, TupleShape) and isinstance(wanted, TupleShape):
        pairs = zip(shape.items, wanted.items, strict=True)
        return len(shape.items) == len(wanted.items) and all(wide_enough(*pair) for pair in pairs)
    if isinstance(shape, CalledShape) and isinstance(wanted, CalledShape):
        return wide_enough(shape.state, wanted.state) and wide_enough(shape.value, wanted.value)
    if isinstance(shape, SameShape) and isinstance(wanted, SameShape):
        return isinstance(shape.abstract, Broken)
    return shape == wanted


def widen(shape: Shape | None, wanted: Shape) -> Shape:
    """Return the shape for the next round: parts that agreed keep what they had."""
    if shape is None:
        return wanted
    if isinstance(shape, PackedShape) and isinstance(wanted, PackedShape):
        kind = join_kinds(shape.kind, wanted.kind)
        assert isinstance(kind, PackedKind)
        return PackedShape(kind)
    if isinstance(shape, TupleShape) and isinstance(wanted, TupleShape):
        return TupleShape(tuple(map(widen, shape.items, wanted.items)))
    if isinstance(shape, CalledShape) and isinstance(wanted, CalledShape):
        return CalledShape(widen(shape.state, wanted.state), widen(shape.value, wanted.value))
    if isinstance(wanted, SameShape) and not isinstance(wanted.abstract, Broken):
        return shape
    return wanted
