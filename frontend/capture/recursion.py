"""Helpers with states that call themselves: functions of the IR, called by an op.

What such a function reads and changes (states, lists, the variables of functions around it) is
given to it and handed back. What it gives is found by walking it until nothing new turns up.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.frame import Frame
from lmc.frontend.capture.objects import Objects
from lmc.frontend.capture.prune import prune
from lmc.frontend.capture.store import root_cell
from lmc.frontend.capture.values import (
    OBJECT,
    Abstract,
    Broken,
    Called,
    Cell,
    Element,
    Known,
    Packed,
    Plain,
    Ref,
    Tuple,
    Undefined,
    has_states,
    ir_type,
    is_opaque,
)
from lmc.ir.core import Block, Function, Op, Param, Value
from lmc.ir.types import EFFECT, PY, Type

MAX_ROUNDS = 12


class CallsItself(Exception):
    """Tells who captures a function that another one, inlined in it, calls itself."""

    def __init__(self, body: ast.AST) -> None:
        super().__init__("a function calls itself")
        self.body = body


class NothingKnown(Exception):
    """Tells the statement that asks for what a function gives that nothing is known so far."""


@dataclass(slots=True)
class Summary:
    """What is known so far of a function that calls itself.

    `given` are the kinds of its values, `result` what it gives (None: nothing known),
    `changed` the numbers of the values that it changes.
    """

    name: str
    given: list[Type]
    result: Abstract | None = None
    changed: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Ports:
    """The values that go into a call, one per object; `places` are where they come from."""

    places: list[Abstract] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)

    def add(self, place: Abstract, key: Any) -> int:
        """Return the number of an object."""
        if key not in self.numbers:
            self.numbers[key] = len(self.places)
            self.places.append(place)
        return self.numbers[key]


@dataclass(frozen=True, slots=True)
class Port(Abstract):
    """Stands for a value that is given, by its number; `is_numbered` for a state's number."""

    number: int
    is_numbered: bool = False


@dataclass(frozen=True, slots=True)
class Options(Abstract):
    """A dict of keywords with constant values."""

    items: tuple[tuple[str, Any], ...]


class Recursion(Objects):
    """Calls functions that call themselves."""

    def recursive_call(self, frame: Frame, body: ast.AST, node: ast.AST) -> Abstract:
        """Call a function whose parameters are bound in a frame of its own."""
        ports = Ports()
        bound = {
            key: self._port_of(value, ports, node)
            for key, value in self._names_of(frame, body, node).items()
        }
        is_rooted = self.root is not None and self.heap is None
        self._fix_keywords(frame, body, bound, node)
        root = self._port_of(self.root, ports, node) if is_rooted else None  # type: ignore
        heap = None if self.heap is None else self._port_of(self.heap, ports, node)
        self._check_apart(ports, node)
        kinds = [kind_of(place) for place in ports.places]
        names = tuple((k[1] if k[0] == frame.id else k, _shown(v)) for k, v in bound.items())
        key = (body, names, tuple(kinds), _shown(root), _shown(heap))
        summary = self.module.summaries.get(key)
        if summary is None:
            name = self.module.free_name(getattr(body, "name", "lambda"))
            self.module.module.functions[name] = Function(name, "helper", [], Block())
            summary = self.module.summaries[key] = Summary(name, kinds)
            self._summarise(summary, frame, body, bound, (root, heap), ports, node)
        self.drop_names(frame)
        return self._apply_summary(summary, ports, node)

    def _fix_keywords(
        self, frame: Frame, body: ast.AST, bound: dict[Any, Abstract], node: ast.AST
    ) -> None:
        """Keep a parameter such as **options known where it holds constants."""
        kwarg = body.args.kwarg if isinstance(body, ast.FunctionDef) else None
        if kwarg is None:
            return
        fields = self.known_fields(self.store.names[frame.id, kwarg.arg], node)
        if fields is not None and all(isinstance(item, Known) for item in fields.values()):
            items = tuple((key, item.value) for key, item in fields.items())  # type: ignore
            bound[frame.id, kwarg.arg] = Options(items)

    def _names_of(self, frame: Frame, body: ast.AST, node: ast.AST) -> dict[Any, Abstract]:
        """Return what a function reads: its parameters, and names of functions around it."""
        found = {key: v for key, v in self.store.names.items() if key[0] == frame.id}
        for inner in ast.walk(body):
            if not isinstance(inner, ast.Name):
                continue
            owner = frame.owner(inner.id)
            if owner is None or owner is frame:
                continue
            if isinstance(inner.ctx, ast.Store) and inner.id in frame.nonlocals:
                self.fail(node, f"a function that calls itself assigns the outer name '{inner.id}'",
                          "return the value, or keep it in a list")  # fmt: skip
            bound = self.store.names.get((owner.id, inner.id))
            if bound is not None and not isinstance(bound, (Undefined, Broken)):
                found[owner.id, inner.id] = bound
        return found

    def _port_of(self, value: Abstract, ports: Ports, node: ast.AST) -> Abstract:
        """Return a value with numbers of ports in place of objects and values."""
        match value:
            case Known() | Plain():
                content = self.raw(value, node)
                if content.type.name in ("int", "float", "bool", "none"):
                    content = self._as_any(content)
                return Port(ports.add(Plain(content), object()))
            case Element(kind=kind, index=index) if kind == OBJECT:
                return Port(ports.add(Plain(self._as_any(self.raw(index, node))), object()), True)
            case Ref(cell):
                self.check_usable(value, node)
                return Port(ports.add(value, cell))
            case Element():
                self.check_usable(value, node)
                return Port(ports.add(value, (root_cell(value), repr(value.index))))
            case Tuple() if not any(has_states(kind_of(item)) for item in value.items):
                if not any(map(is_opaque, value.items)):
                    return Port(ports.add(Plain(self.read(value, node)), object()))
                return Tuple(tuple(self._port_of(item, ports, node) for item in value.items))
            case Tuple(items):
                return Tuple(tuple(self._port_of(item, ports, node) for item in items))
            case Called() | Packed() | Broken() | Undefined():
                self.fail(node, "this cannot be given to a function that calls itself",
                          "give it states, texts, numbers, lists and dicts")  # fmt: skip
            case _:
                return value

    def _as_any(self, value: Value) -> Value:
        """Return a value as one of unknown type, so that one function serves every call."""
        made = Value(PY, value.hint)
        where = self.block.ops[-1].location if self.block.ops else None
        held = Value(Type("list", PY))
        self.block.ops.append(Op("val.list", [value], [held], {}, [], where))
        zero = Value(Type("int"))
        self.block.ops.append(Op("val.const", [], [zero], {"value": 0}, [], where))
        self.block.ops.append(Op("val.index", [held, zero], [made], {}, [], where))
        return made

    def _check_apart(self, ports: Ports, node: ast.AST) -> None:
        """Break where two of the objects that are given may hold one another."""
        cells = [root_cell(p) for p in ports.places if isinstance(p, (Ref, Element))]
        for index, cell in enumerate(cells):
            for other in cells[index + 1 :]:
                if cell is other or self.aliases.related(cell, other):
                    self.fail(node, "objects that may hold one another are given to a function "
                              "that calls itself", "give it one of them")  # fmt: skip

    def _summarise(
        self,
        summary: Summary,
        frame: Frame,
        body: ast.AST,
        bound: dict[Any, Abstract],
        roots: tuple[Abstract | None, Abstract | None],
        ports: Ports,
        node: ast.AST,
    ) -> None:
        """Walk a function until what it gives and changes is what the walk began with."""
        for _ in range(MAX_ROUNDS):
            before = (_shape_of(summary.result), list(summary.changed))
            inner = type(self)(self.module, frame.function, frame.source, body)  # type: ignore
            inner.counter = self.counter + 100_000
            is_known = summary.result is not None
            inner.walk_recursive(self, summary, frame, bound, roots, ports)
            if is_known and before == (_shape_of(summary.result), list(summary.changed)):
                return
        self.fail(node, "what this function gives and changes does not settle",
                  "let it return one kind of value")  # fmt: skip

    def walk_recursive(
        self,
        outer: Any,
        summary: Summary,
        frame: Frame,
        bound: dict[Any, Abstract],
        roots: tuple[Abstract | None, Abstract | None],
        ports: Ports,
    ) -> None:
        """Walk the body of a function that calls itself into a function of the module."""
        self.frame, self.templates = frame, outer.templates
        self.inlined = [frame.node]
        values = [Value(ir_type(kind)) for kind in summary.given]
        objects = [self._object(v, place) for v, place in zip(values, ports.places, strict=True)]
        effect = Value(EFFECT, "effect")
        self.block = Block([effect, *values])
        self.store.contents[self.effect] = effect
        root, heap = (None if r is None else _filled(r, objects, None) for r in roots)
        if heap is not None:
            assert isinstance(heap, Ref)
            self.heap, root = heap, Element(heap, Known(0), OBJECT)
        self.root = root  # type: ignore[assignment]
        for key, value in bound.items():
            if isinstance(value, Options):
                fields: dict[str, Abstract] = {name: Known(item) for name, item in value.items}
                self.store.names[key] = self.dict_with(fields, frame.node)
                continue
            self.store.names[key] = _filled(value, objects, self.heap)
        node = frame.node
        if isinstance(node, ast.Lambda):
            result = self.expression(node.body)
        else:
            assert isinstance(node, ast.FunctionDef)
            self.begin_function()
            self.statements(node.body)
            result = self.end_function()
        self._end(summary, result, values, objects, outer)

    def _object(self, value: Value, place: Abstract) -> Abstract:
        if not isinstance(place, (Ref, Element)):
            return Plain(value)
        source = root_cell(place)
        cell = Cell(kind_of(place), source.hint, from_host=source.from_host)
        if isinstance(place, Ref):
            cell.take_marks(source, 0)
            cell.makes_items = source.makes_items
        value.hint = source.hint
        self.store.contents[cell] = value
        return Ref(cell)

    def _end(
        self, summary: Summary, result: Abstract, values: list[Value], objects: list[Abstract],
        outer: Any,
    ) -> None:  # fmt: skip
        """Return the result and what was changed, and note both."""
        node = self.frame.node
        if not isinstance(result, Undefined):
            self.check_usable(result, node)
        given = [
            self.store.contents[place.cell] if isinstance(place, Ref) else value
            for place, value in zip(objects, values, strict=True)
        ]
        changed = [i for i, value in enumerate(values) if given[i] is not value]
        summary.changed = sorted({*summary.changed, *changed})
        for number, place in enumerate(objects):
            if isinstance(place, Ref) and place.cell.kind != summary.given[number]:
                summary.given[number] = place.cell.kind
        plain, summary.result = self._result_values(result, summary.result, node)
        first = plain[0] if plain else self.constant(None, node)
        ends = [self.store.contents[self.effect], first, *plain[1:]]
        ends += [given[number] for number in summary.changed]
        self.block.ops.append(Op("func.return", ends, [], {}, [], self.locate(node)))
        params = [Param(f"{value.hint or 'value'}_{i}") for i, value in enumerate(values)]
        made = Function(summary.name, "helper", params, self.block, {}, self.locate(node))
        prune(made.body)
        self.module.module.functions[summary.name] = made

    def _result_values(
        self, result: Abstract, known: Abstract | None, node: ast.AST
    ) -> tuple[list[Value], Abstract]:
        """Return the values that stand for a result, and the result without them."""
        match result:
            case Element(kind=kind, index=index) if kind == OBJECT:
                return [self.raw(index, node)], Port(0, True)
            case Tuple(items) if any(has_states(kind_of(item)) for item in items):
                parts = [self._result_values(item, None, node) for item in items]
                if any(len(values) != 1 for values, _ in parts):
                    self.fail(node, "nested tuples of states as a result", "return a flat one")
                shapes = tuple(shape for _, shape in parts)
                return [values[0] for values, _ in parts], Tuple(shapes)
            case Ref(cell) if has_states(cell.kind) and self.heap is not None:
                return [self.content(result, node)], Ref(Cell(cell.kind))
            case _ if has_states(kind_of(result)):
                self.fail(node, "a function that calls itself returns a state", "return its text")
            case Undefined():  # it never ends, as far as is known
                return [self.constant(None, node)], Plain(Value(PY))
            case _:
                return [self.read(result, node)], Plain(Value(PY))

    # Where the walk stands.

    def place_of_walk(self) -> tuple[Any, ...]:
        """Return where the walk stands, for `go_back`."""
        lengths = [len(part) for part in self._open_parts()]
        return self.block, self.store, self.frame, self.depth, self.called, lengths

    def go_back(self, place: tuple[Any, ...]) -> None:
        """Give up what was begun since: open blocks, loops and inlined functions."""
        self.block, self.store, self.frame, self.depth, self.called, lengths = place
        for part, length in zip(self._open_parts(), lengths, strict=True):
            del part[length:]

    def _open_parts(self) -> list[list[Any]]:
        return [self.open_loops, self.inlined, self.iterated, self.frame.loops]

    # Calling.

    def _apply_summary(self, summary: Summary, ports: Ports, node: ast.AST) -> Abstract:
        if summary.result is None:
            raise NothingKnown
        if self.tries and summary.changed:
            # What it had done before it failed would be lost to the handlers.
            self.fail(node, "a recursive helper that changes states is called in a try",
                      "catch inside the helper, or use a loop")  # fmt: skip
        operands = [self.store.contents[self.effect]]
        operands += [self.content(place, node) for place in ports.places]
        if isinstance(summary.result, Tuple):
            shapes = list(summary.result.items)
        else:
            shapes = [summary.result]
        kinds = [*map(_result_type, shapes), *(ir_type(summary.given[n]) for n in summary.changed)]
        made = self.emit("func.apply", operands, [EFFECT, *kinds], node, callee=summary.name)
        self.set_effect(made[0])
        results, changed = made[1 : len(shapes) + 1], made[len(shapes) + 1 :]
        for number, value in zip(summary.changed, changed, strict=True):
            place = ports.places[number]
            if isinstance(place, (Ref, Element)):
                if isinstance(place, Ref) and not has_states(place.cell.kind):
                    place.cell.kind = summary.given[number]
                value.hint = root_cell(place).hint
                self.write(place, value, node)
        found = [self._wrapped(v, s, node) for v, s in zip(results, shapes, strict=True)]
        return Tuple(tuple(found)) if isinstance(summary.result, Tuple) else found[0]

    def _wrapped(self, value: Value, shape: Abstract, node: ast.AST) -> Abstract:
        if isinstance(shape, Port):
            return self.numbered(value)
        if isinstance(shape, Ref):
            cell = Cell(shape.cell.kind, external="what a function gave")
            self.store.contents[cell] = value
            return Ref(cell)
        return self.fresh(value, external="what a function gave, which may belong to others")

    drop_names: Any
    begin_function: Any
    end_function: Any


def _result_type(shape: Abstract) -> Type:
    return ir_type(shape.cell.kind) if isinstance(shape, Ref) else PY


def _filled(value: Abstract, objects: list[Abstract], heap: Abstract | None) -> Abstract:
    """Return a value with objects in place of the numbers of ports."""
    if isinstance(value, Port):
        found = objects[value.number]
        if value.is_numbered:
            assert isinstance(found, Plain)
            assert isinstance(heap, Ref)
            return Element(heap, found, OBJECT)
        return found
    if isinstance(value, Tuple):
        return Tuple(tuple(_filled(item, objects, heap) for item in value.items))
    return value


def _shown(value: Abstract | None) -> Any:
    """Return what tells one way of calling a function from another."""
    if isinstance(value, Tuple):
        return tuple(map(_shown, value.items))
    is_itself = value is None or isinstance(value, (Port, Options))
    return value if is_itself else _identity(value)


def _identity(value: Abstract) -> Any:
    obj = getattr(value, "obj", None)
    return (type(value), id(obj) if obj is not None else id(value))


def _shape_of(result: Abstract | None) -> Any:
    if isinstance(result, Tuple):
        return tuple(map(_shape_of, result.items))
    if isinstance(result, Ref):
        return str(result.cell.kind), repr(result.cell.kind)
    return type(result), getattr(result, "is_numbered", None)
