"""Following one state through an IR function: what was appended last, what comes next."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lmc.ir.core import Op, Value
from lmc.ir.tries import FIRST_SLOT, num_slots, saved_slots
from lmc.passes.analysis import Facts, carried_sources, joined_sources
from lmc.passes.lint.names import set_name

MAX_STEPS = 4000
"""Values that one walk looks at; beyond it nothing is known."""

SILENT = frozenset({"lm.tick", "lm.set", "lm.unordered"})
"""Ops that leave the prompt as it is."""

Step = Callable[[Op, int], "bool | None"]
"""Looks at an op that gives a state (and which result): True ends the walk there, False goes
on through it, None says that nothing is known."""


@dataclass(frozen=True, slots=True)
class Walked:
    """Ops where a walk ended, and whether every path ended at one."""

    ops: tuple[Op, ...]
    is_complete: bool

    @property
    def certain(self) -> tuple[Op, ...]:
        """The ops, if no path escaped."""
        return self.ops if self.is_complete else ()


def back(state: Value, facts: Facts, step: Step) -> Walked:
    """Walk from a state to where `step` says that it ends, over all paths."""
    ops: dict[Op, None] = {}
    pending, seen, is_complete = [state], {state}, True
    while pending:
        if len(seen) > MAX_STEPS:
            return Walked(tuple(ops), False)
        value = pending.pop()
        found = facts.definitions.get(value)
        if found is not None and found[0].name.startswith("lm."):
            ends = step(*found)
            if ends:
                ops.setdefault(found[0])
                continue
            if ends is None:
                is_complete = False
                continue
        sources = sources_of(value, facts)
        if sources is None:
            is_complete = False
            continue
        pending += [source for source in sources if source not in seen]
        seen.update(sources)
    return Walked(tuple(ops), is_complete)


def sources_of(value: Value, facts: Facts) -> list[Value] | None:
    """Return the values that a state (or a list of states) is, up to what an op appends."""
    if value in facts.arguments:
        owner, index = facts.arguments[value]
        return None if owner is None else carried_sources(owner, index)
    op, index = facts.definitions[value]
    match op.name:
        case "cf.if" | "cf.for" | "cf.while" | "cf.try":
            return joined_sources(op, index)
        case "lm.group":
            return [op.operands[index + 1]]
        case "func.call":
            return [op.operands[1]] if index == 1 else None
        case "val.index":
            return [taken(op, facts)[0]]
        case "val.unpack":
            return [op.operands[0]]
        case "val.mutate" if index == 0:
            return [op.operands[0], op.operands[-1]]
        case "val.list" | "val.tuple" | "val.dict" | "val.slice" | "val.call":
            return list(op.operands)
        case name if name.startswith("lm.") and op.operands:
            return [op.operands[0]]
        case _:
            return None


def untouched_list(held: Value, place: Value, facts: Facts) -> Value | None:
    """Return the list as it was before a loop, for an item that only this trip has changed.

    So it is where the loop goes over indices, each once, and changes the list at its own index
    only. A loop over branches, with `enumerate` or `zip` around them, goes over their indices.
    """
    found = facts.arguments.get(held)
    if found is None or found[0] is None or found[0].name != "cf.for" or found[1] == 0:
        return None
    owner, index = found
    if not _is_own_index(place, owner, facts):
        return None
    handed = owner.blocks[0].terminator.operands[index]
    return owner.operands[index] if _only_changed_at(handed, held, place, facts) else None


def _is_own_index(place: Value, loop: Op, facts: Facts) -> bool:
    """Whether a value of a loop's trip is a number that no other trip has."""
    path: list[int] = []
    while (op := facts.op_of(place, "val.unpack")) is not None:
        path.append(op.results.index(place))
        place = op.operands[0]
    if place is not loop.blocks[0].arguments[0]:
        return False
    sequence = facts.op_of(loop.operands[0], "val.call")
    while path and sequence is not None:
        position = path.pop()
        match sequence.attributes["callee"]:
            case "enumerate" if position == 0:
                return not path
            case "enumerate":
                position = 0
            case "zip" if position < len(sequence.operands):
                pass
            case _:
                return False
        sequence = facts.op_of(sequence.operands[position], "val.call")
    return not path and sequence is not None and sequence.attributes["callee"] == "range"


def _only_changed_at(value: Value, held: Value, place: Value, facts: Facts) -> bool:
    """Whether a list is another one with changes at one index only."""
    if value is held:
        return True
    op = facts.op_of(value)
    if op is None:
        return False
    if op.name == "val.mutate" and op.attributes["name"] == "__setitem__":
        return op.operands[1] is place and _only_changed_at(op.operands[0], held, place, facts)
    if op.name == "cf.if":
        index = op.results.index(value)
        ends = [block.terminator.operands[index] for block in op.blocks]
        return all(_only_changed_at(end, held, place, facts) for end in ends)
    return False


def taken(op: Op, facts: Facts) -> tuple[Value, bool]:
    """Return where the item of a `val.index` comes from, and whether that is the item itself.

    The last change at the same place, if it is known; else the list, without the changes at
    its end that certainly are at other places.
    """
    held, place = op.operands
    while True:
        untouched = untouched_list(held, place, facts)
        if untouched is not None:
            return untouched, False
        change = facts.op_of(held, "val.mutate")
        if change is None or change.attributes["name"] != "__setitem__":
            return held, False
        _, other, stored = change.operands
        if is_same(place, other, facts):
            return stored, True
        known = facts.constant_int(place), facts.constant_int(other)
        if None in known or min(known) < 0:  # type: ignore[type-var]
            return held, False
        held = change.operands[0]


def is_same(one: Value, other: Value, facts: Facts) -> bool:
    """Whether two indices are certainly equal."""
    if one is other:
        return True
    known = facts.constant_int(one)
    return known is not None and known == facts.constant_int(other)


def last_pieces(state: Value, facts: Facts) -> Walked:
    """Return the ops that may have appended last to a state."""

    def step(op: Op, index: int) -> bool | None:
        if op.name in SILENT or op.name in ("lm.fork", "lm.group"):
            return False
        if op.name == "lm.join" and op.attributes.get("mode") != "concate_and_append":
            return False
        return True

    return back(state, facts, step)


def setters(state: Value, name: str, facts: Facts) -> Walked:
    """Return the ops that may have set a variable; incomplete where another way may have."""

    def step(op: Op, index: int) -> bool | None:
        if op.name in ("lm.prompt", "lm.prologue"):
            return True
        if op.name == "lm.join":
            return None
        if op.name not in ("lm.gen", "lm.select", "lm.set"):
            return False
        own, is_late = set_name(op)
        return None if is_late else own == name

    found = back(state, facts, step)
    ops = tuple(op for op in found.ops if op.name not in ("lm.prompt", "lm.prologue"))
    return Walked(ops, found.is_complete)


def next_ops(state: Value, facts: Facts, silent: frozenset[str] = SILENT) -> list[Op]:
    """Return the ops that take a state next, through branches and changed list items.

    Those of `silent` are walked through.
    """
    found: dict[Op, None] = {}
    pending, seen = [state], {state}
    while pending and len(seen) < MAX_STEPS:
        for op, position in facts.uses(pending.pop()):
            made = op.results if op.name in silent and position == 0 else None
            made = _passed_on(op, position, facts) if made is None else made
            if made is None:
                found.setdefault(op)
                continue
            pending += [value for value in made if value not in seen]
            seen.update(made)
    return list(found)


def _passed_on(op: Op, position: int, facts: Facts) -> Iterable[Value] | None:
    """Return the values that are the state itself after an op; None where the op takes it."""
    if op.name == "cf.yield":
        owner = facts.owners[facts.blocks[op]]
        if owner is None:
            return None
        if owner.name == "cf.if":
            return [owner.results[position]]
        if owner.name == "cf.try":
            return [owner.results[FIRST_SLOT + num_slots(owner) + position - 1]]
        if owner.name not in ("cf.for", "cf.while"):
            return None
        # The next trip, and what follows the loop.
        is_for = owner.name == "cf.for"
        index = position - 1
        return [owner.blocks[0].arguments[index + is_for], owner.results[index]]
    if op.name == "cf.save":
        block = next((each for each in owners(op, facts) if each.name == "cf.try"), None)
        return None if block is None else [block.results[FIRST_SLOT + saved_slots(op)[position]]]
    if op.name == "cf.try":
        return [op.results[FIRST_SLOT + position - 1]]
    if op.name in ("cf.for", "cf.while"):
        return [op.blocks[0].arguments[position]]
    if op.name == "val.mutate" and op.attributes["name"] == "__setitem__" and position == 2:
        return _same_items(op, facts)
    return None


def _same_items(change: Op, facts: Facts) -> list[Value]:
    """Return the states taken from a changed list at the place that was changed."""
    place = change.operands[1]
    found: list[Value] = []
    pending = [change.results[0]]
    while pending:
        for op, position in facts.uses(pending.pop()):
            if op.name == "val.index" and position == 0 and is_same(op.operands[1], place, facts):
                found.append(op.result)
            elif op.name == "val.mutate" and position == 0:
                if op.attributes["name"] == "__setitem__" and not is_same(
                    op.operands[1], place, facts
                ):
                    pending.append(op.results[0])
    return found


def owners(op: Op, facts: Facts) -> list[Op]:
    """Return the ops whose blocks an op stands in, innermost first."""
    found: list[Op] = []
    owner = facts.owners[facts.blocks[op]]
    while owner is not None:
        found.append(owner)
        owner = facts.owners[facts.blocks[owner]]
    return found
