"""Values as text in one normal form, so that two runs of a program can be compared."""

from collections.abc import Mapping, Sequence
from typing import Any

from lmc.ir.interpreter_prompt import Prompt

OWN = "lmc.frontend.raising:"
"""What a `raise` of a program becomes: host calls in compiled runs, none in eager ones."""

MAX_SHOWN = 400


def shown(value: Any) -> str:
    """Return a value as text: equal for equal values of equal types, inside and out.

    A prompt state counts by what can be seen of it, whichever class holds it.
    """
    if isinstance(value, Prompt):
        held = {name: item.value for name, item in value.named_variables.items()}
        return f"<state {value.text!r} {shown(value.messages)} {shown(held)}>"
    if hasattr(value, "variables") and hasattr(value, "messages"):
        return f"<state {value.text()!r} {shown(value.messages())} {shown(value.variables)}>"
    kind: Any = value.__class__
    if kind is list:
        return f"[{_joined(value)}]"
    if kind is tuple:
        return f"({_joined(value)},)"
    if kind is dict:
        return "{" + ", ".join(f"{shown(k)}: {shown(v)}" for k, v in value.items()) + "}"
    if kind in (set, frozenset):
        return f"{kind.__name__}({', '.join(sorted(map(shown, value)))})"
    return repr(value)


def _joined(values: Sequence[Any]) -> str:
    return ", ".join(map(shown, values))


def is_noted(callee: str) -> bool:
    """Whether a host call is compared: functions are, methods of their results are not."""
    return not callee.startswith(".") and not callee.startswith(OWN)


def shown_call(callee: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """Return a host call as text."""
    given = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in keywords.items())]
    return f"{callee}({', '.join(given)})"


def shortened(text: str, around: int = 0) -> str:
    """Return a text cut to what fits a report, its middle at a position of interest."""
    if len(text) <= MAX_SHOWN:
        return text
    start = max(0, min(around - MAX_SHOWN // 2, len(text) - MAX_SHOWN))
    head = "..." if start else ""
    tail = "..." if start + MAX_SHOWN < len(text) else ""
    return f"{head}{text[start : start + MAX_SHOWN]}{tail}"


def first_difference(left: str, right: str) -> int:
    """Return the position of the first character in which two texts differ."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
