"""Assignment: to names, items and patterns of names, plain and augmented."""

import ast

from lmc.frontend.capture.calls import Calls
from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.expressions import BINARY
from lmc.frontend.capture.store import cells_of, depth_of, held_cells, root_cell
from lmc.frontend.capture.values import (
    Abstract,
    Called,
    Cell,
    Element,
    Known,
    Plain,
    Ref,
    Tuple,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, DICT, FLOAT, INT, PY, TEXT, list_of

REBINDING = (TEXT, INT, FLOAT, BOOL)


class Assignment(Calls):
    """Walks assignment statements."""

    def _stmt_Assign(self, node: ast.Assign) -> None:
        value = self.expression(node.value)
        for target in node.targets:
            self.assign_target(target, value)

    def _stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign_target(node.target, self.expression(node.value))

    def assign_target(self, target: ast.expr, value: Abstract) -> None:  # type: ignore[override]
        """Bind a target: a name, an item, or several at once."""
        match target:
            case ast.Name(id=name):
                self.assign_name(name, self.keep(value, target), target)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, target)
            case ast.Subscript(slice=index) if not isinstance(index, ast.Slice):
                place = self.place(target.value)
                self.set_item(place, self.expression(index), value, target)
            case ast.Subscript(slice=ast.Slice() as part):
                self.set_slice(self.place(target.value), part, value, target)
            case ast.Starred():
                self.fail(target, "a starred target stands alone", "use it in a tuple of targets")
            case _:
                self.fail(target, "this cannot be assigned in a program",
                          "assign names and items")  # fmt: skip

    def set_slice(
        self, place: Abstract, part: ast.Slice, value: Abstract | None, node: ast.AST
    ) -> None:
        """Carry out `xs[a:b:c] = value`, or `del xs[a:b:c]` where there is no value."""
        bounds = (part.lower, part.upper, part.step)
        operands = [self.data(b) if b else self.constant(None, node) for b in bounds]
        if has_states(kind_of(place)) or (value is not None and has_states(kind_of(value))):
            self.fail(node, "slices of lists of states cannot be replaced", "make a new list")
        span = self.emit("val.call", operands, [PY], node, callee="slice")[0]
        if value is None:
            self.mutate(place, "__delitem__", [Plain(span)], {}, node)
            return
        items = self.plain_call("list", [self.as_list(value, node)], node)
        self.mutate(place, "__setitem__", [Plain(span), items], {}, node)
        self.hold_members(items, place)

    def _unpack(self, targets: list[ast.expr], value: Abstract, node: ast.expr) -> None:
        starred = [i for i, target in enumerate(targets) if isinstance(target, ast.Starred)]
        value = self.as_list(value, node)
        if starred:
            self._unpack_starred(targets, starred[0], value, node)
            return
        if isinstance(value, Tuple):
            if len(value.items) != len(targets):
                self.fail(node, f"{len(value.items)} values do not fit {len(targets)} names",
                          "make the two sides match")  # fmt: skip
            for target, item in zip(targets, value.items, strict=True):
                self.assign_target(target, item)
            return
        if is_state(value) or isinstance(value, Called):
            self.fail(node, f"{describe(value)} cannot be unpacked", "give it one name")
        if isinstance(value, (Ref, Element)) and has_states(kind_of(value)):
            content = self.members(value, node)
            kind = content.type.element or PY
            self.emit("val.unpack", [content], [kind] * len(targets), node)
            for index, target in enumerate(targets):
                self.assign_target(target, self.element(value, Known(index), node))
            return
        operand = self.read(value, node)
        kind = operand.type.element if operand.type.name == "list" else None
        made = self.emit("val.unpack", [operand], [kind or PY] * len(targets), node)
        for target, item in zip(targets, made, strict=True):
            self.assign_target(target, self.borrowed(item, cells_of(value)))

    def _unpack_starred(
        self, targets: list[ast.expr], at: int, value: Abstract, node: ast.expr
    ) -> None:
        if isinstance(value, Tuple):
            tail = len(targets) - at - 1
            if len(value.items) < len(targets) - 1:
                self.fail(node, f"{len(value.items)} values are too few for {len(targets)} targets",
                          "make the two sides match")  # fmt: skip
            end = len(value.items) - tail
            middle = self.list_of(node, list(value.items[at:end]))
            found = [*value.items[:at], middle, *value.items[end:]]
        else:
            found = self._split(value, at, len(targets) - at - 1, node)
        for target, item in zip(targets, found, strict=True):
            inner = target.value if isinstance(target, ast.Starred) else target
            self.assign_target(inner, item)

    def _split(self, value: Abstract, head: int, tail: int, node: ast.expr) -> list[Abstract]:
        if has_states(kind_of(value)):
            self.fail(node, "states cannot be unpacked with a star", "use indexing")
        content = self.read(value, node)
        nothing = self.constant(None, node)
        kind = content.type if content.type.name == "list" else list_of(PY)
        operands = [content, self.constant(head + tail, node)]
        content = self.emit("val.call", operands, [kind], node, callee="starred")[0]
        owners = cells_of(value)

        def cut(start: int, stop: int | None) -> Value:
            bounds = [self.constant(start, node), self.constant(stop, node), nothing]
            return self.emit("val.slice", [content, *bounds], [PY], node)[0]

        found: list[Abstract] = []
        if head:
            made = self.emit("val.unpack", [cut(0, head)], [PY] * head, node)
            found += [self.borrowed(item, owners) for item in made]
        middle = cut(head, -tail if tail else None)
        found.append(self.derived(
            self.emit("val.call", [middle], [middle.type], node, callee="list")[0], [value]
        ))  # fmt: skip
        if tail:
            made = self.emit("val.unpack", [cut(-tail, None)], [PY] * tail, node)
            found += [self.borrowed(item, owners) for item in made]
        return found

    # Augmented.

    def _stmt_AugAssign(self, node: ast.AugAssign) -> None:
        match node.target:
            case ast.Name(id=name):
                current = self.lookup(name, node.target)
                self.check_usable(current, node.target)
                if not self._in_place(current, node):
                    value = self.expression(node.value)
                    self._check_rebinding(name, current, value, node)
                    made = self.binary(BINARY[type(node.op)], current, value, node)
                    self.assign_name(name, made, node.target)
            case ast.Subscript(slice=index) if not isinstance(index, ast.Slice):
                self._augment_item(node, node.target)
            case _:
                self.fail(node.target, "this cannot be changed in a program",
                          "change names and items")  # fmt: skip

    def _in_place(self, current: Abstract, node: ast.AugAssign) -> bool:
        """Carry out `+=` on things that Python changes in place."""
        if not isinstance(node.op, ast.Add):
            if is_state(current):
                self.fail(node, "a state knows += alone", "append with +=")
            return False
        if is_state(current):
            self.append_value(current, self.expression(node.value), node)
            return True
        if self.group_of(current):
            if isinstance(node.value, ast.List):
                items = [self.expression(item) for item in node.value.elts]
                self.append_to_group(current, Tuple(tuple(items)), node)
            else:
                self.append_to_group(current, self.expression(node.value), node)
            return True
        if isinstance(current, (Ref, Element)) and kind_of(current).name == "list":
            self.extend_list(current, self.consumed(node.value), node)
            return True
        return False

    def _check_rebinding(
        self, name: str, current: Abstract, value: Abstract, node: ast.AugAssign
    ) -> None:
        """Break where Python may change an object in place that others can see."""
        if not isinstance(current, Ref) or current.cell.kind not in (PY, DICT):
            return
        kind = kind_of(value)
        repeats = isinstance(node.op, ast.Mult) and kind in (INT, BOOL)
        if kind in REBINDING and not repeats:
            return
        cell = current.cell
        is_others = cell.external is not None and cell.external_depth == 0
        seen = self.aliases.affected(cell, depth=0) | {cell}
        named = {
            other
            for key, bound in self.store.names.items()
            if key != (self.frame.id, name)
            for other in _cells_held(bound)
        }
        given = {other for other, _ in held_cells(value, 0)} - {cell}
        if is_others or seen & (named | given):
            op = BINARY[type(node.op)]
            self.fail(node, f"'{name} {op}= ...' may change an object that has other names",
                      f"write {name} = {name} {op} ...")  # fmt: skip

    def _augment_item(self, node: ast.AugAssign, target: ast.Subscript) -> None:
        place = self.place(target.value)
        key = self.expression(target.slice)
        if is_state(place):
            current = self.item(place, key, target)
            value = self.expression(node.value)
            made = self.binary(BINARY[type(node.op)], current, value, node)
            self.set_item(place, key, made, node)
            return
        current = self.item(place, key, target)
        if self._in_place_item(current, node):
            return
        value = self.expression(node.value)
        made = self.binary(BINARY[type(node.op)], current, value, node)
        is_scaled = isinstance(node.op, ast.Mult)
        if (kind_of(value) in REBINDING and not is_scaled) or not isinstance(place, (Ref, Element)):
            self.set_item(place, key, made, node)
            return
        index = key if isinstance(key, (Known, Plain)) else Plain(self.read(key, node))
        self.write(Element(place, index, PY), self.read(made, node), node)
        if is_scaled:
            # A list times a number holds its items several times.
            root_cell(place).double("an object that may stand twice in a list", depth_of(place) + 2)

    def _in_place_item(self, current: Abstract, node: ast.AugAssign) -> bool:
        if is_state(current) or (isinstance(current, Element) and has_states(current.kind)):
            return self._in_place(current, node)
        return False


def _cells_held(bound: Abstract) -> list[Cell]:
    """Return the cells that a name leads to."""
    return cells_of(bound.value if isinstance(bound, Called) else bound)
