"""What can be looped over, loops over it, and comprehensions."""

import ast
from collections.abc import Callable, Sequence

from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.frame import Frame
from lmc.frontend.capture.packed import Packing
from lmc.frontend.capture.store import cells_of, depth_of, root_cell
from lmc.frontend.capture.values import (
    LAZY,
    VOID,
    Abstract,
    Builtin,
    Called,
    Cell,
    Element,
    Iterable,
    Known,
    Pieces,
    Plain,
    Ref,
    Tuple,
    dict_of,
    has_states,
    is_opaque,
)
from lmc.ir.core import Value
from lmc.ir.types import DICT, INT, PY, TEXT, Type, list_of

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Loops(Packing):
    """Iterables, for loops over them, comprehensions."""

    def iterable(self, value: Abstract, node: ast.AST) -> Iterable:
        """Return how to loop over a value."""
        self.check_usable(value, node)
        value = self.opened(value, node)
        if isinstance(value, Tuple) and any(map(_is_followed, value.items)):
            value = self.list_of(node, list(value.items))
        if isinstance(value, Iterable):
            return value
        if is_state(value) or isinstance(value, Called):
            self.fail(node, "a state cannot be looped over", "fork it, or loop over a list")
        if isinstance(value, (Ref, Element)) and has_states(kind_of(value)):
            return self._states(value, node)
        if isinstance(value, LAZY):
            value = self.as_list(value, node)
            return self.iterable(value, node)
        if not isinstance(value, (Known, Plain, Ref, Element, Tuple)):
            self.fail(node, f"{describe(value)} cannot be looped over", "loop over a list")
        items = self.read(value, node)
        owners = cells_of(value)

        def bind(item: Value) -> Abstract:
            return self.borrowed(item, owners)

        return Iterable(items, bind, tuple(owners), is_once=False)

    def _states(self, value: Ref | Element, node: ast.AST) -> Iterable:
        """Loop over the slots of a container of states, so that each can be changed in place."""
        container = self.members(value, node)
        if kind_of(value).name == "dict":
            items = self.emit("val.method", [container], [list_of(PY)], node, name="keys")[0]
            return Iterable(items, Plain, (root_cell(value),), is_once=False)
        return Iterable(
            self._slots(container, node), self._slot_of(value, node), (root_cell(value),),
            is_once=False,
        )  # fmt: skip

    def _slots(self, container: Value, node: ast.AST) -> Value:
        length = self.emit("val.call", [container], [INT], node, callee="len")[0]
        return self.emit("val.call", [length], [list_of(INT)], node, callee="range")[0]

    def _slot_of(self, value: Ref | Element, node: ast.AST) -> Callable[[Value], Abstract]:
        def bind(item: Value) -> Abstract:
            if self.open_loops:
                self.open_loops[-1].indices.add(item)
            return self.element(value, Plain(item), node)

        return bind

    def dict_items(self, value: Ref | Element, node: ast.AST, *, values_only: bool) -> Iterable:
        """Loop over the items, or the values, of a dict of states."""
        keys = self._states(value, node)
        slot = self._slot_of(value, node)

        def bind(item: Value) -> Abstract:
            return slot(item) if values_only else Tuple((Plain(item), slot(item)))

        return Iterable(keys.items, bind, keys.watched)

    def zipped(self, parts: Sequence[Abstract], node: ast.AST, *, strict: bool = False) -> Abstract:
        """Loop over several things at once; `strict` ones must be equally long."""
        if any(isinstance(part, LAZY) and not isinstance(part, Iterable) for part in parts):
            self.fail(node, "zip of an iterator under a name, or of a generator",
                      "make it a list first: list(...)")  # fmt: skip
        known = [part.items for part in parts if isinstance(part, Tuple)]
        if len(known) == len(parts) and any(map(_has_pieces, parts)):
            if not strict or len(set(map(len, known))) == 1:
                return Tuple(tuple(map(Tuple, zip(*known, strict=False))))
        inner = [self.iterable(part, node) for part in parts]
        operands = [part.items for part in inner]
        named = {}
        if strict:
            operands.append(self.constant(True, node))
            named = {"keywords": ["strict"]}
        items = self.emit("val.call", operands, [list_of(PY)], node, callee="zip", **named)[0]

        def bind(item: Value) -> Abstract:
            kinds = [item_type(part.items) for part in inner]
            values = self.emit("val.unpack", [item], kinds, node)
            return Tuple(tuple(part.bind(v) for part, v in zip(inner, values, strict=True)))

        return Iterable(items, bind, tuple(cell for part in inner for cell in part.watched))

    def enumerated(self, value: Abstract, start: Abstract, node: ast.AST) -> Abstract:
        """Loop over items with their numbers."""
        if isinstance(value, Tuple) and _has_pieces(value) and isinstance(start, Known):
            pairs = enumerate(value.items, start.value)
            return Tuple(tuple(Tuple((Known(number), item)) for number, item in pairs))
        inner = self.iterable(value, node)
        operands = [inner.items]
        if start != Known(0):
            operands.append(self.read(start, node))
        items = self.emit("val.call", operands, [list_of(PY)], node, callee="enumerate")[0]

        def bind(item: Value) -> Abstract:
            number, value = self.emit("val.unpack", [item], [INT, item_type(inner.items)], node)
            return Tuple((Plain(number), inner.bind(value)))

        return Iterable(items, bind, inner.watched)

    def backwards(self, value: Abstract, node: ast.AST) -> Iterable:
        """Loop over items from the last to the first."""
        inner = self.iterable(value, node)
        kind = list_of(item_type(inner.items))
        items = self.emit("val.call", [inner.items], [kind], node, callee="reversed")[0]
        return Iterable(items, inner.bind, inner.watched)

    def source(self, node: ast.expr) -> Abstract:
        """Walk what is looped over; `list(states)` is looped over like the states themselves."""
        if isinstance(node, ast.GeneratorExp):
            return self.comprehension(node)
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            is_list = isinstance(node.func, ast.Name) and node.func.id in ("list", "tuple")
            if is_list and self.expression(node.func) in (Builtin("list"), Builtin("tuple")):
                inner = self.source(node.args[0])
                if has_states(kind_of(inner)):
                    return inner
                return self.plain_call("list", [self.as_list(inner, node)], node)
        return self.expression(node)

    as_list: Callable[[Abstract, ast.AST], Abstract]

    def for_each(
        self,
        value: Abstract,
        node: ast.AST,
        body: Callable[[Abstract], Known | Plain],
    ) -> None:
        """Loop over a value; `body` gets the item and returns whether to go on."""
        if isinstance(value, Tuple) and _has_pieces(value):
            self._for_each_known(value.items, node, body)
            return
        items = self.iterable(value, node)
        depth = len(self.iterated)
        self.iterated += items.watched

        def walk(item: Value | None) -> Known | Plain:
            assert item is not None
            return body(items.bind(item))

        self.loop(node, items.items, walk)
        del self.iterated[depth:]

    def _for_each_known(
        self,
        items: tuple[Abstract, ...],
        node: ast.AST,
        body: Callable[[Abstract], Known | Plain],
    ) -> None:
        """Loop over items that exist while the program is captured: the body once for each."""
        if not items:
            return
        go_on = body(items[0])
        self.branch(node, go_on, lambda: self._for_each_known(items[1:], node, body), lambda: None)

    def check_not_iterated(self, place: Abstract, node: ast.AST) -> None:
        """Break where the length of something changes while it is looped over."""
        cell = root_cell(place)
        depth = depth_of(place)
        related = self.aliases.affected(cell, depth=depth, is_itself=True)
        related |= set() if depth else {cell}
        if any(other in related for other in self.iterated):
            self.fail(node, "a list is changed while it is looped over",
                      "loop over a copy: for x in list(xs)")  # fmt: skip

    # Comprehensions.

    def _expr_ListComp(self, node: ast.ListComp) -> Abstract:
        return self.comprehension(node)

    def _expr_SetComp(self, node: ast.SetComp) -> Abstract:
        return self.plain_call("set", [self.comprehension(node)], node)

    def _expr_DictComp(self, node: ast.DictComp) -> Abstract:
        start = self.emit("val.dict", [], [DICT], node)[0]
        cell = Cell(dict_of(VOID), "found")

        def add() -> None:
            key = self.expression(node.key)
            self.set_item(Ref(cell), key, self.expression(node.value), node)

        self._comprehend(node, cell, start, add)
        return Ref(cell)

    set_item: Callable[[Abstract, Abstract, Abstract, ast.AST], None]
    add_item: Callable[[Abstract, Abstract, ast.AST], None]
    assign_target: Callable[[ast.expr, Abstract], None]

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Ref:
        """Walk a comprehension into a list."""
        start = self.emit("val.list", [], [list_of(PY)], node)[0]
        cell = Cell(list_of(VOID), "found")

        def add() -> None:
            self.add_item(Ref(cell), self.expression(node.elt), node)

        self._comprehend(node, cell, start, add)
        return Ref(cell)

    def quantified(self, node: ast.GeneratorExp, *, is_any: bool) -> Plain:
        """Walk any(...) or all(...) of a generator, which stop at the first that decides."""
        key = (self.frame.id, f"$found#{self.fresh_id()}")
        self.store.names[key] = Known(not is_any)

        def test() -> Known | Plain:
            truth = self.condition(node.elt)
            self.store.names[key] = truth
            return self.negate(truth, node) if is_any else truth

        self._walk_generators(node, test)
        found = self.store.names.pop(key)
        return Plain(self.read(found, node))

    def first_of(self, node: ast.GeneratorExp, default: Abstract) -> Abstract:
        """Walk next(generator, default)."""
        key = (self.frame.id, f"$found#{self.fresh_id()}")
        self.store.names[key] = default

        def take() -> Known | Plain:
            self.store.names[key] = self.expression(node.elt)
            return Known(False)

        self._walk_generators(node, take)
        return self.store.names.pop(key)

    def _comprehend(
        self, node: Comprehension, cell: Cell, start: Value, add: Callable[[], None]
    ) -> None:
        self.store.contents[cell] = start

        def step() -> Known | Plain:
            add()
            return Known(True)

        self._walk_generators(node, step)

    def _walk_generators(
        self,
        node: Comprehension,
        step: Callable[[], Known | Plain],
    ) -> None:
        """Walk the nested loops of a comprehension in a frame of its own."""
        first = self.expression(node.generators[0].iter)
        outer = self.frame
        self.frame = self.inner_frame(node)
        self._generator(node, 0, first, step)
        if not self.frame.made_closure:
            self.drop_names(self.frame)
        self.frame = outer

    def inner_frame(self, node: Comprehension) -> Frame:
        """Return the frame that a comprehension's names live in."""
        names = {
            inner.id
            for generator in node.generators
            for inner in ast.walk(generator.target)
            if isinstance(inner, ast.Name)
        }
        outer = self.frame
        return Frame(self.fresh_id(), outer.source, node, outer.function, outer, frozenset(names))

    def walk_loops(
        self, node: Comprehension, first: Abstract, step: Callable[[], Known | Plain]
    ) -> None:
        """Walk the loops of a comprehension in the running frame, the first over a value."""
        self._generator(node, 0, first, step)

    def _generator(
        self, node: Comprehension, index: int, value: Abstract, step: Callable[[], Known | Plain]
    ) -> None:
        generator = node.generators[index]
        if generator.is_async:
            self.fail(node, "async comprehensions cannot be captured", "use a plain one")
        key = (self.frame.id, f"$go_on#{self.fresh_id()}")

        def inner() -> None:
            if index + 1 == len(node.generators):
                self.store.names[key] = step()
                return
            following = node.generators[index + 1]
            self._generator(node, index + 1, self.expression(following.iter), step)
            self.store.names[key] = self.store.names.pop((self.frame.id, "$inner"), Known(True))

        def body(item: Abstract) -> Known | Plain:
            self.assign_target(generator.target, item)
            self.store.names[key] = Known(True)
            self._filtered(generator.ifs, inner)
            go_on = self.store.names.pop(key)
            assert isinstance(go_on, (Known, Plain))
            if index:
                self.store.names[self.frame.id, "$inner"] = go_on
            return go_on

        if index:
            self.store.names[self.frame.id, "$inner"] = Known(True)
        self.for_each(value, generator.target, body)

    def _filtered(self, tests: list[ast.expr], inner: Callable[[], None]) -> None:
        if not tests:
            inner()
            return
        condition = self.condition(tests[0])
        self.branch(tests[0], condition, lambda: self._filtered(tests[1:], inner), lambda: None)

    def drop_names(self, frame: Frame) -> None:
        """Forget the names of a frame that has ended."""
        for key in [key for key in self.store.names if key[0] == frame.id]:
            del self.store.names[key]


def _has_pieces(value: Abstract) -> bool:
    """Whether a value is a tuple with expressions of the language in it."""
    return isinstance(value, Tuple) and any(
        isinstance(item, Pieces) or _has_pieces(item) for item in value.items
    )


def _is_followed(value: Abstract) -> bool:
    return has_states(kind_of(value)) or is_opaque(value)


def item_type(items: Value) -> Type:
    """Return the type of the items of a list or text value."""
    if items.type == TEXT:
        return TEXT
    return items.type.element or PY
