"""States by number: for programs whose names for states capture cannot follow.

Where a program keeps states in places that no analysis of names can tell apart, all its states
live in one list, and everything else holds their numbers. Numbers are plain data: two of them
for one state are no trouble. The IR is harder to optimise, so it is the second choice.
"""

import ast
from collections.abc import Callable

from lmc.frontend.capture.control import ControlFlow
from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.values import (
    FAMILY,
    OBJECT,
    Abstract,
    Cell,
    Element,
    Known,
    Plain,
    RecordKind,
    Ref,
    Tuple,
    has_states,
    ir_type,
    join_kinds,
)
from lmc.ir.core import Value
from lmc.ir.types import INT, PY, STATE, Type, list_of


class IndexedStates(ControlFlow):
    """Creates, stores and finds states by number."""

    heap: Ref | None = None

    def open_heap(self, root: Value, node: ast.AST) -> Element:
        """Keep all states by number from now on; the root is the first."""
        cell = Cell(list_of(STATE), "states")
        self.store.contents[cell] = self.emit("val.list", [root], [cell.kind], node)[0]
        self.store.contents[cell].hint = "states"
        self.heap = Ref(cell)
        return Element(self.heap, Known(0), OBJECT)

    def numbered(self, number: Value | int) -> Element:
        """Return the state of a number."""
        assert self.heap is not None
        index = Known(number) if isinstance(number, int) else Plain(number)
        return Element(self.heap, index, OBJECT)

    def held(self, item: Abstract, node: ast.AST) -> Value:
        """Return what a container holds for a value: of a numbered state its number."""
        if kind_of(item) == OBJECT:
            assert isinstance(item, Element)
            self.check_usable(item, node)
            return self.raw(item.index, node)
        if isinstance(item, Tuple) and isinstance(kind_of(item), RecordKind):
            values = [self.held(part, node) for part in item.items]
            return self.emit("val.tuple", values, [PY], node)[0]
        return self.content(item, node)

    def field_of(self, record: Ref | Element, key: Abstract, node: ast.AST) -> Abstract:
        """Return a field of a record."""
        kind = kind_of(record)
        assert isinstance(kind, RecordKind)
        wanted = kind.field(key.value) if isinstance(key, Known) else None
        if wanted is None:
            self.fail(node, "a field of a tuple or dict with states is known by a constant alone",
                      "name a field that it has")  # fmt: skip
        operands = [self.content(record, node), self.raw(key, node)]
        made = self.emit("val.index", operands, [ir_type(wanted)], node)[0]
        return self._of_kind(made, wanted, record)

    def _of_kind(self, value: Value, kind: Type, record: Abstract) -> Abstract:
        if kind == OBJECT:
            return self.numbered(value)
        if not has_states(kind):
            return self.borrowed(value, cells_of(record))
        cell = Cell(kind, external="a list in a tuple or dict with states")
        self.store.contents[cell] = value
        return Ref(cell)

    def tuple_of(self, value: Value, record: Ref | Element, node: ast.AST) -> Tuple:
        """Return the items of a tuple that a container holds."""
        kind = kind_of(record)
        assert isinstance(kind, RecordKind)
        kinds = [ir_type(item) for _, item in kind.fields]
        made = self.emit("val.unpack", [value], kinds, node)
        pairs = zip(made, kind.fields, strict=True)
        return Tuple(tuple(self._of_kind(item, wanted, record) for item, (_, wanted) in pairs))

    def set_field(self, record: Abstract, key: Abstract, value: Abstract, node: ast.AST) -> None:
        """Carry out `record[key] = value`."""
        kind = kind_of(record)
        if not isinstance(kind, RecordKind) or not isinstance(key, Known):
            self.fail(node, "a dict with states and plain data takes constant keys alone",
                      "keep the states in a dict of their own")  # fmt: skip
        wanted = join_kinds(kind.field(key.value) or kind_of(value), kind_of(value))
        if wanted is None:
            self.fail(node, "a field holds a state on one path and plain data on another",
                      "use two fields")  # fmt: skip
        if kind.field(key.value) is None and not isinstance(record, Ref):
            self.fail(node, "a new field of a dict with states in a list",
                      "make it when the dict is made")  # fmt: skip
        operands = [self.content(record, node), self.raw(key, node), self.held(value, node)]
        made, _ = self.emit("val.mutate", operands, [PY, PY], node, name="__setitem__")
        if isinstance(record, Ref):
            record.cell.kind = kind.with_field(key.value, wanted)
        self.write(record, made, node)
        self.add_member(value, record, node)

    add_member: Callable[[Abstract, Abstract, ast.AST], None]

    def members(self, place: Abstract, node: ast.AST) -> Value:
        """Return the list of a container's members."""
        if kind_of(place) != FAMILY:
            return self.content(place, node)
        one = self.constant(1, node)
        operands = [self.content(place, node), one]
        return self.emit("val.index", operands, [list_of(INT)], node)[0]

    def keep_children(self, parent: Abstract, children: Value, node: ast.AST) -> Abstract:
        """Number the children of a fork and return the family."""
        numbers = self._keep(children, node)
        assert isinstance(parent, Element)
        operands = [self.raw(parent.index, node), numbers]
        made = self.emit("val.tuple", operands, [PY], node)[0]
        cell = Cell(FAMILY, "forks")
        self.store.contents[cell] = made
        return Ref(cell)

    def keep_child(self, children: Value, node: ast.AST) -> Element:
        """Number the only child of a fork."""
        numbers = self._keep(children, node)
        zero = self.constant(0, node)
        return self.numbered(self.emit("val.index", [numbers, zero], [INT], node)[0])

    def _keep(self, children: Value, node: ast.AST) -> Value:
        assert self.heap is not None
        before = self.raw(self.heap, node)
        kinds = [before.type, PY]
        grown, _ = self.emit("val.mutate", [before, children], kinds, node, name="extend")
        ends = [
            self.emit("val.call", [states], [INT], node, callee="len")[0]
            for states in (before, grown)
        ]
        self.assign_content(self.heap, grown, node)
        return self.emit("val.call", ends, [list_of(INT)], node, callee="range")[0]

    def family_parts(self, family: Abstract, node: ast.AST) -> tuple[Element, Value]:
        """Return the parent of a family, and its children as a list of states."""
        operands = [self.content(family, node)]
        parent, numbers = self.emit("val.unpack", operands, [INT, list_of(INT)], node)
        cell = Cell(list_of(STATE), "children")
        self.store.contents[cell] = self.emit("val.list", [], [cell.kind], node)[0]

        def take(item: Value | None) -> Known | Plain:
            assert item is not None
            made = [self.raw(Ref(cell), node), self.raw(self.numbered(item), node)]
            kinds = [cell.kind, PY]
            self.store.contents[cell] = self.emit("val.mutate", made, kinds, node, name="append")[0]
            return Known(True)

        self.loop(node, numbers, take)
        return self.numbered(parent), self.store.contents.pop(cell)
