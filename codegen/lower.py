"""Lowering: IR to a plan, for one target or (without one) for any."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lmc.codegen.forced_head import forced_head
from lmc.codegen.plan import Plan, PlanBlock, PlanFunction, PlanParam, Step
from lmc.errors import ConstraintError, LowerError
from lmc.ir.core import Block, Function, Module, Op, Param, Value, copy_attr, free_values
from lmc.ir.decode_params import constraint_from
from lmc.ir.failing import may_fail
from lmc.ir.location import Location
from lmc.ir.ops import SPECS
from lmc.ir.target import Piece, Target
from lmc.ir.types import STATE, Attr, list_of

STATES = list_of(STATE)


def lower(module: Module, target: Target | None = None) -> Plan:
    """Return the plan of a module.

    With a target, what depends on tokens is decided here: prologues get their token ids, and
    roles and control tokens that the model does not have are refused.

    Raises:
        LowerError: an op is unknown, or the target lacks what the program uses.
        ConstraintError: a generation's schema is refused.
    """
    lowering = _Lowering(module, target)
    functions = {name: lowering.function(f) for name, f in module.functions.items()}
    return Plan(
        name=module.name,
        functions=functions,
        entries=tuple(module.entries),
        locations=tuple(lowering.locations),
        target_fingerprint=target.fingerprint if target is not None else "",
    )


@dataclass(slots=True)
class _Lowering:
    """What is shared by all functions of a module while it is lowered."""

    module: Module
    target: Target | None
    locations: dict[Location, int] = field(default_factory=dict)
    prologues: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    users: dict[Value, list[Op]] = field(default_factory=dict)

    def function(self, function: Function) -> PlanFunction:
        """Lower one function."""
        self.users.clear()
        for op in function.body.walk():
            for value in op.operands:
                self.users.setdefault(value, []).append(op)
        return PlanFunction(
            name=function.name,
            kind=function.kind,
            params=tuple(_param(param) for param in function.params),
            body=self.block(function.body, []),
            attributes=_copied(function.attributes),
        )

    def block(self, block: Block, captures: Sequence[Value]) -> PlanBlock:
        """Lower a block; registers are given out as arguments, captures, then outputs."""
        registers: dict[Value, int] = {}
        for value in (*block.arguments, *captures):
            registers[value] = len(registers)
        constants: list[tuple[int, Attr]] = []
        steps: list[Step] = []
        for op in block.ops[:-1]:
            if op.name == "val.const":
                register = registers[op.result] = len(registers)
                constants.append((register, copy_attr(op.attributes["value"])))
            else:
                steps.append(self.step(op, registers))
        return PlanBlock(
            num_arguments=len(block.arguments),
            captures=(),
            num_registers=len(registers),
            constants=tuple(constants),
            steps=tuple(steps),
            results=self.inputs(block.terminator, registers),
            state_arguments=_positions(block.arguments),
        )

    def step(self, op: Op, registers: dict[Value, int]) -> Step:
        """Lower one op and give registers to its results."""
        if op.name not in SPECS or SPECS[op.name].is_terminator:
            raise LowerError(f"there is no step for op '{op.name}'", location=op.location)
        if self.target is not None:
            self.check(op, self.target)
            if op.name == "lm.gen":
                self.check_constraint(op)
        inputs = self.inputs(op, registers)
        blocks = tuple(self.nested(block, registers) for block in op.blocks)
        for value in op.results:
            registers[value] = len(registers)
        return Step(
            op=op.name,
            inputs=inputs,
            outputs=tuple(registers[value] for value in op.results),
            attributes=self.attributes(op),
            blocks=blocks,
            location=self.location(op.location),
            state_inputs=_positions(op.operands),
            state_outputs=_positions(op.results),
            may_fail=may_fail(op),
        )

    def nested(self, block: Block, registers: dict[Value, int]) -> PlanBlock:
        """Lower the block of an op; the outer values that it uses become captures."""
        captures = free_values(block)
        made = self.block(block, captures)
        outer = tuple(registers[value] for value in captures)
        return PlanBlock(
            made.num_arguments, outer, made.num_registers, made.constants, made.steps,
            made.results, made.state_arguments,
        )  # fmt: skip

    def inputs(self, op: Op, registers: dict[Value, int]) -> tuple[int, ...]:
        """Return the registers of an op's operands."""
        try:
            return tuple(registers[value] for value in op.operands)
        except KeyError as error:
            raise LowerError(
                f"'{op.name}' uses %{error.args[0].hint} before it is defined",
                location=op.location,
            ) from None

    def location(self, location: Location | None) -> int:
        """Return the index of a location, -1 for none."""
        if location is None:
            return -1
        return self.locations.setdefault(location, len(self.locations))

    def attributes(self, op: Op) -> dict[str, Attr]:
        """Return a step's attributes; prologues get token ids and the held-back count."""
        made = _copied(op.attributes)
        for note in ("skeleton", "expected"):  # for passes and people; nothing that runs looks
            made.pop(note, None)
        if op.name == "lm.prologue" and self.target is not None:
            pieces = op.attributes["pieces"]
            head = forced_head(self.users.get(op.result, ()), self.target.tokenizer)
            key = f"{head} {pieces!r}"
            if key not in self.prologues:
                self.prologues[key] = stable_tokens(pieces, self.target, head)  # type: ignore[arg-type]
            made["token_ids"], made["held_back"] = self.prologues[key]
        return made

    @staticmethod
    def check_constraint(op: Op) -> None:
        """Compile the schema or grammar of a generation, so that it is refused here, not in a run.

        Raises:
            ConstraintError: it is wrong, unsupported or too costly; names the place in it.
        """
        params = op.attributes["params"]
        assert isinstance(params, dict)
        limit = constraint_from(params)
        if limit is None or limit.kind == "regex":
            return
        from lmc.ir.languages import language_of  # imports numpy

        try:
            language_of(limit)
        except ConstraintError as error:
            error.location = error.location or op.location
            raise

    def check(self, op: Op, target: Target) -> None:
        """Refuse what the target does not have."""
        pieces = [[op.name.removeprefix("lm."), op.attributes.get("role")]]
        if op.name == "lm.control":
            pieces = [["control", op.attributes["token"]]]
        elif op.name == "lm.prologue":
            pieces = op.attributes["pieces"]  # type: ignore[assignment]
        elif op.name not in ("lm.begin", "lm.end"):
            return
        for kind, value in pieces:
            if kind in ("begin", "end") and target.template is None:
                raise LowerError(
                    f"model '{target.name}' has no chat template, so it has no role '{value}'",
                    hint="write the prompt without roles, or choose an instruct model",
                    location=op.location,
                )
            if kind == "control" and target.tokenizer.control_id(str(value)) is None:
                raise LowerError(
                    f"model '{target.name}' has no control token {value!r}",
                    hint="control tokens are those that the tokenizer lists as special",
                    location=op.location,
                )


def stable_tokens(
    pieces: Iterable[Sequence[str]], target: Target, head: Sequence[int] = ()
) -> tuple[tuple[int, ...], int]:
    """Return the ids of a prologue that no continuation can change, and how many are held back.

    Held back are the last ids of the last text run: what follows may merge with them. Where
    only generations follow that begin with the forced ids `head`, these end the run of text,
    and belong to what can be computed ahead.
    """
    tokenizer = target.tokenizer
    done: list[int] = []
    open_text = ""
    for piece in _flat_pieces(pieces, target):
        if isinstance(piece, str):
            open_text += piece
            continue
        if open_text:
            done += tokenizer.encode(open_text, first=not done)
        open_text = ""
        done.append(piece)
    held_back = 0
    if open_text:
        ids = tokenizer.encode(open_text, first=not done)
        stable = len(ids) if head else tokenizer.stable_len(open_text, first=not done)
        done += ids[:stable]
        held_back = len(ids) - stable
    return ((*tokenizer.start_ids, *done, *head) if done else ()), held_back


def _flat_pieces(pieces: Iterable[Sequence[str]], target: Target) -> Iterable[Piece]:
    """Yield texts and control ids of a prologue's pieces, templates spelled out."""
    is_first = True
    for kind, value in pieces:
        if kind == "text":
            yield value
        elif kind == "control":
            token_id = target.tokenizer.control_id(value)
            assert token_id is not None, f"{value!r} was checked"
            yield token_id
        else:
            assert target.template is not None, "the template was checked"
            if kind == "begin":
                yield from target.template.begin(value, is_first=is_first)
                is_first = False
            else:
                yield from target.template.end(value)


def _positions(values: Sequence[Value]) -> tuple[int, ...]:
    return tuple(index for index, value in enumerate(values) if value.type == STATE)


def _param(param: Param) -> PlanParam:
    default = copy_attr(param.default)
    return PlanParam(param.name, param.annotation, param.has_default, default, param.keyword_only)


def _copied(attributes: dict[str, Attr]) -> dict[str, Attr]:
    return {key: copy_attr(value) for key, value in attributes.items()}
