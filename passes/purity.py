"""What running a function can do apart from giving its results."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lmc.ir.core import Block, Function, Module, Op
from lmc.passes.analysis import EFFECTS, Facts
from lmc.passes.totality import is_total

CALLEES = frozenset({"func.call", "func.apply"})
"""Ops that run another function of the module."""


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What running a function can do apart from giving its results."""

    has_effects: bool
    may_diverge: bool
    may_raise: bool

    @property
    def is_droppable(self) -> bool:
        """Whether a call whose results nobody reads can be left out."""
        return not (self.has_effects or self.may_diverge or self.may_raise)


def function_facts(module: Module) -> dict[str, FunctionFacts]:
    """Return the facts of every function; recursion and unknown callees count as the worst."""
    made: dict[str, FunctionFacts] = {}
    open_names: set[str] = set()
    worst = FunctionFacts(True, True, True)

    def visit(name: str) -> FunctionFacts:
        if name in made:
            return made[name]
        if name in open_names or name not in module.functions:
            return worst
        open_names.add(name)
        function = module.functions[name]
        facts = Facts.of(function)
        ops = list(function.body.walk())
        callees = [visit(str(op.attributes["callee"])) for op in ops if op.name in CALLEES]
        made[name] = FunctionFacts(
            any(op.name in EFFECTS for op in ops) or any(c.has_effects for c in callees),
            any(op.name == "cf.while" for op in ops) or any(c.may_diverge for c in callees),
            any(op.name not in CALLEES and not is_total(op, facts) for op in ops)
            or any(c.may_raise for c in callees),
        )
        open_names.discard(name)
        return made[name]

    for name in module.functions:
        visit(name)
    return made


def reachable_functions(module: Module) -> list[str]:
    """Return the functions that the entries can reach, in the module's order."""
    pending = list(module.entries)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in seen or name not in module.functions:
            continue
        seen.add(name)
        ops = module.functions[name].body.walk()
        pending += [str(op.attributes["callee"]) for op in ops if op.name in CALLEES]
    return [name for name in module.functions if name in seen]


def guarded_functions(module: Module) -> set[str]:
    """Return the functions that a `cf.try` may run, directly or through others."""
    pending = [
        str(inner.attributes["callee"])
        for op in module.walk()
        if op.name == "cf.try"
        for inner in op.blocks[0].walk()
        if inner.name in CALLEES
    ]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in found and name in module.functions:
            found.add(name)
            ops = module.functions[name].body.walk()
            pending += [str(op.attributes["callee"]) for op in ops if op.name in CALLEES]
    return found


def guarded_blocks(function: Function, guarded: Collection[str]) -> set[Block]:
    """Return the blocks of a function in which any failure may be caught, in program order.

    Args:
        function: where to look.
        guarded: the functions that run in a `cf.try` as a whole.
    """
    if function.name in guarded:
        return {function.body, *_inner_blocks(function.body)}
    return {
        block
        for op in function.body.walk()
        if op.name == "cf.try"
        for block in (op.blocks[0], *_inner_blocks(op.blocks[0]))
    }


def _inner_blocks(block: Block) -> Iterator[Block]:
    for op in block.walk():
        yield from op.blocks


def is_observed(op: Op) -> bool:
    """Whether an op, or one within it, may do what a failure before it would prevent."""
    watched = EFFECTS | CALLEES | {"cf.while", "cf.try", "cf.save"}
    return op.name in watched or any(
        inner.name in watched for block in op.blocks for inner in block.walk()
    )
