"""Rules on decode parameters: limits below constraints, what excludes or ignores what."""

import time
from collections.abc import Iterator, Mapping

from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint
from lmc.ir.core import Op
from lmc.ir.expressions import CONSTRAINTS
from lmc.ir.value_types import constraint_of, label
from lmc.passes.lint.context import Context
from lmc.passes.lint.finding import (
    IGNORED_PARAMETER,
    IMPOSSIBLE_CONSTRAINT,
    MAX_TOKENS_TOO_LOW,
    OVERLAPPING_CONSTRAINTS,
    Finding,
    argument,
    found,
)

DEFAULT_MAX_TOKENS = 128
MAX_OVERLAP_SECONDS = 1.0
"""Time for the pairs of one list of alternatives."""

SAMPLING = ("top_p", "top_k", "min_p", "seed")
"""Parameters that decide between tokens, and nothing where the likeliest is taken."""


def stops_of(op: Op, context: Context) -> list[str]:
    """Return the constant stop strings of a generation."""
    stops = context.param(op, "stop")
    return [str(stop) for stop in stops] if isinstance(stops, (list, tuple)) else []


def constraint_text(params: Mapping[str, object]) -> str:
    """Name a generation's constraint for people."""
    name = constraint_argument(params)
    given = params.get(name)
    return (
        f"type={label(given)}"
        if name == "type" and isinstance(given, str)
        else (f"{name}={given!r:.60}")
    )


def constraint_argument(params: Mapping[str, object]) -> str:
    """Return the parameter that a generation's constraint comes from."""
    return next((name for name in CONSTRAINTS if name in params), "type")


def low_limits(context: Context) -> Iterator[Finding]:
    """Find `max_tokens` within which the constraint cannot be complete."""
    languages = context.shared.languages
    for op in context.calls("lm.gen"):
        params = dict(context.params(op))
        constraint = languages.constraint(params)
        if constraint is None or _is_late(op, context):
            continue
        given = params.get("max_tokens")
        limit = given if isinstance(given, int) else DEFAULT_MAX_TOKENS
        needed = _needed_tokens(op, constraint, limit, context)
        if needed is None or needed <= limit:
            continue
        yield _too_low(op, params, constraint, limit, given is not None, context)


def _is_late(op: Op, context: Context) -> bool:
    late = ("max_tokens", *CONSTRAINTS)
    return any(context.is_dynamic(op, name) for name in late)


def _needed_tokens(op: Op, constraint: Constraint, limit: int, context: Context) -> int | None:
    """Return the least limit under which the text can be complete, or any above `limit`.

    A typed text that could go on needs one more token, the end: without it `12` may be the
    beginning of `1234`, which is an error when the program runs.
    """
    languages = context.shared.languages
    least = languages.least_tokens(constraint, limit)
    is_typed = constraint_argument(context.params(op)) == "type"
    if least is None or least != limit or not is_typed:
        return least
    return least if stops_of(op, context) or _can_close(constraint, least, context) else least + 1


def _can_close(constraint: Constraint, count: int, context: Context) -> bool:
    """Whether some complete text of `count` tokens cannot go on; True where not known."""
    return context.shared.languages.closes_within(constraint, count) is not False


def _too_low(
    op: Op, params: dict[str, object], constraint: Constraint, limit: int, is_given: bool,
    context: Context,
) -> Finding:  # fmt: skip
    shortest = context.shared.languages.shortest(constraint) or b""
    text = shortest.decode("utf-8", "replace")
    bigger = context.shared.languages.least_tokens(constraint, limit + 64)
    known = bigger is not None and limit < bigger <= limit + 64
    needs = f"{bigger} tokens" if known else f"more than {limit} tokens"
    what = f"max_tokens is {limit}" if is_given else f"max_tokens is not given, so it is {limit}"
    message = f"{what}, but the shortest text of {constraint_text(params)} takes {needs}"
    if bigger == limit:
        message = (
            f"{what}: the shortest text of {constraint_text(params)} takes as many, but the end "
            "needs one more, else the value counts as cut"
        )
    enough = bigger if bigger is not None and known else limit + 1
    return found(
        MAX_TOKENS_TOO_LOW, op.location, f"{message} ({text[:40]!r})",
        f"raise max_tokens to {enough + (constraint_argument(params) == 'type')} or more",
        focus=argument("max_tokens" if is_given else constraint_argument(params)),
    )  # fmt: skip


def impossible_constraints(context: Context) -> Iterator[Finding]:
    """Find constraints that are refused, match nothing, or that a stop never lets complete."""
    languages = context.shared.languages
    for op in context.calls("lm.gen"):
        params = dict(context.params(op))
        constraint = languages.constraint(params)
        if constraint is None:
            continue
        name = constraint_argument(params)
        try:
            languages.automaton(constraint)
        except ConstraintError as error:
            yield found(
                IMPOSSIBLE_CONSTRAINT, op.location, error.message,
                error.hint or "write the constraint another way", severity="error",
                focus=argument(name),
            )  # fmt: skip
            continue
        for stop in stops_of(op, context):
            if languages.can_avoid(constraint, stop) is False:
                yield found(
                    IMPOSSIBLE_CONSTRAINT, op.location,
                    f"{constraint_text(params)} and stop={stop!r} exclude each other: every text "
                    "that the constraint allows holds the stop string, so none is ever complete",
                    "leave the stop out: the constraint ends the text by itself",
                    focus=argument("stop"),
                )  # fmt: skip


READABLE = {"int": r"\s*[-+]?\d+(_\d+)*\s*", "bool": "True|False"}
"""What can be read as a value of a type, by type: more than what the type alone generates."""


def unreadable_texts(context: Context) -> Iterator[Finding]:
    """Find a regex none of whose texts can be read as a value of the type beside it."""
    languages = context.shared.languages
    for op in context.calls("lm.gen"):
        kind, regex = context.params(op).get("type"), context.params(op).get("regex")
        if not isinstance(kind, str) or not isinstance(regex, str):
            continue
        readable = Constraint("regex", READABLE[kind]) if kind in READABLE else constraint_of(kind)
        if kind == "float" or readable is None or readable.kind != "regex":
            continue
        if languages.are_disjoint(Constraint("regex", regex), readable):
            yield found(
                IMPOSSIBLE_CONSTRAINT, op.location,
                f"regex={regex!r:.60} and type={label(kind)} exclude each other: no text of the "
                "regex can be read as such a value",
                "give one of them, or a regex of texts of the type", severity="error",
                focus=argument("regex"),
            )  # fmt: skip


def greedy_sampling(context: Context) -> Iterator[Finding]:
    """Find sampling parameters that change nothing because the likeliest token is taken."""
    for op in context.calls("lm.gen"):
        params = context.params(op)
        if params.get("temperature") != 0 or "temperature" not in params:
            if params.get("top_k") != 1:
                continue
            why = "top_k is 1"
        else:
            why = "temperature is 0"
        n = params.get("n", 1)
        if isinstance(n, int) and n > 1:
            yield found(
                IGNORED_PARAMETER, op.location,
                f"{why}, so the {n} samples are all the same", "sample with a temperature above 0",
                focus=argument("n"),
            )  # fmt: skip
        for name in SAMPLING:
            value = params.get(name)
            if value in (None, -1) or (name == "top_k" and why == "top_k is 1"):
                continue
            if (name in ("top_p",) and value == 1) or (name == "min_p" and value == 0):
                continue
            yield found(
                IGNORED_PARAMETER, op.location,
                f"{name} changes nothing: {why}, so the likeliest token is always taken",
                f"leave {name} out, or raise the temperature", focus=argument(name),
            )  # fmt: skip


def unreachable_minimum(context: Context) -> Iterator[Finding]:
    """Find `min_tokens` above what the longest text of the constraint can take."""
    for op in context.calls("lm.gen"):
        params = context.params(op)
        least = params.get("min_tokens")
        constraint = context.shared.languages.constraint(dict(params))
        if constraint is None or not isinstance(least, int) or _is_late(op, context):
            continue
        longest = context.shared.languages.longest(constraint)
        if longest is not None and longest < least:
            yield found(
                IGNORED_PARAMETER, op.location,
                f"min_tokens is {least}, but the longest text of {constraint_text(params)} has "
                f"{longest:.0f} bytes, so it ends before",
                "leave min_tokens out: the constraint decides where the text ends",
                focus=argument("min_tokens"),
            )  # fmt: skip


def parameters_of_nothing(context: Context) -> Iterator[Finding]:
    """Find stops of calls that generate nothing."""
    for op in context.calls("lm.gen"):
        params = context.params(op)
        if params.get("max_tokens") != 0:
            continue
        for name in ("stop", "stop_regex", "stop_token_ids"):
            if params.get(name):
                yield found(
                    IGNORED_PARAMETER, op.location,
                    f"{name} changes nothing: max_tokens is 0, so no text is generated",
                    f"leave {name} out, or raise max_tokens", focus=argument(name),
                )  # fmt: skip


def overlapping_alternatives(context: Context) -> Iterator[Finding]:
    """Find regexes of listed alternatives two of which match one text."""
    from lmc.passes.lint.alternatives import alternatives

    for op in context.calls("lm.gen"):
        regex = context.params(op).get("regex")
        for parts in alternatives(regex) if isinstance(regex, str) else ():
            overlap = _overlap(parts)
            if overlap is None:
                continue
            part, other, text = overlap
            both = f"{part!r} and {other!r}" if part != other else f"{part!r}, given twice,"
            yield found(
                OVERLAPPING_CONSTRAINTS, op.location,
                f"the alternatives {both} match one text"
                + (f" ({text!r})" if part != other else ""),
                "make the alternatives of the regex exclude each other",
                focus=argument("regex"), severity="warning" if part == other else None,
            )  # fmt: skip


def _overlap(parts: list[str]) -> tuple[str, str, str] | None:
    """Return two of some alternatives with a text that both match."""
    from lmc.passes.lint.overlaps import overlap_example

    deadline = time.thread_time() + MAX_OVERLAP_SECONDS
    pairs = [(one, other) for n, one in enumerate(parts) for other in parts[n + 1 :]]
    for one, other in sorted(pairs, key=lambda pair: pair[0] != pair[1]):
        if time.thread_time() > deadline:
            return None
        text = "" if one == other else overlap_example(one, other)
        if text is not None:
            return one, other, text
    return None


RULES = (
    low_limits, impossible_constraints, unreadable_texts, greedy_sampling, parameters_of_nothing,
    unreachable_minimum,
    overlapping_alternatives,
)  # fmt: skip
