"""What follows an option of a finite choice: constant text, branches decided, the next call."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lmc.errors import RunError
from lmc.ir.core import Block, Op, Value, copy_attr
from lmc.ir.evaluate import evaluate
from lmc.ir.types import Attr, is_attr
from lmc.passes.analysis import APPENDING, Const, Facts
from lmc.passes.fold_values import attr_size, is_affordable
from lmc.passes.options import Option
from lmc.passes.prefixes import Head, front_of, head_of
from lmc.passes.purity import is_observed

MAX_TEXT = 65_536
MARKER_CHARS = 8
"""Characters that a turn marker counts for."""

_READING = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text", "lm.messages"})
_KEEPING = frozenset({"lm.set", "lm.unordered", "lm.foresee"})
_NOTES = ("skeleton", "expected")
"""What other passes note on a generation; it is no part of the call."""

_LOOPS = frozenset({"cf.for", "cf.while", "cf.try"})

Arms = tuple[tuple[Op, int], ...]
"""The branches on a path, each with the arm that the option takes."""


@dataclass(frozen=True, slots=True)
class Path:
    """What one option leads to, up to the next call on the state.

    Attributes:
        choice: the option's text.
        pieces: what is appended, as `lm.prologue` lists it.
        ticks: calls counted on the way.
        arms: the branches on the way.
        share: how often the runs of a profile went along them; None without a profile.
        generation: the next call, if it is a generation whose parameters are all constant.
        is_open: whether the pieces are all that is appended before the next call.
    """

    choice: str
    pieces: tuple[tuple[str, str], ...]
    ticks: int
    arms: Arms
    share: float | None
    generation: Op | None
    is_open: bool

    @property
    def num_chars(self) -> int:
        """Characters of constant text, markers counted as a few."""
        return sum(len(word) if kind == "text" else MARKER_CHARS for kind, word in self.pieces)

    def as_data(self, *, with_generation: bool) -> dict[str, Attr]:
        """Return the path as `lm.foresee` lists it."""
        made: dict[str, Attr] = {
            "choice": self.choice, "pieces": [list(piece) for piece in self.pieces],
        }  # fmt: skip
        if self.ticks:
            made["ticks"] = self.ticks
        if self.share is not None:
            made["share"] = round(self.share, 3)
        if with_generation and self.generation is not None:
            held = self.generation.attributes.items()
            call = {key: copy_attr(value) for key, value in held if key not in _NOTES}
            made["gen"] = {**call, "at": str(self.generation.location or "?")}
        return made


class _EndError(Exception):
    """The path ends here; the text says why."""


def follow(op: Op, block: Block, option: Option, facts: Facts) -> Path | str:
    """Return what follows an option of a choice, or why nothing can be said.

    Args:
        op: the choice.
        block: where it stands.
        option: the text that it gives, and the value.
        facts: of the function.
    """
    walker = _Follower(facts, op.results[0])
    if option.value is not None:
        walker.known[op.results[1]] = option.value
    try:
        walker.go(block, block.ops.index(op) + 1)
    except _EndError as end:
        return str(end)
    return Path(
        option.text, tuple(walker.pieces), walker.ticks, tuple(walker.arms), walker.share,
        walker.generation if walker.is_open else None, walker.is_open,
    )  # fmt: skip


@dataclass(slots=True)
class _Follower:
    """Walks the ops after a choice, in program order, with what an option makes known."""

    facts: Facts
    state: Value
    known: dict[Value, Const] = field(default_factory=dict)
    pieces: list[tuple[str, str]] = field(default_factory=list)
    ticks: int = 0
    arms: list[tuple[Op, int]] = field(default_factory=list)
    entered: dict[Op, Value] = field(default_factory=dict)  # the state before each branch
    share: float | None = None
    generation: Op | None = None
    is_open: bool = True  # all that was appended so far is known

    def go(self, block: Block, start: int) -> None:
        """Walk to the next call on the state, out of arms into what follows them."""
        while True:
            inner = self._block(block, start)
            if inner is None:
                return
            owner = self.facts.owners[inner]
            if owner is None or owner.name != "cf.if":
                raise _EndError("no call on the prompt follows in its block")
            self._leave(owner, inner)
            block = self.facts.blocks[owner]
            start = block.ops.index(owner) + 1

    def _block(self, block: Block, start: int) -> Block | None:
        """Walk a block; return the one whose end was reached, None at a call."""
        for op in block.ops[start:-1]:
            if op.name == "cf.if":
                arm = self._branch(op)
                if arm is not None:
                    # What follows the branch is walked when its arm has ended.
                    return self._block(arm, 0)
            elif self._op(op):
                return None
        return block

    def _leave(self, owner: Op, block: Block) -> None:
        """Go on with the results of a branch whose arm has ended."""
        pairs = list(zip(owner.results, block.terminator.operands, strict=True))
        for result, value in pairs:
            found = self.constant(value)
            if found is not None:
                self.known[result] = found
        states = [result for result, value in pairs if value is self.state]
        if states:
            self.state = states[0]
        elif self.state is not self.entered.get(owner):
            raise _EndError("no call on the prompt follows")

    def _branch(self, op: Op) -> Block | None:
        """Return the arm that is taken, None for a branch that has nothing to do with it."""
        condition = self.constant(op.operands[0])
        if condition is not None and type(condition.value) is bool:
            arm = 0 if condition.value else 1
            self.arms.append((op, arm))
            self.entered[op] = self.state
            taken: Any = op.attributes.get("taken", [0, 0])
            if sum(taken):
                part = taken[arm] / sum(taken)
                self.share = part if self.share is None else self.share * part
            return op.blocks[arm]
        self._pass_over(op)
        return None

    def _pass_over(self, op: Op) -> None:
        """Refuse ops with blocks that do something, or that the prompt goes through."""
        if is_observed(op):
            raise _EndError(f"{op.name} with effects stands before the next call")
        inner = (each for block in op.blocks for each in block.walk())
        if any(self.state in each.operands for each in (op, *inner)):
            raise _EndError("the prompt goes through what the option does not decide")

    def _op(self, op: Op) -> bool:
        """Take one op; return whether it is the next call on the state."""
        if op.name.startswith("val."):
            self._value(op)
        elif op.name in _LOOPS:
            self._pass_over(op)
        elif is_observed(op):
            raise _EndError(f"{op.name} stands before the next call")
        elif op.name == "lm.group" and self.state in op.operands[1:]:
            self.state = op.results[op.operands.index(self.state, 1) - 1]
        elif op.operands and op.operands[0] is self.state and op.name not in _READING:
            return self._state_op(op)
        return False

    def _state_op(self, op: Op) -> bool:
        if op.name == "lm.gen":
            is_plain = not op.attributes["dynamic"] and _samples(op) == 1
            self.generation = op if is_plain else None
            return True
        if op.name in ("lm.select", "lm.fork", "lm.group"):
            return True
        if op.name in APPENDING:
            self._append(op)
        elif op.name == "lm.tick":
            self.ticks += op.attributes["n"]  # type: ignore[operator]
        elif op.name not in _KEEPING:
            self.is_open = False  # an image, or what children have added
        self.state = op.results[0]
        return False

    def _append(self, op: Op) -> None:
        """Note what an op appends, up to the first text that is not known."""
        if not self.is_open:
            return
        head: Head | None
        if op.name == "lm.extend":
            text = self.constant(op.operands[1])
            if text is not None and isinstance(text.value, str):
                head = Head("text", text.value, True)
            else:
                head = Head("text", front_of(op.operands[1], self.facts), False)
        else:
            head = head_of(op, self.facts)
        assert head is not None, "a marker is always known"
        if head.text:
            self.pieces.append((head.kind, head.text))
        self.is_open = head.is_whole

    # -- values ------------------------------------------------------------------------------

    def constant(self, value: Value) -> Const | None:
        """Return what is known of a value."""
        return self.known.get(value) or self.facts.constant(value)

    def _value(self, op: Op) -> None:
        """Compute an expression, if all that it takes is known and it is quick."""
        operands = [self.constant(value) for value in op.operands]
        given = [operand.value for operand in operands if operand is not None]
        if op.name == "val.const" or len(given) < len(operands) or not is_affordable(op, given):
            return
        try:
            results: Sequence[Any] = evaluate(op, [copy_attr(value) for value in given])
        except RunError:
            return  # it ends the run, if the option is chosen
        for result, value in zip(op.results, results, strict=True):
            if is_attr(value) and attr_size(value) <= MAX_TEXT:
                self.known[result] = Const(value)


def _samples(op: Op) -> Any:
    params: Any = op.attributes["params"]
    return params.get("n", 1)
