"""Iterators under a name, generator expressions and generator functions.

An iterator under a name is a cell that holds the items which are left. A generator runs inside
of what uses it up: where it yields, the consumer's body is walked.
"""

import ast
from collections.abc import Callable
from typing import Any

from lmc.frontend.capture.frame import Frame
from lmc.frontend.capture.inline import Inlining
from lmc.frontend.capture.values import (
    Abstract,
    Cell,
    Generator,
    Iterable,
    Known,
    Numbered,
    Plain,
    Ref,
    Remaining,
    Tuple,
)
from lmc.ir.types import INT, PY

Body = Callable[[Abstract], Known | Plain]


class Generators(Inlining):
    """Walks what gives its items one by one, once."""

    def keep(self, value: Abstract, node: ast.AST) -> Abstract:  # type: ignore[override]
        """Return an iterator as something that can be used up in parts; leave the rest."""
        if not isinstance(value, Iterable):
            return value
        cell = Cell(value.items.type if value.items.type.element else PY, "items")
        self.store.contents[cell] = value.items
        for watched in value.watched:
            reason = "this changes a list while an iterator goes over it"
            self.store.frozen.setdefault(watched, reason)
        return Remaining(Ref(cell), value)

    def for_each(self, value: Abstract, node: ast.AST, body: Body) -> None:
        """Loop over a value; `body` gets the item and returns whether to go on."""
        match value:
            case Remaining():
                self._use_up(value, node, body)
            case Generator():
                self._run(value, node, body)
            case Numbered():
                self._count(value, node, body)
            case _:
                super().for_each(value, node, body)

    def _use_up(self, value: Remaining, node: ast.AST, body: Body) -> None:
        key = (self.frame.id, f"$go_on#{self.fresh_id()}")

        def step(_: object) -> Known | Plain:
            def take() -> None:
                self.store.names[key] = body(self._first(value, node))

            def stop() -> None:
                self.store.names[key] = Known(False)

            self.branch(node, self._has_more(value, node), take, stop)
            found = self.store.names.pop(key)
            assert isinstance(found, (Known, Plain))
            return found

        self.loop(node, None, step)

    def _has_more(self, value: Remaining, node: ast.AST) -> Known | Plain:
        left = self.emit("val.call", [self.raw(value.left, node)], [INT], node, callee="len")[0]
        return self.truth(Plain(left), node)

    def _first(self, value: Remaining, node: ast.AST) -> Abstract:
        """Take the first of the items that are left."""
        cell, left = value.left.cell, self.raw(value.left, node)
        kind = left.type.element or PY
        first = self.emit("val.index", [left, self.constant(0, node)], [kind], node)[0]
        bounds = [self.constant(bound, node) for bound in (1, None, None)]
        rest = self.emit("val.slice", [left, *bounds], [left.type], node)[0]
        self.store.contents[cell] = rest
        return value.over.bind(first)

    def next_of(self, value: Abstract, default: Abstract | None, node: ast.AST) -> Abstract:
        """Walk next(iterator) or next(iterator, default)."""
        if not isinstance(value, Remaining):
            self.fail(node, "next() of this cannot be captured", "use it = iter(xs), or a list")
        if default is None:
            return self._first(value, node)
        more = self._has_more(value, node)
        return self.choose(node, more, lambda: self._first(value, node), lambda: default)

    def _count(self, value: Numbered, node: ast.AST, body: Body) -> None:
        """Loop over a generator's items with their numbers."""
        key = (self.frame.id, f"$number#{self.fresh_id()}")
        self.store.names[key] = value.start

        def numbered(item: Abstract) -> Known | Plain:
            number = self.store.names[key]
            self.store.names[key] = self.binary("+", number, Known(1), node)
            return body(Tuple((number, item)))

        self.for_each(value.inner, node, numbered)
        self.store.names.pop(key, None)

    # Generators.

    def _expr_GeneratorExp(self, node: ast.GeneratorExp) -> Abstract:
        first = self.expression(node.generators[0].iter)
        frame = self.inner_frame(node)
        frame.made_closure = True
        return self.generator(node, frame, self.keep(first, node))

    def generator(self, node: ast.AST, frame: Frame, first: Abstract | None = None) -> Generator:
        """Return a generator that has not begun."""
        self.store.names[frame.id, "$used"] = Known(False)
        return Generator(node, frame, first)

    def _run(self, value: Generator, node: ast.AST, body: Body) -> None:
        key = (value.frame.id, "$used")
        used = self.store.names.get(key, Known("in parts"))
        if used == Known(True):
            return
        if used != Known(False):
            self.fail(node, "a generator is used up in several parts, or on some paths only",
                      "make it a list: list(...)")  # fmt: skip
        outer, is_whole = self.frame, True
        self.store.names[key] = Known("in parts")  # for who asks meanwhile

        def consume(item: Abstract) -> Known | Plain:
            nonlocal is_whole
            inner, self.frame = self.frame, outer
            go_on = body(item)
            self.frame = inner
            is_whole = is_whole and go_on == Known(True)
            return go_on

        if isinstance(value.node, ast.GeneratorExp):
            assert value.first is not None
            self.frame = value.frame
            node_of = value.node
            self.walk_loops(node_of, value.first, lambda: consume(self.expression(node_of.elt)))
        else:
            self._run_function(value, consume)
        self.frame = outer
        self.store.names[key] = Known(True) if is_whole else Known("in parts")

    def _run_function(self, value: Generator, consume: Body) -> None:
        assert isinstance(value.node, ast.FunctionDef)
        if value.node in self.inlined:
            self.fail(value.node, "a generator function that calls itself cannot be captured",
                      "return a list")  # fmt: skip
        self.frame = value.frame
        before, self.called = self.called, None
        self.inlined.append(value.node)
        self.consumers[value.frame.id] = consume
        self.begin_function()
        self.statements(value.node.body)
        del self.consumers[value.frame.id]
        self.inlined.pop()
        self.called = before

    def give(self, node: ast.Yield | ast.YieldFrom) -> None:
        """Walk a yield statement: the consumer's body, for each item that is given."""
        consume = self.consumers.get(self.frame.id)
        if consume is None:
            self.fail(node, "yield outside of a generator function", "return a value")
        if isinstance(node, ast.Yield):
            value = Known(None) if node.value is None else self.expression(node.value)
            self._exit_unless(consume(value), node)
            return

        key = (self.frame.id, f"$go_on#{self.fresh_id()}")
        self.store.names[key] = Known(True)

        def each(item: Abstract) -> Known | Plain:
            go_on = consume(item)
            self.store.names[key] = go_on
            return go_on

        self.for_each(self.expression(node.value), node, each)
        go_on = self.store.names.pop(key)
        assert isinstance(go_on, (Known, Plain))
        self._exit_unless(go_on, node)

    def _exit_unless(self, go_on: Known | Plain, node: ast.AST) -> None:
        """Leave a generator function where its consumer wants no more."""
        if go_on != Known(True):
            self.store.names[self.frame.id, "$return"] = self.negate(go_on, node)

    inner_frame: Any
    walk_loops: Any
