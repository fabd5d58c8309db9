"""Control flow, calls of functions, and pure values."""

from dataclasses import replace
from typing import Any

from lmc.errors import RunError
from lmc.ir.evaluate import Undefined, evaluate_parts
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.frame import Scope
from lmc.runtime.executor.slots import Identity, Slot, StateHandle, known, link, undefined
from lmc.runtime.executor.state_ops import called_from
from lmc.runtime.executor.task import Task, open_frame
from lmc.runtime.origins import Origin, item_of, join_origins, shape_of, value_origins

MAX_CALL_DEPTH = 200
SHALLOW_CALLS = 6
"""Calls that are nested less deep begin at once."""

VALUE_OPS = (
    "undefined", "concat", "format", "binary", "unary", "compare", "truth", "not", "index",
    "slice", "attr", "method", "call", "mutate", "list", "tuple", "set", "dict", "unpack",
)  # fmt: skip
TEXT_OPS = frozenset({"val.concat", "val.format"})


def value(task: Task) -> None:
    """Compute a pure value."""
    step, values = task.step, task.values()
    if step.op in TEXT_OPS and any(isinstance(item, StateHandle) for item in values):
        raise RunError("a prompt state is not text", hint="use its text(): s.text()")
    results = evaluate_parts(step.op, step.attributes, values, len(step.outputs), step.location)
    origins = value_origins(step.op, step.attributes, values, task.origins(), len(results))
    task.give(results, origins)


def branch(task: Task) -> None:
    """Run the block that the condition chooses."""
    frame, condition = task.frame, task.slot(0)
    if isinstance(condition.value, Undefined):
        raise undefined(condition.value)
    task.run.note_branch(task.step, bool(condition.value))
    code = task.step.blocks[0 if condition.value else 1]
    path = (*task.order, 0)
    control = join_origins((frame.control, condition.origin))
    results = open_frame(task.run, code, (), frame.registers, path, frame.scope, control)
    task.give_from(results, condition.origin)


class Loop:
    """A running `cf.for` or `cf.while`: opens an iteration when the one before lets it."""

    def __init__(self, task: Task, items: list[Slot] | None, carried: list[Slot]) -> None:
        self.task = task
        self.items = items  # None: a while loop
        self.carried = carried
        self.number = 0
        self.decided: Origin | None = None  # what the number of iterations rests on so far
        self.go_on: Slot | None = None

    def open(self) -> None:
        """Open the next iteration, or give the results where there is none."""
        task, frame = self.task, self.task.frame
        if task.run.is_closed or task.is_beyond():
            return
        if self.items is not None and self.number == len(self.items):
            self.end()
            return
        arguments = self.carried
        if self.items is not None:
            arguments = [self.items[self.number], *self.carried]
        path = (*task.order, self.number)
        control = join_origins((frame.control, self.decided))
        code = task.step.blocks[0]
        registers = frame.registers
        results = open_frame(task.run, code, arguments, registers, path, frame.scope, control)
        self.number += 1
        if task.live is not None:
            task.move((*task.order, self.number))
        self.go_on, self.carried = results[0], results[1:]
        if self.go_on.waiters is None:
            task.ready.append(self.decide)
        else:
            self.go_on.waiters.append(self.decide)

    def decide(self) -> None:
        """Go on or stop, now that the last iteration has said which."""
        go_on, task = self.go_on, self.task
        assert go_on is not None, "an iteration was opened"
        if go_on.failure is not None:
            task.pass_on(go_on.failure)
            return
        if isinstance(go_on.value, Undefined):
            task.fail(undefined(go_on.value))
            return
        self.decided = join_origins((self.decided, go_on.origin))
        if go_on.value:
            self.open()
        else:
            self.end()

    def end(self) -> None:
        """Give the results."""
        self.task.leave()
        self.task.give_from(self.carried, self.decided)


def for_loop(task: Task) -> None:
    """Run the block per item."""
    items = task.slot(0)
    if isinstance(items.value, Undefined):
        raise undefined(items.value)
    try:
        listed = list(items.value)
    except TypeError as error:
        made = RunError(f"TypeError: {error}")
        made.raised = error
        raise made from error
    shape = shape_of(items.origin)
    is_keyed = isinstance(items.value, dict)
    slots = [
        known(item, shape if is_keyed else item_of(items.origin, index))
        for index, item in enumerate(listed)
    ]
    carried = [task.slot(position) for position in range(1, len(task.step.inputs))]
    loop = Loop(task, slots, carried)
    loop.decided = shape
    loop.open()


def while_loop(task: Task) -> None:
    """Run the block until it says to stop."""
    Loop(task, None, [task.slot(position) for position in range(len(task.step.inputs))]).open()


def call(task: Task) -> None:
    """Run another program; it starts as soon as the caller's lineage is known."""
    caller = task.handle(1)
    scope = task.frame.scope
    check_depth(scope)
    link(caller.content, task.output(1).value.content, task.run.ready, change=_ticked(task))
    task.wait([caller.identity], lambda: enter(task, caller.identity.value))


def _ticked(task: Task) -> Any:
    origin = task.slot(1).origin
    return lambda state: state.needing(origin).tick()


def enter(task: Task, identity: Identity) -> None:
    """Open the frame of a nested program."""
    frame = task.frame
    defaults = {**frame.scope.defaults, **(task.step.attributes.get("defaults") or {})}
    depth = frame.scope.depth + 1
    scope = Scope(called_from(identity), defaults, depth, frame.scope.guard)
    arguments = [task.slot(0), *(task.slot(i) for i in range(2, len(task.step.inputs)))]
    effect, state, result = _open_function(task, arguments, scope)
    task.leave()
    task.give_from([effect], positions=[0])
    task.give_from([state, result], positions=[2, 3])


def apply(task: Task) -> None:
    """Run a helper function; a deep call waits until nothing else is ready.

    Helpers that call themselves several times would else grow level by level, and the deepest
    call, which may be one too many, would never be met.
    """
    scope = task.frame.scope
    check_depth(scope)

    def begin() -> None:
        inner = replace(scope, depth=scope.depth + 1)
        arguments = [task.slot(position) for position in range(len(task.step.inputs))]
        results = _open_function(task, arguments, inner)
        task.leave()
        task.give_from(results)

    if scope.depth < SHALLOW_CALLS:
        begin()
    else:
        task.run.begin_later(task, begin)


def _open_function(task: Task, arguments: list[Slot], scope: Scope) -> list[Slot]:
    for slot in arguments:
        if slot.is_done and isinstance(slot.value, Undefined):
            raise undefined(slot.value)
    assert task.run.code is not None, "eager runs call no functions of a plan"
    body = task.run.code.body(task.step.attributes["callee"])
    path = (*task.order, 0)
    return open_frame(task.run, body, arguments, (), path, scope, task.frame.control)


def check_depth(scope: Scope) -> None:
    """Refuse calls that are nested too deep; raises RunError."""
    if scope.depth + 1 >= MAX_CALL_DEPTH:
        raise RunError(
            f"calls are nested deeper than {MAX_CALL_DEPTH}", hint="does a recursion never end?"
        )


CONTROL_OPERATIONS: dict[str, Operation] = {
    **{f"val.{name}": Operation(value) for name in VALUE_OPS},
    "cf.if": Operation(branch, waits=(0,)),
    "cf.for": Operation(for_loop, waits=(0,), is_open=True),
    "cf.while": Operation(while_loop, waits=(), is_open=True),
    "func.call": Operation(call, waits=(1,), ticks=1, is_open=True),
    "func.apply": Operation(apply, waits=(), is_open=True),
}
