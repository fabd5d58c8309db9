"""The `dce` pass: drop what nobody can observe."""

from dataclasses import dataclass, field
from typing import ClassVar

from lmc.ir.core import Block, Module, Op, Value, replace_values
from lmc.ir.tries import FIRST_SLOT, keep_results, num_slots, result_sources, slot_saves
from lmc.ir.types import STATE
from lmc.passes.analysis import EFFECTS, Facts
from lmc.passes.base import Level, Pass, Remarks
from lmc.passes.purity import (
    CALLEES,
    FunctionFacts,
    function_facts,
    guarded_blocks,
    guarded_functions,
    reachable_functions,
)
from lmc.passes.totality import is_total

ENDS = frozenset({"cf.yield", "func.return"})
_SURE = frozenset({"lm.extend", "lm.fork", "lm.get", "lm.has", "lm.join", "lm.meta", "lm.set"})
"""Ops on states that do not fail where they are total."""

CHECKED = frozenset({"lm.extend", "lm.fork", "lm.image"})
"""Ops on states that fail by their second operand alone: a text that is none, a bad count."""

NEVER_FAIL = frozenset({
    "lm.prompt", "lm.prologue", "lm.tick", "lm.place", "lm.text", "lm.messages", "lm.group",
    "lm.foresee",
    "host.matches", "cf.if", "cf.for", "cf.try", "cf.save",
})  # fmt: skip
"""Ops, besides total expressions, whose own failure no `cf.try` can see."""

TOLD = CALLEES | {
    "lm.gen", "lm.select", "lm.again", "lm.fork", "lm.join", "cf.for", "host.pure",
}  # fmt: skip
"""Ops whose removal is worth a remark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DcePass(Pass):
    """Drop values, generations, forks and calls that nobody can observe.

    Exact (level E): what a program returns, its final state, its host calls and its errors
    need stays. So an unread expression goes only if it cannot raise; of an unread append of
    what may be no text, and of an unread fork of a count that may be none, a check on an empty
    prompt stays. Host calls, calls of functions that may do or raise something, and `cf.while`
    loops, which may not end, stay. Model calls, turn markers and functions declared pure go
    with the failures they might have had; in a `cf.try`, which sees these, they stay. Keys
    stay: a fork or call that goes while its parent state is used leaves an `lm.tick` behind.
    Functions that no entry reaches go; parameters stay.
    """

    name: ClassVar[str] = "dce"
    level: ClassVar[Level] = "E"

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Sweep every function, then the functions nobody calls."""
        callees = function_facts(module)
        guarded, changed = guarded_functions(module), False
        for function in module.functions.values():
            blocks = guarded_blocks(function, guarded)
            live = _Liveness(Facts.of(function), callees, blocks)
            live.mark_block(function.body)
            sweeper = _Sweeper(live, remarks)
            sweeper.block(function.body)
            replace_values(function.body, sweeper.replaced)
            changed |= sweeper.changed
        return _drop_functions(module) or changed


def _drop_functions(module: Module) -> bool:
    """Drop the functions that no entry reaches; a module without entries keeps all."""
    if not module.entries:
        return False
    kept = reachable_functions(module)
    changed = len(kept) < len(module.functions)
    module.functions = {name: module.functions[name] for name in kept}
    return changed


def _check_alone(op: Op) -> list[Op]:
    """Return an op on an empty prompt: it fails as before, but needs no state.

    Its text is nobody's, so it is marked as moved and streams do not show it.
    """
    prompt = Op("lm.prompt", [], [Value(STATE, "check")], {}, [], op.location)
    results = [Value(result.type, result.hint) for result in op.results]
    operands = [prompt.result, *op.operands[1:]]
    attributes = {**op.attributes, "hoisted": True} if op.name == "lm.extend" else op.attributes
    return [prompt, Op(op.name, operands, results, dict(attributes), [], op.location)]


@dataclass(slots=True)
class _Liveness:
    """Marks the ops and values that are demanded, from the roots backwards."""

    facts: Facts
    callees: dict[str, FunctionFacts]
    guarded: set[Block]
    ops: set[Op] = field(default_factory=set)
    values: set[Value] = field(default_factory=set)

    def mark_block(self, block: Block) -> None:
        """Mark everything that the roots of a function demand."""
        for op in block.walk():
            if self.is_checked(op):
                for value in op.operands[1:]:
                    self._demand(value)
                owner = self.facts.owners[self.facts.blocks[op]]
                if owner is not None:
                    self._demand(owner)
            elif self.is_root(op):
                self._demand(op)

    def is_checked(self, op: Op) -> bool:
        """Whether an op, if nobody reads its state, only stays for the failure it may have."""
        if op.name not in CHECKED or is_total(op, self.facts):
            return False
        return self.facts.op_of(op.operands[0], "lm.prompt") is None

    def is_root(self, op: Op) -> bool:
        """Whether an op must run even if nobody reads its results."""
        if op.name in EFFECTS or op.name in ("cf.while", "func.return"):
            return True
        if op.name in CALLEES:
            return self.is_guarded(op) or not self.is_droppable(op)
        if self.is_guarded(op) and not op.name.startswith("val.") and op.name not in NEVER_FAIL:
            # What is total here may still fail by what the model or the target does.
            is_sure = op.name in _SURE and is_total(op, self.facts)
            return op.name not in ENDS and not is_sure
        return op.name not in ENDS and op.name != "cf.save" and not is_total(op, self.facts)

    def is_guarded(self, op: Op) -> bool:
        """Whether a failure of an op may be caught."""
        return self.facts.blocks[op] in self.guarded

    def is_droppable(self, op: Op) -> bool:
        """Whether a call of another function can be left out if nobody reads its results."""
        callee = self.callees.get(str(op.attributes["callee"]))
        return callee is not None and callee.is_droppable

    def passes_on(self, op: Op, index: int) -> Value | None:
        """Return the operand that can stand for a result, up to counted ordinals."""
        match op.name, index:
            case "lm.fork", 0:
                return op.operands[0]
            case "func.call", (0 | 1) if self.is_droppable(op) and not self.is_guarded(op):
                return op.operands[index]
            case "func.apply", 0 if self.is_droppable(op) and not self.is_guarded(op):
                return op.operands[0]
            case _:
                return None

    def _demand(self, demanded: Op | Value) -> None:
        """Mark a value, or an op whichever of its results is read, and what it needs."""
        pending: list[Op | Value] = [demanded]
        while pending:
            item = pending.pop()
            pending += self._op_needs(item) if isinstance(item, Op) else self._value_needs(item)

    def _op_needs(self, op: Op) -> list[Op | Value]:
        if op in self.ops:
            return []
        self.ops.add(op)
        needs: list[Op | Value] = []
        owner = self.facts.owners[self.facts.blocks[op]]
        if owner is not None:
            needs.append(owner)
        match op.name:
            case "cf.yield" | "cf.save":
                pass  # its operands are demanded one by one
            case "cf.try":
                needs += [op.operands[0], op.blocks[0].terminator.operands[0]]
            case "cf.if" | "cf.for":
                needs.append(op.operands[0])
            case "cf.while":
                pass
            case "lm.group":
                needs.append(op.operands[0])
            case _:
                needs += op.operands
        if op.name in ("cf.for", "cf.while"):
            needs.append(op.blocks[0].terminator.operands[0])
        return needs

    def _value_needs(self, value: Value) -> list[Op | Value]:
        if value in self.values:
            return []
        self.values.add(value)
        if value in self.facts.arguments:
            owner, index = self.facts.arguments[value]
            return [] if owner is None else self._carried_needs(owner, index)
        op, index = self.facts.definitions[value]
        if op.blocks:
            return self._result_needs(op, index)
        if op.name == "lm.group":
            return [op, op.operands[index + 1]]
        through = self.passes_on(op, index)
        return [op] if through is None else [through]

    def _result_needs(self, op: Op, index: int) -> list[Op | Value]:
        if op.name == "cf.try":
            slot = index - FIRST_SLOT
            is_slot = 0 <= slot < num_slots(op)
            saves = [save for save, _ in slot_saves(op, slot)] if is_slot else []
            return [op, *saves, *result_sources(op, index)]
        if op.name == "cf.if":
            return [op, *(block.terminator.operands[index] for block in op.blocks)]
        return [op, *self._carried_needs(op, index + (op.name == "cf.for"))]

    def _carried_needs(self, owner: Op, index: int) -> list[Op | Value]:
        """Return what an argument of a loop needs: where it starts and what is handed on."""
        is_for = owner.name == "cf.for"
        if is_for and index == 0:
            return [owner.operands[0]]
        return [owner.operands[index], owner.blocks[0].terminator.operands[index + 1 - is_for]]

    def is_carried_live(self, op: Op, index: int) -> bool:
        """Whether a carried value of a loop is read, in the loop or after it."""
        first = 1 if op.name == "cf.for" else 0
        argument = op.blocks[0].arguments[index + first]
        return op.results[index] in self.values or argument in self.values


@dataclass(slots=True)
class _Sweeper:
    """Removes what was not marked."""

    live: _Liveness
    remarks: Remarks
    replaced: dict[Value, Value] = field(default_factory=dict)
    changed: bool = False

    def block(self, block: Block) -> None:
        """Sweep a block and the blocks within it."""
        kept: list[Op] = []
        for op in block.ops:
            if op.name in ENDS or op in self.live.ops:
                kept += self._kept(op)
                for nested in op.blocks:
                    self.block(nested)
            else:
                kept += self._dropped(op)
                self.changed = True
        block.ops = kept

    def _kept(self, op: Op) -> list[Op]:
        match op.name:
            case "cf.if":
                self._drop_results(op)
            case "cf.for" | "cf.while":
                self._drop_carried(op)
            case "cf.try":
                kept = range(FIRST_SLOT, len(op.results))
                kept = [i for i in kept if op.results[i] in self.live.values]
                self.changed |= len(kept) + FIRST_SLOT < len(op.results)
                keep_results(op, kept)
            case "lm.group":
                self._shrink_group(op)
            case name if name.startswith("val.") or name in ("lm.get", "lm.meta"):
                if not any(value in self.live.values for value in op.results):
                    self.remarks.missed(f"{name} is not read, but may raise", op)
            case _:
                pass
        return [] if op.name == "lm.group" and not op.results else [op]

    def _dropped(self, op: Op) -> list[Op]:
        """Return what stays of an op that nobody demands: a tick for a counted ordinal."""
        if op.name in TOLD:
            self.remarks.fired(f"{op.name} has no reader", op)
        ticks: list[Op] = []
        for index, result in enumerate(op.results):
            operand = self.live.passes_on(op, index)
            if result not in self.live.values or operand is None:
                continue
            if op.name == "lm.fork" or (op.name == "func.call" and index == 1):
                ticks.append(Op("lm.tick", [operand], [result], {"n": 1}, [], op.location))
            else:
                self.replaced[result] = operand
        return ticks + (_check_alone(op) if self.live.is_checked(op) else [])

    def _drop_results(self, op: Op) -> None:
        kept = [i for i, result in enumerate(op.results) if result in self.live.values]
        if len(kept) == len(op.results):
            return
        self.changed = True
        op.results = [op.results[i] for i in kept]
        for block in op.blocks:
            block.terminator.operands = [block.terminator.operands[i] for i in kept]

    def _drop_carried(self, op: Op) -> None:
        kept = [i for i in range(len(op.results)) if self.live.is_carried_live(op, i)]
        if len(kept) == len(op.results):
            return
        self.changed = True
        first = 1 if op.name == "cf.for" else 0
        body = op.blocks[0]
        ends = body.terminator.operands
        body.terminator.operands = [ends[0], *(ends[i + 1] for i in kept)]
        body.arguments = [*body.arguments[:first], *(body.arguments[i + first] for i in kept)]
        op.operands = [*op.operands[:first], *(op.operands[i + first] for i in kept)]
        op.results = [op.results[i] for i in kept]

    def _shrink_group(self, op: Op) -> None:
        """Drop the children that nobody reads; one child alone is no group."""
        kept = [i for i, result in enumerate(op.results) if result in self.live.values]
        if len(kept) < 2:
            self.replaced.update((op.results[i], op.operands[i + 1]) for i in kept)
            kept = []
        if len(kept) < len(op.results):
            self.changed = True
            op.operands = [op.operands[0], *(op.operands[i + 1] for i in kept)]
            op.results = [op.results[i] for i in kept]
