"""The plan: what the executor runs. Plain data, printed as text, stored as JSON.

A plan holds one `PlanFunction` per function of the module. Values live in numbered registers
of a frame; a frame is opened per activation of a block (one iteration, one call). The
registers of a block are laid out as: arguments, captures, then the outputs of its steps;
constants take registers of their own among these.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lmc.ir.location import Location
from lmc.ir.types import Attr
from lmc.ir.value_types import class_names

PLAN_VERSION = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One op on registers.

    `location` indexes the plan's locations (-1: none). `state_inputs` and `state_outputs` are
    positions in `inputs` and `outputs` that hold prompt states. `may_fail` says that the run
    does not end before the step, whether or not its outputs are read.
    """

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Attr] = field(default_factory=dict)
    blocks: tuple["PlanBlock", ...] = ()
    location: int = -1
    state_inputs: tuple[int, ...] = ()
    state_outputs: tuple[int, ...] = ()
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A block: opened as a frame once per activation.

    `captures` are registers of the enclosing block that are copied in after the arguments;
    `constants` are (register, value) pairs; `results` are the registers that the terminator
    gives. `state_arguments` are positions of arguments that hold prompt states.
    """

    num_arguments: int
    captures: tuple[int, ...]
    num_registers: int
    constants: tuple[tuple[int, Attr], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    state_arguments: tuple[int, ...] = ()

    def walk(self) -> Iterator[Step]:
        """Yield all steps, those of nested blocks after the step that holds them."""
        for step in self.steps:
            yield step
            for block in step.blocks:
                yield from block.walk()


@dataclass(frozen=True, slots=True)
class PlanParam:
    """A parameter of a program, as its Python signature has it."""

    name: str
    annotation: str = ""
    has_default: bool = False
    default: Attr = None
    keyword_only: bool = False


@dataclass(frozen=True, slots=True)
class PlanFunction:
    """A program or a helper; arguments of `body` are an effect and one per parameter."""

    name: str
    kind: str
    params: tuple[PlanParam, ...]
    body: PlanBlock
    attributes: dict[str, Attr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """All functions of a module, lowered for one target ("" as fingerprint: for any)."""

    name: str
    functions: dict[str, PlanFunction]
    entries: tuple[str, ...]
    locations: tuple[Location, ...] = ()
    target_fingerprint: str = ""
    version: int = PLAN_VERSION

    def location(self, step: Step) -> Location | None:
        """Return where a step comes from."""
        return self.locations[step.location] if step.location >= 0 else None

    def steps(self, program: str | None = None) -> Iterator[Step]:
        """Yield all steps, or those that one program may come to."""
        names = list(self.functions) if program is None else self.reached(program)
        for name in names:
            yield from self.functions[name].body.walk()

    def reached(self, program: str) -> list[str]:
        """Return the functions that a program may come to, itself first."""
        found = [program]
        for name in found:  # grows while it is walked
            for step in self.functions[name].body.walk():
                if step.op in ("func.call", "func.apply"):
                    callee = str(step.attributes["callee"])
                    if callee not in found:
                        found.append(callee)
        return found

    def classes(self, program: str | None = None) -> list[str]:
        """Return the import names of all classes whose values generations make, sorted."""
        return sorted(
            {
                name
                for step in self.steps(program)
                if step.op == "lm.gen"
                for name in class_names(step.attributes["params"].get("type"))
            }
        )

    def callees(self, program: str | None = None) -> list[str]:
        """Return the import names of all host functions and exceptions that are named, sorted."""
        names: set[str] = set()
        for step in self.steps(program):
            if step.op in ("host.call", "host.pure"):
                names.add(str(step.attributes["callee"]))
            elif step.op == "host.matches":
                names.update(map(str, step.attributes["classes"]))  # type: ignore[arg-type]
        return sorted(names)


def print_plan(plan: Plan) -> str:
    """Return the plan as text for people: one line per step, blocks indented."""
    lines = [f'plan "{plan.name}" version {plan.version}']
    if plan.target_fingerprint:
        lines.append(f"target {plan.target_fingerprint}")
    for function in plan.functions.values():
        entry = " entry" if function.name in plan.entries else ""
        params = ", ".join(param.name for param in function.params)
        lines.append(f"{function.kind} {function.name}({params}){entry}")
        lines.extend(_block_lines(function.body, plan, "  "))
    return "\n".join(lines) + "\n"


def _block_lines(block: PlanBlock, plan: Plan, indent: str) -> Iterator[str]:
    states = [f"r{index}" for index in block.state_arguments]
    yield (
        f"{indent}block arguments={block.num_arguments} registers={block.num_registers}"
        f" states=[{', '.join(states)}]"
    )
    first = block.num_arguments
    for offset, outer in enumerate(block.captures):
        yield f"{indent}  r{first + offset} = outer r{outer}"
    for register, value in block.constants:
        yield f"{indent}  r{register} = {_short(value)}"
    for step in block.steps:
        yield f"{indent}  {_step_text(step, plan)}"
        for nested in step.blocks:
            yield from _block_lines(nested, plan, indent + "    ")
    yield f"{indent}  give {_registers(block.results)}"


def _step_text(step: Step, plan: Plan) -> str:
    given = f"{_registers(step.outputs)} = " if step.outputs else ""
    taken = f" {_registers(step.inputs)}" if step.inputs else ""
    attributes = "".join(f" {key}={_short(value)}" for key, value in step.attributes.items())
    location = plan.location(step)
    place = f"  ; {location}" if location is not None else ""
    return f"{given}{step.op}{taken}{attributes}{place}"


def _registers(registers: tuple[int, ...]) -> str:
    return ", ".join(f"r{register}" for register in registers)


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to spell very long integers
        return "(a very long number)"
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
