"""What a rule finds: a code of the table below, a place, what is wrong, and the remedy."""

from dataclasses import dataclass
from typing import Literal

from lmc.ir.location import Location

Severity = Literal["error", "warning", "hint"]


@dataclass(frozen=True, slots=True)
class Code:
    """A kind of diagnostic: its stable number and name, and how bad it is."""

    number: str
    name: str
    severity: Severity


CODES: dict[str, Code] = {}
"""Every kind of diagnostic, by number, in the order of the documentation."""


def _code(number: str, name: str, severity: Severity) -> Code:
    made = CODES[number] = Code(number, name, severity)
    return made


GRAPH_BREAK = _code("LMC001", "graph-break", "error")
INVALID_PARAMETER = _code("LMC002", "invalid-parameter", "error")

UNUSED_GENERATION = _code("LMC101", "unused-generation", "warning")
UNREACHABLE_TEXT = _code("LMC102", "unreachable-text", "warning")
NAME_REUSED = _code("LMC103", "name-reused", "warning")
NOT_GATHERED = _code("LMC104", "not-gathered", "warning")
UNUSED_FORK = _code("LMC105", "unused-fork", "hint")
UNUSED_ARGUMENT = _code("LMC106", "unused-argument", "hint")

TRAILING_BLANK = _code("LMC201", "trailing-blank", "hint")
CONTROL_TEXT = _code("LMC202", "control-token-as-text", "warning")
EMPTY_PROMPT = _code("LMC203", "empty-prompt", "warning")
UNBALANCED_ROLE = _code("LMC204", "unbalanced-role", "warning")

IMPOSSIBLE_STOP = _code("LMC301", "impossible-stop", "warning")
STOP_EATS_TEXT = _code("LMC302", "stop-eats-text", "warning")
MAX_TOKENS_TOO_LOW = _code("LMC303", "max-tokens-too-low", "warning")
IMPOSSIBLE_CONSTRAINT = _code("LMC304", "impossible-constraint", "warning")
IGNORED_PARAMETER = _code("LMC305", "ignored-parameter", "warning")
OVERLAPPING_CONSTRAINTS = _code("LMC306", "overlapping-constraints", "hint")

PREFIX_OPTIONS = _code("LMC401", "prefix-options", "warning")
DUPLICATE_OPTIONS = _code("LMC402", "duplicate-options", "warning")
TOO_FEW_OPTIONS = _code("LMC403", "too-few-options", "warning")

UNSET_VARIABLE = _code("LMC501", "unset-variable", "error")
MAYBE_UNSET_VARIABLE = _code("LMC502", "maybe-unset-variable", "warning")
IMPOSSIBLE_COMPARISON = _code("LMC503", "impossible-comparison", "warning")
WRONG_VALUE_TYPE = _code("LMC504", "wrong-value-type", "error")

UNBOUNDED_LOOP = _code("LMC601", "unbounded-loop", "warning")
SPECULATED_EFFECT = _code("LMC602", "effect-under-speculation", "hint")
FALSE_PURITY = _code("LMC603", "false-purity", "warning")

UNSUPPORTED = _code("LMC701", "unsupported-by-model", "error")


@dataclass(frozen=True, slots=True)
class Focus:
    """Which part of the source at a location is meant, where the IR has one place for several.

    `kind` is "argument" (the value of the call's argument named `text`, or the last of its
    items that is the text `item`), or "text" (the constant that has this text).
    """

    kind: Literal["argument", "text"]
    text: str
    item: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found, at a place in the source."""

    code: Code
    message: str
    remedy: str
    location: Location | None
    severity: Severity
    focus: Focus | None = None


def found(
    code: Code,
    location: Location | None,
    message: str,
    remedy: str,
    *,
    severity: Severity | None = None,
    focus: Focus | None = None,
) -> Finding:
    """Return a finding; its severity is the code's unless another is given."""
    return Finding(code, message, remedy, location, severity or code.severity, focus)


def argument(name: str, item: str | None = None) -> Focus:
    """Return the focus on the value of a call's argument, or on one text that it lists."""
    return Focus("argument", name, item)
