"""Lists, tuples and dicts whose members are known, and arguments that are spread out of them."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.environment import Environment
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.values import (
    OBJECT,
    Abstract,
    Cell,
    Known,
    Ref,
    Tuple,
    dict_of,
    has_states,
    record_of,
)
from lmc.ir.core import Value
from lmc.ir.types import DICT, PY, Type, list_of


class Given(ast.expr):
    """Stands in a call for an argument that was walked already."""

    def __init__(self, value: Abstract, node: ast.AST) -> None:
        super().__init__()
        self.value = value
        ast.copy_location(self, node)


@dataclass(frozen=True, slots=True)
class Spread(Abstract):
    """A list of positional arguments of unknown length."""

    value: Abstract


class Members(Environment):
    """Knows the members of containers as long as these are as they were made."""

    def known_items(self, value: Abstract, node: ast.AST) -> tuple[Abstract, ...] | None:
        """Return the items of a sequence that is known item by item."""
        if isinstance(value, Tuple):
            return value.items
        found = self._known(value)
        if isinstance(found, (list, tuple)):
            return tuple(self._member(item, node) for item in found)
        return None

    def known_fields(self, value: Abstract, node: ast.AST) -> dict[str, Abstract] | None:
        """Return the values by key of a dict that is known key by key."""
        found = self._known(value)
        if isinstance(found, dict):
            return {key: self._member(item, node) for key, item in found.items()}
        return None

    def _known(self, value: Abstract) -> Any:
        if not isinstance(value, Ref) or value.cell in self.store.stale:
            return None
        content = self.store.contents[value.cell]
        return self.members_of.get(content, self.constants.get(content))

    def _member(self, item: Any, node: ast.AST) -> Abstract:
        return item if isinstance(item, Abstract) else self._data(item, "item", node)

    def static(self, node: ast.expr) -> Any:
        """Return the value of an expression made of constants, else MISSING."""
        if isinstance(node, Given):
            return self._static_value(node.value)
        return super().static(node)

    def static_content(self, node: ast.expr) -> Any:
        """Do what `static` does, for a value that is only read: a list under a name as well."""
        found = self.static(node)
        if found is MISSING and isinstance(node, ast.Name):
            owner = self.frame.owner(node.id)
            bound = self.store.names.get((owner.id, node.id)) if owner is not None else None
            return MISSING if bound is None else self._static_value(bound)
        return found

    def _static_value(self, value: Abstract) -> Any:
        if isinstance(value, Known):
            return value.value
        if isinstance(value, Tuple):
            items = [self._static_value(item) for item in value.items]
            return MISSING if any(item is MISSING for item in items) else tuple(items)
        if isinstance(value, Ref) and value.cell not in self.store.stale:
            return self.constants.get(self.store.contents[value.cell], MISSING)
        return MISSING

    # Arguments.

    def expanded(self, node: ast.Call) -> ast.Call:
        """Return a call whose spread arguments are written out, as far as they are known."""
        is_spread = any(isinstance(argument, ast.Starred) for argument in node.args)
        if not is_spread and all(keyword.arg is not None for keyword in node.keywords):
            return node
        arguments: list[ast.expr] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments += self._positional(argument)
            else:
                arguments.append(Given(self.expression(argument), argument))
        keywords: list[ast.keyword] = []
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords += self._named_ones(keyword)
            else:
                value = Given(self.expression(keyword.value), keyword.value)
                keywords.append(ast.keyword(keyword.arg, value))
        return ast.copy_location(ast.Call(node.func, arguments, keywords), node)

    def walked(self, node: ast.Call) -> ast.Call:
        """Return a call whose arguments were walked, once and in order."""
        arguments = [
            ast.Starred(Given(self.expression(a.value), a))
            if isinstance(a, ast.Starred)
            else Given(self.consumed(a), a)
            for a in node.args
        ]
        keywords = [
            ast.keyword(k.arg, Given(self.expression(k.value), k.value)) for k in node.keywords
        ]
        return ast.copy_location(ast.Call(node.func, arguments, keywords), node)

    def _positional(self, argument: ast.Starred) -> list[ast.expr]:
        value = self.consumed(argument.value)
        items = self.known_items(value, argument)
        if items is None:
            return [ast.copy_location(ast.Starred(Given(value, argument)), argument)]
        return [Given(item, argument) for item in items]

    def _named_ones(self, keyword: ast.keyword) -> list[ast.keyword]:
        value = self.expression(keyword.value)
        fields = self.known_fields(value, keyword.value)
        if fields is None:
            return [ast.keyword(None, Given(value, keyword.value))]
        return [ast.keyword(key, Given(item, keyword.value)) for key, item in fields.items()]

    def _expr_Given(self, node: Given) -> Abstract:
        return node.value

    def passed(
        self, arguments: Sequence[Abstract], keywords: dict[str, Abstract], node: ast.AST
    ) -> tuple[list[Value], dict[str, list[str]]]:
        """Return the operands of a call and the attribute that names them, if one is needed."""
        values: list[Value] = []
        names: list[str] = []
        for argument in arguments:
            if isinstance(argument, Spread):
                values.append(self._copied_as("list", argument.value, node))
                names.append("*")
            elif names:
                kinds = [list_of(PY)]
                values += self.emit("val.list", [self.read(argument, node)], kinds, node)
                names.append("*")
            else:
                values.append(self.read(argument, node))
        for name, keyword in keywords.items():
            is_spread = name == "**"
            values.append(
                self._copied_as("dict", keyword, node) if is_spread else self.read(keyword, node)
            )
            names.append(name)
        return values, {"keywords": names} if names else {}

    def _copied_as(self, what: str, value: Abstract, node: ast.AST) -> Value:
        kind = list_of(PY) if what == "list" else DICT
        operands = [self.read(value, node)]
        return self.emit("val.call", operands, [kind], node, callee=what)[0]

    def rest_of(self, arguments: Sequence[Abstract], node: ast.AST) -> Abstract:
        """Return the tuple that a parameter such as *rest is bound to."""
        if not any(isinstance(argument, Spread) for argument in arguments):
            return Tuple(tuple(arguments))
        only = arguments[0].value if isinstance(arguments[0], Spread) else None
        if len(arguments) == 1 and only is not None and has_states(kind_of(only)):
            return self.plain_call("list", [only], node)
        operands, named = self.passed(arguments, {}, node)
        split = len(operands) - len(named["keywords"])
        found = self.emit("val.list", operands[:split], [list_of(PY)], node)[0]
        for part in operands[split:]:
            found = self.emit("val.binary", [found, part], [list_of(PY)], node, op="+")[0]
        made = self.emit("val.call", [found], [PY], node, callee="tuple")[0]
        return self.derived(made, list(map(unspread, arguments)))

    def dict_with(self, fields: dict[str, Abstract], node: ast.AST) -> Abstract:
        """Make a dict whose members stay known until it is changed."""
        items = self.packed_items(list(fields.values()), node)
        packed = dict(zip(fields, items, strict=True))
        kind = self._common_kind(list(packed.values()), node)
        operands: list[Value] = []
        for key, value in packed.items():
            operands += [self.constant(key, node), self.held(value, node)]
        return self.keep_dict(operands, packed, kind, node)

    def keep_dict(
        self, operands: list[Value], fields: dict[str, Abstract], kind: Type, node: ast.AST
    ) -> Ref:
        """Wrap a new dict of keys and values."""
        if len({kind_of(value) == OBJECT for value in fields.values()}) == 2:
            record = record_of({key: kind_of(value) for key, value in fields.items()})
            made = self.emit("val.dict", operands, [PY], node)[0]
            cell = Cell(record)
            self.store.contents[cell] = made
            for value in fields.values():
                self.add_member(value, Ref(cell), node)
            return Ref(cell)
        made = self.emit("val.dict", operands, [DICT], node)[0]
        cell = Cell(dict_of(kind) if has_states(kind) or not operands else DICT)
        self.store.contents[cell] = made
        self.members_of[made] = dict(fields)
        for value in fields.values():
            self.add_member(value, Ref(cell), node)
        return Ref(cell)

    consumed: Any
    plain_call: Any
    add_member: Any
    _common_kind: Any


def unspread(argument: Abstract) -> Abstract:
    """Return the list that is spread, or the argument itself."""
    return argument.value if isinstance(argument, Spread) else argument


def no_spread(arguments: Sequence[Abstract]) -> bool:
    """Whether the number of arguments is known."""
    return not any(isinstance(argument, Spread) for argument in arguments)
