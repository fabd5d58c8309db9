"""What belongs together in a `cf.try`: its slots, its values, and the saves within its block.

Operands are (effect, one init per slot); results (what was raised, effect, slots..., values...);
the block yields (effect, values...).
"""

from collections.abc import Sequence

from lmc.ir.core import Block, Op, Value

FIRST_SLOT = 2
"""The result of a `cf.try` that is its first slot."""


def num_slots(op: Op) -> int:
    """Return how many slots a `cf.try` has."""
    return len(op.operands) - 1


def saves_of(op: Op) -> list[Op]:
    """Return the `cf.save` ops of a `cf.try`, leaving aside those of tries within it."""
    found: list[Op] = []
    pending: list[Block] = list(op.blocks)
    while pending:
        for inner in pending.pop().ops:
            if inner.name == "cf.save":
                found.append(inner)
            elif inner.name != "cf.try":
                pending += inner.blocks
    return found


def saved_slots(save: Op) -> list[int]:
    """Return the slots that a `cf.save` has values for, in the order of its operands."""
    slots = save.attributes["slots"]
    assert isinstance(slots, list)
    return [slot for slot in slots if isinstance(slot, int)]


def slot_saves(op: Op, slot: int) -> list[tuple[Op, Value]]:
    """Return the saves of one slot of a `cf.try`, each with the value that it notes."""
    return [
        (save, value)
        for save in saves_of(op)
        for number, value in zip(saved_slots(save), save.operands, strict=True)
        if number == slot
    ]


def result_sources(op: Op, index: int) -> list[Value]:
    """Return the values that a result of a `cf.try` may be; none for what was raised."""
    yields, slots = op.blocks[0].terminator.operands, num_slots(op)
    if index == 0:
        return []
    if index == 1:
        return [op.operands[0], yields[0]]
    if index < FIRST_SLOT + slots:
        slot = index - FIRST_SLOT
        return [op.operands[slot + 1], *(value for _, value in slot_saves(op, slot))]
    return [yields[index - FIRST_SLOT - slots + 1]]


def keep_results(op: Op, kept: Sequence[int]) -> None:
    """Drop the slots and values of a `cf.try` whose results are not among those `kept`."""
    slots, end = num_slots(op), op.blocks[0].terminator
    kept_slots = [i - FIRST_SLOT for i in kept if FIRST_SLOT <= i < FIRST_SLOT + slots]
    values = [i - FIRST_SLOT - slots for i in kept if i >= FIRST_SLOT + slots]
    numbers = {slot: number for number, slot in enumerate(kept_slots)}
    for save in saves_of(op):
        pairs = zip(saved_slots(save), save.operands, strict=True)
        held = [(numbers[slot], value) for slot, value in pairs if slot in numbers]
        save.attributes["slots"] = [number for number, _ in held]
        save.operands = [value for _, value in held]
    op.operands = [op.operands[0], *(op.operands[slot + 1] for slot in kept_slots)]
    end.operands = [end.operands[0], *(end.operands[value + 1] for value in values)]
    first = FIRST_SLOT + slots
    op.results = [
        *op.results[:FIRST_SLOT],
        *(op.results[FIRST_SLOT + slot] for slot in kept_slots),
        *(op.results[first + value] for value in values),
    ]
