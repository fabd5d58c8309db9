"""Methods and attributes of plain data and of containers, and changes in place."""

import ast
from collections.abc import Callable, Sequence

from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.members import unspread
from lmc.frontend.capture.states import States
from lmc.frontend.capture.store import cells_of, depth_of, root_cell
from lmc.frontend.capture.types import PICKING_METHODS, method_type
from lmc.frontend.capture.values import (
    CALLED,
    FAMILY,
    GROUP,
    OBJECT,
    Abstract,
    Broken,
    Builtin,
    Called,
    Cell,
    Element,
    HostObject,
    Known,
    Method,
    Packed,
    PackedKind,
    Pieces,
    Plain,
    ProgramRef,
    RecordKind,
    Ref,
    Tuple,
    TypeOf,
    has_states,
    ir_type,
    join_kinds,
    plain_list,
)
from lmc.ir.core import Value
from lmc.ir.evaluate import CLASSES, METHODS, MUTATORS
from lmc.ir.types import DICT, PY, TEXT, Type, list_of

_FIRST_KEPT = {
    "append": 0, "insert": 1, "setdefault": 1, "__setitem__": 1,
}  # fmt: skip
"""The first argument that a container keeps and that could change; keys and set items cannot."""

TEXT_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - {
    "count", "index", "format", "find",
}  # fmt: skip
"""Methods that only texts have, also where the receiver is a host function's result."""


class Methods(States):
    """Attribute access, method calls on data, element and attribute assignment."""

    def load_attribute(self, value: Abstract, node: ast.Attribute) -> Abstract:  # type: ignore[override]
        """Return an attribute; a method is returned for calling."""
        name = node.attr
        if isinstance(value, TypeOf) and name == "__name__":
            return Plain(value.name)
        if (
            isinstance(value, Builtin)
            and value.name in CLASSES
            and name in dir(CLASSES[value.name])
        ):
            if (value.name, name) == ("dict", "fromkeys"):
                return Builtin("dict.fromkeys")
            return HostObject(getattr(CLASSES[value.name], name), f"{value.name}.{name}")
        if isinstance(value, HostObject) and not _is_container_method(value, name):
            return self.attribute_of(value, name, node)
        if isinstance(value, Packed):
            return self.by_template(value, node, lambda found: self.load_attribute(found, node))
        if isinstance(value, Called) and name in ("value", "ret_value"):
            return value.value
        if isinstance(value, ProgramRef):
            if name == "run":
                return value
            self.fail(node, f"'{name}' of a program cannot be used inside a program", "call it")
        if self.group_of(value) and name == "forks":
            return value
        if self._is_called(node):
            return Method(value, name, node)
        if is_state(value) or isinstance(value, Called) or has_states(kind_of(value)):
            self.fail(node, f"{describe(value)} has no attribute '{name}' here", "check its name")
        kind = kind_of(value)
        if name in METHODS and (kind in (TEXT, DICT) or kind.name in ("list", "dict")):
            return Method(value, name, node)
        made = self.emit("val.attr", [self.read(value, node)], [PY], node, name=name)[0]
        return self.borrowed(made, cells_of(value))

    called: ast.expr | None = None

    def _is_called(self, node: ast.Attribute) -> bool:
        return self.called is node

    def method_call(self, method: Method, node: ast.Call) -> Abstract:
        """Walk a call of a method."""
        receiver, name = self.opened(method.receiver, node), method.name
        self.check_usable(receiver, node)
        if isinstance(receiver, Called):
            return self.state_method(receiver.state, name, node)
        if is_state(receiver):
            return self.state_method(receiver, name, node)
        kind = kind_of(receiver)
        if kind in (GROUP, FAMILY):
            if name != "join":
                self.fail(node, f"the children of a fork have no method '{name}'",
                          "use +=, indexing, loops and join(), or list(forks)")  # fmt: skip
            return self.join_group(receiver, self._arguments(node, name), node)
        if name in MUTATORS and self._is_container(receiver):
            return self._mutator(receiver, name, node)
        if has_states(kind):
            return self._container_method(receiver, name, node)
        arguments, keywords = self.call_arguments(node)
        if self._needs_host(receiver, name):
            return self.host_method(receiver, name, arguments, keywords, node)
        return self.data_method(receiver, name, arguments, keywords, node)

    def _is_container(self, receiver: Abstract) -> bool:
        return isinstance(receiver, (Ref, Element)) and kind_of(receiver) != TEXT

    def _needs_host(self, receiver: Abstract, name: str) -> bool:
        if isinstance(receiver, Ref) and receiver.cell.from_host:
            return name not in TEXT_METHODS
        return name not in METHODS

    def data_method(
        self,
        receiver: Abstract,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        if not isinstance(receiver, (Known, Plain, Ref, Element, Tuple)):
            self.fail(node, f"{describe(receiver)} has no method '{name}'", "check the name")
        every = [receiver, *map(unspread, arguments), *keywords.values()]
        operands, named = self.passed([receiver, *arguments], keywords, node)
        kind = method_type(operands[0].type, name)
        made = self.emit("val.method", operands, [kind], node, name=name, **named)[0]
        owners = [cell for value in every for cell in cells_of(value)]
        if name in PICKING_METHODS:
            return self.borrowed(made, owners)
        return self.derived(made, every, shift=1 if name == "items" else 0)

    def keywords_of(self, keywords: dict[str, Abstract]) -> dict[str, list[str]]:
        """Return the attribute that names keyword operands, if there are any."""
        return {"keywords": list(keywords)} if keywords else {}

    host_method: Callable[..., Abstract]
    call_arguments: Callable[[ast.Call], tuple[list[Abstract], dict[str, Abstract]]]

    # Containers of states.

    def _container_method(self, receiver: Abstract, name: str, node: ast.Call) -> Abstract:
        assert isinstance(receiver, (Ref, Element))
        kind = kind_of(receiver)
        if kind.name == "dict":
            if name in ("items", "values"):
                return self.dict_items(receiver, node, values_only=name == "values")
            if name == "get" and 1 <= len(node.args) <= 2:
                return self._get_from(receiver, node)
            if name == "keys":
                made = self.emit(
                    "val.method", [self.content(receiver, node)], [list_of(PY)], node, name=name
                )[0]
                return self.fresh(made)
        if name == "copy" and not node.args:
            made = self.content(receiver, node)
            copied = self.emit("val.method", [made], [made.type], node, name=name)[0]
            found = self.derived(copied, [receiver])
            assert isinstance(found, Ref)
            found.cell.kind = kind
            return found
        self.fail(node, f"'{name}' on a collection of states cannot be captured",
                  "use indexing, loops, append, extend, join")  # fmt: skip

    def _get_from(self, receiver: Ref | Element, node: ast.Call) -> Abstract:
        """Walk d.get(key, default) of a dict of states or functions."""
        key, *rest = (self.expression(argument) for argument in node.args)
        operands = [self.read(key, node), self.content(receiver, node)]
        found = self.emit("val.compare", operands, [PY], node, op="in")[0]
        return self.choose(
            node, self.truth(Plain(found), node), lambda: self.item(receiver, key, node),
            lambda: rest[0] if rest else Known(None),
        )  # fmt: skip

    # Changes in place.

    def _mutator(self, receiver: Abstract, name: str, node: ast.Call) -> Abstract:
        assert isinstance(node.func, ast.Attribute)
        place = self.place(node.func.value)
        assert isinstance(place, (Ref, Element))
        cell = root_cell(place)
        if cell.from_host and name not in ("append", "extend", "sort", "reverse"):
            arguments, keywords = self.call_arguments(node)
            return self.host_method(receiver, name, arguments, keywords, node)
        if name == "append" and len(node.args) == 1 and not node.keywords:
            self.add_item(place, self.expression(node.args[0]), node)
            return Known(None)
        if name == "extend" and len(node.args) == 1 and not node.keywords:
            self.extend_list(place, self.consumed(node.args[0]), node)
            return Known(None)
        if name == "sort" and any(keyword.arg == "key" for keyword in node.keywords):
            return self._sort_by_key(place, node)
        arguments, keywords = self.call_arguments(node)
        return self.mutate(place, name, arguments, keywords, node)

    sorted_by: Callable[..., Abstract]
    consumed: Callable[[ast.expr], Abstract]

    def _sort_by_key(self, place: Abstract, node: ast.Call) -> Abstract:
        found = self.sorted_by(
            "sorted", [place], {k.arg or "": k.value for k in node.keywords}, node
        )
        self.check_not_iterated(place, node)
        self.forget_slots(root_cell(place), node)
        self.write(place, self.content(found, node), node)
        return Known(None)

    def mutate(
        self,
        place: Abstract,
        name: str,
        arguments: Sequence[Abstract],
        keywords: dict[str, Abstract],
        node: ast.AST,
    ) -> Abstract:
        """Change a container by one of its methods; return the method's result."""
        self.check_not_iterated(place, node)
        kind = kind_of(place)
        every = [*arguments, *keywords.values()]
        if has_states(kind):
            return self._mutate_states(place, name, every, node)
        operands = [self.read(place, node), *(self.read(value, node) for value in every)]
        made, result = self.emit(
            "val.mutate", operands, [_changed_type(operands, name), PY], node,
            name=name, **self.keywords_of(keywords),
        )  # fmt: skip
        self._widen(place, made.type)
        self.write(place, made, node)
        if name in ("extend", "update"):
            for value in every:
                self.check_members(value, place, node)
                self.hold_members(value, place)
        for value in every[_FIRST_KEPT.get(name, len(every)) :]:
            self.add_member(value, place, node)
        return self.borrowed(result, [root_cell(place)])

    def _mutate_states(
        self, place: Abstract, name: str, arguments: list[Abstract], node: ast.AST
    ) -> Abstract:
        if name == "insert" and len(arguments) == 2:
            return self._insert_state(place, *arguments, node)
        if name not in ("pop", "clear", "reverse", "__delitem__"):
            self.fail(node, f"'{name}' on a collection of states cannot be captured",
                      "use append, extend, pop, indexing")  # fmt: skip
        base = self.content(place, node)
        operands = [base, *(self.read(value, node) for value in arguments)]
        element = kind_of(place).element
        assert element is not None
        made, result = self.emit("val.mutate", operands, [base.type, PY], node, name=name)
        taken: Abstract = Known(None)
        if name == "pop":
            taken = self._taken(base, operands[1:], element, place, node)
        self.forget_slots(root_cell(place), node)
        self.write(place, made, node)
        result.hint = "popped"
        return taken

    def _insert_state(
        self, place: Abstract, index: Abstract, item: Abstract, node: ast.AST
    ) -> Abstract:
        kind = join_kinds(kind_of(place), list_of(kind_of(item)))
        if kind is None:
            self.fail(node, "states and plain data in one list cannot be captured",
                      "keep the states in a list of their own")  # fmt: skip
        base = self.content(place, node)
        operands = [base, self.read(index, node), self.held(item, node)]
        made, _ = self.emit("val.mutate", operands, [ir_type(kind), PY], node, name="insert")
        self.forget_slots(root_cell(place), node)
        self._widen(place, kind)
        self.write(place, made, node)
        self.add_member(item, place, node)
        return Known(None)

    def _taken(
        self, base: Value, index: list[Value], element: Type, place: Abstract, node: ast.AST
    ) -> Abstract:
        """Return what pop takes out, read from the container as it was before."""
        at = index or [self.constant(-1, node)]
        value = self.emit("val.index", [base, at[0]], [ir_type(element)], node)[0]
        if element == OBJECT:
            return self.numbered(value)
        if isinstance(element, RecordKind):
            cell = Cell(element, "popped")
            self.store.contents[cell] = value
            is_tuple = type(element.fields[0][0]) is int
            return self.tuple_of(value, Ref(cell), node) if is_tuple else Ref(cell)
        if element == CALLED:
            pair = self.emit("val.unpack", [value], [Type("state"), PY], node)
            state = self.fresh(pair[0], external="the state of a program that has ended")
            assert isinstance(state, Ref)
            return Called(state, self.fresh(pair[1], external="a program's return value"))
        found = self.fresh(value, element)
        assert isinstance(found, Ref)
        root, depth = root_cell(place), depth_of(place) + 1
        self.aliases.inside(found.cell, root, depth=depth, is_taken=True, has_left=True)
        if root.doubled:
            found.cell.bar(root.doubled, 0)
        found.cell.take_marks(root, -depth)
        return found

    def forget_slots(self, cell: object, node: ast.AST) -> None:
        """Names for slots of a container mean nothing once its slots move."""
        lost = Broken(f"this names a slot of a list whose slots moved at {self.locate(node)}",
                      "copy the state, or read it before the list changes")  # fmt: skip
        for key, bound in self.store.names.items():
            if _names_slot(bound, cell):
                self.store.names[key] = lost

    def add_item(self, place: Abstract, item: Abstract, node: ast.AST) -> None:  # type: ignore[override]
        """Append a value or state to a list."""
        self.check_not_iterated(place, node)
        kind = kind_of(place)
        item = self.fitting(item, kind, node)
        wanted = (
            join_kinds(kind.element, kind_of(item))
            if kind.name == "list" and kind.element
            else None
        )
        if wanted is None and (has_states(kind) or has_states(kind_of(item))):
            self.fail(node, "states and plain data in one list cannot be captured",
                      "keep the states in a list of their own")  # fmt: skip
        base, value = self.content(place, node), self.held(item, node)
        result = ir_type(list_of(wanted)) if wanted is not None else base.type
        made, _ = self.emit("val.mutate", [base, value], [result, PY], node, name="append")
        if wanted is not None and isinstance(place, Ref):
            place.cell.kind = list_of(wanted)
        self.write(place, made, node)
        self.add_member(item, place, node)

    def extend_list(self, place: Abstract, items: Abstract, node: ast.AST) -> None:
        """Extend a list by another."""
        if isinstance(items, Tuple) and any(has_states(kind_of(item)) for item in items.items):
            items = self.list_of(node, list(items.items))
        kinds = kind_of(place), plain_list(kind_of(items))
        if not any(map(has_states, kinds)):
            self.mutate(place, "extend", [items], {}, node)
            return
        self.check_not_iterated(place, node)
        kind = join_kinds(*kinds)
        if kind is None or kind.name != "list":
            self.fail(node, "states and plain data in one list cannot be captured",
                      "keep the states in a list of their own")  # fmt: skip
        operands = [self.content(place, node), self.members(items, node)]
        made, _ = self.emit("val.mutate", operands, [ir_type(kind), PY], node, name="extend")
        self._widen(place, kind)
        self.write(place, made, node)
        self.check_members(items, place, node)
        self.hold_members(items, place)

    def check_members(self, items: Abstract, place: Abstract, node: ast.AST) -> None:
        """Break where the members of a list may be put into one of them."""
        if cells_of(items) != [root_cell(place)] or depth_of(place):
            self.check_no_cycle(items, place, node)

    def set_item(  # type: ignore[override]
        self, place: Abstract, key: Abstract, value: Abstract, node: ast.AST
    ) -> None:
        """Carry out `place[key] = value`."""
        self.check_usable(place, node)
        value = self.fitting(value, kind_of(place), node)
        if is_state(place):
            if isinstance(key, Packed):
                name: str | Value | None = self.name_of_packed(key, node)
            elif isinstance(key, Pieces):
                name = self.name_of_call(key, node)
            else:
                name = key.value if isinstance(key, Known) else self.read(key, node)
            self.set_variable(place, name, value, node)
            return
        if not isinstance(place, (Ref, Element)):
            self.fail(node, f"{describe(place)} takes no items", "use a list or dict")
        kinds = kind_of(place), kind_of(value)
        if isinstance(kinds[0], RecordKind):
            self.set_field(place, key, value, node)
            return
        if not any(map(has_states, kinds)):
            if kinds[0].name == "list":
                self.check_not_iterated(place, node)
            self.mutate(place, "__setitem__", [key, value], {}, node)
            return
        element = join_kinds(kinds[0].element, kinds[1]) if kinds[0].element else None
        if kinds[0] == FAMILY:
            self.fail(node, "a child of a fork cannot be replaced here", "make a list of them")
        if element is None:
            self.fail(node, "states and plain data in one collection cannot be captured",
                      "keep the states in a list or dict of their own")  # fmt: skip
        self.check_not_iterated(place, node)
        operands = [self.content(place, node), self.read(key, node), self.held(value, node)]
        kind = Type(kinds[0].name, element)
        made, _ = self.emit("val.mutate", operands, [ir_type(kind), PY], node, name="__setitem__")
        self.forget_slots(root_cell(place), node)
        self._widen(place, kind)
        self.write(place, made, node)
        self.add_member(value, place, node)

    def fitting(self, item: Abstract, kind: Type, node: ast.AST) -> Abstract:
        """Return a value as a container of some kind holds it."""
        if isinstance(kind.element, PackedKind) and kind_of(item) == TEXT:
            item = self.pieces(item, node)
        return self.pack(item, node)

    def _widen(self, place: Abstract, kind: Type) -> None:
        if isinstance(place, Ref):
            joined = join_kinds(place.cell.kind, kind)
            assert joined is not None
            place.cell.kind = joined


def _is_container_method(value: HostObject, name: str) -> bool:
    return type(value.obj) in (dict, list, tuple) and name in METHODS


def _changed_type(operands: list[Value], name: str) -> Type:
    kind = operands[0].type
    if kind.name != "list" or name in ("pop", "remove", "clear", "sort", "reverse"):
        return kind
    added = operands[-1].type
    if name == "extend":
        added = added.element or (TEXT if added == TEXT else PY)
    return kind if kind.element in (added, PY) else list_of(PY)


def _names_slot(bound: Abstract, cell: object) -> bool:
    if isinstance(bound, Element):
        return root_cell(bound) is cell
    return isinstance(bound, Tuple) and any(_names_slot(item, cell) for item in bound.items)
