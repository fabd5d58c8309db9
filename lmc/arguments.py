"""A program's arguments from text: `--arg NAME=VALUE` and lines of JSON, checked by annotation."""

import inspect
import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from lmc.argument_types import shown_type
from lmc.codegen.signature import annotation_of
from lmc.errors import UsageError
from lmc.running import bind_arguments
from lmc.sources import read_bytes, read_text

_ANYTHING = (inspect.Parameter.empty, Any, object)
_UNIONS = (typing.Union, types.UnionType)
_LISTS = (list, tuple, set, frozenset, Sequence, Collection, Iterable)


def argument_sets(
    name: str, signature: inspect.Signature, given: Sequence[str], rows: Path | None
) -> list[dict[str, Any]]:
    """Return a program's arguments per run.

    Args:
        name: the program's name.
        signature: its signature, without the state.
        given: texts NAME=VALUE.
        rows: a file with a JSON object of arguments per line and run; those of a line come
            before those given by name. None means one run.

    Raises:
        UsageError: an argument is unknown, missing, given twice, does not parse, or is not
            what the signature declares; names it and its line.
    """
    named: dict[str, Any] = {}
    for text in given:
        key, value = parse_argument(name, signature, text)
        if key in named:
            raise UsageError(f"argument '{key}' is given twice", hint="leave one --arg out")
        named[key] = value
    if rows is None:
        return [bind_arguments(name, signature, (), named)]
    sets: list[dict[str, Any]] = []
    # Only a line feed ends a line of JSON: other separators may stand inside its strings.
    for number, line in enumerate(read_text(rows).removeprefix("\ufeff").split("\n"), 1):
        if line.strip():
            try:
                row = parse_row(signature, line)
                sets.append(bind_arguments(name, signature, (), named | row))
            except UsageError as error:
                message = f"line {number} of {rows}: {error.message}"
                raise UsageError(message, hint=error.hint) from None
    return sets


def parse_row(signature: inspect.Signature, line: str) -> dict[str, Any]:
    """Return the arguments that a line of JSON holds.

    Raises:
        UsageError: it is no JSON object, or a value is not what the signature declares.
    """
    try:
        row: Any = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", hint='write {"name": value, ...}') from None
    if not isinstance(row, dict):
        raise UsageError(
            f"{type(row).__name__} instead of a JSON object", hint='write {"name": value, ...}'
        )
    arguments = cast(dict[str, Any], row)
    for key, value in arguments.items():
        parameter = signature.parameters.get(key)
        if parameter is not None:
            check_value(parameter, value)
    return arguments


def parse_argument(program: str, signature: inspect.Signature, text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE: text, unless the signature declares something else, then JSON.

    A value of the form `@file` is read from the file, `@-` from standard input; `@@` stands
    for a literal `@`. Of an argument annotated as lmc.Image, `@file` gives the file's bytes.

    Raises:
        UsageError: no '=', an unknown name, a file that cannot be read, JSON that does not
            parse, or a value that is not what the signature declares.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--arg {text!r} has no '='", hint="write --arg name=value")
    parameter = signature.parameters.get(name)
    if parameter is None:
        known = ", ".join(signature.parameters) or "no arguments"
        raise UsageError(f"program '{program}' has no argument '{name}'", hint=f"it has: {known}")
    if value.startswith("@@"):
        value = value[1:]
    elif value.startswith("@") and is_image(declared_type(parameter)):
        return name, read_bytes(Path(value[1:]))
    elif value.startswith("@"):
        value = read_text(Path(value[1:]))
    parsed = _value(parameter, value)
    check_value(parameter, parsed)
    return name, parsed


def _value(parameter: inspect.Parameter, text: str) -> Any:
    """Return what a text means for a parameter."""
    declared = declared_type(parameter)
    if declared in (str, Any, object) or _is_plain_text(parameter) or is_image(declared):
        return text
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        if fits(declared, text):
            return text
        raise UsageError(
            f"argument '{parameter.name}' must be {shown_type(declared)}; {text!r:.80} is no JSON",
            hint="""write JSON, quoted for the shell: 'true', '[1, 2]', '{"a": 1}'""",
        ) from None
    # Of `str | None`, 'null' is the None and '5' a text.
    return text if fits(declared, text) and not fits(declared, value) else value


def check_value(parameter: inspect.Parameter, value: Any) -> None:
    """Raise UsageError where a value is not what a parameter declares."""
    declared = declared_type(parameter)
    # A default may be of another type than the annotation says, most often None.
    if fits(declared, value) or (value is None and parameter.default is None):
        return
    shown = json.dumps(value, ensure_ascii=False)
    raise UsageError(f"argument '{parameter.name}' must be {shown_type(declared)}, not {shown:.80}")


def declared_type(parameter: inspect.Parameter) -> Any:
    """Return a parameter's annotation, as a type where its text names one that is known."""
    annotation = parameter.annotation
    return annotation_of(annotation) if isinstance(annotation, str) else annotation


def is_image(declared: Any) -> bool:
    """Whether an annotation says that an argument is an image: lmc.Image, or None beside it."""
    if isinstance(declared, str):
        options = {part.strip() for part in declared.split("|")} - {"None"}
        return options != set() and options <= {"lmc.Image", "sgl.Image", "Image"}
    if typing.get_origin(declared) in _UNIONS:
        inner = [each for each in typing.get_args(declared) if each is not type(None)]
        return len(inner) == 1 and is_image(inner[0])
    return (
        isinstance(declared, type)
        and declared.__name__ == "Image"
        and (declared.__module__ == "lmc.frontend.dsl")
    )


def _is_plain_text(parameter: inspect.Parameter) -> bool:
    """Whether a parameter without an annotation takes text as it is."""
    empty = inspect.Parameter.empty
    is_text = parameter.default is empty or isinstance(parameter.default, str)
    return parameter.annotation is empty and is_text


def fits(declared: Any, value: Any) -> bool:
    """Whether a JSON value may stand for an annotation; True for annotations not known here."""
    if declared in _ANYTHING:
        return True
    if declared is None or declared is type(None):
        return value is None
    if isinstance(declared, type) and declared in _PLAIN:
        return _PLAIN[declared](value)
    origin, inner = typing.get_origin(declared), typing.get_args(declared)
    if origin in _UNIONS:
        return any(fits(each, value) for each in inner)
    if origin is typing.Literal:
        return any(value == each and type(value) is type(each) for each in inner)
    if origin in (dict, Mapping):
        parts = cast(dict[Any, Any], value)
        return isinstance(value, dict) and all(fits(inner[-1], each) for each in parts.values())
    if origin in _LISTS:
        items = [each for each in inner if each is not Ellipsis]
        values = cast(list[Any], value)
        return isinstance(value, list) and all(any(fits(i, v) for i in items) for v in values)
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_PLAIN: dict[type, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and not isinstance(value, bool),
    float: _is_number,
    **{kind: lambda value: isinstance(value, list) for kind in (list, tuple, set, frozenset)},
    dict: lambda value: isinstance(value, dict),
}
"""What JSON values stand for a plain type."""
