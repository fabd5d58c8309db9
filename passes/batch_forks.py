"""The `batch-forks` pass: siblings wait for their common context to be computed once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.types import STATE
from lmc.passes.analysis import PASSING, Facts
from lmc.passes.base import Level, Pass, Remarks
from lmc.passes.purity import guarded_blocks, guarded_functions, is_observed
from lmc.passes.totality import is_total

ASKING = frozenset({"lm.gen", "lm.select"})
"""Ops that ask the model to continue the text of their state."""

READING = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text", "lm.messages"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForksPass(Pass):
    """Group the children of a fork before their first calls.

    Exact (level E): `lm.group` gives its children back as they are; it tells the runtime to
    compute the parent's context before the children ask, so that siblings which start at the
    same time do not each compute it. The group stands before the first call of its children;
    what the later ones append before their call moves up to it, as far as it depends on no
    call after it and, where it may fail, passes no host call.
    """

    name: ClassVar[str] = "batch-forks"
    level: ClassVar[Level] = "E"

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Group in every function."""
        changed = False
        guarded = guarded_functions(module)
        for function in module.functions.values():
            grouper = _Grouper(function, remarks, guarded_blocks(function, guarded))
            for fork in [op for op in function.body.walk() if op.name == "lm.fork"]:
                changed |= grouper.fork(fork)
        return changed


@dataclass(frozen=True, slots=True)
class _Member:
    """A child at its first call: the state that is asked with, and the call."""

    entry: Value
    call: Op


class _Grouper:
    """Makes the groups of one function; a state comes from one fork, so they do not meet."""

    def __init__(self, function: Function, remarks: Remarks, guarded: set[Block]) -> None:
        self._guarded = guarded
        self._facts = Facts.of(function)
        self._remarks = remarks

    def fork(self, fork: Op) -> bool:
        """Group the children of a fork, per block that they are used in."""
        if self._facts.op_of(fork.operands[0], "lm.prompt") is not None:
            self._remarks.missed("the fork is of an empty prompt", fork)
            return False
        by_block: dict[Block, list[_Member]] = {}
        for member in self._members(fork):
            by_block.setdefault(self._facts.blocks[member.call], []).append(member)
        changed = False
        for block, members in by_block.items():
            if len(members) < 2:
                self._remarks.missed("only one child asks the model in this block", fork)
            if block in self._guarded:
                # What fails first ends the block, so nothing moves past a call.
                self._remarks.missed("the children ask in a try", fork)
                continue
            changed |= self._group_block(fork, block, members)
        return changed

    def _members(self, fork: Op) -> list[_Member]:
        members: list[_Member] = []
        for user, position in self._facts.uses(fork.results[1]):
            if user.name == "cf.for" and position == 0:
                self._remarks.missed("the children are known by a loop only", fork)
            if user.name != "val.index" or position != 0:
                continue
            member = self._member(user.result)
            if member is not None:
                members.append(member)
        return members

    def _member(self, state: Value) -> _Member | None:
        """Follow a child to its first call."""
        while True:
            users = self._facts.uses(state)
            calls = [op for op, position in users if op.name in ASKING and position == 0]
            if calls:
                return _Member(state, calls[0])
            steps = [(op, position) for op, position in users if op.name not in READING]
            if len(steps) != 1 or steps[0][0].name not in PASSING or steps[0][1] != 0:
                return None
            state = steps[0][0].result

    def _group_block(self, fork: Op, block: Block, members: list[_Member]) -> bool:
        places = {op: place for place, op in enumerate(block.ops)}
        pending = sorted(members, key=lambda member: places[member.call])
        changed = False
        while len(pending) > 1:
            places = {op: place for place, op in enumerate(block.ops)}
            start = places[pending[0].call]
            taken: list[_Member] = []
            moved: set[Op] = set()
            for member in pending:
                needed = self._needed(member.entry, block, start, places)
                obstacle = self._obstacle(needed, block, start, places)
                if obstacle is None:
                    taken.append(member)
                    moved.update(needed)
                else:
                    self._remarks.missed(f"a child stays alone: {obstacle}", member.call)
            if len(taken) > 1:
                self._insert(fork, block, start, taken, moved)
                changed = True
            pending = [m for m in pending if m not in taken]
        return changed

    def _needed(self, value: Value, block: Block, start: int, places: dict[Op, int]) -> list[Op]:
        """Return the ops at or after `start` that a value depends on."""
        needed: dict[Op, None] = {}
        pending = [value]
        while pending:
            found = self._facts.definitions.get(pending.pop())
            if found is None or places.get(found[0], -1) < start or found[0] in needed:
                continue
            needed[found[0]] = None
            pending += found[0].operands
        return sorted(needed, key=places.__getitem__)

    def _obstacle(
        self, needed: Sequence[Op], block: Block, start: int, places: dict[Op, int]
    ) -> str | None:
        """Return why ops cannot move up to `start`."""
        for op in needed:
            if not (op.name in PASSING or op.name in READING or op.name.startswith("val.")):
                return f"it needs {op.name} before its call"
            passed = block.ops[start : places[op]]
            if self._may_fail(op) and any(is_observed(each) for each in passed):
                return f"{op.name} may fail and stands behind a host call"
        return None

    def _may_fail(self, op: Op) -> bool:
        return op.name in ("lm.begin", "lm.end", "lm.control") or not is_total(op, self._facts)

    def _insert(
        self, fork: Op, block: Block, start: int, members: list[_Member], moved: set[Op]
    ) -> None:
        entries = [member.entry for member in members]
        results = [Value(STATE, entry.hint) for entry in entries]
        location = fork.location
        group = Op("lm.group", [fork.operands[0], *entries], results, {}, [], location)
        renamed = dict(zip(entries, results, strict=True))
        after = [op for op in block.ops[start:] if op not in moved]
        for op in after:
            for inner in (op, *(each for nested in op.blocks for each in nested.walk())):
                inner.operands = [renamed.get(value, value) for value in inner.operands]
        up = [op for op in block.ops[start:] if op in moved]
        block.ops = [*block.ops[:start], *up, group, *after]
        self._facts.add(group, block)
        self._remarks.fired(f"{len(members)} children wait for their parent's context", fork)
