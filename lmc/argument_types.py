"""Whether values given in Python are of the kinds that a program's signature declares."""

import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, cast

from lmc.codegen.signature import annotation_of
from lmc.errors import UsageError

_UNIONS = (typing.Union, types.UnionType)
_TEXTS = (str, bytes, bytearray)


def check_arguments(
    name: str, signature: inspect.Signature, given: Mapping[str, Any], place: str = ""
) -> None:
    """Raise UsageError for an argument that is certainly not what its annotation says.

    Only plain annotations are looked at, and in favour of the value: an int stands for a
    float, numbers of other packages for Python's, a tuple for a list. `place` begins the
    message.
    """
    for key, value in given.items():
        parameter = signature.parameters.get(key)
        if parameter is None or value is parameter.default:
            continue
        declared = parameter.annotation
        declared = annotation_of(declared) if isinstance(declared, str) else declared
        if not suits(declared, value):
            kind = type(value).__name__
            raise UsageError(
                f"{place}program '{name}': argument '{key}' must be {shown_type(declared)}, "
                f"not {kind}: {value!r:.60}",
                hint="give another value, or change the annotation",
            )


def shown_type(declared: Any) -> str:
    """Return an annotation as it is written in source."""
    return declared if isinstance(declared, str) else inspect.formatannotation(declared)


def suits(declared: Any, value: Any) -> bool:
    """Whether a value may be meant by an annotation; True where that cannot be told."""
    if declared is None or declared is type(None):
        return value is None
    if isinstance(declared, type) and declared in _PLAIN:
        return _PLAIN[declared](value)
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _UNIONS:
        return any(suits(each, value) for each in inner)
    if origin is typing.Literal:
        return any(value == each for each in inner)
    if origin in (list, set, frozenset, tuple):
        return _PLAIN[origin](value) and _suit_items(origin, inner, value)
    if origin is dict or origin is Mapping:
        return _is_mapping(value)
    return True


def _suit_items(origin: Any, inner: Sequence[Any], value: Any) -> bool:
    """Whether the items of a list or tuple suit; those of others are not looked at."""
    if not isinstance(value, (list, tuple)) or (origin is tuple and Ellipsis not in inner):
        return True
    return all(suits(inner[0], item) for item in cast("Sequence[Any]", value))


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") or _is_whole(value)


def _is_flag(value: Any) -> bool:
    return not (value is None or isinstance(value, (*_TEXTS, float, list, tuple, dict)))


def _is_listing(value: Any) -> bool:
    if value is None or isinstance(value, (*_TEXTS, Mapping)):
        return False
    # An array of another package has a length, and may be read as a number too.
    return hasattr(value, "__len__") or not _is_number(value)


def _is_mapping(value: Any) -> bool:
    return not (value is None or isinstance(value, (*_TEXTS, list, tuple, Set, int, float)))


_PLAIN: dict[type, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    int: _is_whole,
    float: _is_number,
    bool: _is_flag,
    list: _is_listing,
    tuple: _is_listing,
    set: _is_listing,
    frozenset: _is_listing,
    dict: _is_mapping,
}
"""What may stand for a plain type."""
