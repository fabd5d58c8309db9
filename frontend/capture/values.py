"""What an expression of a program can be while its source is walked.

Plain data that cannot change is an SSA value (`Plain`) or a constant (`Known`). Whatever Python
could change in place (states, lists, dicts, values of unknown kind) lives in a `Cell`, and names
refer to the cell, so that two names for one object stay two names for one object.
"""

import ast
import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lmc.ir.core import Value
from lmc.ir.types import BOOL, DICT, FLOAT, INT, NONE, PY, STATE, TEXT, Type, list_of

if TYPE_CHECKING:
    from lmc.frontend.capture.frame import Frame

VOID = Type("void")
"""Element kind of a container that has been empty so far."""

GROUP = Type("group", STATE)
"""Kind of what a fork gives: a list of states that knows `+=` for all and `join`."""

OBJECT = Type("object")
"""Kind of a state that is known by its number (see `indexed`)."""

FAMILY = Type("family", OBJECT)
"""Kind of what a fork gives where states are known by number."""

CALLED = Type("called")
"""Kind of what a nested program gives: its final state and its return value."""

IMMUTABLE = (TEXT, BOOL, INT, FLOAT, NONE)


@dataclass(frozen=True, slots=True)
class PackedKind(Type):
    """Kind of functions and pieces of the language of which it is open which one it is."""

    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordKind(Type):
    """Kind of tuples, and of dicts with constant keys, that hold states beside plain data."""

    fields: tuple[tuple[int | str, Type], ...] = ()

    def field(self, key: Any) -> Type | None:
        """Return the kind of a field, None where there is no such field."""
        found = [kind for name, kind in self.fields if name == key and type(name) is type(key)]
        return found[0] if found else None

    def with_field(self, key: int | str, kind: Type) -> "RecordKind":
        """Return the kind with another kind in a field, or one field more."""
        fields = dict(self.fields) | {key: kind}
        return RecordKind("record", fields=tuple(fields.items()))


def record_of(fields: dict[Any, Type]) -> RecordKind:
    """Return the kind of records with these fields."""
    return RecordKind("record", fields=tuple(fields.items()))


def dict_of(element: Type) -> Type:
    """Return the kind of dicts whose values capture follows (states among them)."""
    return Type("dict", element)


def has_states(kind: Type) -> bool:
    """Whether values of a kind are or hold states, or functions and pieces of the language."""
    if kind in (STATE, CALLED, OBJECT) or isinstance(kind, (PackedKind, RecordKind)):
        return True
    return kind.element is not None and has_states(kind.element)


def ir_type(kind: Type) -> Type:
    """Return the IR type that stands for a kind."""
    if kind.name == "dict":
        return DICT
    if kind == GROUP:
        return list_of(STATE)
    if kind == OBJECT:
        return INT
    if kind in (CALLED, VOID, FAMILY) or isinstance(kind, (PackedKind, RecordKind)):
        return PY
    if kind.name == "list" and kind.element is not None:
        return list_of(ir_type(kind.element))
    return kind


def plain_list(kind: Type) -> Type:
    """Return the kind of a new list with the members of another."""
    if kind == FAMILY:
        return list_of(OBJECT)
    return list_of(STATE) if kind == GROUP else kind


def join_kinds(left: Type, right: Type) -> Type | None:
    """Return the kind that covers both; None where a state would meet something else."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    if isinstance(left, PackedKind) and isinstance(right, PackedKind):
        return PackedKind("packed", ids=tuple(sorted({*left.ids, *right.ids})))
    if isinstance(left, RecordKind) and isinstance(right, RecordKind):
        return _join_records(left, right)
    if left.name == right.name and left.element and right.element:
        element = join_kinds(left.element, right.element)
        return None if element is None else Type(left.name, element)
    if has_states(left) or has_states(right):
        return None
    return DICT if left.name == right.name == "dict" else PY


def _join_records(left: RecordKind, right: RecordKind) -> Type | None:
    if [key for key, _ in left.fields] != [key for key, _ in right.fields]:
        return None
    fields = {key: join_kinds(kind, right.field(key) or VOID) for key, kind in left.fields}
    known = {key: kind for key, kind in fields.items() if kind is not None}
    return record_of(known) if len(known) == len(fields) else None


@dataclass(eq=False, slots=True)
class Cell:
    """One object of the program that can change; its content is the latest SSA value.

    `external` says why objects in it must not be changed (they belong to somebody else): those
    `external_depth` levels down and deeper, where 0 is the object itself. `doubled` and
    `doubled_depth` say the like of objects that may stand twice below. A defaultdict
    `makes_items` when it is read. The children of a
    fork know their `parent`, the state that they came from.
    """

    kind: Type
    hint: str = ""
    external: str | None = None
    external_depth: int = 0
    doubled: str | None = None
    doubled_depth: int = 0
    from_host: bool = False
    makes_items: bool = False
    parent: "Ref | Element | None" = None

    def bar(self, reason: str | None, depth: int) -> None:
        """Note that objects at a depth and below must not be changed."""
        if reason and (self.external is None or depth < self.external_depth):
            self.external, self.external_depth = reason, depth

    def double(self, reason: str | None, depth: int) -> None:
        """Note that one object may stand twice at a depth or below."""
        if reason and (self.doubled is None or depth < self.doubled_depth):
            self.doubled, self.doubled_depth = reason, depth

    def take_marks(self, other: "Cell", shift: int, *, least: int = 0) -> None:
        """Take over what another cell knows of objects that lie `shift` levels deeper here."""
        self.bar(other.external, max(least, other.external_depth + shift))
        self.double(other.doubled, max(1, least, other.doubled_depth + shift))

    def __repr__(self) -> str:
        return f"Cell({self.kind}, {self.hint!r})"


class Abstract:
    """Something that a name can be bound to."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Known(Abstract):
    """A constant: None, bool, int, float or str."""

    value: Any


@dataclass(frozen=True, slots=True)
class Plain(Abstract):
    """Data that cannot change in place."""

    value: Value


@dataclass(frozen=True, slots=True)
class Ref(Abstract):
    """A reference to a cell."""

    cell: Cell


@dataclass(frozen=True, slots=True)
class Element(Abstract):
    """A reference to the object in a slot of a container that capture follows."""

    container: "Ref | Element"
    index: Known | Plain
    kind: Type


@dataclass(frozen=True, slots=True)
class Tuple(Abstract):
    """A tuple of known length."""

    items: tuple[Abstract, ...]


@dataclass(frozen=True, slots=True)
class Called(Abstract):
    """What a nested program gave: its final state, and its return value."""

    state: "Ref"
    value: Abstract


@dataclass(frozen=True, slots=True)
class Undefined(Abstract):
    """A name that no path so far has assigned."""

    name: str


@dataclass(frozen=True, slots=True)
class Broken(Abstract):
    """A name whose value capture lost; reading it is a graph break for this reason."""

    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Iterable(Abstract):
    """Items to loop over, and how a loop's item value becomes what Python's item is.

    `watched` are the cells whose length must not change meanwhile. `is_once` marks iterators,
    which a second loop would find empty.
    """

    items: Value
    bind: Callable[[Value], Abstract]
    watched: tuple[Cell, ...] = ()
    is_once: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Remaining(Abstract):
    """An iterator under a name: the items that are left, and what each of them stands for."""

    left: Ref
    over: Iterable


@dataclass(frozen=True, slots=True, eq=False)
class Generator(Abstract):
    """A generator expression or function, not begun; `first` is what an expression goes over."""

    node: ast.AST
    frame: "Frame"
    first: Abstract | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Numbered(Abstract):
    """The items of an iterator or generator with their numbers."""

    inner: Abstract
    start: Abstract


LAZY = (Iterable, Remaining, Generator, Numbered)
"""What gives its items one by one, once."""


@dataclass(frozen=True, slots=True)
class Pieces(Abstract):
    """An expression of the language that waits to be appended to a state."""

    parts: tuple["Piece", ...]

    def calls(self) -> "list[Piece]":
        """Return the generations and choices in it, those of all options."""
        own = [part for part in self.parts if part.kind in ("gen", "select")]
        inner = (option for part in self.parts for option in part.options)
        return [*own, *(call for option in inner for call in option.calls())]

    def values(self) -> list[Value]:
        """Return the SSA values in it."""
        return [value for part in self.parts for value in part.values()]

    def with_values(self, values: Iterator[Value]) -> "Pieces":
        """Return the same with other SSA values."""
        return Pieces(tuple(part.with_values(values) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of `Pieces`: 'text', 'media', 'gen', 'select', 'begin', 'end', 'control' or
    'either'.

    `serial` tells unnamed calls apart that are read by their expression. An 'either' is
    what the first of `options` says where `test` holds, else what the second says.
    """

    kind: str
    node: ast.expr
    text: Value | None = None
    word: str = ""
    name: "str | Value | None" = None
    params: tuple[tuple[str, Any], ...] = ()
    dynamic: tuple[tuple[str, Value], ...] = ()
    choices: Value | None = None
    reasoning: str = ""
    serial: int = 0
    append: bool = False
    test: Value | None = None
    options: tuple["Pieces", ...] = ()

    def values(self) -> list[Value]:
        """Return the SSA values in it, in the order in which `with_values` takes them."""
        found = [self.text, self.name, *(value for _, value in self.dynamic), self.choices]
        own = [value for value in (*found, self.test) if isinstance(value, Value)]
        return [*own, *(value for option in self.options for value in option.values())]

    def with_values(self, values: Iterator[Value]) -> "Piece":
        """Return the same with other SSA values."""

        def new(old: Any) -> Any:
            return next(values) if isinstance(old, Value) else old

        return replace(
            self,
            text=new(self.text),
            name=new(self.name),
            dynamic=tuple((key, next(values)) for key, _ in self.dynamic),
            choices=new(self.choices),
            test=new(self.test),
            options=tuple(option.with_values(values) for option in self.options),
        )


@dataclass(frozen=True, slots=True)
class Word(Abstract):
    """A function of the language, such as `gen`."""

    name: str


@dataclass(frozen=True, slots=True)
class Builtin(Abstract):
    """A function of `ir.evaluate.FUNCTIONS`, or a builtin that capture itself knows."""

    name: str


@dataclass(frozen=True, slots=True)
class ProgramRef(Abstract):
    """Another program; `is_run` for its method `run`."""

    program: Any


@dataclass(frozen=True, slots=True)
class HostObject(Abstract):
    """A live object of the program's module: a function, class, module or instance."""

    obj: Any
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Closure(Abstract):
    """A function or lambda written inside a captured function."""

    node: ast.FunctionDef | ast.Lambda
    frame: "Frame"
    defaults: tuple[Abstract, ...] = ()
    keyword_defaults: tuple[Abstract | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Packed(Abstract):
    """A function or pieces of the language, one of some templates (see `packed`)."""

    kind: PackedKind
    value: Value


@dataclass(frozen=True, slots=True)
class TypeOf(Abstract):
    """The class of a value, known by its name."""

    name: Value


@dataclass(frozen=True, slots=True, eq=False)
class Partial(Abstract):
    """What functools.partial gives: a function, and arguments that it is called with."""

    function: Abstract
    arguments: tuple[Abstract, ...]
    keywords: dict[str, Abstract]


def is_opaque(value: Abstract) -> bool:
    """Whether something is no data: a function, a live object, pieces of the language."""
    if isinstance(value, HostObject):
        return not isinstance(value.obj, enum.Enum)
    return isinstance(value, (Pieces, Builtin, Closure, Word, ProgramRef, Packed))


@dataclass(frozen=True, slots=True)
class Method(Abstract):
    """An attribute of something, looked up to be called."""

    receiver: Abstract
    name: str
    node: ast.expr = field(compare=False)


def same(left: Abstract, right: Abstract) -> bool:
    """Whether two abstract values are surely one and the same."""
    if type(left) is not type(right):
        return False
    if isinstance(left, Known):
        assert isinstance(right, Known)
        return type(left.value) is type(right.value) and repr(left.value) == repr(right.value)
    if isinstance(left, HostObject):
        assert isinstance(right, HostObject)
        return left.obj is right.obj
    if isinstance(left, Tuple):
        assert isinstance(right, Tuple)
        return len(left.items) == len(right.items) and all(map(same, left.items, right.items))
    if isinstance(left, Called):
        assert isinstance(right, Called)
        return same(left.state, right.state) and same(left.value, right.value)
    if isinstance(left, Element):
        assert isinstance(right, Element)
        return same(left.container, right.container) and same(left.index, right.index)
    if isinstance(left, (Undefined, Broken)):
        return True
    if isinstance(left, Closure):
        assert isinstance(right, Closure)
        return left.node is right.node and left.frame is right.frame
    return left == right


def type_of_plain(value: Any) -> Type:
    """Return the IR type of a constant."""
    table = {str: TEXT, bool: BOOL, int: INT, float: FLOAT, type(None): NONE}
    return table[type(value)]
