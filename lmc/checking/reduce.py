"""Reduces a module that shows a difference to a short one that still does.

Delta debugging on the IR: one edit after another is tried on a copy; it is kept if the copy
verifies and the difference stays. An edit drops an op (its results become states that it took,
or plain constants), puts an arm or a trip in place of a branch or loop, or shortens a constant.
Method: A. Zeller and R. Hildebrandt, "Simplifying and isolating failure-inducing input", 2002,
with single steps only: modules are small once dead ops are swept.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from lmc.ir.builder import Builder
from lmc.ir.core import Block, Function, Module, Op, Value, clone_module, replace_values
from lmc.ir.types import BOOL, DICT, EFFECT, FLOAT, INT, META, NONE, PY, STATE, TEXT, Type, list_of
from lmc.ir.verifier import find_failures

Shows = Callable[[Module], bool]
Edit = Callable[[Module, Block, Op], bool]
"""Changes an op of a copied module in place; returns whether it could."""

TIME_LIMIT_S = 20.0

_PLAIN: dict[Type, tuple[Any, ...]] = {
    TEXT: ("", "x"), BOOL: (True, False), INT: (0, 1), FLOAT: (0.5,), NONE: (None,),
    PY: (None, "x"), DICT: ({},), META: ({},),
}  # fmt: skip


def reduce_module(module: Module, shows: Shows, *, time_limit_s: float = TIME_LIMIT_S) -> Module:
    """Return a short module that still shows a difference; the module itself if none is found.

    Args:
        module: shows the difference.
        shows: whether a module does; called with modules that verify.
        time_limit_s: seconds after which no more edits are tried.
    """
    ends = time.monotonic() + time_limit_s
    best, is_better = module, True
    while is_better and time.monotonic() < ends:
        is_better = False
        for made in _smaller(best, ends):
            if _is_sound(made) and shows(made):
                best, is_better = made, True
                break
    return best


def _is_sound(module: Module) -> bool:
    return not find_failures(module)


def _smaller(module: Module, ends: float) -> Iterator[Module]:
    """Yield copies of a module with one edit each, the largest steps first."""
    yield from _without_functions(module)
    paths = list(_paths(module))
    for edit in EDITS:
        for name, path in paths:
            if time.monotonic() > ends:
                return
            copy = clone_module(module)
            block, op = _at(copy.functions[name], path)
            if edit(copy, block, op):
                sweep(copy)
                yield copy
    yield from _without_parameters(module)


def _without_functions(module: Module) -> Iterator[Module]:
    called = {str(op.attributes.get("callee")) for op in module.walk()}
    for name in module.functions:
        if name not in module.entries and name not in called:
            copy = clone_module(module)
            del copy.functions[name]
            yield copy


def _without_parameters(module: Module) -> Iterator[Module]:
    for name in module.entries:
        for index in range(len(module.functions[name].params)):
            copy = clone_module(module)
            function = copy.functions[name]
            value = function.body.arguments[index + 1]
            if not any(value in op.operands for op in function.body.walk()):
                del function.params[index], function.body.arguments[index + 1]
                yield copy


Path = tuple[int, ...]
"""Positions of an op in its block, of a block in its op, and so on; the innermost last."""


def _paths(module: Module) -> Iterator[tuple[str, Path]]:
    """Yield where every op stands, the last ops of each block first."""
    for name, function in module.functions.items():
        for path in _block_paths(function.body, ()):
            yield name, path


def _block_paths(block: Block, before: Path) -> Iterator[Path]:
    for index in range(len(block.ops) - 1, -1, -1):
        yield (*before, index)
        for number, nested in enumerate(block.ops[index].blocks):
            yield from _block_paths(nested, (*before, index, number))


def _at(function: Function, path: Path) -> tuple[Block, Op]:
    block = function.body
    for index, number in zip(path[:-1:2], path[1::2], strict=True):
        block = block.ops[index].blocks[number]
    return block, block.ops[path[-1]]


# Edits.


def _drop(choice: int) -> Edit:
    """Return the edit that drops an op; `choice` picks among the constants for its results."""

    def edit(module: Module, block: Block, op: Op) -> bool:
        if op.name in ("func.return", "cf.yield"):
            return False
        if op.name in ("val.const", "val.list") and (choice or not op.operands):
            return False
        place = block.ops.index(op)
        builder = Builder(block, index=place, location=op.location)
        mapping: dict[Value, Value] = {}
        for index, result in enumerate(op.results):
            value = _stand_in(builder, op, index, choice)
            if value is None:
                return False
            mapping[result] = value
        block.ops.remove(op)
        _replace(module, mapping)
        return True

    return edit


def _stand_in(builder: Builder, op: Op, index: int, choice: int) -> Value | None:
    """Return a value that an op took, or a constant, that can stand for one of its results."""
    kind = op.results[index].type
    same = [value for value in _given(op) if value.type == kind]
    if kind in (STATE, EFFECT):
        return same[0] if same else None
    if kind == list_of(STATE):
        return builder.op("val.list", [], [kind]).result
    if kind.name == "list":
        return builder.const([], kind=kind)
    plain = _PLAIN[kind]
    return builder.const(plain[choice], kind=kind) if choice < len(plain) else None


def _given(op: Op) -> list[Value]:
    return op.operands[1:] if op.name == "cf.for" else op.operands


def _replace(module: Module, mapping: dict[Value, Value]) -> None:
    for function in module.functions.values():
        replace_values(function.body, mapping)


def _operand(number: int) -> Edit:
    """Return the edit that lets an operand stand for the only result."""

    def edit(module: Module, block: Block, op: Op) -> bool:
        is_plain = op.name.startswith("val.") and len(op.results) == 1
        if not is_plain or number >= len(op.operands):
            return False
        value, result = op.operands[number], op.results[0]
        if value.type != result.type and result.type != PY:
            return False
        block.ops.remove(op)
        _replace(module, {result: value})
        return True

    return edit


def _fewer_operands(module: Module, block: Block, op: Op) -> bool:
    """Drop the first operand of a list, a tuple or a text."""
    if op.name not in ("val.list", "val.tuple", "val.concat") or len(op.operands) < 2:
        return False
    del op.operands[0]
    return True


def _arm(number: int) -> Edit:
    """Return the edit that puts an arm in place of a branch."""

    def edit(module: Module, block: Block, op: Op) -> bool:
        if op.name != "cf.if":
            return False
        arm = op.blocks[number]
        place = block.ops.index(op)
        block.ops[place : place + 1] = arm.ops[:-1]
        _replace(module, dict(zip(op.results, arm.terminator.operands, strict=True)))
        return True

    return edit


def _one_trip(module: Module, block: Block, op: Op) -> bool:
    """Put one trip in place of a loop."""
    if op.name not in ("cf.for", "cf.while"):
        return False
    body = op.blocks[0]
    builder = Builder(block, index=block.ops.index(op), location=op.location)
    given = list(op.operands)
    if op.name == "cf.for":
        item = body.arguments[0]
        given[0] = builder.value("val.index", [given[0], 0], item.hint, kind=item.type)
    place = block.ops.index(op)
    block.ops[place : place + 1] = body.ops[:-1]
    mapping = dict(zip(body.arguments, given, strict=True))
    mapping |= dict(zip(op.results, body.terminator.operands[1:], strict=True))
    _replace(module, mapping)
    return True


def _return_none(module: Module, block: Block, op: Op) -> bool:
    """Return nothing."""
    if op.name != "func.return":
        return False
    value = op.operands[-1]
    is_none = any(
        made.name == "val.const" and made.attributes["value"] is None and value in made.results
        for made in block.ops
    )
    if is_none:
        return False
    builder = Builder(block, index=len(block.ops) - 1, location=op.location)
    op.operands[-1] = builder.const(None)
    return True


def _bypass_result(module: Module, block: Block, op: Op) -> bool:
    """Let the state before an op stand for the one after it, whose other results stay."""
    if op.name not in ("lm.gen", "lm.select", "func.call") or not op.results:
        return False
    states = [value for value in op.results if value.type == STATE]
    taken = [value for value in op.operands if value.type == STATE]
    users = {value for inner in module.walk() for value in inner.operands}
    if not states or not taken or states[0] not in users:
        return False
    _replace(module, {states[0]: taken[0]})
    return True


def _shorter_constant(module: Module, block: Block, op: Op) -> bool:
    """Shorten a constant."""
    if op.name != "val.const":
        return False
    value = op.attributes["value"]
    if isinstance(value, (str, list, tuple)) and len(value) > 1:
        op.attributes["value"] = value[: len(value) // 2]
        return True
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1:
        op.attributes["value"] = value // 2
        return True
    return False


def _fewer_parameters(number: int) -> Edit:
    """Return the edit that drops one decode parameter of a call."""

    def edit(module: Module, block: Block, op: Op) -> bool:
        params = op.attributes.get("params")
        if op.name not in ("lm.gen", "lm.select") or not isinstance(params, dict):
            return False
        names = [name for name in params if name != "type"]
        if number >= len(names):
            return False
        op.attributes["params"] = {k: v for k, v in params.items() if k != names[number]}
        return True

    return edit


EDITS: tuple[Edit, ...] = (
    _arm(0), _arm(1), _drop(0), _drop(1), _one_trip, _return_none, _bypass_result,
    _operand(0), _operand(1), _fewer_operands, _shorter_constant, _fewer_parameters(0),
    _fewer_parameters(1),
)  # fmt: skip


def sweep(module: Module) -> None:
    """Drop unread values, states and loops' constants: whatever gives what nobody takes."""
    for function in module.functions.values():
        while _sweep_block(function.body, {v for op in function.body.walk() for v in op.operands}):
            pass


def _sweep_block(block: Block, used: set[Value]) -> bool:
    changed = False
    kept: list[Op] = []
    for op in block.ops:
        for nested in op.blocks:
            changed |= _sweep_block(nested, used)
        is_plain = op.name.startswith("val.") or op.name in ("lm.prompt", "lm.prologue")
        if is_plain and not any(result in used for result in op.results):
            changed = True
        else:
            kept.append(op)
    block.ops = kept
    return changed
