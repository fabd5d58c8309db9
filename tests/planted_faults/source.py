"""Faults of capture and of eager mode."""

from typing import Any

import lmc.checking.modes
import lmc.codegen.lower
import lmc.frontend.capture.expressions
import lmc.frontend.capture.states
import lmc.ir.evaluate
import lmc.runtime.eager
import lmc.runtime.executor.run
import lmc.runtime.executor.task
from lmc.ir.core import Block, Function, Op, replace_values
from lmc.runtime.eager_state import EagerForks, EagerState
from planted_faults.tools import (
    captured,
    dropped,
    fault,
    ops_of,
    wrapped,
)


@fault
def less_captured_as_at_most(patch: Any) -> None:
    """`<` is taken for `<=`."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["op"] == "<":
            op.attributes["op"] = "<="

    captured(patch, "val.compare", edit)


@fault
def conversion_lost(patch: Any) -> None:
    """`!r` in an f-string is dropped."""
    captured(patch, "val.format", lambda f, b, op: op.attributes.update(conversion=""))


@fault
def arguments_of_a_program_swapped(patch: Any) -> None:
    """A nested program gets its first two arguments in the wrong order."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.operands[2:4] = op.operands[2:4][::-1]

    captured(patch, "func.call", edit)


@fault
def appending_to_a_list_lost(patch: Any) -> None:
    """A list that is changed in place stays as it was."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["name"] in ("insert", "append"):
            replace_values(function.body, {op.results[0]: op.operands[0]})

    captured(patch, "val.mutate", edit)


@fault
def scope_starts_at_zero(patch: Any) -> None:
    """A scope's variable holds the whole text."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.operands[1] = op.operands[3]

    captured(patch, "val.slice", edit)


@fault
def unpacked_backwards(patch: Any) -> None:
    """Names get each other's items."""
    captured(patch, "val.unpack", lambda f, b, op: op.results.reverse())


@fault
def early_exits_lost(patch: Any) -> None:
    """Of two reasons to leave a loop, one counts."""
    wrapped(
        patch, lmc.frontend.capture.states.States, "either",
        lambda original, self, left, right, node: left,
    )  # fmt: skip


@fault
def effect_not_captured(patch: Any) -> None:
    """Host calls whose value is not used are left out."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = {value for _, other in ops_of(function.body) for value in other.operands}
        if op.results[1] not in used:
            dropped(function, block, op)

    captured(patch, "host.call", edit)


@fault
def floor_division_truncates(patch: Any) -> None:
    """`//` rounds towards zero."""
    patch.setitem(lmc.ir.evaluate.BINARY, "//", lambda a, b: int(a / b))


@fault
def eager_lists_backwards(patch: Any) -> None:
    """`forks += [...]` hands the first text to the last child."""
    wrapped(
        patch, EagerForks, "__iadd__",
        lambda original, self, value: original(
            self, value[::-1] if isinstance(value, list) else value
        ),
    )  # fmt: skip


@fault
def eager_join_ignores_its_mode(patch: Any) -> None:
    """Texts of children are not appended."""
    wrapped(
        patch, EagerState, "join",
        lambda original, self, children, mode: original(self, children, "gather_variable"),
    )  # fmt: skip


@fault
def eager_sets_nothing(patch: Any) -> None:
    """`s[name] = value` has no effect."""
    patch.setattr(EagerState, "__setitem__", lambda self, name, value: None)


@fault
def eager_nested_keys(patch: Any) -> None:
    """A nested program's lineage lacks the ordinal."""
    wrapped(
        patch, lmc.runtime.eager, "Scope",
        lambda original, lineage, *rest: original(tuple(p[:4] for p in lineage), *rest),
    )  # fmt: skip
