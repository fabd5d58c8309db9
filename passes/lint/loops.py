"""Rules on loops and calls that do not end."""

from collections.abc import Iterator

from lmc.ir.core import Block, Op, Value
from lmc.ir.ops import SPECS
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.finding import UNBOUNDED_LOOP, Finding, found


def endless_loops(context: Context) -> Iterator[Finding]:
    """Find `while` loops that nothing ends, or only what the model says."""
    for op in context.calls("cf.while"):
        condition = op.blocks[0].terminator.operands[0]
        outcomes = _outcomes(condition, op, context)
        if outcomes.is_always_true:
            if not _holds_unknown(op):
                yield found(
                    UNBOUNDED_LOOP, op.location, "this loop has no way out",
                    "leave it with break or return, or count its trips",
                )  # fmt: skip
        elif outcomes.is_fixed and not _is_never_run(op, context):
            yield found(
                UNBOUNDED_LOOP, op.location,
                "no trip of this loop changes its condition: once it holds, the loop never ends",
                "change in the loop what its condition looks at",
            )  # fmt: skip
        elif outcomes.by_model_alone and any(o.name in CALLS for o in op.blocks[0].walk()):
            yield found(
                UNBOUNDED_LOOP, op.location,
                "only what the model generates ends this loop: it may never end",
                "count the trips too: while ... and i < limit", severity="hint",
            )  # fmt: skip


def _is_never_run(loop: Op, context: Context) -> bool:
    """Whether a loop's condition is False from the start; that is told as unreachable."""
    condition = loop.blocks[0].terminator.operands[0]
    first = next((op for op in loop.blocks[0].ops if op.name == "cf.if"), None)
    never = first is not None and _constant_truth(first.operands[0], context) is False
    return never or _is_always(False, condition, context, set())


ENDLESS = {"itertools:count": 9, "itertools:cycle": 1, "itertools:repeat": 1}
"""Functions that give items without end, and for how many arguments at most."""


def endless_items(context: Context) -> Iterator[Finding]:
    """Find `for` loops over items without end that nothing leaves."""
    for op in context.calls("cf.for"):
        source = context.facts.op_of(op.operands[0], "host.call", "host.pure")
        if source is None or _holds_unknown(op):
            continue
        given = len(source.operands) - (source.name == "host.call")
        if given > ENDLESS.get(str(source.attributes["callee"]), -1):
            continue
        if _is_always(True, op.blocks[0].terminator.operands[0], context, set()):
            yield found(
                UNBOUNDED_LOOP, op.location, "this loop goes over items without end",
                "leave it with break or return, or loop over range(...)",
            )  # fmt: skip


class _Outcomes:
    """What decides whether a loop goes on.

    Attributes:
        is_always_true: it goes on whatever happens.
        is_fixed: what it looks at is the same in every trip.
        by_model_alone: what it looks at changes by model calls only.
    """

    def __init__(self) -> None:
        self.is_always_true = False
        self.is_fixed = False
        self.by_model_alone = False


def _outcomes(condition: Value, loop: Op, context: Context) -> _Outcomes:
    made = _Outcomes()
    made.is_always_true = _is_always(True, condition, context, set())
    inside = _values_within(loop.blocks[0])
    kinds = _changing(condition, loop, inside, context)
    made.is_fixed = not made.is_always_true and not kinds
    made.by_model_alone = kinds == {"model"}
    return made


def _is_always(wanted: bool, value: Value, context: Context, seen: set[tuple[bool, Value]]) -> bool:
    """Whether a condition is `wanted` on every path; what is in `seen` is being found out."""
    if (wanted, value) in seen:
        return True
    seen.add((wanted, value))
    op = context.facts.op_of(value)
    if op is None:
        return False
    index = op.results.index(value)
    match op.name:
        case "val.const":
            return bool(op.attributes["value"]) == wanted
        case "val.truth":
            return _is_always(wanted, op.operands[0], context, seen)
        case "val.not":
            return _is_always(not wanted, op.operands[0], context, seen)
        case "cf.if":
            known = _constant_truth(op.operands[0], context)
            arms = op.blocks if known is None else [op.blocks[0 if known else 1]]
            yields = (arm.terminator.operands[index] for arm in arms)
            return all(_is_always(wanted, each, context, seen) for each in yields)
        case _:
            return False


def _constant_truth(value: Value, context: Context) -> bool | None:
    known = context.facts.constant(value)
    return None if known is None else bool(known.value)


def _holds_unknown(op: Op) -> bool:
    """Whether a loop holds something that no rule knows, which may end it."""
    return any(inner.name not in SPECS for inner in op.blocks[0].walk())


def _values_within(block: Block) -> set[Value]:
    made = set(block.arguments)
    for op in block.walk():
        made.update(op.results)
        for nested in op.blocks:
            made.update(nested.arguments)
    return made


def _changing(value: Value, loop: Op, inside: set[Value], context: Context) -> set[str]:
    """Return the kinds of things by which a condition changes from trip to trip.

    "model" for model calls, "other" for all that counts, reads or is not understood.
    """
    made: set[str] = set()
    pending, seen = [value], {value}
    while pending:
        each = pending.pop()
        if each not in inside:
            continue
        more: list[Value] = []
        if each in context.facts.arguments:
            more = _argument_sources(each, loop, context, made)
        else:
            op, index = context.facts.definitions[each]
            more = _op_sources(op, index, made)
        pending += [m for m in more if m not in seen]
        seen.update(more)
    return made


def _argument_sources(value: Value, loop: Op, context: Context, made: set[str]) -> list[Value]:
    owner, index = context.facts.arguments[value]
    if owner is not loop:
        made.add("other")
        return []
    handed = owner.blocks[0].terminator.operands[index + 1]
    if handed is value:
        return []
    sources = _plain_sources(handed, value, context)
    if sources is None:
        made.add("other")
        return []
    return sources


def _plain_sources(handed: Value, argument: Value, context: Context) -> list[Value] | None:
    """Return what a carried value is given, unless it counts: is computed from itself."""
    if handed.type.name == "state" or argument.type.name == "state":
        return [handed]
    pending, seen = [handed], {handed}
    while pending:
        op = context.facts.op_of(pending.pop())
        if op is None:
            continue
        more = list(op.operands) if op.name.startswith("val.") else []
        if op.name == "cf.if":
            more = [v for b in op.blocks for v in b.terminator.operands]
        if op.name.startswith("val.") and argument in op.operands:
            return None
        pending += [m for m in more if m not in seen]
        seen.update(more)
    return [handed]


def _op_sources(op: Op, index: int, made: set[str]) -> list[Value]:
    if op.name in CALLS:
        made.add("model")
        return list(op.operands)
    if op.name.startswith("val."):
        return list(op.operands)
    if op.name == "cf.if":
        return [op.operands[0], *(b.terminator.operands[index] for b in op.blocks)]
    if op.name in ("lm.get", "lm.has", "lm.meta", "lm.set", "lm.tick", "lm.begin", "lm.end"):
        return list(op.operands)
    if op.name in ("lm.extend", "lm.control", "lm.fork"):
        # Texts grow, which only a look at the whole text tells.
        return list(op.operands[:1])
    made.add("other")
    return []


def endless_calls(context: Context) -> Iterator[Finding]:
    """Find programs and helpers that call themselves on every path."""
    for op in context.function.body.ops:
        if op.name in ("func.call", "func.apply"):
            if _always_reaches(str(op.attributes["callee"]), context.function.name, context, set()):
                yield found(
                    UNBOUNDED_LOOP, op.location,
                    f"'{context.function.name}' calls itself on every way, so it never ends",
                    "call it under a condition that some call does not meet",
                )  # fmt: skip


def _always_reaches(start: str, goal: str, context: Context, seen: set[str]) -> bool:
    if start == goal:
        return True
    function = context.module.functions.get(start)
    if function is None or start in seen:
        return False
    seen.add(start)
    return any(
        op.name in ("func.call", "func.apply")
        and _always_reaches(str(op.attributes["callee"]), goal, context, seen)
        for op in function.body.ops
    )


RULES = (endless_loops, endless_items, endless_calls)
