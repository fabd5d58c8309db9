"""Faults of the executor: control flow, effects, what is told, what is not seen."""

from dataclasses import replace
from typing import Any

import lmc.checking.modes
import lmc.codegen.lower
import lmc.frontend.capture.expressions
import lmc.frontend.capture.states
import lmc.ir.evaluate
import lmc.runtime.eager
import lmc.runtime.executor.control_ops as control_ops
import lmc.runtime.executor.prefill_ops as prefill_ops
import lmc.runtime.executor.run
import lmc.runtime.executor.state_ops as state_ops
import lmc.runtime.executor.task
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import PromptState, root_state
from planted_faults.tools import (
    fault,
    method,
    operation,
    wrapped,
)


@fault
def branches_frozen(patch: Any) -> None:
    """Every branch takes its first arm."""

    def act(task: Task) -> None:
        code = task.step.blocks[0]
        frame = task.frame
        results = control_ops.open_frame(
            task.run, code, (), frame.registers, (*task.order, 0), frame.scope, frame.control
        )
        task.give_from(results, task.slot(0).origin)

    operation(patch, "cf.if", act)


@fault
def for_loses_the_last_item(patch: Any) -> None:
    """A loop ends one item early."""

    def init(original: Any, self: Any, task: Task, items: Any, carried: Any) -> None:
        original(self, task, items[:-1] if items else items, carried)

    wrapped(patch, control_ops.Loop, "__init__", init)


@fault
def go_on_ignored(patch: Any) -> None:
    """A loop over items does not end early."""

    def decide(original: Any, self: Any) -> None:
        if self.items is not None and self.go_on.failure is None:
            self.open()
        else:
            original(self)

    wrapped(patch, control_ops.Loop, "decide", decide)


@fault
def while_runs_once(patch: Any) -> None:
    """A while loop never runs again."""

    def decide(original: Any, self: Any) -> None:
        if self.items is None and self.go_on.failure is None:
            self.end()
        else:
            original(self)

    wrapped(patch, control_ops.Loop, "decide", decide)


@fault
def text_streamed_twice(patch: Any) -> None:
    """A listener gets the same text again."""

    def tell(original: Any, task: Task, state: PromptState) -> PromptState:
        return original(task, replace(state, told_len=0))

    wrapped(patch, state_ops, "tell", tell)


@fault
def effects_remembered(patch: Any) -> None:
    """A host call with the arguments of an earlier one is not made."""
    from lmc.runtime.executor import host_ops

    known: dict[str, Any] = {}

    def call(original: Any, function: Any, args: Any, keywords: Any, done: Any) -> None:
        key = repr((function.args[1:] if hasattr(function, "args") else "", args, keywords))
        if key in known:
            done(known[key])
            return

        def keep(result: Any) -> None:
            known[key] = result
            done(result)

        original(function, args, keywords, keep)

    wrapped(patch, host_ops, "call_host", call)


@fault
def prologue_tail_not_held_back(patch: Any) -> None:
    """A constant prefix is computed up to its last token, which what follows may change."""

    def tokens(original: Any, pieces: Any, target: Any, head: Any = ()) -> Any:
        ids, held_back = original(pieces, target, head)
        prompt = prefill_ops.prologue_state(pieces, root_state(target))
        return (prompt.context_ids() if held_back else ids), 0

    wrapped(patch, lmc.codegen.lower, "stable_tokens", tokens)


@fault
def group_tail_not_held_back(patch: Any) -> None:
    """The common prefix of a group is computed up to its last token."""
    method(patch, "stable_context", lambda original, self: self.context_ids())


@fault
def tail_of_errors_lost(patch: Any) -> None:
    """Errors show the last character of the prompt only."""
    patch.setattr(lmc.runtime.executor.task, "TAIL_LEN", 1)


@fault
def children_streamed_as_each_other(patch: Any) -> None:
    """Text of the first child is told as the second's."""

    def emit(original: Any, self: Any, kind: str, name: Any, text: str, lineage: Any) -> None:
        last = lineage[-1][:-1] + "1" if lineage and lineage[-1].endswith(".0") else None
        original(self, kind, name, text, (*lineage[:-1], last) if last else lineage)

    wrapped(patch, lmc.runtime.executor.run.Run, "emit", emit)


@fault
def stored_plan_loses_tuples(patch: Any) -> None:
    """Tuples come back from a stored plan as lists."""
    from lmc.codegen import plan_json

    wrapped(
        patch, plan_json, "encode_attr",
        lambda original, value: original(list(value) if isinstance(value, tuple) else value),
    )  # fmt: skip
