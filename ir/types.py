"""Types of IR values and the values that attributes may hold."""

from collections.abc import Iterable
from dataclasses import dataclass

Attr = None | bool | int | float | str | list["Attr"] | tuple["Attr", ...] | dict[str, "Attr"]
"""An attribute: plain data that prints, parses and serialises without loss."""

SCALAR_NAMES = (
    "state",  # a prompt in progress; an ordinary, persistent value
    "text",
    "bool",
    "int",
    "float",
    "none",
    "dict",
    "meta",  # log-probabilities, finish reason and counts of a generation
    "py",  # any Python value: its type is known at run time only
    "effect",  # orders host calls; carries no data
)


@dataclass(frozen=True, slots=True)
class Type:
    """A type, such as `text` or `list<state>`; equal types are equal values."""

    name: str
    element: "Type | None" = None

    def __str__(self) -> str:
        return f"list<{self.element}>" if self.name == "list" else self.name


STATE, TEXT, BOOL, INT, FLOAT, NONE, DICT, META, PY, EFFECT = map(Type, SCALAR_NAMES)


def list_of(element: Type) -> Type:
    """Return the type of lists of `element`."""
    return Type("list", element)


def join_types(types: Iterable[Type]) -> Type:
    """Return the type that covers all of `types`: the common one, else `py`."""
    found = set(types)
    return found.pop() if len(found) == 1 else PY


def type_of(value: object) -> Type:
    """Return the IR type of a Python value."""
    by_class = {str: TEXT, bool: BOOL, int: INT, float: FLOAT, type(None): NONE, dict: DICT}
    if isinstance(value, list):
        return list_of(join_types(type_of(item) for item in value) if value else PY)
    return by_class.get(type(value), PY)


def is_attr(value: object) -> bool:
    """Whether a Python value can stand in an attribute as it is."""
    if value is None or type(value) in (bool, int, float, str):
        return True
    if type(value) in (list, tuple):
        return all(is_attr(item) for item in value)  # type: ignore[union-attr]
    if type(value) is dict:
        return all(type(key) is str and is_attr(item) for key, item in value.items())
    return False
