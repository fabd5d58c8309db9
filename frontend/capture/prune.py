"""Dropping what capture carried through branches and loops and nobody reads."""

from lmc.ir.core import Block, Op, Value
from lmc.ir.tries import FIRST_SLOT, keep_results, result_sources
from lmc.ir.types import STATE

_CONSTANTS = ("val.const", "val.undefined", "val.list")


def prune(body: Block) -> None:
    """Drop the results of cf ops, and the constants, that no op needs in the end.

    Needed is what an op takes that does something, and what a needed result or block
    argument of a cf op is carried from. So are states taken out of containers: a slot is
    looked into where something is done with its state, or to carry it through a loop.
    """
    ops = list(body.walk())
    sources = _sources(ops)
    needed: set[Value] = set()
    work = [value for op in ops for value in _taken(op)]
    while work:
        value = work.pop()
        if value not in needed:
            needed.add(value)
            work += sources.get(value, ())
    for op in ops:
        if op.name == "cf.if":
            _drop_results(op, needed)
        elif op.name == "cf.try":
            kept = range(FIRST_SLOT, len(op.results))
            keep_results(op, [index for index in kept if op.results[index] in needed])
        elif op.blocks:
            _drop_carried(op, needed)
    _drop_constants(body, needed)


def _taken(op: Op) -> list[Value]:
    """Return the operands that an op needs for itself."""
    if op.name in ("cf.if", "cf.for"):
        found = op.operands[:1]
    elif op.name == "cf.try":
        found = [op.operands[0], op.blocks[0].terminator.operands[0]]
    elif op.name in ("cf.while", "cf.yield", "cf.save") or _is_droppable(op):
        found = []
    else:
        found = op.operands
    if op.name in ("cf.for", "cf.while"):
        found = [*found, op.blocks[0].terminator.operands[0]]
    return found


def _is_droppable(op: Op) -> bool:
    return (op.name in _CONSTANTS and not op.operands) or _is_slot(op)


def _is_empty_save(op: Op) -> bool:
    return op.name == "cf.save" and not op.operands


def _is_slot(op: Op) -> bool:
    return op.name == "val.index" and op.results[0].type == STATE


def _sources(ops: list[Op]) -> dict[Value, list[Value]]:
    """Return what each result and block argument of a cf op is carried from."""
    found: dict[Value, list[Value]] = {}
    for op in ops:
        if op.name == "cf.if":
            ends = [block.terminator.operands for block in op.blocks]
            for result, *values in zip(op.results, *ends, strict=True):
                found[result] = values
        elif op.name == "cf.try":
            for index, result in enumerate(op.results):
                found[result] = result_sources(op, index)
        elif op.blocks:
            for result, argument, init, back in _carried(op):
                found[result] = found[argument] = [init, back]
        elif _is_slot(op):
            found[op.results[0]] = op.operands
    return found


def _carried(op: Op) -> list[tuple[Value, Value, Value, Value]]:
    """Return result, block argument, first and next value of each value that a loop carries."""
    skip = 1 if op.name == "cf.for" else 0
    block = op.blocks[0]
    columns = (
        op.results,
        block.arguments[skip:],
        op.operands[skip:],
        block.terminator.operands[1:],
    )
    return list(zip(*columns, strict=True))


def _drop_results(op: Op, needed: set[Value]) -> None:
    keep = [index for index, result in enumerate(op.results) if result in needed]
    for block in op.blocks:
        end = block.terminator
        end.operands = [end.operands[index] for index in keep]
    op.results = [op.results[index] for index in keep]


def _drop_carried(op: Op, needed: set[Value]) -> None:
    skip = 1 if op.name == "cf.for" else 0
    block = op.blocks[0]
    rows = [row for row in _carried(op) if row[0] in needed or row[1] in needed]
    op.results = [row[0] for row in rows]
    block.arguments[skip:] = [row[1] for row in rows]
    op.operands[skip:] = [row[2] for row in rows]
    block.terminator.operands[1:] = [row[3] for row in rows]


def _drop_constants(block: Block, needed: set[Value]) -> None:
    block.ops = [
        op
        for op in block.ops
        if not (_is_droppable(op) and op.results[0] not in needed) and not _is_empty_save(op)
    ]
    for op in block.ops:
        for nested in op.blocks:
            _drop_constants(nested, needed)
