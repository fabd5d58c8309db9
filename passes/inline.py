"""The `inline` pass: nested programs and helpers are put in place of their calls."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Attr, Block, Function, Module, Op, Value, clone_block, replace_values
from lmc.passes.analysis import Facts, count_ops
from lmc.passes.base import Level, Pass, Remarks, counted
from lmc.passes.purity import CALLEES
from lmc.passes.recursion import Calls
from lmc.passes.rewriting import can_stand
from lmc.passes.totality import may_be_undefined

MAX_NESTING = 60
"""Blocks within blocks that the pass makes; the IR allows 100, and unrolling nests them too."""

ROOTS = frozenset({"lm.prompt", "lm.prologue"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InlinePass(Pass):
    """Put the bodies of nested programs and helpers in place of their calls.

    Exact (level E): a program's root states name the state that it is called from, so its
    calls keep their lineage, ordinals and keys, and streams theirs; the caller's state counts
    its ordinal by an `lm.tick`. Sampling defaults of the call stand at each generation. Ops
    keep their places in the source, and the order of effects, failures and tries.

    Stays a call: a function that calls itself, leads to one that does, or runs within one
    (the depth of calls is limited, and observable there); one with an argument that may have
    no value, which only a call refuses; a program that calls a helper that stays a call.

    Options: `max_ops` bounds the ops that the pass makes in one function, `max_all_ops` those in
    all functions: what is put in place takes what is in place there along.
    """

    name: ClassVar[str] = "inline"
    level: ClassVar[Level] = "E"

    max_ops: int = 2000
    max_all_ops: int = 6000

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Inline in every function, callees before their callers."""
        calls = Calls(module)
        made = 0
        changed = False
        for name in calls.callees_first():
            left = min(self.max_ops, self.max_all_ops - made)
            inliner = _Inliner(left, module, calls, module.functions[name], remarks)
            changed |= inliner.run()
            made += inliner.made_ops
        return changed


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call stands, and how many blocks are around it."""

    block: Block
    op: Op
    depth: int


class _Inliner:
    """Inlines in one function."""

    def __init__(
        self,
        max_ops: int,
        module: Module,
        calls: Calls,
        function: Function,
        remarks: Remarks,
    ) -> None:
        self._max_ops = max_ops
        self._module = module
        self._calls = calls
        self._function = function
        self._remarks = remarks
        self._facts = Facts()
        self.made_ops = 0

    def run(self) -> bool:
        """Inline what can be; return whether there was any."""
        changed = False
        places = list(_calls_in(self._function.body, 1))
        for place in places:
            self._facts = Facts.of(self._function)
            callee = self._module.functions[str(place.op.attributes["callee"])]
            obstacle = self._obstacle(place, callee)
            if obstacle is not None:
                self._remarks.missed(obstacle, place.op)
                continue
            self.made_ops += count_ops(callee.body)
            self._inline(place, callee)
            self._remarks.fired(f"'{callee.name}' put in place", place.op)
            changed = True
        return changed

    def _obstacle(self, place: _Place, callee: Function) -> str | None:
        """Return why a call stays a call; None if it does not."""
        name, op = callee.name, place.op
        if self._calls.reaches_recursion(name):
            return f"'{name}' calls itself, or leads to a function that does"
        if self._calls.runs_in_recursion(self._function.name):
            return f"'{self._function.name}' runs in a recursion, whose depth is limited"
        if not self._calls.is_shallow:
            return "calls are nested almost too deep"
        arguments = _arguments(op)
        if any(may_be_undefined(value, self._facts) for value in arguments):
            return f"an argument of '{name}' may have no value"
        size = count_ops(callee.body)
        if self.made_ops + size > self._max_ops:
            return (
                f"'{name}' has {counted(size, 'op')} beside the {self.made_ops} made before; "
                f"max_ops={self._max_ops}"
            )
        if place.depth + _nesting(callee.body) > MAX_NESTING:
            return "blocks would be nested too deep"
        if op.name == "func.call" and any(inner.name == "func.apply" for inner in _ops(callee)):
            return f"'{name}' calls a helper that stays a call"
        return self._misfit(op, callee)

    def _misfit(self, op: Op, callee: Function) -> str | None:
        """Return a word about types that do not allow what is given, or given back."""
        inner = Facts.of(callee)
        taken = callee.body.arguments
        given = [op.operands[0], *_arguments(op)]
        fits = all(can_stand(new, old, inner) for new, old in zip(given, taken, strict=True))
        standing = dict(zip(taken, given, strict=True))
        returned = [standing.get(value, value) for value in callee.body.terminator.operands]
        pairs = zip(_given_back(op), returned, strict=True)
        if fits and all(can_stand(new, old, self._facts) for old, new in pairs):
            return None
        return f"the types of '{callee.name}' do not fit"

    def _inline(self, place: _Place, callee: Function) -> None:
        op, block = place.op, place.block
        mapping = dict(zip(callee.body.arguments, [op.operands[0], *_arguments(op)], strict=True))
        copy = clone_block(Block([], callee.body.ops), mapping)
        end = copy.ops.pop()
        before: list[Op] = []
        if op.name == "func.call":
            _adopt(copy, op)
            before = [Op("lm.tick", [op.operands[1]], [op.results[1]], {"n": 1}, [], op.location)]
        for inner in copy.walk():
            inner.location = inner.location or op.location
        index = block.ops.index(op)
        block.ops[index : index + 1] = [*before, *copy.ops]
        given_back = dict(zip(_given_back(op), end.operands, strict=True))
        replace_values(self._function.body, given_back)


def _adopt(copy: Block, call: Op) -> None:
    """Tie a program's roots to the state that it is called from, and its defaults to its calls."""
    given = call.attributes.get("defaults") or {}
    assert isinstance(given, Mapping)
    for op in copy.walk():
        if op.name in ROOTS and not op.operands:
            op.operands = [call.operands[1]]
        elif op.name in ("lm.gen", "func.call") and given:
            own = op.attributes.get("defaults") or {}
            assert isinstance(own, Mapping)
            defaults: dict[str, Attr] = {**given, **own}
            op.attributes["defaults"] = defaults


def _arguments(op: Op) -> list[Value]:
    return op.operands[2:] if op.name == "func.call" else op.operands[1:]


def _given_back(op: Op) -> list[Value]:
    """Return the results of a call that its function gives, in the function's order."""
    if op.name == "func.apply":
        return op.results
    return [op.results[0], *op.results[2:]]


def _calls_in(block: Block, depth: int) -> Iterator[_Place]:
    for op in block.ops:
        if op.name in CALLEES:
            yield _Place(block, op, depth)
        for nested in op.blocks:
            yield from _calls_in(nested, depth + 1)


def _ops(function: Function) -> Iterator[Op]:
    return function.body.walk()


def _nesting(block: Block) -> int:
    inner = [_nesting(nested) for op in block.ops for nested in op.blocks]
    return 1 + max(inner, default=0)
