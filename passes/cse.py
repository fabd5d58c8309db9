"""The `cse` pass: what is equal is computed once, calls of the model included."""

from collections import ChainMap
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from lmc.ir.core import Attr, Block, Function, Module, Op, Value, replace_values
from lmc.passes.analysis import Facts
from lmc.passes.base import Level, Pass, Remarks
from lmc.passes.numbering import Numbers
from lmc.passes.purity import CALLEES, guarded_blocks, guarded_functions
from lmc.passes.rewriting import can_stand, sweep_total

ASKING = frozenset({"lm.gen", "lm.select"})
TOLD = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text"})
"""Ops whose merging is worth a remark."""

Table = ChainMap[Hashable, Op]


@dataclass(frozen=True, slots=True, kw_only=True)
class CsePass(Pass):
    """Compute equal expressions once, and ask equal greedy calls once.

    Exact (level E). An expression becomes an equal one before it, in the same block or one
    around, where nobody can tell the two values apart: no new list, dict or set, and nothing
    made of what host code may change. An equal one that raises has raised before.

    A generation of temperature 0, or a choice, becomes `lm.again` of an equal call: same
    parameters, constraint and name, on a context that is the same by how the prompts were
    made. It takes the answer into its own prompt and variable and counts its ordinal; failures
    are told at its own line. Sampled calls have keys of their own and never merge; neither do
    calls in a `cf.try`, where each one's failure is its own, nor those of unknown temperature:
    unset, it may come from the run's defaults.
    """

    name: ClassVar[str] = "cse"
    level: ClassVar[Level] = "E"

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Merge in every function."""
        guarded = guarded_functions(module)
        called = {op.attributes["callee"] for op in module.walk() if op.name in CALLEES}
        changed = False
        for name, function in module.functions.items():
            blocks = guarded_blocks(function, guarded)
            changed |= _Merger(function, remarks, blocks, is_called=name in called).run()
        return changed


class _Merger:
    """Merges in one function."""

    def __init__(
        self, function: Function, remarks: Remarks, guarded: set[Block], *, is_called: bool
    ) -> None:
        self._function = function
        self._remarks = remarks
        self._guarded = guarded
        self._facts = Facts.of(function, is_called=is_called)
        self._numbers = Numbers(self._facts)
        self._replaced: dict[Value, Value] = {}
        self._changed = False

    def run(self) -> bool:
        """Merge what is equal; return whether anything was."""
        self._block(self._function.body, ChainMap())
        replace_values(self._function.body, self._replaced)
        if self._changed:
            sweep_total(self._function)
        return self._changed

    def _block(self, block: Block, known: Table) -> None:
        """Merge in a block; `known` are the ops before it by their keys."""
        kept: list[Op] = []
        for op in block.ops:
            op.operands = [self._final(value) for value in op.operands]
            if self._is_merged(op, known):
                continue
            made = self._asked_before(op, block, known) if op.name in ASKING else op
            self._numbers.note(made)
            kept.append(made)
            for nested in made.blocks:
                self._block(nested, known.new_child())
        block.ops = kept

    def _final(self, value: Value) -> Value:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _is_merged(self, op: Op, known: Table) -> bool:
        key = self._numbers.of_expression(op)
        if key is None:
            return False
        before = known.setdefault(key, op)
        if before is op:
            return False
        pairs = list(zip(before.results, op.results, strict=True))
        if not all(can_stand(new, old, self._facts) for new, old in pairs):
            return False
        for new, old in pairs:
            self._replaced[old] = new
            self._facts.users.setdefault(new, []).extend(self._facts.uses(old))
        if op.name in TOLD:
            self._remarks.fired(f"{op.name} gives what it gave before", op)
        self._changed = True
        return True

    def _asked_before(self, op: Op, block: Block, known: Table) -> Op:
        """Return the op that takes the answer of an equal call before, else the op itself."""
        first = known.setdefault(self._numbers.of_call(op), op)
        if first is op:
            return op
        obstacle = "calls in a try fail by themselves" if block in self._guarded else _obstacle(op)
        if obstacle is not None:
            self._remarks.missed(f"an equal call stands before, but {obstacle}", op)
            return op
        self._changed = True
        place = f" at {first.location}" if first.location is not None else ""
        self._remarks.fired(f"asked once: the call{place} is equal", op)
        return self._again(op, first)

    def _again(self, op: Op, first: Op) -> Op:
        kept = {key: op.attributes[key] for key in ("name", "quiet") if key in op.attributes}
        attributes: dict[str, Attr] = {"kind": op.name.removeprefix("lm."), **kept}
        if first.location != op.location:
            attributes["first"] = str(first.location or "")
        operands = [op.operands[0], *first.results]
        made = Op("lm.again", operands, op.results, attributes, [], op.location)
        self._facts.add(made, self._facts.blocks[op])
        return made


def _obstacle(op: Op) -> str | None:
    """Return why a call of a name and parameters is not to merge with an equal one."""
    dynamic: Any = op.attributes["dynamic"]
    if "name" in dynamic:
        return "its variable's name is known when it runs"
    if op.name == "lm.select":
        return None
    params: Any = op.attributes["params"]
    defaults: Any = op.attributes.get("defaults") or {}
    known: dict[str, Any] = {}
    for key in ("temperature", "top_k"):
        own = params.get(key)
        known[key] = defaults.get(key) if own is None else own
    if "top_k" not in dynamic and known["top_k"] == 1:
        return None
    if "temperature" in dynamic:
        return "its temperature is known when it runs"
    if known["temperature"] is None:
        return "its temperature may come from the run's defaults"
    return None if known["temperature"] == 0 else "sampled calls never merge"
