"""Running `cf.try`: a block that ends at its first failure, in program order.

Steps run as soon as their inputs are there, so a later step may fail before an earlier one has
come to its end, or calls may be open behind a failure. A guard keeps the steps of its block,
and of the functions that it calls, that can still fail; what failed first is known once no
step before it can. Values noted by `cf.save` count where they stand before the failure.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lmc.ir.caught import as_raised
from lmc.ir.tries import FIRST_SLOT
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.frontier import Frontier
from lmc.runtime.executor.slots import Failure, Order, Slot
from lmc.runtime.executor.task import Task, open_frame
from lmc.runtime.origins import Origin, join_origins


class Guard:
    """One activation of a `cf.try`; belongs to the loop's thread.

    Attributes:
        frontier: the steps of the block that can still fail.
        failure: the first failure so far, in program order.
    """

    def __init__(self, task: Task) -> None:
        self.failure: Failure | None = None
        self.frontier = Frontier(self._check)
        self._task = task
        self._outer = task.guard
        self._start: Order = (*task.order, 0)
        self._end: Order = (*task.order, 1)
        self._failed_by: Origin | None = None
        self._saves: list[tuple[Order, Sequence[int], list[Slot]]] = []
        self._calls: list[tuple[Order, Origin]] = []
        self._results: list[Slot] | None = None
        self._is_decided = False
        self._root: Guard = self if self._outer is None else self._outer._root
        self._untold: list[tuple[Order, int, Guard, Callable[[], None]]] = []

    def open(self) -> None:
        """Start the block."""
        task, frame = self._task, self._task.frame
        task.move(self._end)
        scope = replace(frame.scope, guard=self)
        code, registers = task.step.blocks[0], frame.registers
        self._results = open_frame(task.run, code, (), registers, self._start, scope, frame.control)
        self._check()

    def is_beyond(self, order: Order) -> bool:
        """Whether a step comes after the failure of this block, or of one around it."""
        if self.failure is not None and order > self.failure.order:
            return True
        return self._outer is not None and self._outer.is_beyond(order)

    def covers(self, order: Order) -> bool:
        """Whether a step belongs to the block."""
        return self._start <= order < self._end

    def fail(self, failure: Failure, rest: Origin | None) -> None:
        """Note a failure; calls behind it in the block are cancelled, earlier ones go on."""
        self.failure, self._failed_by = failure, rest
        self._task.run.cancel_calls(failure.order, self._end)
        self._check()

    def save(self, order: Order, slots: Sequence[int], held: list[Slot]) -> None:
        """Note values for slots."""
        self._saves.append((order, slots, held))

    def note_calls(self, order: Order, origins: Sequence[Origin | None]) -> None:
        """Note what the answers of calls in the block rest on."""
        self._calls += [(order, origin) for origin in origins if origin is not None]

    def calls_before(self, order: Order) -> list[Origin]:
        """Return what the calls of the block, and of blocks around, rest on up to a place."""
        found = [origin for place, origin in self._calls if place <= order]
        return found + (self._outer.calls_before(order) if self._outer is not None else [])

    def tell(self, order: Order, function: Callable[[], None]) -> None:
        """Call a function once no step before a place can fail any more; if one does, never."""
        untold = self._root._untold
        untold.append((order, len(untold), self, function))
        self._root._tell_ready()

    def _tell_ready(self) -> None:
        if not self._untold:
            return
        pending, self._untold = sorted(self._untold, key=lambda held: held[:2]), []
        for held in pending:
            order, _, guard, function = held
            if guard.is_beyond(order):
                continue
            if guard._may_tell(order):
                function()
            else:
                self._untold.append(held)

    def _may_tell(self, order: Order) -> bool:
        first = self.frontier.first()
        if first is not None and first < order:
            return False
        return self._outer is None or self._outer._may_tell(order)

    def _check(self) -> None:
        """Give the results once it is known whether the block has failed."""
        self._root._tell_ready()
        if self._is_decided or self._results is None:
            return
        first = self.frontier.first()
        if first is None or (self.failure is not None and first > self.failure.order):
            self._is_decided = True
            self._decide(self._results)

    def _decide(self, results: list[Slot]) -> None:
        task, failure = self._task, self.failure
        last = self._end if failure is None else failure.order
        calls = [(place, origin) for place, origin in self._calls if place <= last]
        if self._outer is not None:
            self._outer._calls += calls
        origins = [origin for _, origin in calls]
        origin = join_origins((*origins, self._failed_by))
        raised = as_raised(failure.error) if failure is not None else None  # type: ignore[arg-type]
        slots = self._saved(last)
        first_value = FIRST_SLOT + len(slots)
        task.give_one(0, raised, origin)
        task.give_from(slots, origin, positions=range(FIRST_SLOT, first_value))
        if failure is None:
            task.give_from(results[:1], positions=[1])
            positions = range(first_value, len(task.step.outputs))
            task.give_from(results[1:], origin, positions=positions)
        else:
            task.give_one(1, None)
            task.run.frontier.drop(failure.order, self._end)
            task.fail_with(failure, first=first_value)
        task.leave()

    def _saved(self, last: Order) -> list[Slot]:
        """Return what each slot holds at a place in program order."""
        task = self._task
        slots = [task.slot(position) for position in range(1, len(task.step.inputs))]
        for order, positions, held in sorted(self._saves, key=lambda save: save[0]):
            if order < last:
                for position, slot in zip(positions, held, strict=True):
                    slots[position] = slot
        return slots


def attempt(task: Task) -> None:
    """Run the block of a try."""
    Guard(task).open()


def save(task: Task) -> None:
    """Note values for the slots of the try around."""
    guard: Any = task.guard
    held = [task.slot(position) for position in range(len(task.step.inputs))]
    guard.save(task.order, task.step.attributes["slots"], held)


GUARD_OPERATIONS: dict[str, Operation] = {
    "cf.try": Operation(attempt, waits=(), is_open=True),
    "cf.save": Operation(save, waits=()),
}
