"""Arguments of the ops that call a function: positional ones, named ones, spread ones."""

from collections.abc import Sequence
from typing import Any

from lmc.errors import RunError

SPREAD = ("*", "**")
"""Names in `keywords` of operands that are spread: a list of positional arguments, which come
after those that have no name, and a dict of named ones."""


def call_arguments(names: Sequence[str], values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and the named arguments that a call's operands stand for.

    Args:
        names: the op's `keywords`, which name the last operands.
        values: the operands.

    Raises:
        RunError: an argument is named twice, or by something that is no text.
    """
    split = len(values) - len(names)
    positional, keywords = list(values[:split]), {}
    for name, value in zip(names, values[split:], strict=True):
        if name == "*":
            positional += value
            continue
        for key, item in value.items() if name == "**" else ((name, value),):
            if not isinstance(key, str):
                raise RunError("TypeError: keywords must be strings")
            if key in keywords:
                raise RunError(f"TypeError: got multiple values for keyword argument {key!r}")
            keywords[key] = item
    return positional, keywords
