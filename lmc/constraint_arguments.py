"""Arguments of lmc.Constraint: what is of a wrong kind is told before anything is compiled."""

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, cast

from lmc.errors import ConstraintError, UsageError


def text_of(value: Any, what: str, example: str) -> str:
    """Return a text that UTF-8 can spell.

    Raises:
        ConstraintError: it is none.
    """
    if not isinstance(value, str):
        raise ConstraintError(f"{what} is a text, not {type(value).__name__}", hint=example)
    half = next((i for i, char in enumerate(value) if "\ud800" <= char <= "\udfff"), None)
    if half is not None:
        raise ConstraintError(
            f"{what} holds half a surrogate pair at position {half}",
            hint="decode bytes with errors='replace' before they reach a constraint",
            position=half,
        )
    return value


def option_texts(texts: Any) -> list[str]:
    """Return the texts of choices.

    Raises:
        ConstraintError: there are none, or something else than texts.
    """
    options = listed(texts)
    if isinstance(texts, str) or not options or not all(isinstance(t, str) for t in options):
        raise ConstraintError(
            "choices need a list of texts, at least one", hint='choices(["yes", "no"])'
        )
    return options


def tag_dicts(tags: Any) -> list[dict[str, Any]]:
    """Return the dicts of structural tags.

    Raises:
        ConstraintError: they are no list of dicts.
    """
    found = [] if isinstance(tags, Mapping) else listed(tags)
    if isinstance(tags, (str, Mapping)) or not all(isinstance(tag, Mapping) for tag in found):
        raise ConstraintError("tags are a list of dicts", hint="see docs/constraints.md")
    return [dict(tag) for tag in found]


def check_schema_options(open_objects: Any, max_depth: Any) -> None:
    """Refuse options of a schema of a wrong kind.

    Raises:
        UsageError: one of them is.
    """
    if max_depth is not None and (type(max_depth) is not int or max_depth < 1):
        raise UsageError(f"max_depth={max_depth!r} is no count", hint="a whole number above 0")
    if not isinstance(open_objects, bool):
        raise UsageError(
            f"open_objects={open_objects!r} is no truth value", hint="use True or False"
        )


def end_ids(given: Any) -> frozenset[int]:
    """Return the ids of tokens that end a text.

    Raises:
        UsageError: they are no list of ids.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"eos_token_ids={given!r} is no list of ids", hint="eos_token_ids=[2]")
    return frozenset(whole_number(i, "a token id", "eos_token_ids=[2]") for i in listed(given))


def listed(given: Any) -> list[Any]:
    """Return what something holds; nothing where it cannot be gone through."""
    return list(cast(Iterable[Any], given)) if isinstance(given, Iterable) else []


def whole_number(value: Any, what: str, hint: str) -> int:
    """Return an integer, of Python or another package.

    Raises:
        UsageError: it is none.
    """
    try:
        return index(value)
    except TypeError as error:
        raise UsageError(f"{what} is an integer, not {value!r}", hint=hint) from error
