"""How many tokens are still expected behind each call: the longest chain of calls that need it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lmc.ir.core import Block, Function, Op, Value

ROOTS = frozenset({"lm.prompt", "lm.prologue"})


def chains(function: Function) -> dict[Op, int]:
    """Return the tokens that are expected from each call on, its own included.

    What a call gives is needed by the calls that its results lead to; of several ways the
    longest counts. A loop counts as one trip, a call of a function for nothing. 0 where
    nothing is expected: no profile was used.
    """
    found = _Chains()
    found.block(function.body, ())
    return found.of_calls


@dataclass(slots=True)
class _Chains:
    """Goes through blocks backwards, so that all that needs a value comes before it."""

    of_calls: dict[Op, int] = field(default_factory=dict[Op, int])
    _ahead: dict[Value, int] = field(default_factory=lambda: defaultdict[Value, int](int))

    def block(self, block: Block, given: Sequence[int]) -> None:
        """Go through a block; `given` is what lies ahead of the values that it ends with."""
        for value, ahead in zip(block.terminator.operands, given, strict=False):
            self._need(value, ahead)
        for op in reversed(block.ops[:-1]):
            self._op(op)

    def _op(self, op: Op) -> None:
        results = [self._ahead[value] for value in op.results]
        longest = max(results, default=0)
        if op.name == "lm.gen":
            expected: Any = op.attributes.get("expected", 0)
            longest += expected
        if op.name in ("lm.gen", "lm.select"):
            self.of_calls[op] = longest
        for block in op.blocks:
            is_arm = op.name == "cf.if"
            self.block(block, results if is_arm else [longest] * len(block.terminator.operands))
            longest = max([longest, *(self._ahead[value] for value in block.arguments)])
        for value in _awaited(op):
            self._need(value, longest)

    def _need(self, value: Value, ahead: int) -> None:
        self._ahead[value] = max(self._ahead[value], ahead)


def _awaited(op: Op) -> Sequence[Value]:
    """Return the operands whose calls must be over: not those that only give a place."""
    if op.name in ROOTS:
        return ()
    return op.operands[:1] if op.name == "lm.place" else op.operands
