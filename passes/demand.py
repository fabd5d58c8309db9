"""Which values may rest on model calls, so that dropping a decision would drop a demand.

A value that a branch or loop hands on is known only after the condition, so it demands the
calls behind it (docs/ir.md). Exact rewriting may take such a value past its condition only
where no call can be behind the condition.
"""

from lmc.ir.core import Op, Value
from lmc.ir.types import EFFECT
from lmc.passes.analysis import Facts

HOST = frozenset({"host.pure", "host.call", "host.method", "host.matches"})


def is_decision_free(op: Op, facts: Facts) -> bool:
    """Whether what decides a `cf` op certainly rests on no model call."""
    decisions = []
    if op.name in ("cf.if", "cf.for"):
        decisions.append(op.operands[0])
    if op.name in ("cf.for", "cf.while"):
        decisions.append(op.blocks[0].terminator.operands[0])
    return not any(may_rest_on_call(value, facts) for value in decisions)


def may_rest_on_call(value: Value, facts: Facts) -> bool:
    """Whether knowing a value may need an answer of the model."""
    pending, seen = [value], {value}
    while pending:
        sources = _sources(pending.pop(), facts)
        if sources is None:
            return True
        fresh = [source for source in sources if source not in seen]
        seen.update(fresh)
        pending += fresh
    return False


def _sources(value: Value, facts: Facts) -> list[Value] | None:
    """Return the values that a value is made of; None where calls may be behind it."""
    if value.type == EFFECT:
        return []
    if value in facts.arguments:
        owner, _ = facts.arguments[value]
        if owner is None:
            return None if facts.is_called else []
        return _handed_on(owner, owner.blocks[0].arguments, value, owner.name == "cf.for")
    op, _ = facts.definitions[value]
    if op.name == "cf.try":
        return None  # the calls of its block
    if op.blocks:
        return _handed_on(op, op.results, value, False)
    if op.name.startswith("val.") or op.name in HOST:
        return list(op.operands)
    # Forks and states as a whole: what is read of them is not followed here.
    return None


def _handed_on(owner: Op, among: list[Value], value: Value, has_item: bool) -> list[Value] | None:
    """Return what decides one of a `cf` op's results or arguments, None where it has gone.

    Places are looked up, because rewriting may have changed them since the facts were made.
    """
    if value not in among:
        return None
    index = among.index(value) - has_item
    if owner.name == "cf.if":
        return [owner.operands[0], *(block.terminator.operands[index] for block in owner.blocks)]
    is_for = owner.name == "cf.for"
    ends = owner.blocks[0].terminator.operands
    decided = [ends[0], owner.operands[0]] if is_for else [ends[0]]
    return decided if index < 0 else [*decided, owner.operands[index + is_for], ends[index + 1]]
