"""Dropping what capture carried through branches and loops and nobody reads."""

from lmc.ir.core import Block, Op, Value

_DROPPED = ("val.const", "val.undefined", "val.list")


def prune(body: Block) -> None:
    """Drop results of cf ops and constants that are not used, until none is left."""
    while _drop_once(body):
        pass


def _drop_once(body: Block) -> bool:
    uses = _uses(body)
    found = False
    for op in [op for op in body.walk() if op.name in ("cf.if", "cf.for", "cf.while")]:
        found |= _drop_if(op, uses) if op.name == "cf.if" else _drop_loop(op, uses)
    return _drop_constants(body) or found


def _uses(body: Block) -> dict[Value, list[tuple[Op, int]]]:
    uses: dict[Value, list[tuple[Op, int]]] = {}
    for op in body.walk():
        for index, value in enumerate(op.operands):
            uses.setdefault(value, []).append((op, index))
    return uses


def _drop_if(op: Op, uses: dict[Value, list[tuple[Op, int]]]) -> bool:
    ends = [block.terminator for block in op.blocks]
    found = False
    for index in reversed(range(len(op.results))):
        same = ends[0].operands[index] is ends[1].operands[index]
        if (op.results[index] not in uses and not same) or op.results[index] not in uses:
            for end in ends:
                del end.operands[index]
            del op.results[index]
            found = True
    return found


def _drop_loop(op: Op, uses: dict[Value, list[tuple[Op, int]]]) -> bool:
    """Drop a carried value that only carries itself."""
    block = op.blocks[0]
    end = block.terminator
    skip = 1 if op.name == "cf.for" else 0
    found = False
    for index in reversed(range(len(op.results))):
        argument = block.arguments[index + skip]
        own = {(id(end), index + 1)}
        used = {(id(user), at) for user, at in uses.get(argument, ())}
        if op.results[index] in uses or not used <= own:
            continue
        del op.results[index], block.arguments[index + skip]
        del op.operands[index + skip], end.operands[index + 1]
        return True
    return found


def _drop_constants(block: Block) -> bool:
    used = {value for op in block.walk() for value in op.operands}
    return _filter(block, used)


def _filter(block: Block, used: set[Value]) -> bool:
    before = len(block.ops)
    block.ops = [op for op in block.ops if op.name not in _DROPPED or op.results[0] in used]
    found = len(block.ops) != before
    for op in block.ops:
        for nested in op.blocks:
            found |= _filter(nested, used)
    return found
