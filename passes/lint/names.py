"""Which variables a state has: surely, likely, and at most.

"Likely" takes loops to run at least once and forks to have children, so that what it lacks is
worth a warning; "possible" is None where anything may be set.
"""

from dataclasses import dataclass, field

from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.ops import SPECS
from lmc.ir.tries import result_sources
from lmc.ir.types import BOOL, FLOAT, INT, NONE, TEXT
from lmc.passes.analysis import Facts

EVERY_NAME = None
PLAIN = frozenset({TEXT, BOOL, INT, FLOAT, NONE})
"""Types of values that hold no states."""

_MAX_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Names:
    """Variables of a state, or of the states in a container."""

    sure: frozenset[str] = frozenset()
    likely: frozenset[str] | None = frozenset()
    possible: frozenset[str] | None = frozenset()

    def with_name(self, name: str | None) -> "Names":
        """Return the names once a variable is set; None for a name known late."""
        if name is None:
            return Names(self.sure, EVERY_NAME, EVERY_NAME)
        extra = {name}
        return Names(self.sure | extra, _plus(self.likely, extra), _plus(self.possible, extra))

    def or_else(self, other: "Names") -> "Names":
        """Return what is known where it is one or the other."""
        likely = other.likely if self.likely is None else self.likely
        if self.likely is not None and other.likely is not None:
            likely = self.likely & other.likely
        return Names(self.sure & other.sure, likely, _both(self.possible, other.possible))

    def along(self, other: "Names") -> "Names":
        """Return what is known of a container of both: all its states get what one gets."""
        return Names(
            self.sure & other.sure,
            _both(self.likely, other.likely),
            _both(self.possible, other.possible),
        )


NOTHING = Names()
ANYTHING = Names(frozenset(), EVERY_NAME, EVERY_NAME)


def _plus(names: frozenset[str] | None, extra: set[str]) -> frozenset[str] | None:
    return None if names is None else names | extra


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


@dataclass(slots=True)
class StateNames:
    """The variables of every state of one function."""

    facts: Facts
    module: Module
    finals: dict[str, Names] = field(default_factory=dict)
    known: dict[Value, Names] = field(default_factory=dict)

    @classmethod
    def of(
        cls, function: Function, facts: Facts, module: Module, finals: dict[str, Names]
    ) -> "StateNames":
        """Follow the states of a function from its prompt on.

        `finals` keeps what is known of the final states of other programs of the module.
        """
        made = cls(facts, module, finals)
        made._block(function.body)
        return made

    def at(self, value: Value) -> Names:
        """Return the variables of a state, or of those in a container."""
        return self.known.get(value, ANYTHING)

    # Walking forward.

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.name in ("cf.for", "cf.while"):
                self._loop(op)
            elif op.name == "cf.if":
                for nested in op.blocks:
                    self._block(nested)
                self._merge(op)
            elif op.name not in SPECS or op.name == "cf.try":
                for nested in op.blocks:
                    self._block(nested)
                self._caught(op)
            else:
                self._op(op)

    def _merge(self, op: Op) -> None:
        for index, result in enumerate(op.results):
            one, other = (self._of(block.terminator.operands[index]) for block in op.blocks)
            if one is not None and other is not None:
                self.known[result] = one.or_else(other)

    def _caught(self, op: Op) -> None:
        """Follow states through a `try`, which is taken to come to its end."""
        for index, result in enumerate(op.results if op.name == "cf.try" else ()):
            held = [names for v in result_sources(op, index) if (names := self._of(v)) is not None]
            made = held[0] if held else None
            for other in held[1:]:
                assert made is not None
                made = made.along(other)
            if made is not None:
                self.known[result] = Names(made.sure, made.possible, made.possible)

    def _loop(self, op: Op) -> None:
        is_for = op.name == "cf.for"
        body = op.blocks[0]
        inits = op.operands[is_for:]
        arguments = body.arguments[is_for:]
        if is_for:
            self._pass(op.operands[0], body.arguments[0])
        for init, argument in zip(inits, arguments, strict=True):
            self._pass(init, argument)
        for _ in range(_MAX_ROUNDS):
            self._block(body)
            before = dict(self.known)
            ends = body.terminator.operands[1:]
            for argument, end in zip(arguments, ends, strict=True):
                if argument in self.known:
                    self.known[argument] = _wider(self.known[argument], self.at(end))
            if before == self.known:
                break
        for init, end, result in zip(inits, body.terminator.operands[1:], op.results, strict=True):
            start, last = self._of(init), self._of(end)
            if start is not None and last is not None:
                if is_for and (stored := self._stored_everywhere(op, init, end)) is not None:
                    last = start = self.at(stored)
                # Whatever some trip may set is taken to be set.
                likely = _both(start.likely, last.possible)
                possible = _both(start.possible, last.possible)
                self.known[result] = Names(start.sure & last.sure, likely, possible)

    def _stored_everywhere(self, loop: Op, init: Value, end: Value) -> Value | None:
        """Return what a loop over all indices of a list puts at each of them, if it does."""
        numbers = self.facts.op_of(loop.operands[0], "val.call")
        length = self.facts.op_of(numbers.operands[0], "val.call") if numbers else None
        change = self.facts.op_of(end, "val.mutate")
        known = self.facts.constant(loop.blocks[0].terminator.operands[0])
        if numbers is None or length is None or change is None or known is None:
            return None
        is_range = numbers.attributes["callee"] == "range" and len(numbers.operands) == 1
        is_len = length.attributes["callee"] == "len" and length.operands[0] is init
        at_item = change.operands[1] is loop.blocks[0].arguments[0]
        is_set = change.attributes["name"] == "__setitem__"
        if is_range and is_len and at_item and is_set and known.value is True:
            return change.operands[2]
        return None

    def _fork_of(self, children: Value) -> Op | None:
        """Return the fork that a list of children comes from, through changes in loops."""
        while True:
            op = self.facts.op_of(children)
            if op is None or op.name == "lm.fork":
                return op
            if op.name == "val.mutate" and op.attributes["name"] == "__setitem__":
                children = op.operands[0]
            elif op.name == "cf.for":
                children = op.operands[op.results.index(children) + 1]
            else:
                return None

    def _pass(self, source: Value, target: Value) -> None:
        found = self._of(source)
        if found is not None:
            self.known[target] = found

    def _of(self, value: Value) -> Names | None:
        """Return what is known of a value that is or holds states; None for other values."""
        return self.known.get(value)

    def _op(self, op: Op) -> None:
        match op.name:
            case "lm.prompt" | "lm.prologue":
                self.known[op.results[0]] = NOTHING
            case "lm.gen" | "lm.select" | "lm.set":
                name, is_late = set_name(op)
                before = self.at(op.operands[0])
                is_set = is_late or name is not None
                self.known[op.results[0]] = before.with_name(name) if is_set else before
            case "lm.join":
                self.known[op.results[0]] = self._joined(op)
            case "lm.group":
                for child, made in zip(op.operands[1:], op.results, strict=True):
                    self._pass(child, made)
            case "func.call":
                self._pass(op.operands[1], op.results[1])
                self.known[op.results[2]] = self._final(str(op.attributes["callee"]))
            case name if name.startswith("lm.") and op.operands:
                for result in op.results:
                    self._pass(op.operands[0], result)
            case "val.list" | "val.dict" if not op.operands:
                # Empty: what is put into it decides.
                self.known[op.result] = NOTHING
            case name if name.startswith("val."):
                self._container(op)
            case _:
                pass

    def _container(self, op: Op) -> None:
        """Follow states into containers, and out of them."""
        held = [value for value in _members(op) if value.type not in PLAIN]
        known = [names for value in held if (names := self._of(value)) is not None]
        is_partly_unknown = len(known) < len(held) and op.name not in ("val.tuple", "val.list")
        if not known or is_partly_unknown:
            return
        made = known[0]
        for other in known[1:]:
            made = made.along(other)
        for result in op.results:
            self.known[result] = made

    def _joined(self, op: Op) -> Names:
        parent, children = self.at(op.operands[0]), self.at(op.operands[1])
        if op.attributes.get("mode") == "concate_and_append":
            return parent
        fork = self._fork_of(op.operands[1])
        count = fork.attributes.get("count") if fork is not None else None
        has_children = isinstance(count, int) and count > 0
        return Names(
            parent.sure | children.sure if has_children else parent.sure,
            _both(parent.likely, children.possible),
            _both(parent.possible, children.possible),
        )

    def _final(self, callee: str) -> Names:
        """Return the variables of the final state of another program."""
        function = self.module.functions.get(callee)
        if function is None or function.kind != "program":
            return ANYTHING
        if callee not in self.finals:
            self.finals[callee] = ANYTHING  # until it is known, for programs that call themselves
            inner = StateNames.of(function, Facts.of(function), self.module, self.finals)
            self.finals[callee] = inner.at(function.body.terminator.operands[1])
        return self.finals[callee]


def _members(op: Op) -> list[Value]:
    """Return the operands of an op that its results may hold, or be members of."""
    if op.name in ("val.index", "val.slice", "val.unpack"):
        return op.operands[:1]
    if op.name == "val.mutate" and op.attributes["name"] == "__setitem__":
        return [op.operands[0], op.operands[2]]
    if op.name == "val.dict":
        return op.operands[1::2]
    return list(op.operands)


def set_name(op: Op) -> tuple[str | None, bool]:
    """Return the variable that a gen, select or set sets, and whether it is known late."""
    dynamic = op.attributes.get("dynamic", ())
    name = op.attributes.get("name")
    is_late = isinstance(dynamic, (list, tuple)) and "name" in dynamic
    if is_late or (op.name == "lm.set" and not isinstance(name, str)):
        return None, True
    return (name if isinstance(name, str) else None), False


def _wider(start: Names, end: Names) -> Names:
    """Return the variables at the beginning of a trip: as at the first, or as after another."""
    return Names(start.sure, start.likely, _both(start.possible, end.possible))
