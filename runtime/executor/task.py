"""Tasks: the steps of a frame, each waiting for its inputs."""

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lmc.errors import Cancelled, LmcError, RunError
from lmc.ir.caught import placed
from lmc.runtime.executor.code import Code, CodeStep
from lmc.runtime.executor.frame import Frame, Scope
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.slots import (
    Failure,
    Order,
    Slot,
    StateHandle,
    known,
    link,
    link_state,
    not_a_state,
)
from lmc.runtime.origins import Origin, join_origins, whole
from lmc.runtime.prompt_state import Lineage, PromptState

if TYPE_CHECKING:
    pass

TAIL_LEN = 200
TAIL_OPS = frozenset({"lm.gen", "lm.select", "lm.extend"})


def open_frame(
    run: Run,
    code: Code,
    arguments: Sequence[Slot],
    outer: Sequence[Slot],
    path: Order,
    scope: Scope,
    control: Origin | None = None,
) -> list[Slot]:
    """Start a block and return the slots of its results.

    Args:
        run: the run that it belongs to.
        code: the block.
        arguments: one slot per argument; they may be pending.
        outer: registers of the enclosing frame, for captures.
        path: place of the frame in program order.
        scope: lineage and defaults of the running program.
        control: what decided that the block runs.
    """
    block = code.block
    registers: list[Any] = [None] * block.num_registers
    registers[: block.num_arguments] = arguments
    for position in block.state_arguments:
        registers[position] = _as_state(registers[position], run, path)
    for offset, register in enumerate(block.captures, block.num_arguments):
        registers[offset] = outer[register]
    for register, slot in code.shared:
        registers[register] = slot
    for register, value in code.copied:
        registers[register] = known(copy.deepcopy(value))
    frame = Frame(run, registers, path, scope, control)
    for index, step in enumerate(code.steps):
        states = step.state_outputs
        for register in step.outputs:
            registers[register] = known(StateHandle()) if register in states else Slot()
        Task(frame, step, index).start()
    return [registers[register] for register in block.results]


def _as_state(slot: Slot, run: Run, path: Order) -> Slot:
    """Return a slot that holds a handle at once, for one that will hold a state."""
    if slot.is_done and isinstance(slot.value, StateHandle):
        return slot
    handle = StateHandle()
    link_state(slot, handle, run.ready, path)
    return known(handle)


class Task:
    """One step of a frame: waits for slots, then acts, then gives its outputs."""

    __slots__ = (
        "_awaited",
        "_has_identity",
        "_missing",
        "_then",
        "checked",
        "frame",
        "guard",
        "live",
        "order",
        "run",
        "step",
    )

    def __init__(self, frame: Frame, step: CodeStep, index: int) -> None:
        self.frame = frame
        self.run = frame.run
        self.guard = frame.scope.guard
        self.step = step
        self.order: Order = (*frame.path, index)
        self._awaited: Sequence[Slot] = ()
        self._then: Callable[[], None] = self._act
        self._missing = 0
        self._has_identity = False
        self.checked: Any = None
        self.live: Order | None = None  # where the step can still end the run by failing

    # -- waiting ---------------------------------------------------------------------------

    def start(self) -> None:
        """Wait for the inputs that the op needs before it acts."""
        step, registers = self.step, self.frame.registers
        if step.may_fail or self.guard is not None:
            # In a try, whatever fails ends the block, so every step counts until it has ended.
            self.live = self.order
            self.run.frontier.enter(self.order)
            if self.guard is not None:
                self.guard.frontier.enter(self.order)
        if step.ticks is not None:
            self._give_identity(is_fresh=True)
        self.wait([registers[register] for register in step.waits], self._inputs_known, later=True)

    def wait(self, slots: Sequence[Slot], then: Callable[[], None], *, later: bool = False) -> None:
        """Call `then` once all slots have values; if any fails, the task's outputs fail.

        Of several failures the first in program order counts, so all slots are awaited.
        `later` defers `then` to the queue even if nothing is pending.
        """
        self._awaited = slots
        self._then = then
        missing = 0
        for slot in slots:
            if slot.waiters is not None:
                slot.waiters.append(self._one_done)
                missing += 1
        self._missing = missing
        if not missing:
            if later:
                self.run.ready.append(self._all_done)
            else:
                self._all_done()

    def _one_done(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._all_done()

    def _all_done(self) -> None:
        if self.run.is_closed or self.is_beyond():
            return
        awaited, self._awaited = self._awaited, ()
        failure: Failure | None = None
        for slot in awaited:
            found = slot.failure
            if found is not None and (failure is None or found.order < failure.order):
                failure = found
        if failure is not None:
            self.pass_on(failure)
            return
        self.finish(self._then)

    def leave(self) -> None:
        """Note that the step cannot end the run any more: it has failed, or will not."""
        live, self.live = self.live, None
        if live is not None:
            self.run.frontier.leave(live)
            if self.guard is not None:
                self.guard.frontier.leave(live)

    def move(self, after: Order) -> None:
        """Note that what is at a later place is the first thing of the step that can still fail."""
        if self.live is not None:
            before, self.live = self.live, after
            self.run.frontier.move(before, after)
            if self.guard is not None:
                self.guard.frontier.move(before, after)

    def is_beyond(self) -> bool:
        """Whether the step comes after a failure that ends the run, or the block of a try."""
        order = self.live or self.order
        if self.run.is_beyond(order):
            return True
        return self.guard is not None and self.guard.is_beyond(order)

    def finish(self, function: Callable[[], None]) -> None:
        """Call a function that acts for the task; what it raises fails the task's outputs."""
        try:
            function()
        except Exception as error:
            # Also our own bugs: they end the run, not the loop in silence.
            self.fail(error)

    def _inputs_known(self) -> None:
        step = self.step
        if step.ticks is not None and not self._has_identity:
            self._give_identity(is_fresh=False)
        check = step.operation.check
        if check is not None:
            try:
                self.checked = check(self)
            except LmcError as error:
                self._fail_check(error)
                return
            if self.guard is None:
                self.leave()
        if not step.operation.reads:
            self._act()
            return
        contents = []
        for position in step.operation.reads:
            handle = self.frame.registers[step.inputs[position]].value
            if not isinstance(handle, StateHandle):
                self.fail(not_a_state(handle))
                return
            contents.append(handle.content)
        self.wait(contents, self._act)

    def _fail_check(self, error: LmcError) -> None:
        """Fail once the first state's text is there, which the error shows the end of."""
        handle = self.value(0)
        content = handle.content if isinstance(handle, StateHandle) else None
        if content is None or content.waiters is None or self.step.op not in TAIL_OPS:
            self.fail(error)
        else:
            content.waiters.append(lambda: self.fail(error))

    def _act(self) -> None:
        operation = self.step.operation
        operation.act(self)
        is_late = operation.is_late and self.guard is not None
        if self.live is not None and not (operation.is_open or is_late):
            self.leave()

    def _has_given(self) -> None:
        if self.guard is not None and self.step.operation.is_late:
            self.leave()

    # -- inputs ----------------------------------------------------------------------------

    @property
    def ready(self) -> Any:
        """The loop's queue."""
        return self.run.ready

    def slot(self, position: int) -> Slot:
        """Return the slot of an input."""
        return self.frame.registers[self.step.inputs[position]]

    def value(self, position: int) -> Any:
        """Return the value of an input that was awaited."""
        return self.frame.registers[self.step.inputs[position]].value

    def values(self) -> list[Any]:
        """Return the values of all inputs."""
        registers = self.frame.registers
        return [registers[register].value for register in self.step.inputs]

    def handle(self, position: int = 0) -> StateHandle:
        """Return the handle of an input that holds a state; raises RunError for other values."""
        value = self.value(position)
        if not isinstance(value, StateHandle):
            raise not_a_state(value)
        return value

    def state(self, position: int = 0) -> PromptState:
        """Return the content of an input's state, which was awaited."""
        slot = self.slot(position)
        state: PromptState = slot.value.content.value
        return state.needing(slot.origin)

    def origins(self, first: int = 0) -> list[Origin | None]:
        """Return what the inputs from `first` on rest on."""
        registers = self.frame.registers
        return [registers[register].origin for register in self.step.inputs[first:]]

    def origin(self, first: int = 0) -> Origin | None:
        """Return what all inputs from `first` on rest on."""
        return whole(join_origins(self.origins(first)))

    # -- listeners -------------------------------------------------------------------------

    def tell(self, function: Callable[[], None]) -> None:
        """Have a listener told; in a try once nothing before this step can fail any more."""
        if self.guard is None:
            function()
        else:
            self.guard.tell(self.order, function)

    # -- outputs ---------------------------------------------------------------------------

    def output(self, position: int) -> Slot:
        """Return the slot of an output."""
        return self.frame.registers[self.step.outputs[position]]

    def give(self, values: Sequence[Any], origins: Sequence[Origin | None]) -> None:
        """Give all outputs their values; a PromptState is the content of an output's state."""
        for position, (value, origin) in enumerate(zip(values, origins, strict=True)):
            self._give(position, value, origin)
        self._has_given()

    def give_one(self, position: int, value: Any, origin: Origin | None = None) -> None:
        """Give one output its value."""
        self._give(position, value, origin)
        self._has_given()

    def _give(self, position: int, value: Any, origin: Origin | None) -> None:
        register, ready = self.step.outputs[position], self.run.ready
        slot = self.frame.registers[register]
        if register not in self.step.state_outputs:
            slot.resolve(value, origin, ready)
        elif isinstance(value, PromptState):
            slot.value.content.resolve(value.needing(origin), None, ready)
        else:
            link_state(known(value, origin), slot.value, ready, self.order)

    def give_from(
        self,
        sources: Sequence[Slot],
        control: Origin | None = None,
        *,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Give outputs (all, or those at `positions`) what a frame's result slots will hold."""
        registers, states, ready = self.frame.registers, self.step.state_outputs, self.run.ready
        outputs: Sequence[int] = self.step.outputs
        if positions is not None:
            outputs = [outputs[position] for position in positions]
        for register, source in zip(outputs, sources, strict=True):
            if register in states:
                target = registers[register].value
                link_state(source, target, ready, self.order, control=control)
            else:
                link(source, registers[register], ready, control=control)

    def fail(self, error: BaseException) -> None:
        """Fail all outputs at this step; the error gets the step's place.

        A live step's failure ends the run; a bug of our own ends it at once.
        """
        if self.guard is not None and self.guard.is_beyond(self.live or self.order):
            return
        failure = Failure(self.order, self._placed(error))
        is_own = isinstance(error, LmcError) and not isinstance(error, Cancelled)
        if self.guard is not None and is_own:
            rest = join_origins((self.origin(), self.frame.control))
            self.guard.fail(Failure(self.live or self.order, failure.error), rest)
        elif self.live is not None:
            self.run.fail(Failure(self.live, failure.error))
        elif not isinstance(error, LmcError):
            self.run.abort(error)
        self.leave()
        self.fail_with(failure)

    def pass_on(self, failure: Failure) -> None:
        """Fail with an input; a live step needs its inputs, so that ends the run.

        Failures of steps before a try are not caught by it.
        """
        error, first = failure.error, self.step.attributes.get("first")
        if isinstance(error, RunError) and first == str(error.location or ""):
            # The answer that an equal call did not get: this call's own failure.
            moved = placed(error, hint=error.hint, location=self.step.location)
            moved.__cause__ = error.__cause__
            failure = Failure(self.order, moved)
        if self.guard is not None and self.guard.covers(failure.order):
            self.fail(failure.error)
            return
        if self.live is not None:
            self.run.fail(Failure(self.live, failure.error))
        self.leave()
        self.fail_with(failure)

    def _placed(self, error: BaseException) -> BaseException:
        """Give an error the step's location and, where a prompt is concerned, its tail."""
        if not isinstance(error, LmcError) or isinstance(error, Cancelled):
            return error
        has_place = self.step.location is not None or self.step.op in TAIL_OPS
        if isinstance(error, RunError) and (error.location is not None or not has_place):
            return error
        hint = error.hint
        if self.step.op in TAIL_OPS and isinstance(self.value(0), StateHandle):
            content = self.value(0).content.value
            tail = content.tail(TAIL_LEN) if isinstance(content, PromptState) else ""
            ends = f"the prompt ends in {tail!r}"
            hint = f"{hint}\n{ends}" if hint else ends
        made = placed(error, hint=hint, location=self.step.location)
        made.__cause__ = error
        return made

    def fail_with(self, failure: Failure, *, first: int = 0) -> None:
        """Fail all outputs from `first` on that have no value yet."""
        ready = self.run.ready
        for register in self.step.outputs[first:]:
            slot = self.frame.registers[register]
            if register not in self.step.state_outputs:
                slots = [slot]
            elif self._has_identity and register == self.step.first_state:
                slots = [slot.value.content]
            else:
                slots = [slot.value.identity, slot.value.content]
            for missing in slots:
                if not missing.is_done:
                    missing.fail(failure, ready)

    def _give_identity(self, *, is_fresh: bool) -> None:
        """Give the first output state its identity: that of the first input, ticked.

        `is_fresh` says that nobody can wait for the output yet, so that it may share a slot.
        """
        source = self.slot(1 if self.step.op in ("func.call", "lm.place") else 0)
        target = self.frame.registers[self.step.first_state].value
        if target.identity.is_done:
            self._has_identity = True
            return
        if not source.is_done or not isinstance(source.value, StateHandle):
            return
        self._has_identity = True
        ticks = self.step.ticks
        if not ticks and is_fresh:
            target.identity = source.value.identity
            return

        def ticked(identity: tuple[Lineage, int]) -> tuple[Lineage, int]:
            return identity[0], identity[1] + (ticks or 0)

        link(source.value.identity, target.identity, self.run.ready, change=ticked)
