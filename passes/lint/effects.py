"""Rules on host calls whose effects stand in the way of running ahead."""

from collections.abc import Iterator

from lmc.ir.core import Op, Value
from lmc.passes.lint.context import Context
from lmc.passes.lint.finding import SPECULATED_EFFECT, Finding, found
from lmc.passes.lint.origins import common_type, origin_of, texts_of
from lmc.passes.lint.walk import owners
from lmc.passes.purity import CALLEES

QUIET = frozenset({
    "builtins:print", "lmc.frontend.raising:raise_error", "lmc.frontend.raising:raise_again",
})  # fmt: skip
"""Host functions whose effect is what they are called for."""


def effects_in_arms(context: Context) -> Iterator[Finding]:
    """Find host functions of undeclared effects in an arm that a choice of the model decides.

    While a choice is scored its arms could start ahead, up to the first call that may change
    the world. `declared` functions are those that the author has marked with `@lmc.tool`.
    """
    told: set[object] = set()
    for op in context.calls("host.call", *CALLEES):
        callee = str(op.attributes["callee"])
        effect = _undeclared(op, context, set())
        if effect is None:
            continue
        branch = next((o for o in owners(op, context.facts) if _is_choice(o, context)), None)
        if branch is None or op.location in told:
            continue
        told.add(op.location)
        name = callee.rpartition(":")[2]
        through = f" (through '{effect}')" if op.name in CALLEES else ""
        line = branch.location.line if branch.location else "?"
        yield found(
            SPECULATED_EFFECT, op.location,
            f"'{name}' may have effects{through} and stands in an arm that the model's choice "
            f"decides (line {line}): nothing from here on can start before the choice is made",
            'declare what it does: @lmc.tool(effects="none") or @lmc.tool(effects="write")',
        )  # fmt: skip


def _undeclared(op: Op, context: Context, seen: set[str]) -> str | None:
    """Return the host function of undeclared effects that a call makes, by itself or not."""
    callee = str(op.attributes["callee"])
    if op.name == "host.call":
        is_known = callee in QUIET or context.shared.is_declared(callee)
        return None if is_known else callee.rpartition(":")[2]
    function = context.module.functions.get(callee)
    if function is None or callee in seen:
        return None
    seen.add(callee)
    for inner in function.body.walk():
        if inner.name == "host.call" or inner.name in CALLEES:
            found_in = _undeclared(inner, context, seen)
            if found_in is not None:
                return found_in
    return None


def _is_choice(op: Op, context: Context) -> bool:
    """Whether a branch is decided by one of a few texts that the model chooses from."""
    if op.name != "cf.if":
        return False
    pending, seen = [op.operands[0]], {op.operands[0]}
    while pending:
        value: Value = pending.pop()
        if texts_of(value, context) is not None or _is_bool(value, context):
            return True
        found_op = context.facts.op_of(value)
        if found_op is not None and found_op.name.startswith("val."):
            pending += [v for v in found_op.operands if v not in seen]
            seen.update(found_op.operands)
    return False


def _is_bool(value: Value, context: Context) -> bool:
    origin = origin_of(value, context)
    return origin is not None and common_type(origin, context) == "bool"


RULES = (effects_in_arms,)
