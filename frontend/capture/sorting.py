"""sorted, min and max with a key."""

import ast

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.generators import Generators
from lmc.frontend.capture.values import (
    Abstract,
    Known,
    Plain,
    Ref,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, INT, PY, list_of


class Sorting(Generators):
    """Orders items by what a function gives for each."""

    def sorted_by(  # type: ignore[override]
        self, name: str, arguments: list[Abstract], keywords: dict[str, ast.expr], node: ast.Call
    ) -> Abstract:
        """sorted, min and max with a key: order the numbers of the items by (key, number)."""
        own = {"key", "reverse"} if name == "sorted" else {"key", "default"}
        if len(arguments) != 1 or set(keywords) - own:
            self.fail(node, f"{name} with a key takes one list here", "make a list first")
        source = self.keys_alone(arguments[0], node)
        if kind_of(source).name != "list":
            source = self.plain_call("list", [source], node)
        function, default = None, None
        for key, given in keywords.items():
            if key == "key":
                function = self.expression(given)
            elif key == "default":
                default = self.expression(given)
        assert function is not None
        downward = name == "max"
        if "reverse" in keywords:
            value = self.static(keywords["reverse"])
            if value not in (True, False):
                self.fail(keywords["reverse"], "reverse= must be a constant", "True or False")
            downward = value
        keys = self.list_of(node, [])

        def body(item: Abstract) -> Known | Plain:
            self.add_item(keys, self.apply(function, [item], node), node)
            return Known(True)

        self.for_each(source, node, body)
        pairs = self._numbered(keys, node, downward=downward)
        if name != "sorted":

            def best() -> Abstract:
                found = self.emit("val.call", [pairs], [PY], node, callee=name)[0]
                return self.item(source, self._number(found, node, downward=downward), node)

            if default is None:
                return best()
            other = default
            some = Plain(self.emit("val.call", [pairs], [BOOL], node, callee="bool")[0])
            return self.choose(node, some, best, lambda: other)
        reverse = self.constant(downward, node)
        ordered = self.emit("val.call", [pairs, reverse], [list_of(PY)], node, callee="sorted",
                            keywords=["reverse"])[0]  # fmt: skip
        found = self.list_of(node, [])

        def take(item: Value | None) -> Known | Plain:
            assert item is not None
            number = self._number(item, node, downward=downward)
            self.open_loops[-1].indices.add(number.value)
            self.add_item(found, self.item(source, number, node), node)
            return Known(True)

        self.loop(node, ordered, take)
        return found

    def _numbered(self, keys: Ref, node: ast.AST, *, downward: bool) -> Value:
        """Pair keys with numbers that keep equal keys in the items' order."""
        content = self.read(keys, node)
        length = self.emit("val.call", [content], [INT], node, callee="len")[0]
        bounds = [length]
        if downward:
            low = self.emit("val.unary", [length], [INT], node, op="-")[0]
            bounds = [self.constant(0, node), low, self.constant(-1, node)]
        numbers = self.emit("val.call", bounds, [list_of(INT)], node, callee="range")[0]
        return self.emit("val.call", [content, numbers], [list_of(PY)], node, callee="zip")[0]

    def _number(self, pair: Value, node: ast.AST, *, downward: bool) -> Plain:
        number = self.emit("val.unpack", [pair], [PY, INT], node)[1]
        if downward:
            number = self.emit("val.unary", [number], [INT], node, op="-")[0]
        return Plain(number)
