"""Which ops may fail, as far as their types show; and values that a failed call did not give.

An op that may fail is carried out, in order, whether or not somebody reads its results: its
error ends the run as it would end the Python program. Model calls, what only adds to a prompt,
and functions declared pure are different. Nobody needs to know whether a call fails that
nothing demands, so its failure stays where its results would be, as `Failed`, until an op
that may fail itself looks at them, or whoever observes the end of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lmc.errors import LmcError
from lmc.ir.core import Op
from lmc.ir.types import BOOL, DICT, FLOAT, INT, META, NONE, STATE, TEXT, list_of

SCALARS = frozenset({TEXT, BOOL, INT, FLOAT, NONE})
QUIET = frozenset({
    "lm.prompt", "lm.prologue", "lm.begin", "lm.end", "lm.control", "lm.tick", "lm.group",
    "lm.unordered", "lm.foresee", "lm.again", "lm.place", "lm.text", "lm.messages", "val.const",
    "val.undefined", "val.list", "val.tuple", "host.pure", "host.matches", "cf.save", "cf.yield",
    "func.return",
})  # fmt: skip
"""Ops that never fail, or only as a call does that nothing may need."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Stands for what a failed call would have given; `number` counts failures in order."""

    error: LmcError
    number: int


def may_fail(op: Op) -> bool:
    """Whether an op may end the run: by its own error, or by needing what has failed.

    Model calls may, by wrong parameters; they do not by what the model answers.
    """
    if op.name in QUIET:
        return False
    rule = _RULES.get(op.name)
    return True if rule is None else rule(op)


def _branch_may_fail(op: Op) -> bool:
    return any(may_fail(inner) for block in op.blocks for inner in block.ops)


def _loop_may_fail(op: Op) -> bool:
    items = op.operands[0].type
    return (items.name != "list" and items not in (TEXT, DICT)) or _branch_may_fail(op)


def _truth_may_fail(op: Op) -> bool:
    kind = op.operands[0].type
    return not (kind in SCALARS or kind in (DICT, META) or kind.name == "list")


def _name_may_fail(position: int) -> Callable[[Op], bool]:
    def rule(op: Op) -> bool:
        return "name" not in op.attributes and op.operands[position].type != TEXT

    return rule


_RULES: dict[str, Callable[[Op], bool]] = {
    "lm.extend": lambda op: op.operands[1].type != TEXT,
    "lm.fork": lambda op: "count" not in op.attributes,
    "lm.join": lambda op: op.operands[1].type != list_of(STATE),
    "lm.set": _name_may_fail(2),
    "lm.has": _name_may_fail(1),
    "val.concat": lambda op: any(value.type != TEXT for value in op.operands),
    "val.truth": _truth_may_fail,
    "val.not": _truth_may_fail,
    "cf.if": _branch_may_fail,
    "cf.for": _loop_may_fail,
}
"""Ops for which it depends; ops neither here nor in QUIET may always fail."""
