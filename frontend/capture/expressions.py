"""Expressions of Python: operators, displays, subscripts, f-strings."""

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lmc.frontend.capture.displays import Displays
from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.types import binary_type, index_type
from lmc.frontend.capture.values import (
    CALLED,
    OBJECT,
    Abstract,
    Broken,
    Builtin,
    Called,
    Cell,
    Closure,
    Element,
    HostObject,
    Known,
    Packed,
    PackedKind,
    Pieces,
    Plain,
    RecordKind,
    Ref,
    Tuple,
    TypeOf,
    Undefined,
    has_states,
    ir_type,
    join_kinds,
    plain_list,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, FLOAT, INT, PY, STATE, list_of

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>",
}  # fmt: skip
UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class Expressions(Displays):
    """Walks expressions; `expression` is the door."""

    def expression(self, node: ast.expr) -> Abstract:  # type: ignore[override]
        """Walk an expression and return what it gives."""
        found = self.walk(node)
        if isinstance(found, Broken):
            self.fail(node, found.reason, found.hint)
        return found

    def walk(self, node: ast.expr) -> Abstract:
        """Walk an expression whose value may be lost, if nobody asks for it."""
        method: Callable[[Any], Abstract] | None
        method = getattr(self, f"_expr_{type(node).__name__}", None)
        if method is None:
            self.fail(node, f"{type(node).__name__} expressions cannot be captured",
                      "compute this in a function of its own")  # fmt: skip
        return method(node)

    def data(self, node: ast.expr) -> Value:
        """Walk an expression that gives plain data."""
        return self.read(self.expression(node), node)

    def condition(self, node: ast.expr) -> Known | Plain:
        """Walk an expression for its truth alone."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.negate(self.condition(node.operand), node)
        if isinstance(node, ast.BoolOp):
            return self._bool_truth(node, node.values)
        return self.truth(self.expression(node), node)

    def _bool_truth(self, node: ast.BoolOp, values: list[ast.expr]) -> Known | Plain:
        first = self.condition(values[0])
        if len(values) == 1:
            return first
        is_and = isinstance(node.op, ast.And)

        def rest() -> Abstract:
            return self._bool_truth(node, values[1:])

        sides = (rest, lambda: Known(False)) if is_and else (lambda: Known(True), rest)
        found = self.choose(node, first, *sides)
        return self.truth(found, node)

    def choose(
        self,
        node: ast.AST,
        condition: Known | Plain,
        then: Callable[[], Abstract],
        otherwise: Callable[[], Abstract],
    ) -> Abstract:
        """Walk one of two expressions, by a condition."""
        key = (self.frame.id, f"$value#{self.fresh_id()}")

        def keep(make: Callable[[], Abstract]) -> Callable[[], None]:
            def run() -> None:
                self.store.names[key] = make()

            return run

        self.branch(node, condition, keep(then), keep(otherwise))
        found = self.store.names.pop(key)
        if isinstance(found, Broken):
            self.fail(node, found.reason, found.hint)
        return found

    # Names and constants.

    def _expr_Constant(self, node: ast.Constant) -> Abstract:
        if node.value is None or type(node.value) in (bool, int, float, str):
            return Known(node.value)
        self.fail(node, f"a constant {node.value!r} has no form in a program", "use str or numbers")

    def _expr_Name(self, node: ast.Name) -> Abstract:
        found = self.lookup(node.id, node)
        self.check_usable(found, node)
        if isinstance(found, Undefined):
            found = Plain(self.raw(found, node))
        if isinstance(found, Plain) and self.may_be_undefined(found.value):
            return Plain(self.defined(found.value, node))
        if isinstance(found, Element) and isinstance(found.index, Plain):
            if self.may_be_undefined(found.index.value):
                return replace(found, index=Plain(self.defined(found.index.value, node)))
        if isinstance(found, Ref) and not has_states(found.cell.kind):
            content = self.store.contents[found.cell]
            if self.may_be_undefined(content):
                self.store.contents[found.cell] = self.defined(content, node)
        return found

    def _expr_NamedExpr(self, node: ast.NamedExpr) -> Abstract:
        value = self.expression(node.value)
        frame = self.frame
        while isinstance(self.frame.node, ast.expr) and not isinstance(self.frame.node, ast.Lambda):
            assert self.frame.parent is not None
            self.frame = self.frame.parent
        self.assign_name(node.target.id, value, node)
        self.frame = frame
        return value

    def _expr_Lambda(self, node: ast.Lambda) -> Abstract:
        return self.closure(node)

    def closure(self, node: ast.FunctionDef | ast.Lambda) -> Abstract:
        """Make a function written inside the program; its defaults are computed now."""
        self.frame.made_closure = True
        defaults = tuple(self.expression(default) for default in node.args.defaults)
        keywords = tuple(
            None if default is None else self.expression(default)
            for default in node.args.kw_defaults
        )
        return Closure(node, self.frame, defaults, keywords)

    # Operators.

    def _expr_BinOp(self, node: ast.BinOp) -> Abstract:
        left, right = self.expression(node.left), self.expression(node.right)
        return self.binary(BINARY[type(node.op)], left, right, node)

    def binary(self, op: str, left: Abstract, right: Abstract, node: ast.AST) -> Abstract:
        """Compute `left op right`."""
        if isinstance(left, (Pieces, Packed)) or isinstance(right, (Pieces, Packed)):
            if op != "+":
                self.fail(node, f"'{op}' does not join what is appended to a state", "use +")
            return self.joined(left, right, node)
        if isinstance(left, Tuple) and isinstance(right, Tuple) and op == "+":
            return Tuple((*left.items, *right.items))
        for side in (left, right):
            if is_state(side):
                self.fail(node, f"'{op}' on a state makes no new state",
                          "append with +=: s += text")  # fmt: skip
        folded = self.folded("val.binary", {"op": op}, [left, right])
        if folded is not None:
            return folded
        kinds = [kind_of(left), kind_of(right)]
        if any(map(has_states, kinds)):
            return self._join_lists(op, left, right, node)
        operands = [self.read(left, node), self.read(right, node)]
        kind = binary_type(op, operands[0].type, operands[1].type)
        made = self.emit("val.binary", operands, [kind], node, op=op)[0]
        if op != "*" and self._is_number(left, right):
            return Plain(made)
        found = self.derived(made, [left, right])
        self._mark_doubled(found, op, left, right)
        return found

    def _mark_doubled(self, found: Abstract, op: str, left: Abstract, right: Abstract) -> None:
        """Note that joined containers with common members hold these twice."""
        pairs = [(one, other) for one in cells_of(left) for other in cells_of(right)]
        twice = any(self.aliases.related(*pair) for pair in pairs)
        if isinstance(found, Ref) and (
            twice or (op == "*" and (cells_of(left) or cells_of(right)))
        ):
            found.cell.double("an object that may stand twice in one list", 1)

    def _is_number(self, left: Abstract, right: Abstract) -> bool:
        """Whether one side is a number and the other plain data, so that the result is one."""
        is_own = not any(isinstance(x, Ref) and x.cell.from_host for x in (left, right))
        return is_own and any(kind_of(side) in (INT, FLOAT, BOOL) for side in (left, right))

    def _join_lists(self, op: str, left: Abstract, right: Abstract, node: ast.AST) -> Abstract:
        kind = join_kinds(plain_list(kind_of(left)), plain_list(kind_of(right)))
        if op != "+" or kind is None or kind.name != "list":
            self.fail(node, f"'{op}' on lists of states cannot be captured", "append one by one")
        operands = [self.members(left, node), self.members(right, node)]
        made = self.emit("val.binary", operands, [ir_type(kind)], node, op=op)[0]
        found = self.derived(made, [left, right])
        assert isinstance(found, Ref)
        found.cell.kind = kind
        self._mark_doubled(found, op, left, right)
        return found

    def joined(self, left: Abstract, right: Abstract, node: ast.AST) -> Abstract:
        """Join two things to append."""
        if isinstance(left, Packed):
            return self.by_template(left, node, lambda found: self.joined(found, right, node))
        if isinstance(right, Packed):
            return self.by_template(right, node, lambda found: self.joined(left, found, node))
        return Pieces((*self.pieces(left, node).parts, *self.pieces(right, node).parts))

    by_template: Callable[..., Abstract]
    opened: Callable[[Abstract, ast.AST], Abstract]
    is_constant: Callable[..., Known | Plain]

    def _expr_UnaryOp(self, node: ast.UnaryOp) -> Abstract:
        if isinstance(node.op, ast.Not):
            return self.condition(node)
        op = UNARY[type(node.op)]
        operand = self.expression(node.operand)
        folded = self.folded("val.unary", {"op": op}, [operand])
        if folded is not None:
            return folded
        value = self.read(operand, node)
        kind = value.type if value.type.name in ("int", "float") else PY
        return Plain(self.emit("val.unary", [value], [kind], node, op=op)[0])

    def _expr_BoolOp(self, node: ast.BoolOp) -> Abstract:
        return self._bool_value(node, node.values)

    def _bool_value(self, node: ast.BoolOp, values: list[ast.expr]) -> Abstract:
        first = self.expression(values[0])
        if len(values) == 1:
            return first

        def rest() -> Abstract:
            return self._bool_value(node, values[1:])

        sides = (rest, lambda: first) if isinstance(node.op, ast.And) else (lambda: first, rest)
        return self.choose(node, self.truth(first, node), *sides)

    def _expr_IfExp(self, node: ast.IfExp) -> Abstract:
        return self.choose(
            node,
            self.condition(node.test),
            lambda: self.expression(node.body),
            lambda: self.expression(node.orelse),
        )

    def _expr_Compare(self, node: ast.Compare) -> Abstract:
        return self._compare(node, self.expression(node.left), 0)

    def _compare(self, node: ast.Compare, left: Abstract, index: int) -> Abstract:
        right = self.expression(node.comparators[index])
        found = self.compare(COMPARE[type(node.ops[index])], left, right, node)
        if index == len(node.ops) - 1:
            return found
        return self.choose(
            node,
            self.truth(found, node),
            lambda: self._compare(node, right, index + 1),
            lambda: found,
        )

    def compare(self, op: str, left: Abstract, right: Abstract, node: ast.AST) -> Abstract:
        """Compute one comparison."""
        if op in ("in", "not in") and (is_state(right) or isinstance(right, Called)):
            found = Plain(self.variable_op("lm.has", right, left, node))
            return found if op == "in" else self.negate(found, node)
        if op in ("in", "not in"):
            right = self.keys_alone(right, node)
        if isinstance(left, TypeOf) and isinstance(right, Builtin):
            left, right = Plain(left.name), Known(right.name)
            op = {"is": "==", "is not": "!="}.get(op, op)
        if op in ("is", "is not"):
            if self._is_none(left, right):
                return Known(op == "is not")
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Packed) and isinstance(other, Known):
                    found = self.is_constant(one, other.value, node)
                    return found if op == "is" else self.negate(found, node)
            left, right = (self._number_or(side) for side in (left, right))
        folded = self.folded("val.compare", {"op": op}, [left, right])
        if folded is not None and not op.startswith("is"):
            return folded
        operands = [self.read(left, node), self.read(right, node)]
        return Plain(self.emit("val.compare", operands, [PY], node, op=op)[0])

    def keys_alone(self, value: Abstract, node: ast.AST) -> Abstract:
        """Return the keys of a dict whose members are no plain data; leave the rest."""
        if isinstance(value, HostObject) and type(value.obj) is dict:
            value = self.opened(value, node)
        if not isinstance(value, (Ref, Element)) or kind_of(value).name != "dict":
            return value
        if not has_states(kind_of(value)):
            return value
        container = self.members(value, node)
        return Plain(self.emit("val.method", [container], [list_of(PY)], node, name="keys")[0])

    members: Callable[[Abstract, ast.AST], Value]

    def _number_or(self, side: Abstract) -> Abstract:
        """Return the number of a state by number, which may be None."""
        return side.index if isinstance(side, Element) and side.kind == OBJECT else side

    def _is_none(self, left: Abstract, right: Abstract) -> bool:
        """Whether something that is surely an object of its own is compared with None."""
        own = (Tuple, Called, Closure, HostObject, Pieces)
        pair = [
            side for side in (left, right) if not (isinstance(side, Known) and side.value is None)
        ]
        return len(pair) == 1 and (
            isinstance(pair[0], own)
            or kind_of(pair[0]) == STATE
            or kind_of(pair[0]).element is not None
        )

    variable_op: Callable[[str, Abstract, Abstract, ast.AST], Value]

    # Parts of things.

    def _expr_Attribute(self, node: ast.Attribute) -> Abstract:
        return self.load_attribute(self.expression(node.value), node)

    load_attribute: Callable[[Abstract, ast.Attribute], Abstract]

    def _expr_Subscript(self, node: ast.Subscript) -> Abstract:
        container = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._slice(container, node.slice, node)
        return self.item(container, self.expression(node.slice), node)

    def item(self, container: Abstract, index: Abstract, node: ast.AST) -> Abstract:
        """Return `container[index]`."""
        if isinstance(container, HostObject) and isinstance(index, Known):
            return self.item_of_host(container, index.value, node)
        container = self.opened(container, node)
        if isinstance(index, Packed):
            return self.by_template(index, node, lambda key: self.item(container, key, node))
        self.check_usable(container, node)
        if is_state(container) or isinstance(container, Called):
            made = self.variable_op("lm.get", container, index, node)
            return self.fresh(made, external="a variable of the state")
        if isinstance(container, Tuple):
            if isinstance(index, Known) and type(index.value) in (int, bool):
                if -len(container.items) <= index.value < len(container.items):
                    return container.items[index.value]
                self.fail(node, f"the tuple has {len(container.items)} item(s)", "check the index")
        kind = kind_of(container)
        if isinstance(container, (Ref, Element)) and isinstance(kind, RecordKind):
            return self.field_of(container, index, node)
        if isinstance(container, (Ref, Element)) and has_states(kind):
            return self.element(container, index, node)
        if not isinstance(container, (Known, Plain, Ref, Element, Tuple)):
            self.fail(node, f"{describe(container)} has no items", "index plain data")
        if isinstance(container, Ref) and container.cell.makes_items:
            return self.mutate(container, "__getitem__", [index], {}, node)
        operands = [self.read(container, node), self.read(index, node)]
        made = self.emit("val.index", operands, [index_type(operands[0].type)], node)[0]
        return self.borrowed(made, cells_of(container))

    def element(self, container: Ref | Element, index: Abstract, node: ast.AST) -> Abstract:
        """Return a reference to the object in a slot of a container of states."""
        kind = kind_of(container).element
        assert kind is not None
        if isinstance(index, (Ref, Element, Tuple)):
            index = Plain(self.read(index, node))
        if not isinstance(index, (Known, Plain)):
            self.fail(node, f"{describe(index)} cannot be an index", "index by a number or key")
        if kind == OBJECT:
            operands = [self.members(container, node), self.raw(index, node)]
            return self.numbered(self.emit("val.index", operands, [INT], node)[0])
        made = Element(container, index, kind)
        if isinstance(kind, RecordKind) and type(kind.fields[0][0]) is int:
            return self.tuple_of(self.content(made, node), made, node)
        if isinstance(kind, PackedKind):
            return Packed(kind, self.content(made, node))
        return self.unpack_called(made, node) if kind == CALLED else made

    def unpack_called(self, place: Element, node: ast.AST) -> Called:
        """Return state and value of a nested program's result out of a list of them."""
        pair = self.emit("val.unpack", [self.content(place, node)], [STATE, PY], node)
        state = Cell(STATE, "result", external="the state of a program that has ended")
        self.store.contents[state] = pair[0]
        return Called(Ref(state), self.fresh(pair[1], external="a program's return value"))

    def _slice(self, container: Abstract, part: ast.Slice, node: ast.AST) -> Abstract:
        bounds = [Known(None) if b is None else self.expression(b)
                  for b in (part.lower, part.upper, part.step)]  # fmt: skip
        if isinstance(container, Tuple) and all(isinstance(b, Known) for b in bounds):
            return Tuple(container.items[slice(*(b.value for b in bounds if isinstance(b, Known)))])
        kind = kind_of(container)
        base = self.members(container, node) if has_states(kind) else self.read(container, node)
        operands = [base, *(self.read(bound, node) for bound in bounds)]
        made = self.emit("val.slice", operands, [base.type], node)[0]
        found = self.derived(made, [container])
        if isinstance(found, Ref):
            found.cell.kind = plain_list(kind)
        return found
