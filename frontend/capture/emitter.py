"""The base of capture: making ops, reading and writing what names refer to, graph breaks."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from lmc.errors import CaptureError
from lmc.frontend.capture.aliases import Aliases
from lmc.frontend.capture.frame import Frame
from lmc.frontend.capture.store import Store, cells_of, depth_of, held_cells, root_cell
from lmc.frontend.capture.stretch import Borders
from lmc.frontend.capture.values import (
    CALLED,
    IMMUTABLE,
    OBJECT,
    Abstract,
    Broken,
    Called,
    Cell,
    Element,
    Generator,
    HostObject,
    Iterable,
    Known,
    Numbered,
    Packed,
    PackedKind,
    Pieces,
    Plain,
    Ref,
    Remaining,
    Tuple,
    Undefined,
    has_states,
    ir_type,
    record_of,
    type_of_plain,
)
from lmc.ir.core import Block, Op, Value
from lmc.ir.location import Location
from lmc.ir.types import EFFECT, PY, STATE, Attr, Type, list_of

if TYPE_CHECKING:
    from lmc.frontend.capture.functions import ModuleCapture


MAX_DEPTH = 90
"""Levels of blocks; the verifier's limit is higher."""


@dataclass(slots=True)
class OpenLoop:
    """A loop whose body is being walked.

    `indices` hold a different slot number in each iteration; `known` are the cells that were
    there before the loop.
    """

    indices: set[Value]
    known: dict[Cell, Value]


class Emitter:
    """Holds the insertion point, the store and the frame of one function being captured."""

    def __init__(self, module: "ModuleCapture", frame: Frame) -> None:
        self.module = module
        self.frame = frame
        self.store = Store()
        self.block = Block()
        self.aliases = Aliases()
        self.effect = Cell(EFFECT, "effect")
        self.iterated: list[Cell] = []
        self.inlined: list[ast.AST] = []
        self.phi_sources: dict[Value, list[Value]] = {}
        self.undefined: set[Value] = set()
        self.hidden_reads: set[str] = set()
        self.escaped: set[int] = set()
        self.counter = 0
        self.depth = 0
        self.open_loops: list[OpenLoop] = []
        self.tries: list[Any] = []
        self.handled: list[Value] = []
        self.constants: dict[Value, Attr] = {}
        self.templates: list[Any] = []
        self.plans: dict[tuple[ast.AST, int], Any] = {}
        self.loop_numbers: dict[tuple[ast.AST, int], int] = {}
        self.parted: dict[ast.withitem, tuple[Borders, list[ast.stmt]]] = {}
        self.consumers: dict[int, Callable[[Abstract], Known | Plain]] = {}
        self.members_of: dict[Value, tuple[Abstract, ...] | dict[str, Abstract]] = {}

    # The parts that expressions, calls and statements need of one another.
    expression: Callable[[ast.expr], Abstract]
    place: Callable[[ast.expr], Abstract]
    pack: Callable[..., Abstract]
    packed_kind: Callable[[Abstract, ast.AST], PackedKind]
    statements: Callable[[Sequence[ast.stmt]], None]
    note_progress: Callable[[ast.AST], None]

    @contextmanager
    def inside(self, node: ast.AST) -> Iterator[None]:
        """Count a level of blocks; too many are a graph break."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(node, f"branches and loops are nested deeper than {MAX_DEPTH}",
                      "move a part into a program of its own")  # fmt: skip
        yield
        self.depth -= 1

    def fresh_id(self) -> int:
        """Return a number that no frame, loop or temporary has yet."""
        self.counter += 1
        return self.counter

    def locate(self, node: ast.AST) -> Location:
        """Return the place of a node in the source of the running frame."""
        return self.module.place_of(node, self.frame.source)

    def fail(self, node: ast.AST, message: str, hint: str) -> NoReturn:
        """Raise the graph break at a node."""
        raise CaptureError(message, hint=hint, location=self.locate(node))

    def emit(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        node: ast.AST,
        /,
        *,
        blocks: Sequence[Block] = (),
        **attributes: Attr,
    ) -> list[Value]:
        """Append an op and return its results."""
        made = [Value(kind) for kind in results]
        where = self.locate(node)
        self.block.ops.append(Op(name, list(operands), made, attributes, list(blocks), where))
        return made

    def constant(self, value: Attr, node: ast.AST, kind: Type | None = None) -> Value:
        """Make a constant."""
        from lmc.ir.types import type_of

        made = self.emit("val.const", [], [kind or type_of(value)], node, value=value)[0]
        self.constants[made] = value
        return made

    # Reading.

    def read(self, abstract: Abstract, node: ast.AST) -> Value:
        """Return plain data as an SSA value; anything else is a graph break."""
        if isinstance(abstract, (Ref, Element, Packed)) and has_states(kind_of(abstract)):
            what = describe(abstract)
            self.fail(node, f"{what} is used where plain data is needed",
                      "read from it, as s.text() or s['name'] do")  # fmt: skip
        return self.content(abstract, node)

    def content(self, abstract: Abstract, node: ast.AST) -> Value:
        """Return the SSA value of anything that has one, states included."""
        self.check_usable(abstract, node)
        return self.raw(abstract, node)

    def raw(self, abstract: Abstract, node: ast.AST) -> Value:
        """Do what `content` does without asking whether the value is stale."""
        match abstract:
            case Known(value):
                return self.constant(value, node)
            case Plain(value):
                return value
            case Ref(cell):
                return self.store.contents[cell]
            case Element(container, index, kind):
                operands = [self.raw(container, node), self.raw(index, node)]
                kind = kind_of(container).element or kind
                return self.emit("val.index", operands, [ir_type(kind)], node)[0]
            case Tuple(items):
                return self.emit(
                    "val.tuple", [self.read(item, node) for item in items], [PY], node
                )[0]
            case Packed():
                return abstract.value
            case Called(state, value):
                operands = [self.content(state, node), self.read(value, node)]
                return self.emit("val.tuple", operands, [PY], node)[0]
            case Undefined(name):
                made = self.emit("val.undefined", [], [PY], node, name=name)[0]
                self.undefined.add(made)
                return made
            case _:
                self.fail(node, f"{describe(abstract)} is used where plain data is needed",
                          "call it, append it to a state, or compute a value from it")  # fmt: skip

    def may_be_undefined(self, value: Value) -> bool:
        """Whether some path leaves a value without one."""
        seen: set[Value] = set()
        work = [value]
        while work:
            found = work.pop()
            if found in self.undefined:
                return True
            if found not in seen:
                seen.add(found)
                work += self.phi_sources.get(found, ())
        return False

    def defined(self, value: Value, node: ast.AST) -> Value:
        """Return a value after ops that fail, at this place, where it has none.

        The least of one item is that item, whatever it is; no pass sees through it.
        """
        held = self.emit("val.list", [value], [list_of(PY)], node)[0]
        made = self.emit("val.call", [held], [PY], node, callee="min")[0]
        made.hint = value.hint
        return made

    def check_usable(self, abstract: Abstract, node: ast.AST) -> None:
        """Break where a value is gone, or was changed through another name."""
        if isinstance(abstract, Broken):
            self.fail(node, abstract.reason, abstract.hint)
        if isinstance(abstract, Undefined) and not self.open_loops:
            self.fail(node, f"'{abstract.name}' is read before it is assigned",
                      "assign it on every path that leads here")  # fmt: skip
        for cell in cells_of(abstract):
            if cell in self.store.stale:
                self.fail(node, self.store.stale[cell],
                          "read it by the name that changed it, or copy it before")  # fmt: skip

    def fresh(self, value: Value, kind: Type | None = None, **facts: Any) -> Abstract:
        """Wrap a new object: data that cannot change stays plain, the rest gets a cell."""
        if value.type in IMMUTABLE:
            return Plain(value)
        cell = Cell(kind or value.type, value.hint, **facts)
        self.store.contents[cell] = value
        return Ref(cell)

    def borrowed(self, value: Value, owners: Sequence[Cell]) -> Abstract:
        """Wrap an object that may be part of others."""
        made = self.fresh(value)
        if isinstance(made, Ref):
            for owner in owners:
                self.aliases.inside(made.cell, owner, depth=1, is_taken=True)
                made.cell.take_marks(owner, -1)
                made.cell.from_host = made.cell.from_host or owner.from_host
        return made

    def derived(self, value: Value, sources: Sequence[Abstract], *, shift: int = 0) -> Abstract:
        """Wrap a new container whose members, or theirs, may be members of `sources`."""
        made = self.fresh(value)
        if isinstance(made, Ref):
            for cell in (cell for source in sources for cell in cells_of(source)):
                self.aliases.shares(made.cell, cell, shift=shift)
                made.cell.take_marks(cell, 0, least=1)
        return made

    # Writing.

    def write(self, place: Abstract, value: Value, node: ast.AST) -> None:
        """Give the object at a place a new content, and mark what else may have seen it."""
        self.check_usable(place, node)
        self.check_changeable(place, node)
        self.assign_content(place, value, node)
        root = root_cell(place)
        line = self.locate(node)
        reason = f"this value may have been changed by another name at {line}"
        for cell in self.aliases.affected(root, depth=depth_of(place)):
            if cell in self.store.contents:
                self.store.stale.setdefault(cell, reason)

    def assign_content(self, place: Abstract, value: Value, node: ast.AST) -> None:
        """Store a content, through containers down to the cell."""
        if isinstance(place, Ref):
            value.hint = value.hint or place.cell.hint
            self.store.contents[place.cell] = value
            self.note_progress(node)
            return
        assert isinstance(place, Element)
        outer = self.raw(place.container, node)
        operands = [outer, self.raw(place.index, node), value]
        made, _ = self.emit("val.mutate", operands, [outer.type, PY], node, name="__setitem__")
        self.assign_content(place.container, made, node)

    def check_changeable(self, place: Abstract, node: ast.AST) -> None:
        """Break where an object must not be changed."""
        cell = root_cell(place)
        if cell.external and depth_of(place) >= cell.external_depth:
            self.fail(node, f"this changes {cell.external}", "copy it first: list(x), dict(x)")
        if cell.doubled and depth_of(place) >= cell.doubled_depth:
            self.fail(node, f"this changes {cell.doubled}", "put in copies, or use one name")
        if cell in self.store.frozen:
            self.fail(node, self.store.frozen[cell], "store a copy: list(x), dict(x), s.copy()")

    def mark_called(self, place: Abstract, node: ast.AST) -> None:
        """Mark other names of a state on which a call was counted."""
        reason = f"a call on this state was counted through another name at {self.locate(node)}"
        for cell in self.aliases.affected(root_cell(place), depth=depth_of(place)):
            if cell in self.store.contents:
                self.store.ticked.setdefault(cell, reason)

    def check_callable(self, place: Abstract, node: ast.AST) -> None:
        """Break where the number of calls made on a state is not known."""
        cell = root_cell(place)
        if cell in self.store.ticked:
            self.fail(node, self.store.ticked[cell], "use one name for one state")

    def hold(self, abstract: Abstract, place: Abstract) -> None:
        """Note that the container at a place now holds a value."""
        if kind_of(abstract) == OBJECT:
            return
        container = root_cell(place)
        for cell, depth in held_cells(abstract, depth_of(place) + 1):
            if isinstance(abstract, Element):
                self.aliases.shares(cell, container, shift=depth)
            else:
                self.aliases.inside(cell, container, depth=depth)
            container.take_marks(cell, depth)

    def hold_members(self, abstract: Abstract, place: Abstract) -> None:
        """Note that the container at a place now holds the members of another."""
        container, depth = root_cell(place), depth_of(place)
        for cell in cells_of(abstract):
            if self.aliases.related(cell, container, depth=1):
                container.double("an object that may stand twice in one list", depth + 1)
            self.aliases.shares(cell, container, shift=depth)
            container.take_marks(cell, depth, least=depth + 1)


def kind_of(abstract: Abstract) -> Type:
    """Return the kind of a value, `py` where nothing is known."""
    match abstract:
        case Known(value):
            return type_of_plain(value)
        case Plain(value):
            return value.type
        case Ref(cell):
            return cell.kind
        case Element(kind=kind):
            return kind
        case Called():
            return CALLED
        case Packed(kind=kind):
            return kind
        case Tuple(items) if any(kind_of(item) == OBJECT for item in items):
            return record_of({number: kind_of(item) for number, item in enumerate(items)})
        case _:
            return PY


def is_state(abstract: Abstract) -> bool:
    """Whether a value is a state."""
    return isinstance(abstract, (Ref, Element)) and kind_of(abstract) in (STATE, OBJECT)


def _of_states(kind: Type) -> bool:
    while kind.element is not None:
        kind = kind.element
    return not isinstance(kind, PackedKind)


def describe(abstract: Abstract) -> str:
    """Name a kind of value for people."""
    match abstract:
        case Pieces() | Packed():
            return "an expression of the language"
        case Iterable() | Remaining() | Generator() | Numbered():
            return "an iterator"
        case Called():
            return "the result of a nested program"
        case HostObject(name=name):
            return f"'{name}'"
        case Ref() | Element() if has_states(kind_of(abstract)):
            if is_state(abstract):
                return "a state"
            return f"a collection of {'states' if _of_states(kind_of(abstract)) else 'functions'}"
        case Undefined(name=name):
            return f"'{name}', which has no value yet,"
        case Known() | Plain() | Ref() | Element() | Tuple():
            return "plain data"
        case _:
            return "a function"
