"""Types of generated values: what the text must be, and how the value is read from it.

A type is a word (`int`, `float`, `bool`, `str`) or a JSON text that says the constraint and
the reading, so that it can stand in IR and in artifacts:

    {"json": true, "schema": {...}}                 any JSON value of a schema
    {"literal": ["yes", "no"]}                      one of some constants, written bare
    {"enum": "module:Name", "literal": [...]}       a member by its value, written bare
    {"class": "module:Name", "schema": {...}}       a class, written as JSON
    {"list": <type without schema>, "schema": ...}  and "optional" likewise

Classes are found by import name; those of the running process need not be importable.
"""

import dataclasses
import enum
import importlib
import json
import re
import types
import typing
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from lmc.errors import RunError, UsageError
from lmc.ir.calls import Constraint
from lmc.ir.expressions import TYPE_REGEX

_LIVE: dict[str, type] = {}
_BOOLS = {"True": True, "False": False}
_READERS: dict[str, Callable[[str], Any]] = {
    "int": int, "float": float, "bool": _BOOLS.__getitem__, "str": str,
}  # fmt: skip
_FORMS = ("json", "literal", "enum", "class", "list", "optional")


def import_name(kind: type) -> str:
    """Return 'module:qualname' of a class, and remember the class under it."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    _LIVE[name] = kind
    return name


def find_class(name: str) -> type:
    """Return the class of an import name.

    Raises:
        RunError: it cannot be imported.
    """
    if name not in _LIVE:
        module, _, path = name.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for part in path.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise RunError(
                f"the class {name!r} of a generated value cannot be imported: {error}",
                hint="install its module, or put its folder on the path",
            ) from error
        _LIVE[name] = found
    return _LIVE[name]


@lru_cache(maxsize=1024)
def _spec(text: str) -> dict[str, Any] | None:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_known = isinstance(spec, dict) and sum(form in spec for form in _FORMS) >= 1
    return spec if is_known and ("schema" in spec or "literal" in spec) else None


def is_type(value: object) -> bool:
    """Return whether a value names a type of generated values."""
    if not isinstance(value, str):
        return False
    return value in _READERS or (value.startswith("{") and _spec(value) is not None)


def constraint_of(text: str) -> Constraint | None:
    """Return what the text of a type must be; None for plain text."""
    if text in TYPE_REGEX:
        return Constraint("regex", TYPE_REGEX[text])
    spec = _spec(text) if text.startswith("{") else None
    if spec is None:
        return None
    if "schema" in spec:
        return Constraint("json_schema", spec["schema"])
    return Constraint("regex", "|".join(re.escape(str(value)) for value in spec["literal"]))


def label(text: str) -> str:
    """Return a type's name for messages."""
    spec = _spec(text) if text.startswith("{") else None
    if spec is None:
        return text
    name = str(spec.get("enum") or spec.get("class") or "").rpartition(":")[2]
    return name or next(form for form in _FORMS if form in spec)


def class_names(text: object) -> list[str]:
    """Return the import names of the classes that reading a type needs."""
    spec = _spec(text) if isinstance(text, str) and text.startswith("{") else None
    return [] if spec is None else sorted(set(_classes(spec)))


def _classes(spec: dict[str, Any]) -> Iterator[str]:
    for form in ("enum", "class"):
        if form in spec:
            yield spec[form]
    for form in ("list", "optional"):
        if isinstance(spec.get(form), dict):
            yield from _classes(spec[form])


def read_typed(text_type: str, text: str) -> Any:
    """Return the value that a complete text stands for.

    Raises:
        RunError: a class refuses the value, or cannot be imported.
        ValueError, KeyError: the text is not of the type.
    """
    if text_type in _READERS:
        return _READERS[text_type](text)
    spec = _spec(text_type)
    if spec is None:
        raise ValueError(text_type)
    if "schema" not in spec:
        value = {str(value): value for value in spec["literal"]}[text]
        return find_class(spec["enum"])(value) if "enum" in spec else value
    try:
        return _read(spec, json.loads(text))
    except (TypeError, ValueError) as error:
        raise RunError(f"{label(text_type)} refuses the value {text!r:.200}: {error}") from error


def _read(spec: dict[str, Any], value: Any) -> Any:
    if "optional" in spec:
        return None if value is None else _read(spec["optional"], value)
    if "list" in spec:
        return [_read(spec["list"], item) for item in value]
    for form in ("class", "enum"):
        if form in spec:
            return from_json(find_class(spec[form]), value)
    return value


def from_json(hint: Any, value: Any) -> Any:
    """Return a JSON value as a value of an annotated type.

    Raises:
        TypeError, ValueError: it is none.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return from_json(inner[0], value)
    if origin in (typing.Union, types.UnionType):
        return _first_fit(inner, value)
    if origin is list:
        return [from_json(inner[0], item) for item in value]
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(from_json(kind, item) for kind, item in zip(kinds, value, strict=True))
    if origin is dict:
        return {name: from_json(inner[1], item) for name, item in value.items()}
    if origin is typing.Literal:
        if value not in inner:
            raise ValueError(f"{value!r} is none of {inner}")
        return value
    return _plain(hint, value)


def _plain(hint: Any, value: Any) -> Any:
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise TypeError(f"{value!r:.80} is no object")
        hints = typing.get_type_hints(hint, include_extras=True)
        return hint(**{name: from_json(hints[name], item) for name, item in value.items()})
    if hint in (None, type(None)):
        if value is not None:
            raise TypeError(f"{value!r:.80} is not null")
        return None
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if hint is float and type(value) is int:
        return float(value)
    if hint in (int, float, str, bool) and type(value) is not hint:
        raise TypeError(f"{value!r:.80} is no {hint.__name__}")
    return value


def _first_fit(kinds: tuple[Any, ...], value: Any) -> Any:
    errors: list[str] = []
    for kind in kinds:
        try:
            return from_json(kind, value)
        except (TypeError, ValueError, UsageError) as error:
            errors.append(str(error))
    raise ValueError("; ".join(errors))
