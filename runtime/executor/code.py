"""Code: a plan prepared for running; what can be decided once per plan is decided here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmc.codegen.plan import Plan, PlanBlock, PlanFunction, Step
from lmc.errors import LowerError
from lmc.ir.location import Location
from lmc.ir.types import Attr
from lmc.runtime.executor.slots import Slot, known

if TYPE_CHECKING:
    from lmc.runtime.executor.task import Task

Act = Callable[["Task"], None]

Places = dict[int, Location | None]
"""Where the values in registers are made."""

IMMUTABLE = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Operation:
    """How an op is run.

    Attributes:
        act: called once what the op waits for is there.
        waits: positions of inputs that must be known first; None for all.
        reads: positions of states whose text must be known as well.
        ticks: calls that the first output state has counted more than the first input state;
            None where the outputs' states have nothing to do with the first input.
        check: called once the inputs are known, before the states' texts are: raises what is
            wrong with them, and what it returns is kept as `task.checked`. After it the step
            cannot end the run by failing: its results fail, for who needs them.
        is_open: the step can still fail when `act` has returned; it leaves by itself.
        is_late: in a try, the step leaves when its outputs are given.
    """

    act: Act
    waits: tuple[int, ...] | None = None
    reads: tuple[int, ...] = ()
    ticks: int | None = None
    check: "Callable[[Task], Any] | None" = None
    is_open: bool = False
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class CodeStep:
    """A step with its operation found and its location at hand.

    `test` is where the condition of a branch is made. `waits` are registers; `ticks` are calls
    that the first output state (in the register `first_state`, -1 for none) has counted more
    than the first input state.
    """

    op: str
    operation: Operation
    inputs: tuple[int, ...]
    waits: tuple[int, ...]
    outputs: tuple[int, ...]
    state_outputs: frozenset[int]
    attributes: dict[str, Any]
    blocks: tuple["Code", ...]
    location: Location | None
    ticks: int | None
    first_state: int
    may_fail: bool
    test: Location | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """A block: `shared` constants are handed to every frame, `copied` ones copied into it."""

    block: PlanBlock
    steps: tuple[CodeStep, ...]
    shared: tuple[tuple[int, Slot], ...]
    copied: tuple[tuple[int, Attr], ...]


class PlanCode:
    """All functions of a plan as code; they are prepared when first called."""

    def __init__(self, plan: Plan, operations: dict[str, Operation]) -> None:
        self.plan = plan
        self._operations = operations
        self._bodies: dict[str, Code] = {}

    def function(self, name: str) -> PlanFunction:
        """Return a function of the plan."""
        return self.plan.functions[name]

    def body(self, name: str) -> Code:
        """Return the code of a function's body."""
        if name not in self._bodies:
            self._bodies[name] = self._code(self.plan.functions[name].body, {})
        return self._bodies[name]

    def _code(self, block: PlanBlock, outer: Places) -> Code:
        """Prepare a block; `outer` has the places of the enclosing block's registers."""
        places: Places = {
            register: outer.get(captured)
            for register, captured in enumerate(block.captures, block.num_arguments)
        }
        steps = tuple(self._step(step, places) for step in block.steps)
        shared = tuple(
            (register, known(value))
            for register, value in block.constants
            if isinstance(value, IMMUTABLE)
        )
        copied = tuple(item for item in block.constants if not isinstance(item[1], IMMUTABLE))
        return Code(block, steps, shared, copied)

    def _step(self, step: Step, places: Places) -> CodeStep:
        blocks = tuple(self._code(nested, places) for nested in step.blocks)
        location = self.plan.location(step)
        test = places.get(step.inputs[0]) if step.op == "cf.if" else None
        places.update(dict.fromkeys(step.outputs, location))
        return code_step(step, self._operations, blocks, location, test)


def code_step(
    step: Step,
    operations: dict[str, Operation],
    blocks: tuple[Code, ...] = (),
    location: Location | None = None,
    test: Location | None = None,
) -> CodeStep:
    """Prepare one step; raises LowerError for an op that cannot be run."""
    operation = operations.get(step.op)
    if operation is None:
        raise LowerError(f"the executor cannot run op '{step.op}'", location=location)
    positions = range(len(step.inputs)) if operation.waits is None else operation.waits
    states = [step.outputs[position] for position in step.state_outputs]
    ticks = step.attributes["n"] if step.op == "lm.tick" else operation.ticks
    return CodeStep(
        op=step.op,
        operation=operation,
        inputs=step.inputs,
        waits=tuple(step.inputs[position] for position in positions),
        outputs=step.outputs,
        state_outputs=frozenset(states),
        attributes=step.attributes,
        blocks=blocks,
        location=location,
        ticks=ticks,
        first_state=states[0] if states else -1,
        may_fail=step.may_fail,
        test=test,
    )
