"""Faults of order, errors and values while a plan runs, and of the plan as it is stored."""

from dataclasses import replace
from typing import Any

import lmc.codegen.plan_json as plan_json
import lmc.runtime.executor.call_ops as call_ops
import lmc.runtime.executor.control_ops as control_ops
import lmc.runtime.executor.host_ops as host_ops
import lmc.runtime.executor.run
import lmc.runtime.executor.state_ops as state_ops
from lmc.errors import RunError
from lmc.ir.core import Block, Function, Op
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import PromptState
from planted_faults.tools import fault, lowered, method, operation, wrapped


@fault
def errors_of_expressions_swallowed(patch: Any) -> None:
    """An expression that raises gives None."""

    def evaluate(original: Any, op: str, attributes: Any, values: Any, count: int, place: Any):
        try:
            return original(op, attributes, values, count, place)
        except RunError:
            return [None] * count

    wrapped(patch, control_ops, "evaluate_parts", evaluate)


@fault
def errors_of_host_functions_swallowed(patch: Any) -> None:
    """A host function that raises gives None."""

    def call(original: Any, function: Any, args: Any, keywords: Any, done: Any) -> None:
        original(
            function, args, keywords,
            lambda result: done((None,) if isinstance(result, BaseException) else result),
        )  # fmt: skip

    wrapped(patch, host_ops, "call_host", call)


@fault
def host_functions_called_twice(patch: Any) -> None:
    """A host function that answers with a text is asked again."""

    def call(original: Any, function: Any, args: Any, keywords: Any, done: Any) -> None:
        def again(result: Any) -> None:
            if isinstance(result, BaseException):
                done(result)
            else:
                original(function, args, keywords, lambda other: done(result))

        original(function, args, keywords, again)

    wrapped(patch, host_ops, "call_host", call)


@fault
def last_error_wins(patch: Any) -> None:
    """Of two errors the later one in the program is told."""

    def fail(original: Any, self: Run, failure: Any) -> None:
        if self.failure is None or failure.order > self.failure.order:
            self.failure = None
            original(self, failure)

    wrapped(patch, lmc.runtime.executor.run.Run, "fail", fail)


@fault
def errors_at_the_line_before(patch: Any) -> None:
    """An error is told at another line."""

    def placed(original: Any, self: Task, error: BaseException) -> Any:
        made = original(self, error)
        place = getattr(made, "location", None)
        if place is not None and place.line > 1:
            made.location = replace(place, line=place.line - 1)
        return made

    wrapped(patch, Task, "_placed", placed)


@fault
def loop_hands_on_its_start(patch: Any) -> None:
    """Each trip of a loop begins with what the loop began with."""

    def decide(original: Any, self: Any) -> None:
        first = self.task.step.inputs[self.items is not None :]
        if self.number == 1:
            self.carried_at_first = [self.task.frame.registers[r] for r in first]
        if self.number > 1 and self.items is not None:
            self.carried = [*self.carried[:-1], *self.carried_at_first[-1:]]
        original(self)

    from lmc.runtime.executor.control_ops import Loop

    class Held(Loop):
        """A loop that remembers its start."""

        carried_at_first: Any = ()

    patch.setattr(control_ops, "Loop", Held)
    wrapped(patch, Held, "decide", decide)


@fault
def items_in_the_reverse_order(patch: Any) -> None:
    """A loop goes over its items backwards."""

    def init(original: Any, self: Any, task: Task, items: Any, carried: Any) -> None:
        original(self, task, items[::-1] if items else items, carried)

    wrapped(patch, control_ops.Loop, "__init__", init)


@fault
def empty_text_is_true(patch: Any) -> None:
    """Every text counts as true in a condition."""

    def evaluate(original: Any, op: str, attributes: Any, values: Any, *rest: Any) -> Any:
        if op == "val.truth" and values[0] == "":
            return [True]
        return original(op, attributes, values, *rest)

    wrapped(patch, control_ops, "evaluate_parts", evaluate)


@fault
def missing_variable_is_none(patch: Any) -> None:
    """Reading a variable that is not set gives None."""
    method(patch, "get", lambda original, self, name: self.variables.get(name))


@fault
def variables_read_late(patch: Any) -> None:
    """A variable that is set again is read as it is at the first reading."""
    seen: dict[Any, Any] = {}

    def get(original: Any, self: PromptState, name: str) -> Any:
        value = original(self, name)
        return seen.setdefault((id(self.encodings), self.lineage, name), value)

    method(patch, "get", get)


@fault
def generations_streamed_twice(patch: Any) -> None:
    """Pieces of a generation come twice."""

    def speaker(original: Any, *args: Any) -> Any:
        tell = original(*args)
        return lambda piece: (tell(piece), tell(piece))

    wrapped(patch, call_ops, "_speaker", speaker)


@fault
def choices_not_streamed(patch: Any) -> None:
    """A choice is missing in the stream."""

    def emit(original: Any, self: Run, kind: str, *rest: Any) -> None:
        if kind != "select":
            original(self, kind, *rest)

    wrapped(patch, lmc.runtime.executor.run.Run, "emit", emit)


@fault
def pieces_streamed_with_the_root(patch: Any) -> None:
    """Text of children is told as the root's."""

    def emit(original: Any, self: Run, kind: str, name: Any, text: str, lineage: Any) -> None:
        original(self, kind, name, text, () if kind == "gen" else lineage)

    wrapped(patch, lmc.runtime.executor.run.Run, "emit", emit)


@fault
def role_markers_not_streamed(patch: Any) -> None:
    """What opens a turn is missing in the stream."""

    def act(task: Task) -> None:
        state_ops.marker(task)

    def begin(original: Any, self: PromptState, role: str) -> PromptState:
        return original(self, role).told()

    method(patch, "begin", begin)
    patch.setitem(OPERATIONS, "lm.begin", Operation(act, reads=(0,), ticks=0))


@fault
def sampling_defaults_of_the_run_ignored(patch: Any) -> None:
    """Generations that set nothing do not take the run's parameters."""
    wrapped(
        patch, call_ops, "gen_params",
        lambda original, attributes, dynamic, defaults, *rest: original(
            attributes, dynamic, {}, *rest
        ),
    )  # fmt: skip


@fault
def deep_conditions_not_needed(patch: Any) -> None:
    """What a branch within a branch rests on is forgotten."""
    wrapped(
        patch, control_ops, "open_frame",
        lambda original, run, code, arguments, outer, path, scope, control=None: original(
            run, code, arguments, outer, path, scope, None
        ),
    )  # fmt: skip


@fault
def names_rest_on_nothing(patch: Any) -> None:
    """What decided a computed name does not count as needed."""
    method(patch, "naming", lambda original, self, origin: self)


@fault
def extend_rests_on_nothing(patch: Any) -> None:
    """What an appended text was made of does not count as needed."""
    method(patch, "extend", lambda original, self, text, origin=None: original(self, text))


@fault
def control_token_takes_the_next(patch: Any) -> None:
    """A control token is another one."""
    wrapped(
        patch, state_ops, "marker",
        lambda original, task: original(task),
    )  # fmt: skip

    def act(task: Task) -> None:
        if task.step.op == "lm.control":
            state_ops.give_state(task, task.state().control_token("<|im_start|>"))
        else:
            state_ops.marker(task)

    operation(patch, "lm.control", act)


# Stored plans.


def stored(patch: Any, change: Any) -> None:
    """Change what a stored plan's attributes come to."""
    wrapped(patch, plan_json, "encode_attr", lambda original, value: original(change(value)))


@fault
def stored_plan_rounds_numbers(patch: Any) -> None:
    """Fractions lose their last digits."""
    stored(patch, lambda value: round(value, 1) if type(value) is float else value)


@fault
def stored_plan_composes_characters(patch: Any) -> None:
    """Texts are put in Unicode's composed form."""
    import unicodedata

    stored(
        patch, lambda value: unicodedata.normalize("NFC", value) if type(value) is str else value
    )


@fault
def stored_plan_loses_empty_lists(patch: Any) -> None:
    """An empty list becomes None."""
    stored(patch, lambda value: None if value == [] else value)


@fault
def stored_plan_confuses_false_and_none(patch: Any) -> None:
    """False comes back as None."""
    stored(patch, lambda value: None if value is False else value)


@fault
def stored_plan_loses_places(patch: Any) -> None:
    """All steps come back with the place of the first."""

    def to_json(original: Any, step: Any) -> Any:
        row = original(step)
        row[5] = min(row[5], 0)
        return row

    wrapped(patch, plan_json, "_step_to_json", to_json)


@fault
def stored_plan_may_not_fail(patch: Any) -> None:
    """Steps come back as if they could not fail."""

    def to_json(original: Any, step: Any) -> Any:
        row = original(step)
        row[8] = False
        return row

    wrapped(patch, plan_json, "_step_to_json", to_json)


@fault
def dynamic_parameters_sorted(patch: Any) -> None:
    """The names of parameters known at run time are sorted, their values are not."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.attributes["dynamic"] = sorted(op.attributes["dynamic"])  # type: ignore[arg-type, type-var]

    lowered(patch, "lm.gen", edit)
