"""Checks a plan that was read from a file: is it what lowering makes of IR that verifies?

The plan is raised to the IR's structure, and the IR's own verifier looks at it. Of types a plan
has states alone; effects follow from the ops, and any other value passes for any data.
"""

from collections.abc import Sequence

from lmc.codegen.plan import Plan, PlanBlock, PlanFunction, Step
from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.ops import SPECS
from lmc.ir.tries import FIRST_SLOT
from lmc.ir.types import EFFECT, STATE, Type
from lmc.ir.verifier import find_failures

_LOWERED = ("token_ids", "held_back")
"""Attributes that lowering adds to a prologue."""


class _AnyData(Type):
    """The type of what may be any data: equals every type but states and effects."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and other.name not in (STATE.name, EFFECT.name)

    __hash__ = Type.__hash__


_DATA = _AnyData("py")


def check_plan(plan: Plan) -> None:
    """Check what the types of its parts do not say; raises ValueError with what is wrong."""
    for function in plan.functions.values():
        _check_registers(function.body)
    raising = _Raising(plan)
    functions = {name: raising.function(f) for name, f in plan.functions.items()}
    for failure in find_failures(Module(plan.name, functions, list(plan.entries))):
        op = f"{failure.op.name}: " if failure.op is not None else ""
        raise ValueError(f"{op}{failure.message}")
    for step in plan.steps():
        if step.op == "lm.prologue":
            _check_prologue(step, bool(plan.target_fingerprint))


def _check_registers(block: PlanBlock) -> None:
    """Check that a frame has one register for each value, and that no two share it."""
    given = [*range(block.num_arguments + len(block.captures))]
    given += [register for register, _ in block.constants]
    given += [register for step in block.steps for register in step.outputs]
    if len(given) != block.num_registers or set(given) != set(range(block.num_registers)):
        raise ValueError(f"its frame of {block.num_registers} registers is not filled once")
    for step in block.steps:
        for nested in step.blocks:
            _check_registers(nested)


def _check_prologue(step: Step, is_lowered: bool) -> None:
    """Check the token ids of a prologue, which are there if the plan is for a target."""
    ids, held_back = (step.attributes.get(name) for name in _LOWERED)
    if not is_lowered and ids is None and held_back is None:
        return
    numbers = [*ids, held_back] if isinstance(ids, tuple) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("lm.prologue: its token ids are no numbers from 0")


class _Raising:
    """Makes IR of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def function(self, function: PlanFunction) -> Function:
        """Return a function of the IR."""
        params = [
            Param(p.name, p.annotation, p.has_default, p.default, p.keyword_only)
            for p in function.params
        ]
        arguments = self._arguments(function.body)
        if arguments:
            arguments[0].type = EFFECT
        body = self._block(function.body, arguments, [], "func.return")
        return Function(function.name, function.kind, params, body, function.attributes)

    def _arguments(self, block: PlanBlock) -> list[Value]:
        states = set(block.state_arguments)
        return [Value(STATE if i in states else _DATA) for i in range(block.num_arguments)]

    def _block(
        self, block: PlanBlock, arguments: list[Value], outer: Sequence[Value], end: str
    ) -> Block:
        """Return a block; a register that nothing fills yet gets a value defined nowhere."""
        values = [Value(_DATA, f"r{number}") for number in range(block.num_registers)]
        values[: len(arguments)] = arguments
        for register, source in enumerate(block.captures, len(arguments)):
            values[register] = outer[source]
        ops: list[Op] = []
        for register, constant in block.constants:
            ops.append(Op("val.const", [], [values[register]], {"value": constant}))
        ops += [self._op(step, values) for step in block.steps]
        ops.append(Op(end, [values[register] for register in block.results]))
        return Block(arguments, ops)

    def _op(self, step: Step, values: Sequence[Value]) -> Op:
        """Return an op, its results typed as the spec and the state positions say."""
        if step.op not in SPECS or SPECS[step.op].is_terminator or step.op == "val.const":
            raise ValueError(f"there is no step {step.op!r}")
        attributes = step.attributes
        if step.op == "lm.prologue":
            attributes = {k: v for k, v in attributes.items() if k not in _LOWERED}
        made = Op(
            step.op,
            [values[register] for register in step.inputs],
            [values[register] for register in step.outputs],
            attributes,
            location=self._plan.location(step),
        )
        self._type_results(step, made)
        for block in step.blocks:
            arguments = self._arguments(block)
            for argument, effect in zip(arguments, _carried_effects(made, block), strict=False):
                argument.type = EFFECT if effect else argument.type
            made.blocks.append(self._block(block, arguments, values, "cf.yield"))
        if step.op == "cf.if":
            _type_yielded(made)
        found = [i for i, value in enumerate(made.operands) if value.type == STATE]
        if tuple(found) != step.state_inputs:
            raise ValueError(f"{step.op}: it takes states at other places than it says")
        return made

    def _type_results(self, step: Step, made: Op) -> None:
        for position in step.state_outputs:
            made.results[position].type = STATE
        effects: list[int] = []
        fixed = SPECS[step.op].results
        if fixed is not None:
            effects = [i for i, kind in enumerate(fixed) if kind == EFFECT]
        elif step.op == "func.apply":
            effects = [0]
        elif step.op == "cf.try":
            effects = [FIRST_SLOT - 1]
        elif step.op in ("cf.for", "cf.while"):
            carried = made.operands[step.op == "cf.for" :]
            effects = [i for i, value in enumerate(carried) if value.type == EFFECT]
        for position in effects:
            if position < len(made.results):
                made.results[position].type = EFFECT


def _carried_effects(op: Op, block: PlanBlock) -> list[bool]:
    """Return which arguments of an op's block are effects: those carried in as such."""
    if op.name not in ("cf.for", "cf.while"):
        return [False] * block.num_arguments
    is_for = op.name == "cf.for"
    return [False] * is_for + [value.type == EFFECT for value in op.operands[is_for:]]


def _type_yielded(op: Op) -> None:
    """Mark the results of a branch that both arms give as effects."""
    ends = [block.ops[-1].operands for block in op.blocks]
    for position, values in enumerate(zip(op.results, *ends, strict=False)):
        if all(value.type == EFFECT for value in values[1:]) and len(values) > 1:
            op.results[position].type = EFFECT
