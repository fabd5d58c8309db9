"""Python types to types of generated values: schemas of classes, literals, enums.

pydantic is not imported; a class that has `model_json_schema` gives its own schema.
"""

import dataclasses
import enum
import json
import types
import typing
from typing import Any

from lmc.errors import UsageError
from lmc.ir.value_types import import_name, is_type

_WORDS = {int: "int", float: "float", bool: "bool", str: "str"}
_SCHEMAS: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
    str: {"type": "string"}, None: {"type": "null"}, type(None): {"type": "null"},
    Any: {}, dict: {"type": "object"}, list: {"type": "array"},
}  # fmt: skip
_SUPPORTED = (
    "use int, float, bool, str, Literal, an Enum, a dataclass, a pydantic model, "
    "or list[...], dict[str, ...], tuple[...] or Optional[...] of these"
)


def type_text(kind: Any) -> str:
    """Return a type in the form that IR carries (see `ir.value_types`).

    Raises:
        UsageError: no value of this type can be generated.
    """
    if isinstance(kind, str):
        if not is_type(kind):
            raise UsageError(f"gen cannot make a value of type {kind!r:.80}", hint=_SUPPORTED)
        return kind
    try:
        if kind in _WORDS:
            return _WORDS[kind]
    except TypeError:
        pass
    if typing.get_origin(kind) is typing.Literal:
        return _dump({"literal": _bare(typing.get_args(kind))})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _dump({"enum": import_name(kind), "literal": _bare([m.value for m in kind])})
    return _dump({**_reading(kind), "schema": _schema_text(schema_of(kind))})


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON schema of a type: a class, or what is built of classes.

    Raises:
        UsageError: no value of this type can be generated.
    """
    definitions: dict[str, Any] = {}
    schema = _schema(kind, definitions)
    return {**schema, "$defs": definitions} if definitions else schema


def _schema_text(schema: Any) -> str:
    try:
        return json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"json_schema is not JSON: {error}") from None


def _dump(spec: dict[str, Any]) -> str:
    return json.dumps(spec, separators=(",", ":"))


def _bare(values: Any) -> list[Any]:
    """Return constants that differ in their bare texts."""
    found = list(values)
    for value in found:
        if not isinstance(value, (str, int, type(None))) or isinstance(value, enum.Enum):
            raise UsageError(f"{value!r:.80} cannot be generated bare", hint="use str, int or bool")
    texts = [str(value) for value in found]
    if len(set(texts)) != len(texts) or "" in texts or not texts:
        raise UsageError(
            f"the options {found!r:.120} cannot be told apart by their texts",
            hint="make them differ, and not empty",
        )
    return found


def _reading(kind: Any) -> dict[str, Any]:
    """Return how a value of a type is read from JSON."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and not _is_json(inner[0]):
        return {"list": _reading(inner[0])}
    if _is_union(origin):
        others = [part for part in inner if part is not type(None)]
        if len(others) == 1 and not _is_json(others[0]):
            return {"optional": _reading(others[0])}
    if isinstance(kind, type) and not _is_json(kind):
        form = "enum" if issubclass(kind, enum.Enum) else "class"
        return {form: import_name(kind)}
    if not _is_json(kind):
        raise UsageError(
            f"gen cannot make a value of type {kind!r:.80} by itself",
            hint="make it a field of a dataclass or a pydantic model",
        )
    return {"json": True}


def _is_union(origin: Any) -> bool:
    return origin in (typing.Union, types.UnionType)


def _is_json(kind: Any) -> bool:
    """Return whether values of a type are what json reads, without a class."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return True
    if origin in (list, dict) or _is_union(origin):
        return all(_is_json(part) for part in inner)
    try:
        return kind in _SCHEMAS
    except TypeError:
        return False


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; classes go to the definitions."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _schema(inner[0], definitions)
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if _is_union(origin):
        return {"anyOf": [_schema(part, definitions) for part in inner]}
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    if origin is dict and inner[0] is str:
        return {"type": "object", "additionalProperties": _schema(inner[1], definitions)}
    if origin is tuple:
        return _tuple(inner, definitions)
    try:
        if kind in _SCHEMAS:
            return dict(_SCHEMAS[kind])
    except TypeError:
        pass
    if isinstance(kind, type):
        return _class(kind, definitions)
    raise UsageError(f"gen cannot make a value of type {kind!r:.80}", hint=_SUPPORTED)


def _tuple(inner: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _schema(inner[0], definitions)}
    parts = [_schema(part, definitions) for part in inner]
    size = {"minItems": len(parts), "maxItems": len(parts)}
    return {"type": "array", "prefixItems": parts, "items": False, **size}


def _class(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    name = f"{kind.__module__}.{kind.__qualname__}".replace("~", "_").replace("/", "_")
    if name not in definitions:
        definitions[name] = {}  # a class that holds itself refers to this entry
        definitions[name] = _definition(kind, name)(kind, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _definition(kind: type, name: str) -> Any:
    if hasattr(kind, "model_json_schema"):
        return _model
    if dataclasses.is_dataclass(kind):
        return _dataclass
    raise UsageError(f"gen cannot make a value of class {name!r}", hint=_SUPPORTED)


def _model(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a pydantic model's schema, its own definitions moved up."""
    prefix = f"{kind.__module__}.{kind.__qualname__}:"
    text = json.dumps(kind.model_json_schema())
    schema = json.loads(text.replace('"#/$defs/', f'"#/$defs/{prefix}'))
    for name, part in schema.pop("$defs", {}).items():
        definitions[prefix + name] = part
    return schema


def _dataclass(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"a field of {kind.__qualname__} has a type that is not known: {error}",
            hint="define the type at module level",
        ) from None
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    required = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    return {
        "type": "object",
        "properties": {field.name: _schema(hints[field.name], definitions) for field in fields},
        "required": required,
        "additionalProperties": False,
    }
