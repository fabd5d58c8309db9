"""What the reference interpreter knows of a `cf.try` whose block it walks."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.errors import LmcError
from lmc.ir.core import Op
from lmc.ir.failing import Failed
from lmc.ir.interpreter_demand import Traced
from lmc.ir.interpreter_prompt import NO_CALLS, Calls, Prompt
from lmc.ir.tries import saved_slots

_PASSING = frozenset({"lm.fork", "lm.group", "lm.tick", "lm.place", "lm.prompt", "lm.prologue"})
"""Ops that take a state that has failed without looking at it: for its place, or to hand it on."""


class CarriedFailure(Exception):
    """Ends the run with a failure that no `cf.try` around catches."""

    def __init__(self, error: LmcError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Guard:
    """A running block.

    `slots` are the values noted last; `needed` are the calls that were made in the block, with
    all that their contexts rest on; `failed_by` those that the failure rests on.
    """

    slots: list[Traced]
    needed: Calls = NO_CALLS
    failed_by: Calls | None = None

    def save(self, op: Op, values: Sequence[Traced]) -> None:
        """Carry out a `cf.save`."""
        for slot, value in zip(saved_slots(op), values, strict=True):
            self.slots[slot] = value


def carried_in(op: Op, operands: Sequence[Traced]) -> Failed | None:
    """Return the first failure from before the block that an op in it meets."""
    if op.name.startswith(("cf.", "func.")) and op.name not in ("cf.if", "cf.for"):
        return None
    looked_at = [operand.value for operand in operands]
    if op.name == "cf.for":
        del looked_at[1:]
    elif op.name == "lm.join" and isinstance(looked_at[1], list):
        looked_at += looked_at.pop()
    found = [_failure_of(value, op) for value in looked_at]
    failures = [failed for failed in found if failed is not None]
    return min(failures, key=lambda failed: failed.number) if failures else None


def _failure_of(value: object, op: Op) -> Failed | None:
    if isinstance(value, Failed):
        return value
    if isinstance(value, Prompt) and op.name.startswith("lm.") and op.name not in _PASSING:
        return value.failed
    return None
