"""Checks the invariants of the IR and reports all failures at once.

A module that verifies can be printed, interpreted, lowered and rewritten without further
checks: names resolve, types fit, every block ends as it must, and effects stay in one chain.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lmc.errors import VerifyError
from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.location import Location
from lmc.ir.printer import print_module
from lmc.ir.types import EFFECT, SCALAR_NAMES, STATE, Type, is_attr
from lmc.ir.verifier_ops import check_op, check_save

MAX_NESTING = 100


@dataclass(frozen=True, slots=True)
class Failure:
    """One broken rule and where: an op, a function, or neither for the module itself."""

    message: str
    function: Function | None = None
    op: Op | None = None


PlaceOf = Callable[[Module | Function | Op], Location]
"""Where a piece of a module stands in the text that the module was read from."""


def verify(module: Module, *, place_of: PlaceOf | None = None) -> None:
    """Raise VerifyError if the module breaks a rule; the error shows all failures in place.

    `place_of` gives the places of a module that was read from text: the error then names these.
    """
    failures = find_failures(module)
    if not failures:
        return
    raise _error(module, failures) if place_of is None else _text_error(module, failures, place_of)


def find_failures(module: Module) -> list[Failure]:
    """Return every broken rule, in the order of the text."""
    failures: list[Failure] = []
    for name in module.entries:
        function = module.functions.get(name)
        if function is None:
            failures.append(Failure(f"entry @{name} is no function of the module"))
        elif function.kind != "program":
            failures.append(Failure(f"entry @{name} is a {function.kind}, not a program"))
    if len(set(module.entries)) != len(module.entries):
        failures.append(Failure("an entry is listed twice"))
    if not is_attr(module.attributes):
        failures.append(Failure("the module's attributes hold more than plain data"))
    walker = _Walker(module)
    for name, function in module.functions.items():
        if name != function.name:
            failures.append(Failure(f"it is stored under the name @{name}", function))
        failures += walker.function(function)
    return failures


def _text_error(module: Module, failures: list[Failure], place_of: PlaceOf) -> VerifyError:
    """Return the error of a module whose text the user has."""
    placed = [(place_of(failure.op or failure.function or module), failure) for failure in failures]
    placed.sort(key=lambda pair: pair[0])
    lines = [f"module {module.name!r} breaks {len(failures)} rule(s) of the IR:"]
    for place, failure in placed:
        op = f"{failure.op.name}: " if failure.op else ""
        lines.append(f"- {place}: {op}{failure.message}")
    return VerifyError("\n".join(lines), location=placed[0][0])


def _error(module: Module, failures: list[Failure]) -> VerifyError:
    notes: dict[Op | Function, list[str]] = {}
    for failure in failures:
        owner = failure.op or failure.function
        if owner is not None:
            notes.setdefault(owner, []).append(failure.message)
    head = [f"module {module.name!r} breaks {len(failures)} rule(s) of the IR:"]
    for failure in failures:
        place = f" (@{failure.function.name})" if failure.function else ""
        op = f"{failure.op.name}: " if failure.op else ""
        head.append(f"- {op}{failure.message}{place}")
    text = print_module(module, notes=notes) if _is_printable(module) else ""
    ops = [failure.op for failure in failures if failure.op is not None]
    location = next((op.location for op in ops if op.location), None)
    return VerifyError("\n".join([*head, text.rstrip()]).rstrip(), location=location)


def _is_printable(module: Module) -> bool:
    held = [module.attributes, *(function.attributes for function in module.functions.values())]
    return all(map(is_attr, held)) and all(is_attr(op.attributes) for op in module.walk())


class _Walker:
    """Walks functions with the set of values that are visible at each point."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._seen_ops: set[int] = set()
        self._seen_blocks: set[int] = set()
        self._defined: set[Value] = set()
        self._taken: dict[Block, Iterable[Value]] = {}
        self._function: Function
        self._tries: list[Op] = []

    def function(self, function: Function) -> Iterator[Failure]:
        """Yield the failures of one function."""
        self._function = function
        yield from (Failure(message, function) for message in _signature(function))
        yield from self._block(function.body, set(), None, 1)

    def _fail(self, op: Op | None, message: str) -> Failure:
        return Failure(message, self._function, op)

    def _block(
        self, block: Block, outer: set[Value], owner: Op | None, depth: int
    ) -> Iterator[Failure]:
        if id(block) in self._seen_blocks:
            yield self._fail(owner, "a block stands in two places; clone it")
            return
        self._seen_blocks.add(id(block))
        if depth > MAX_NESTING:
            yield self._fail(owner, f"blocks are nested deeper than {MAX_NESTING}")
            return
        visible = set(outer)
        yield from self._define(block.arguments, visible, owner)
        yield from self._ending(block, owner)
        for op in block.ops:
            yield from self._op(op, visible, depth)
        yield from self._effects(block)

    def _op(self, op: Op, visible: set[Value], depth: int) -> Iterator[Failure]:
        if id(op) in self._seen_ops:
            yield self._fail(op, "the op stands in two places; clone it")
            return
        self._seen_ops.add(id(op))
        for index, value in enumerate(op.operands):
            if value not in visible:
                named = f" ({value.hint})" if value.hint else ""
                yield self._fail(op, f"operand {index}{named} is not defined before this op")
        for message in check_op(self._module, op):
            yield self._fail(op, message)
        if op.name == "cf.save":
            for message in check_save(op, self._tries[-1] if self._tries else None):
                yield self._fail(op, message)
        if op.name == "cf.try":
            self._tries.append(op)
        for block in op.blocks:
            yield from self._block(block, visible, op, depth + 1)
        if op.name == "cf.try":
            self._tries.pop()
        yield from self._define(op.results, visible, op)

    def _define(
        self, values: list[Value], visible: set[Value], owner: Op | None
    ) -> Iterator[Failure]:
        for value in values:
            if value in self._defined:
                yield self._fail(owner, f"value {value.hint!r} is defined twice")
            if not _is_type(value.type):
                yield self._fail(owner, f"unknown type {value.type}")
            self._defined.add(value)
            visible.add(value)

    def _ending(self, block: Block, owner: Op | None) -> Iterator[Failure]:
        wanted = "cf.yield" if owner else "func.return"
        if not block.ops or block.ops[-1].name != wanted:
            last = block.ops[-1].name if block.ops else "nothing"
            yield self._fail(owner, f"a block ends in {last} instead of {wanted}")
        for op in block.ops[:-1]:
            if op.name in ("cf.yield", "func.return"):
                yield self._fail(op, "ops follow the end of the block")
        if owner is None and block.ops and block.ops[-1].name == "func.return":
            yield from self._return(block.ops[-1])

    def _return(self, op: Op) -> Iterator[Failure]:
        is_program = self._function.kind == "program"
        wanted = [EFFECT, STATE] if is_program else [EFFECT]
        found = [value.type for value in op.operands]
        rest = found[len(wanted) :]
        is_long = len(rest) == 1 if is_program else len(rest) >= 1
        if not is_long or found[: len(wanted)] != wanted or EFFECT in rest:
            shape = ", ".join([*map(str, wanted), "value" if is_program else "value, ..."])
            given = ", ".join(map(str, found))
            yield self._fail(op, f"a {self._function.kind} returns ({shape}), not ({given})")

    def _effects(self, block: Block) -> Iterator[Failure]:
        """Each effect value is taken once: host calls have one order."""
        taken: dict[Value, Op] = {}
        for op in block.ops:
            for value in self._effects_taken(op):
                if value in taken:
                    yield self._fail(
                        op, f"the effect {value.hint!r} was taken by {taken[value].name} before"
                    )
                taken[value] = op
        self._taken[block] = taken

    def _effects_taken(self, op: Op) -> Iterable[Value]:
        """Return the effect values that an op takes, itself or from within its blocks."""
        taken = [value for value in op.operands if value.type is EFFECT or value.type == EFFECT]
        for block in op.blocks:
            taken += self._taken.get(block, ())
        return dict.fromkeys(taken)


def _is_type(kind: Type) -> bool:
    while kind.name == "list" and kind.element is not None:
        kind = kind.element
    return kind.element is None and kind.name in SCALAR_NAMES


def _signature(function: Function) -> Iterator[str]:
    if function.kind not in ("program", "helper"):
        yield f"kind {function.kind!r} is neither 'program' nor 'helper'"
    types = [value.type for value in function.body.arguments]
    if len(types) != 1 + len(function.params) or types[:1] != [EFFECT]:
        yield f"its block takes an effect and {len(function.params)} parameter(s), one value each"
    barred = (EFFECT, STATE) if function.kind == "program" else (EFFECT,)
    if any(kind in barred for kind in types[1:]):
        yield "a parameter is an effect, or a program's a state; parameters are plain values"
    names = [param.name for param in function.params]
    if len(set(names)) != len(names):
        yield "two parameters have the same name"
    if "params" in function.attributes:
        yield "the attribute 'params' is reserved for the parameters"
    if not is_attr(function.attributes) or not all(is_attr(p.default) for p in function.params):
        yield "its attributes or defaults hold more than plain data"
    for param in function.params:
        if not param.has_default and param.default is not None:
            yield f"parameter {param.name!r} has a default that has_default denies"
