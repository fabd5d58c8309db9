"""Tools to plant faults with; a fault is a function that patches by pytest's monkeypatch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import lmc.checking.modes
from lmc.ir.core import Block, Function, Module, Op, clone_module, replace_values
from lmc.passes.base import Pass
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import PromptState

Plant = Callable[[Any], None]
Edit = Callable[[Block, Op], None]

FAULTS: dict[str, Plant] = {}


def fault(plant: Plant) -> Plant:
    """Register a fault under its function's name."""
    FAULTS[plant.__name__] = plant
    return plant


def wrapped(patch: Any, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **given: around(original, *args, **given))


def edit_ops(module: Module, name: str, edit: Callable[[Function, Block, Op], None]) -> Module:
    """Return a copy of a module with an edit of every op of a name."""
    copy = clone_module(module)
    for function in copy.functions.values():
        for block, op in list(ops_of(function.body)):
            if op.name == name:
                edit(function, block, op)
    return copy


def ops_of(block: Block) -> Any:
    """Yield every op with its block."""
    for op in block.ops:
        yield block, op
        for nested in op.blocks:
            yield from ops_of(nested)


def lowered(patch: Any, name: str, edit: Callable[[Function, Block, Op], None]) -> None:
    """Lower modules with an edit of every op of a name."""
    wrapped(
        patch, lmc.checking.modes, "lower",
        lambda lower, module, target: lower(edit_ops(module, name, edit), target),
    )  # fmt: skip


def dropped(function: Function, block: Block, op: Op) -> None:
    """Drop an op: its first result becomes its first operand."""
    block.ops.remove(op)
    replace_values(function.body, {op.results[0]: op.operands[0]})


def param(op: Op, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the decode parameters of an op."""
    params = dict(op.attributes["params"])  # type: ignore[arg-type]
    change(params)
    op.attributes["params"] = params


def after(patch: Any, kind: type[Pass], edit: Callable[[Module], None]) -> None:
    """Have a pass do something more at its end."""

    def rewrite(original: Any, self: Pass, module: Module, remarks: Any) -> bool:
        changed = original(self, module, remarks)
        edit(module)
        return changed or True

    wrapped(patch, kind, "rewrite", rewrite)


def each_op(name: str, edit: Callable[[Function, Block, Op], None]) -> Callable[[Module], None]:
    """Return an edit of every op of a name."""

    def change(module: Module) -> None:
        for function in module.functions.values():
            for block, op in list(ops_of(function.body)):
                if op.name == name:
                    edit(function, block, op)

    return change


def method(patch: Any, name: str, around: Callable[..., Any]) -> None:
    """Wrap a method of the executor's prompt states."""
    wrapped(patch, PromptState, name, around)


def operation(patch: Any, op: str, act: Callable[[Task], None]) -> None:
    """Have another function carry out an op."""
    patch.setitem(OPERATIONS, op, replace(OPERATIONS[op], act=act))


def captured(patch: Any, name: str, edit: Callable[[Function, Block, Op], None]) -> None:
    """Capture modules with an edit of every op of a name."""

    def capture(original: Any, functions: Any) -> Any:
        made = original(functions)
        return replace(made, module=edit_ops(made.module, name, edit))

    wrapped(patch, lmc.checking.modes, "capture", capture)
