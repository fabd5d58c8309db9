"""Rules on the options of a select."""

from collections.abc import Iterator

from lmc.passes.lint.context import Context
from lmc.passes.lint.finding import (
    DUPLICATE_OPTIONS,
    PREFIX_OPTIONS,
    TOO_FEW_OPTIONS,
    Finding,
    argument,
    found,
)


def prefix_options(context: Context) -> Iterator[Finding]:
    """Find options of which one begins another: the model gives both the same beginning."""
    for op in context.calls("lm.select"):
        options = context.options(op) or []
        distinct = list(dict.fromkeys(options))
        pairs = [
            (short, long)
            for short in distinct
            for long in distinct
            if short != long and long.startswith(short)
        ]
        for short, long in pairs[:1]:
            more = f" (and {len(pairs) - 1} more such pairs)" if len(pairs) > 1 else ""
            yield found(
                PREFIX_OPTIONS, op.location,
                f"the option {short!r} is the beginning of {long!r}{more}: scores by length "
                "decide between them, not what the model would write next",
                "word the options so that none begins another, or end each with a mark",
                focus=argument("choices"),
            )  # fmt: skip


def duplicate_options(context: Context) -> Iterator[Finding]:
    """Find options that are listed twice."""
    for op in context.calls("lm.select"):
        options = context.options(op) or []
        twice = next((o for i, o in enumerate(options) if o in options[:i]), None)
        if twice is not None:
            yield found(
                DUPLICATE_OPTIONS, op.location,
                f"the option {twice!r} is listed twice; the second is never chosen",
                "list each option once", focus=argument("choices", twice),
            )  # fmt: skip


def few_options(context: Context) -> Iterator[Finding]:
    """Find selects that have nothing to choose between."""
    for op in context.calls("lm.select"):
        options = context.options(op)
        if options is None or len(options) > 1:
            continue
        if options:
            yield found(
                TOO_FEW_OPTIONS, op.location,
                f"{options[0]!r} is the only option, so nothing is chosen",
                "append it as text, or list other options", focus=argument("choices"),
            )  # fmt: skip
        else:
            yield found(
                TOO_FEW_OPTIONS, op.location, "there are no options to choose from",
                "list at least two", focus=argument("choices"), severity="error",
            )  # fmt: skip


RULES = (prefix_options, duplicate_options, few_options)
