"""Joining what two paths left behind: which names need a value that depends on the path.

Used where an `if` ends and where a loop's body meets its start. A `Shape` says how the joined
value of a name is built from new SSA values, and which values each path gives for them.
"""

import ast
from dataclasses import dataclass, field

from lmc.frontend.capture.emitter import Emitter, describe, kind_of
from lmc.frontend.capture.shapes import (
    CalledShape,
    ElementShape,
    PackedShape,
    PiecesShape,
    PlainShape,
    RefShape,
    SameShape,
    Shape,
    TupleShape,
)
from lmc.frontend.capture.store import Key, Store, depth_of, root_cell
from lmc.frontend.capture.values import (
    IMMUTABLE,
    OBJECT,
    VOID,
    Abstract,
    Broken,
    Called,
    Cell,
    Element,
    HostObject,
    Known,
    PackedKind,
    Piece,
    Pieces,
    Plain,
    Ref,
    Tuple,
    Undefined,
    has_states,
    ir_type,
    is_opaque,
    join_kinds,
    same,
)
from lmc.ir.core import Value
from lmc.ir.types import PY, STATE, TEXT, Type


@dataclass(slots=True)
class Sources:
    """Where a joined cell's content comes from: before a loop, on the left, on the right."""

    entry: Abstract
    left: Abstract
    right: Abstract


@dataclass(slots=True)
class Merger:
    """Joins two stores; `reuse` are the joined cells of earlier rounds of a loop."""

    left: Store
    right: Store
    emitter: Emitter
    node: ast.AST
    reuse: dict[Cell, Sources] = field(default_factory=dict)
    is_loop: bool = False
    cells: dict[Cell, Sources] = field(default_factory=dict)
    _pairs: dict[tuple[object, ...], Cell] = field(default_factory=dict)

    def shape(self, left: Abstract, right: Abstract, entry: Abstract) -> Shape:
        """Return the shape that covers both values; never fails, at worst the value is lost."""
        if same(left, right):
            return SameShape(left)
        for side in (left, right):
            if isinstance(side, Broken):
                return SameShape(side)
        if isinstance(left, Tuple) and isinstance(right, Undefined):
            right = Tuple((right,) * len(left.items))
        elif isinstance(left, Undefined) and isinstance(right, Tuple):
            left = Tuple((left,) * len(right.items))
        if isinstance(left, Tuple) and isinstance(right, Tuple):
            return self._tuples(left, right, entry)
        if isinstance(left, Called) and isinstance(right, Called):
            before = entry if isinstance(entry, Called) else left
            return CalledShape(
                self.shape(left.state, right.state, before.state),
                self.shape(left.value, right.value, before.value),
            )
        if isinstance(left, Pieces) and isinstance(right, Pieces) and not self.is_loop:
            return PiecesShape(left, right, (left.parts or right.parts)[0].node)
        if is_opaque(left) or is_opaque(right):
            return self._packed(left, right, entry)
        if isinstance(left, Element) or isinstance(right, Element):
            found = self._elements(left, right, entry)
            if found is not None:
                return found
        if is_scalar(left) and is_scalar(right):
            return PlainShape(_join_plain(left, right))
        return self._refs(left, right, entry)

    def _packed(self, left: Abstract, right: Abstract, entry: Abstract) -> Shape:
        sides = [side for side in (left, right, entry) if not isinstance(side, Undefined)]
        said = any(isinstance(side, Pieces) for side in sides)
        ids: set[int] = set()
        for side in sides:
            if said and not is_opaque(side) and kind_of(side) in (TEXT, PY):
                text = Value(kind_of(side))
                side = Pieces((Piece("text", self.node, text),))  # type: ignore[arg-type]
            if not is_opaque(side) and side != Known(None):
                return SameShape(_lost(left, right))
            ids |= set(self.emitter.packed_kind(side, self.node).ids)
        return PackedShape(PackedKind("packed", ids=tuple(sorted(ids))))

    def _tuples(self, left: Tuple, right: Tuple, entry: Abstract) -> Shape:
        if len(left.items) != len(right.items):
            return self._refs(left, right, entry)
        before = left.items
        if isinstance(entry, Tuple) and len(entry.items) == len(before):
            before = entry.items
        return TupleShape(tuple(map(self.shape, left.items, right.items, before)))

    def _elements(self, left: Abstract, right: Abstract, entry: Abstract) -> Shape | None:
        """Keep a slot of the same container a slot, so that it can be changed in place."""
        missing = Undefined("an element")
        known = left if isinstance(left, Element) else right
        assert isinstance(known, Element)
        if known.kind == OBJECT:
            # A state by number may be None on some paths, as any number may.
            left, right, entry = (_numbered(side, known) for side in (left, right, entry))
        for side in (left, right):
            if isinstance(side, Element):
                if not same(side.container, known.container) or side.kind != known.kind:
                    return None
            elif not isinstance(side, Undefined) or isinstance(known.container, Element):
                return None
        root = root_cell(known)
        if root not in self.left.contents or root not in self.right.contents:
            return None
        before = entry.index if isinstance(entry, Element) else missing
        indices = [side.index if isinstance(side, Element) else missing for side in (left, right)]
        return ElementShape(known.container, self.shape(*indices, before), known.kind)

    def _refs(self, left: Abstract, right: Abstract, entry: Abstract) -> Shape:
        kinds = [VOID if isinstance(x, Undefined) else kind_of(x) for x in (left, right)]
        kind = join_kinds(*kinds)
        usable = all(_has_content(side) for side in (left, right))
        if isinstance(entry, Undefined) and has_states(kind or PY):
            return SameShape(_lost(entry, right))
        if kind is None or not usable or (VOID in kinds and has_states(kind)):
            return SameShape(_lost(left, right))
        key = (_key(entry), _key(left), _key(right))
        if key not in self._pairs:
            self._pairs[key] = self._joined_cell(left, right, entry, PY if VOID in kinds else kind)
        return RefShape(self._pairs[key])

    def _joined_cell(self, left: Abstract, right: Abstract, entry: Abstract, kind: Type) -> Cell:
        cell = None
        if isinstance(left, Ref) and left.cell in self.reuse and left.cell not in self.cells:
            cell = left.cell
            entry = self.reuse[cell].entry
            cell.kind = join_kinds(cell.kind, kind) or kind
        if cell is None:
            cell = Cell(kind, _hint(left) or _hint(right))
        for side, store in ((left, self.left), (right, self.right)):
            self._relate(cell, side, store)
        cell.parent = _joined_parent(left, right)
        self.cells[cell] = Sources(entry, left, right)
        return cell

    def _relate(self, cell: Cell, side: Abstract, store: Store) -> None:
        """Carry over what is known of the object that a path gives to the joined cell."""
        if not isinstance(side, (Ref, Element)):
            return
        other = root_cell(side)
        if isinstance(side, Ref):
            self.emitter.aliases.same(cell, other)
            cell.take_marks(other, 0)
            cell.double(other.doubled, other.doubled_depth)
        else:
            self.emitter.aliases.inside(cell, other, depth=depth_of(side), is_taken=True)
            cell.take_marks(other, -depth_of(side))
        cell.from_host = cell.from_host or other.from_host
        cell.makes_items = cell.makes_items or other.makes_items
        for own, others in zip(self.left.flags(), store.flags(), strict=True):
            if other in others:
                own.setdefault(cell, others[other])


def joined_names(left: Store, right: Store) -> list[Key]:
    """Return the names of both stores, in order."""
    return [*left.names, *(key for key in right.names if key not in left.names)]


def retype(value: Value, kind: Type, sources: dict[Value, list[Value]]) -> None:
    """Give a list that was empty so far the type that its members turned out to have."""
    wanted = ir_type(kind)
    if kind.name == "list" and not _fits(value.type, wanted):
        value.type = wanted
        for source in sources.get(value, ()):
            retype(source, kind, sources)


def _fits(source: Type, target: Type) -> bool:
    """Whether a value of one type may stand where another is declared."""
    if source == target or target == PY:
        return True
    if source.name == target.name == "list" and source.element and target.element:
        return _fits(source.element, target.element)
    return False


def _numbered(side: Abstract, known: Element) -> Abstract:
    if isinstance(side, Known) and side.value is None:
        return Element(known.container, side, known.kind)
    return side


def is_scalar(abstract: Abstract) -> bool:
    """Whether a value is data that cannot change in place, or none yet."""
    return isinstance(abstract, (Known, Plain, Undefined)) or (
        isinstance(abstract, HostObject) and not is_opaque(abstract)
    )


def _has_content(abstract: Abstract) -> bool:
    return isinstance(abstract, (Known, Plain, Undefined, Ref, Element, Tuple))


def _join_plain(left: Abstract, right: Abstract) -> Type:
    kinds = {kind_of(side) for side in (left, right) if not isinstance(side, Undefined)}
    return kinds.pop() if len(kinds) == 1 and not _any_undefined(left, right) else PY


def _any_undefined(left: Abstract, right: Abstract) -> bool:
    return isinstance(left, Undefined) or isinstance(right, Undefined)


def _key(abstract: Abstract) -> object:
    match abstract:
        case Ref(cell):
            return cell
        case Plain(value):
            return value
        case Known(value):
            return (type(value), repr(value))
        case Element(container, index):
            return (_key(container), _key(index))
        case Tuple(items):
            return tuple(map(_key, items))
        case _:
            return type(abstract)


def _hint(abstract: Abstract) -> str:
    return abstract.cell.hint if isinstance(abstract, Ref) else ""


def _joined_parent(left: Abstract, right: Abstract) -> "Ref | Element | None":
    parents = [side.cell.parent if isinstance(side, Ref) else None for side in (left, right)]
    if parents[0] is not None and parents[1] is not None and same(parents[0], parents[1]):
        return parents[0]
    return None


def _lost(left: Abstract, right: Abstract) -> Broken:
    defined = [side for side in (left, right) if not isinstance(side, Undefined)]
    if len(defined) == 1:
        name = next(side.name for side in (left, right) if isinstance(side, Undefined))
        return Broken(
            f"'{name.lstrip('$')}' is {describe(defined[0])} that only some paths assign",
            "assign it on every path, before the loop or branch",
        )
    what = " or ".join(dict.fromkeys(describe(side) for side in defined))
    if {STATE} & {kind_of(side) for side in defined} and "plain data" in what:
        what = "a state on one path and plain data on another"
    return Broken(
        f"this value is {what}, depending on the path taken",
        "use one kind of value on every path",
    )


def is_plain_type(kind: Type) -> bool:
    """Whether values of a type can never change in place."""
    return kind in IMMUTABLE
