"""Displays: tuples, lists, sets and dicts written out, what they hold, and f-strings."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from lmc.errors import RunError
from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.members import Members, Spread
from lmc.frontend.capture.store import cells_of, depth_of, held_cells, root_cell
from lmc.frontend.capture.values import (
    OBJECT,
    VOID,
    Abstract,
    Cell,
    Element,
    Known,
    Packed,
    Pieces,
    Plain,
    Ref,
    dict_of,
    has_states,
    ir_type,
    join_kinds,
)
from lmc.ir.core import Value
from lmc.ir.evaluate import evaluate_parts
from lmc.ir.types import DICT, PY, TEXT, Type, list_of


class Displays(Members):
    """Walks displays."""

    data: Callable[[ast.expr], Value]
    binary: Callable[[str, Abstract, Abstract, ast.AST], Abstract]
    plain_call: Callable[..., Abstract]

    def _expr_Tuple(self, node: ast.Tuple) -> Abstract:
        items: list[Abstract] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.consumed(item.value)
                known = self.known_items(inner, item)
                items += [Spread(inner)] if known is None else known
            else:
                items.append(self.expression(item))
        return self.rest_of(items, node)

    def _expr_List(self, node: ast.List) -> Abstract:
        constant = self.static(node)
        if constant is not MISSING and constant:
            return self.fresh(self.constant(constant, node))
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return self._starred(node, node.elts)
        return self.list_of(node, [self.expression(item) for item in node.elts])

    def _starred(self, node: ast.expr, elements: list[ast.expr]) -> Abstract:
        found: Abstract = self.list_of(node, [])
        for item in elements:
            if isinstance(item, ast.Starred):
                part = self.plain_call("list", [self.consumed(item.value)], item)
            else:
                part = self.list_of(item, [self.expression(item)])
            found = self.binary("+", found, part, node)
        return found

    def list_of(self, node: ast.AST, items: list[Abstract]) -> Ref:
        """Make a list of values or states."""
        known, items = tuple(items), self.packed_items(items, node)
        kind = self._common_kind(items, node)
        values = [self.held(item, node) for item in items]
        value = self.emit("val.list", values, [list_of(ir_type(kind))], node)[0]
        cell = Cell(list_of(kind))
        self.store.contents[cell] = value
        self.members_of[value] = known
        for item in items:
            self.add_member(item, Ref(cell), node)
        return Ref(cell)

    def packed_items(self, items: Sequence[Abstract], node: ast.AST) -> list[Abstract]:
        """Pack what is no data; beside pieces of the language a text is one as well."""
        if any(isinstance(item, (Pieces, Packed)) for item in items):
            items = [self.pieces(i, node) if kind_of(i) == TEXT else i for i in items]
        return [self.pack(item, node) for item in items]

    pieces: Callable[[Abstract, ast.AST], Pieces]

    def _common_kind(self, items: list[Abstract], node: ast.AST) -> Type:
        kind: Type | None = VOID
        for item in items:
            self.check_usable(item, node)
            kind = join_kinds(kind, kind_of(item)) if kind is not None else None
        if kind is None:
            self.fail(node, "states and plain data in one list cannot be captured",
                      "keep the states in a list of their own")  # fmt: skip
        return kind

    def add_member(self, item: Abstract, place: Abstract, node: ast.AST) -> None:
        """Note that a container holds a value, and whether it may hold one object twice."""
        container = root_cell(place)
        self.check_no_cycle(item, place, node)
        if self._is_doubled(item, container):
            where = f"(added at {self.locate(node)})"
            container.double(f"an object that may stand twice in one container {where}",
                          depth_of(place) + 1)  # fmt: skip
        self.hold(item, place)

    def check_no_cycle(self, item: Abstract, place: Abstract, node: ast.AST) -> None:
        """Break where an object may be put into itself: values cannot hold themselves."""
        held = {cell for cell, _ in held_cells(item, 0)} if kind_of(item) != OBJECT else set()
        root = root_cell(place)
        around = self.aliases.affected(root, depth=depth_of(place)) | {root}
        if held & around:
            self.fail(node, "this may put an object into itself", "put in a copy")

    def _is_doubled(self, item: Abstract, container: Cell) -> bool:
        if kind_of(item) == OBJECT:
            return False
        for cell in cells_of(item):
            depth = depth_of(item) if isinstance(item, Element) else 0
            if not self.aliases.related(cell, container, depth=depth):
                continue
            if not isinstance(item, Element):
                return True
            loops = self.open_loops
            once = isinstance(item.index, Plain) and loops and item.index.value in loops[-1].indices
            outer = loops[:-1]
            if not once or any(cell in loop.known and container in loop.known for loop in outer):
                return True
        return False

    def _expr_Set(self, node: ast.Set) -> Abstract:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return self.plain_call("set", [self._starred(node, node.elts)], node)
        items = [self.expression(item) for item in node.elts]
        values = [self.read(item, node) for item in items]
        return self.derived(self.emit("val.set", values, [PY], node)[0], items)

    def _expr_Dict(self, node: ast.Dict) -> Abstract:
        constant = self.static(node)
        if constant is not MISSING and constant:
            return self.fresh(self.constant(constant, node))
        if None in node.keys:
            return self._merged_dict(node)
        walked = [
            (self.expression(key), self.expression(value))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        values = self.packed_items([value for _, value in walked], node)
        pairs = [(key, value) for (key, _), value in zip(walked, values, strict=True)]
        is_named = all(isinstance(k, Known) and type(k.value) is str for k, _ in pairs)
        is_record = is_named and len({kind_of(value) == OBJECT for _, value in pairs}) == 2
        kind = VOID if is_record else self._common_kind([value for _, value in pairs], node)
        operands = [item for key, value in pairs
                    for item in (self.read(key, node), self.held(value, node))]  # fmt: skip
        if is_named:
            fields = {key.value: value for key, value in pairs if isinstance(key, Known)}
            return self.keep_dict(operands, fields, kind, node)
        made = self.emit("val.dict", operands, [DICT], node)[0]
        cell = Cell(dict_of(kind) if has_states(kind) or not pairs else DICT)
        self.store.contents[cell] = made
        for _, value in pairs:
            self.add_member(value, Ref(cell), node)
        return Ref(cell)

    def _merged_dict(self, node: ast.Dict) -> Abstract:
        found: Abstract = self.fresh(self.emit("val.dict", [], [DICT], node)[0])
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                part = self.expression(value)
            else:
                operands = [self.data(key), self.data(value)]
                part = self.fresh(self.emit("val.dict", operands, [DICT], node)[0])
            found = self.binary("|", found, part, node)
        return found

    # f-strings.

    def _expr_JoinedStr(self, node: ast.JoinedStr) -> Abstract:
        return self._joined(node.values, node)

    def _joined(self, items: Sequence[ast.expr], node: ast.JoinedStr) -> Abstract:
        """Join what an f-string, or a format in it, consists of; all is told at the f-string.

        Python's versions differ in the places of its parts.
        """
        parts = [
            self._format(item, node)
            if isinstance(item, ast.FormattedValue)
            else self.expression(item)
            for item in items
        ]
        parts = [part for part in parts if part != Known("")]  # some versions add empty ones
        if all(isinstance(part, Known) for part in parts):
            return Known("".join(part.value for part in parts if isinstance(part, Known)))
        values = [self.read(part, node) for part in parts]
        if len(values) == 1 and values[0].type == TEXT:
            return Plain(values[0])
        return Plain(self.emit("val.concat", values, [TEXT], node)[0])

    def _format(self, node: ast.FormattedValue, whole: ast.JoinedStr) -> Abstract:
        value = self.expression(node.value)
        if isinstance(value, Pieces):
            self.fail(node.value, "an f-string cannot hold a generation",
                      'append it with +: "text " + lmc.gen("name")')  # fmt: skip
        conversion = chr(node.conversion) if node.conversion != -1 else ""
        spec: Abstract = Known("")
        if isinstance(node.format_spec, ast.JoinedStr):
            spec = self._joined(node.format_spec.values, whole)
        folded = self.folded("val.format", {"conversion": conversion}, [value, spec])
        if folded is not None:
            return folded
        operand = self.read(value, node.value)
        if operand.type == TEXT and not conversion and spec == Known(""):
            return Plain(operand)
        operands = [operand, self.read(spec, whole)]
        made = self.emit("val.format", operands, [TEXT], whole, conversion=conversion)[0]
        return Plain(made)

    def folded(
        self, name: str, attributes: dict[str, Any], operands: list[Abstract]
    ) -> Known | None:
        """Compute at once what needs constants alone; errors are left to the run."""
        if not all(isinstance(operand, Known) for operand in operands):
            return None
        values = [operand.value for operand in operands if isinstance(operand, Known)]
        try:
            found = evaluate_parts(name, attributes, values, 1, None)[0]
        except RunError:
            return None
        return Known(found) if type(found) in (bool, int, float, str) else None
