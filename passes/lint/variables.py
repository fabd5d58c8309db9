"""Rules on variables that are read where they are not, or not surely, set."""

from collections.abc import Iterator

from lmc.ir.core import Op, Value
from lmc.ir.expressions import HIDDEN, NO_VALUE, NO_VALUE_HINT
from lmc.passes.lint.conditions import Condition, can_hold
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.finding import MAYBE_UNSET_VARIABLE, UNSET_VARIABLE, Finding, found
from lmc.passes.lint.names import set_name
from lmc.passes.lint.walk import owners, sources_of

MAX_LEAVES = 500


def unset_variables(context: Context) -> Iterator[Finding]:
    """Find reads of variables that no path, or not every path, has set.

    Loops are taken to run, forks to have children. A name that the program asks for with `in`
    is left alone, and so is a read under a condition that has to do with the one under which
    the variable is set, or in a `try`.
    """
    asked = {op.attributes.get("name") for op in context.calls("lm.has")}
    asks_late = any(not isinstance(name, str) for name in asked)
    for op in context.calls("lm.get", "lm.meta"):
        name = op.attributes.get("name")
        if not isinstance(name, str) or name in asked or asks_late:
            continue
        if any(owner.name == "cf.try" for owner in owners(op, context.facts)):
            continue  # the program may wait for the failure
        is_hidden = name.startswith(HIDDEN)
        names = context.names.at(op.operands[0])
        if names.possible is not None and name not in names.possible:
            known = ", ".join(sorted(n for n in names.possible if not n.startswith(HIDDEN)))
            if is_hidden:
                yield found(UNSET_VARIABLE, op.location, NO_VALUE, NO_VALUE_HINT)
                continue
            yield found(
                UNSET_VARIABLE, op.location, f"no variable '{name}' is set here",
                f"there are: {known}" if known else "generate it, or set it, before",
            )  # fmt: skip
        elif names.likely is not None and name not in names.likely:
            is_open = _misses(op.operands[0], name, context)
            if is_open and not _is_correlated(op, _setting_branches(name, context), context):
                shown = "this generation" if is_hidden else f"'{name}'"
                done = "appended" if is_hidden else "set"
                yield found(
                    MAYBE_UNSET_VARIABLE, op.location,
                    f"{shown} is not {done} on every way that leads here",
                    f"do it on the other branch too, or ask first: "
                    f"{'it' if is_hidden else shown} in s",
                )  # fmt: skip


def _misses(state: Value, name: str, context: Context) -> bool:
    """Whether a way through branches that can be taken does not set a variable of a state."""
    pending: list[tuple[Value, tuple[Condition, ...]]] = [(state, ())]
    steps = 0
    while pending and steps < MAX_LEAVES:
        steps += 1
        value, conditions = pending.pop()
        found_op = context.facts.definitions.get(value)
        if found_op is None:
            # What a loop begins with, or what is in its list.
            sources = sources_of(value, context.facts) or []
            pending += [(source, conditions) for source in sources[:1]]
            continue
        op, index = found_op
        if op.name in (*CALLS, "lm.set") and set_name(op)[0] == name:
            continue
        if op.name == "cf.if":
            ends = [block.terminator.operands[index] for block in op.blocks]
            pending += [
                (end, (*conditions, (op.operands[0], is_first)))
                for end, is_first in zip(ends, (True, False), strict=True)
            ]
            continue
        if op.name in ("cf.for", "cf.while"):
            likely = context.names.at(value).likely
            if likely is None or name in likely:
                continue
        sources = sources_of(value, context.facts)
        if not sources:
            if op.name in ("lm.prompt", "lm.prologue") and can_hold(conditions, context):
                return True
            continue
        pending += [(source, conditions) for source in sources]
    return False


def _setting_branches(name: str, context: Context) -> list[Op]:
    """Return the branches that hold an op which sets a variable."""
    made: list[Op] = []
    for op in context.ops:
        if op.name in (*CALLS, "lm.set") and set_name(op)[0] == name:
            made += [owner for owner in owners(op, context.facts) if owner.name == "cf.if"]
    return made


def _is_correlated(op: Op, branches: list[Op], context: Context) -> bool:
    """Whether an op stands under a condition that shares something with those of branches."""
    above = [o for o in owners(op, context.facts) if o.name == "cf.if" and o not in branches]
    own = set().union(*(_leaves(each.operands[0], context) for each in above))
    theirs = set().union(*(_leaves(each.operands[0], context) for each in branches))
    return bool(own & theirs)


def _leaves(value: Value, context: Context) -> set[object]:
    """Return what a condition is computed from: arguments, variables by name, calls."""
    made: set[object] = set()
    pending, seen = [value], {value}
    while pending and len(seen) < MAX_LEAVES:
        each = pending.pop()
        found_op = context.facts.definitions.get(each)
        if found_op is None:
            made.add(each)
            continue
        op, index = found_op
        more: list[Value] = []
        if op.name in ("lm.get", "lm.has"):
            made.add(op.attributes.get("name"))
        elif op.name in CALLS:
            made.add(op.attributes.get("name") or op)
        elif op.name.startswith("val."):
            more = list(op.operands)
        elif op.name == "cf.if":
            more = [op.operands[0], *(b.terminator.operands[index] for b in op.blocks)]
        elif op.name in ("cf.for", "cf.while"):
            offset = op.name == "cf.for"
            more = [op.operands[index + offset], op.blocks[0].terminator.operands[index + 1]]
            made.add(op)
        else:
            made.add(op)
        pending += [m for m in more if m not in seen]
        seen.update(more)
    return made


def undefined_names(context: Context) -> Iterator[Finding]:
    """Find reads of Python names that one side of a branch leaves unassigned."""
    for op in context.calls("val.call"):
        held = context.facts.op_of(op.operands[0], "val.list") if op.operands else None
        if op.attributes["callee"] != "min" or held is None or len(held.operands) != 1:
            continue
        if held.location != op.location:
            continue
        missing = _undefined_in_branch(held.operands[0], context)
        if missing is None:
            continue
        name, branch = missing
        if not _is_correlated(op, [branch], context):
            yield found(
                MAYBE_UNSET_VARIABLE, op.location,
                f"'{name}' is not assigned on every way that leads here",
                "assign it on the other branch too, or before",
            )  # fmt: skip


def _undefined_in_branch(value: Value, context: Context) -> tuple[str, Op] | None:
    """Return the name and the branch that may leave a value undefined; loops are taken to run."""
    pending: list[tuple[Value, tuple[Condition, ...], Op | None]] = [(value, (), None)]
    steps = 0
    while pending and steps < MAX_LEAVES:
        steps += 1
        each, conditions, branch = pending.pop()
        found_op = context.facts.definitions.get(each)
        if found_op is None:
            continue
        op, index = found_op
        if op.name == "val.undefined" and branch is not None:
            if can_hold(conditions, context):
                return str(op.attributes["name"]), branch
        elif op.name == "cf.if":
            ends = [block.terminator.operands[index] for block in op.blocks]
            pending += [
                (end, (*conditions, (op.operands[0], is_first)), op)
                for end, is_first in zip(ends, (True, False), strict=True)
            ]
    return None


RULES = (unset_variables, undefined_names)
