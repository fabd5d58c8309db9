"""Where the states go whose common text may move: through loops, joins and containers."""

from lmc.ir.core import Op, Value
from lmc.ir.types import PY, STATE, Type
from lmc.passes.analysis import Facts


def unchanged_states(loop: Op, facts: Facts) -> dict[Value, Value]:
    """Return the states that a loop carries and only counts calls of, with what they start as."""
    body, first = loop.blocks[0], loop.name == "cf.for"
    found: dict[Value, Value] = {}
    pairs = zip(body.arguments[first:], loop.operands[first:], strict=True)
    for (argument, start), end in zip(pairs, body.terminator.operands[1:], strict=True):
        if argument.type == start.type == STATE:
            while (op := facts.op_of(end, "lm.tick", "lm.fork")) and end is op.results[0]:
                end = op.operands[0]
            if end is argument:
                found[argument] = start
    return found


def joins_added_text(fork: Op, facts: Facts) -> bool:
    """Whether a join appends the text that children of a fork added since the fork."""
    pending = [fork.results[1]]
    seen = set(pending)
    while pending:
        value = pending.pop()
        for op, position in facts.uses(value):
            if op.name == "lm.join" and position == 1:
                if op.attributes["mode"] == "concate_and_append":
                    return True
                continue
            fresh = [made for made in _carriers(op, position, facts) if made not in seen]
            seen.update(fresh)
            pending += fresh
    return False


def _carriers(op: Op, position: int, facts: Facts) -> list[Value]:
    """Return values that may hold a child which an op takes: its state after, or containers."""
    if op.name == "lm.fork":
        return op.results[:1]  # the forked one goes on; its children are another fork's
    if op.name == "func.call":
        return op.results[1:2]
    if op.name == "lm.group":
        return op.results[position - 1 : position] if position else []
    if op.name.startswith("lm."):
        return [made for made in op.results if made.type == STATE and position == 0]
    held = facts.holders(op, position)
    return [made for made in held if made.type == STATE or _may_hold(made.type)]


def _may_hold(kind: Type) -> bool:
    """Whether a value of a type may be a container of states."""
    return kind == PY or kind.name == "list"
