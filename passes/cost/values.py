"""Plain values as the cost analysis knows them: known, one of a few, or bounded in size.

Size is the number of tokens that the value can add to a prompt: itself as a text, or any text in
it. Known text has at most as many as it has bytes. What `str()` writes is `written_size`.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

MAX_CHOICES = 16
"""How many alternatives of a value, or of a text built of values, are followed one by one."""

NUMBER_SIZE = 32
"""More tokens than a float or a count takes when it is written."""


@dataclass(frozen=True, slots=True)
class Known:
    """A value that is known."""

    value: Any


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few known values."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Any value of at most `size` tokens; values that are equal here are the same at run time."""

    size: float
    serial: int
    is_text: bool = False
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text put together of texts, of which some are not known."""

    parts: tuple[Known | OneOf | Unknown, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list or tuple of known length; items may be prompt states.

    `size`, `ready` (deep_ready) and `plain` (plain_ready) are those of the items, and `options`
    the lists that there may be (None where they are not known), kept since one item may lie in
    many lists, and lists in each other.
    """

    items: tuple["Abstract", ...]
    is_tuple: bool = False
    size: float = field(init=False, compare=False)
    ready: float = field(init=False, compare=False)
    plain: float = field(init=False, compare=False)
    options: tuple[Any, ...] | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kind = tuple if self.is_tuple else list
        rows = product(alternatives(item.value) for item in self.items)
        options = None if rows is None else tuple(kind(row) for row in rows)
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "size", _greatest_size(self.items))
        object.__setattr__(self, "ready", max(map(deep_ready, self.items), default=0))
        object.__setattr__(self, "plain", max(map(plain_ready, self.items), default=0))


@dataclass(frozen=True, slots=True)
class Table:
    """A dict whose keys are known; values may be prompt states. What is kept is as in Items."""

    entries: tuple[tuple[Any, "Abstract"], ...]
    size: float = field(init=False, compare=False)
    ready: float = field(init=False, compare=False)
    plain: float = field(init=False, compare=False)

    def __post_init__(self) -> None:
        values = [value for _, value in self.entries]
        object.__setattr__(self, "size", _greatest_size(values))
        object.__setattr__(self, "ready", max(map(deep_ready, values), default=0))
        object.__setattr__(self, "plain", max(map(plain_ready, values), default=0))

    def get(self, key: Any) -> "Abstract | None":
        """Return the value of a key."""
        return next((value for held, value in self.entries if held == key), None)

    def set(self, key: Any, value: "Abstract") -> "Table":
        """Return the dict with a key set; a new one comes last."""
        if self.get(key) is None:
            return Table((*self.entries, (key, value)))
        return Table(tuple((k, value if k == key else v) for k, v in self.entries))


@dataclass(frozen=True, slots=True)
class Abstract:
    """A value, and after how many decode steps it is known at the latest."""

    value: Any  # Known | OneOf | Unknown | Spelled | Items | AbstractPrompt
    ready: float = 0


class Serials:
    """Numbers for things that are told apart by identity."""

    def __init__(self) -> None:
        self._next = itertools.count()

    def unknown(self, size: float, *, is_text: bool = False, is_number: bool = False) -> Unknown:
        """Return a new unknown value of at most `size` tokens."""
        return Unknown(size, next(self._next), is_text, is_number)

    def next(self) -> int:
        """Return a number that was not given before."""
        return next(self._next)


def alternatives(value: Any) -> tuple[Any, ...] | None:
    """Return the values that an abstract value may have; None where they are not known."""
    match value:
        case Known(value=held):
            return (held,)
        case OneOf(values=held):
            return held
        case Items(options=options):
            return options
        case _:
            return None


def product(options: Iterable[tuple[Any, ...] | None]) -> list[tuple[Any, ...]] | None:
    """Return all combinations; None where an operand is not known or they are too many."""
    count, known = 1, list[tuple[Any, ...]]()
    for option in options:
        if option is None or (count := count * len(option)) > MAX_CHOICES:
            return None
        known.append(option)
    return list(itertools.product(*known))


def one_of(values: Iterable[Any], serials: Serials) -> Any:
    """Return what is known of a value that is one of some; equal ones count once."""
    kept: list[Any] = []
    for value in values:
        if not any(type(value) is type(other) and value == other for other in kept):
            kept.append(value)
    if len(kept) == 1:
        return Known(kept[0])
    if 1 < len(kept) <= MAX_CHOICES:
        return OneOf(tuple(kept))
    return serials.unknown(
        max(map(size_of_known, kept), default=0),
        is_text=all(isinstance(value, str) for value in kept),
        is_number=all(isinstance(value, (int, float)) for value in kept),
    )


def size_of(value: Any) -> float:
    """Return the greatest number of tokens that a value can add to a prompt."""
    match value:
        case Known(value=held):
            return size_of_known(held)
        case OneOf(values=held):
            return max(map(size_of_known, held))
        case Unknown(size=size):
            return size
        case Spelled(parts=parts):
            return sum(map(size_of, parts))
        case Items(size=size) | Table(size=size):
            return size
        case _:
            return math.inf


def _greatest_size(values: Iterable["Abstract"]) -> float:
    return max((size_of(value.value) for value in values), default=0)


def written_size(value: Any) -> float:
    """Return the greatest number of tokens of a value written by `str`; lists quote their texts."""
    match value:
        case Unknown(size=size) if value.is_text or value.is_number:
            return size
        case Items(items=items):
            inner = [item.value for item in items]
            is_numbers = all(isinstance(each, Unknown) and each.is_number for each in inner)
            return sum(map(written_size, inner)) + 2 * len(inner) + 2 if is_numbers else math.inf
        case Known() | OneOf() | Spelled():
            return size_of(value)
        case _:
            return math.inf


def is_text_like(value: Any) -> bool:
    """Whether a value is certainly a text."""
    if isinstance(value, OneOf):
        return all(isinstance(each, str) for each in value.values)
    if isinstance(value, Known):
        return isinstance(value.value, str)
    return isinstance(value, Spelled) or (isinstance(value, Unknown) and value.is_text)


def size_of_known(value: Any) -> float:
    """Return the bytes of a known value written as text."""
    return len(str(value).encode("utf-8", "surrogatepass"))


def deep_ready(given: Abstract) -> float:
    """Return after how many steps a value and all that it holds are known."""
    if isinstance(given.value, (Items, Table)):
        return max(given.ready, given.value.ready)
    return given.ready


def plain_ready(given: Abstract) -> float:
    """Return after how many steps a value is there for an expression.

    So are all plain values that it holds. Of a state only the handle is needed.
    """
    value = given.value
    if isinstance(value, (Items, Table)):
        return max(given.ready, value.plain)
    if isinstance(value, (Known, OneOf, Unknown, Spelled)):
        return given.ready
    return value.handle


def items_of(value: Any) -> tuple[Abstract, ...] | None:
    """Return the items of a list, tuple or text of known length."""
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Table):
        return tuple(Abstract(Known(key)) for key, _ in value.entries)
    if isinstance(value, Known) and isinstance(value.value, (list, tuple, str, dict, range)):
        return tuple(Abstract(Known(item)) for item in value.value)
    return None
