"""Rules on stop strings: those that cannot occur, and those that take away what is needed."""

import re
from collections.abc import Iterator

from lmc.ir.core import Op
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.finding import IMPOSSIBLE_STOP, STOP_EATS_TEXT, Finding, argument, found
from lmc.passes.lint.parameters import constraint_argument, constraint_text, stops_of
from lmc.passes.lint.prompts import first_constant, last_constant
from lmc.passes.lint.walk import last_pieces, next_ops

CLOSERS = {
    ")": ("(",), "]": ("[",), "}": ("{",), '"': ('"',), "'": ("'",), "`": ("`",), "```": ("```",),
    ">": ("<",), "”": ("“",), "»": ("«",), "*/": ("/*",), "-->": ("<!--",),
}  # fmt: skip
"""Stop strings that close what one of the others opens."""

FENCE = "```"
_TAG = re.compile(r"</(\w+)>")


def impossible_stops(context: Context) -> Iterator[Finding]:
    """Find stop strings that the generated text cannot hold."""
    for op in context.calls("lm.gen"):
        for stop in stops_of(op, context):
            made = _why_impossible(op, stop, context)
            if made is not None:
                why, remedy, is_harmless = made
                yield found(
                    IMPOSSIBLE_STOP, op.location, f"the stop string {stop!r} cannot occur: {why}",
                    remedy, focus=argument("stop", stop), severity="hint" if is_harmless else None,
                )  # fmt: skip


def _why_impossible(op: Op, stop: str, context: Context) -> tuple[str, str, bool] | None:
    languages = context.shared.languages
    control = next((s for s in languages.control_spellings() if s in stop), None)
    if control is not None:
        return (
            f"{control!r} is a control token of {context.target.name}, and generated text "
            "holds no control tokens",
            "leave it out: an end token ends the call; others go into stop_token_ids", False,
        )  # fmt: skip
    least = languages.tokens_for(stop)
    if least is None:
        return (
            f"no tokens of {context.target.name} spell it", "use a text that the model can write",
            False,
        )  # fmt: skip
    params = context.params(op)
    constraint = languages.constraint(params)
    if constraint is not None and languages.can_hold(constraint, stop) is False:
        return (
            f"no text that {constraint_text(params)} allows holds it",
            "leave it out, the constraint decides where the text ends",
            constraint_argument(params) == "type",
        )  # fmt: skip
    limit = context.param(op, "max_tokens")
    if isinstance(limit, int) and 0 < limit < least:
        return (
            f"it takes at least {least} tokens, and max_tokens is {limit}",
            f"raise max_tokens to {least} or more, or leave the stop out", False,
        )  # fmt: skip
    return None


def impossible_stop_patterns(context: Context) -> Iterator[Finding]:
    """Find patterns of `stop_regex` that no text of the constraint holds a match of."""
    from lmc.passes.lint.overlaps import can_match_within

    for op in context.calls("lm.gen"):
        patterns = context.param(op, "stop_regex")
        params = context.params(op)
        constraint = context.shared.languages.constraint(params)
        if not isinstance(patterns, (list, tuple)) or constraint is None:
            continue
        for pattern in patterns if constraint.kind == "regex" else ():
            if can_match_within(str(pattern), constraint.source) is False:
                yield found(
                    IMPOSSIBLE_STOP, op.location,
                    f"the stop pattern {pattern!r} cannot occur: no text that "
                    f"{constraint_text(params)} allows holds a match",
                    "leave it out, the constraint decides where the text ends",
                    focus=argument("stop_regex", str(pattern)),
                )  # fmt: skip


def eating_stops(context: Context) -> Iterator[Finding]:
    """Find stop strings that are taken from the text and that the next constant leaves out.

    A stop string is never part of the prompt. So a constant after the generation must write
    it again where the text needs it. Told are two cases only: the stop closes what the constant
    before the generation opens and the next constant goes on without it; or the next constant
    begins in the middle of the stop.
    """
    told: set[tuple[object, str]] = set()
    for op in context.calls("lm.gen"):
        stops = stops_of(op, context)
        following = _text_after(op, context)
        if not stops or following is None:
            continue
        text, place, is_all = following
        if any(text.startswith(stop) for stop in stops):
            continue
        for stop in stops:
            why = _eaten(op, stop, text, is_all, context)
            if why is None or (op.location, stop) in told:
                continue
            told.add((op.location, stop))
            line = place.location.line if place.location else "?"
            yield found(
                STOP_EATS_TEXT, op.location,
                f"the stop string {stop!r} is not part of the text, {why} "
                f"({text[:20]!r}, line {line})",
                f"begin the next text with {stop!r}, or choose a stop that need not be written",
                focus=argument("stop", stop),
            )  # fmt: skip
            break


def _eaten(op: Op, stop: str, text: str, is_all: bool, context: Context) -> str | None:
    """Return what a stop string takes away, None where nothing is certainly missing.

    `is_all` says that the text is all that comes before something else is generated.
    """
    before = _text_before(op, context)
    if before is not None and _stays_open(before, stop, text):
        return "so what it closes stays open: the next text goes on without it"
    for size in range(len(stop) - 1, 0, -1):
        lost = stop[:-size]
        if text.startswith(stop[-size:]) and lost.strip():
            return f"so {lost!r} is lost: the next text begins in its middle"
    word = stop.lstrip()
    if len(word) < len(stop) and any(map(str.isalnum, word)) and text.startswith(word):
        return f"so {stop[: -len(word)]!r} is lost: the next text begins in its middle"
    rest = stop[len(text) :]
    if is_all and stop.startswith(text) and rest.strip():
        return f"so {rest!r} is lost: the next text is only its beginning"
    return None


def _stays_open(before: str, stop: str, text: str) -> bool:
    """Whether a text ends by opening what a stop string closes, and the next goes on without."""
    tag = _TAG.match(stop.strip()) or _TAG.match(stop + text)
    if tag is not None:
        return before.rstrip().endswith(f"<{tag[1]}>") and not text.startswith(tag[0])
    if stop == FENCE and before.count(FENCE) % 2:
        return True
    return any(
        stop.startswith(closer) and not text.startswith(closer) and before.endswith(openers)
        for closer, openers in CLOSERS.items()
    )


def _text_before(op: Op, context: Context) -> str | None:
    pieces = last_pieces(op.operands[0], context.facts).certain
    if len(pieces) != 1 or pieces[0].name != "lm.extend":
        return None
    end = last_constant(pieces[0].operands[1], context)
    return None if end is None else end[1]


def _text_after(op: Op, context: Context) -> tuple[str, Op, bool] | None:
    """Return the constant that is appended right after a generation on every path.

    With the op that appends it, and whether a generation follows it at once.
    """
    text = ""
    first: Op | None = None
    following = _only_next(op, context)
    while following is not None and following.name == "lm.extend":
        found_first = first_constant(following.operands[1], context)
        if found_first is None:
            break
        first = first or following
        text += found_first[0]
        if not found_first[1]:
            return text, first, False
        following = _only_next(following, context)
    if first is None or not text:
        return None
    return text, first, following is not None and following.name in CALLS


def _only_next(op: Op, context: Context) -> Op | None:
    """Return the only op that goes on with the state that an op gives."""
    users = next_ops(op.results[0], context.facts)
    users = [user for user in users if user.name.startswith("lm.") and user.name not in _READS]
    return users[0] if len(users) == 1 else None


_READS = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text", "lm.messages"})

RULES = (impossible_stops, impossible_stop_patterns, eating_stops)
