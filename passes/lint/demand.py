"""Which parts of which values something observable needs, backwards from a function's ends.

Finer than `passes.dce`: of a state its text and each of its variables are followed apart, so
that a generation whose text is prompt for a later call counts as used, and one whose variable
is set anew before it is read does not keep that variable alive.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from lmc.ir.core import Function, Op, Value
from lmc.ir.expressions import HIDDEN
from lmc.ir.ops import SPECS
from lmc.ir.tries import result_sources
from lmc.passes.analysis import EFFECTS, Facts
from lmc.passes.lint.names import StateNames, set_name
from lmc.passes.lint.walk import is_same, taken
from lmc.passes.purity import CALLEES, FunctionFacts

SETTING = frozenset({"lm.gen", "lm.select", "lm.set"})
"""Ops that set a variable."""

_SAME_STATE = frozenset({"lm.begin", "lm.end", "lm.control", "lm.tick", "lm.unordered"})
_BUILT_LISTS = frozenset({"val.list", "val.tuple"})


class Part(NamedTuple):
    """A part of a value that is needed.

    `kind` is "value" (for a state: that it exists), "text", "name" (the variable `name`) or
    "rest" (variables whose names are known late). `index` is the item of a list that is
    meant, None for any.
    """

    kind: str
    name: str = ""
    index: int | None = None

    def at(self, index: int | None) -> "Part":
        """Return the same part of an item of a list."""
        return self._replace(index=index)


VALUE = Part("value")
TEXT = Part("text")
REST = Part("rest")


@dataclass(slots=True)
class Demand:
    """What is needed of one function's values; `Demand.of` computes it.

    Attributes:
        parts: needed parts by value.
        executed: ops that run for something that is needed.
        used: model calls that something needs.
        read: of these, the ones whose value, meta or variable is needed.
        told: appends whose text something needs.
    """

    facts: Facts
    callees: dict[str, FunctionFacts]
    names: StateNames
    parts: dict[Value, set[Part]] = field(default_factory=dict)
    executed: set[Op] = field(default_factory=set)
    used: set[Op] = field(default_factory=set)
    read: set[Op] = field(default_factory=set)
    told: set[Op] = field(default_factory=set)
    _all_names: tuple[Part, ...] = ()
    _pending: list[tuple[Value, Part]] = field(default_factory=list)

    @classmethod
    def of(
        cls, function: Function, facts: Facts, callees: dict[str, FunctionFacts], names: StateNames
    ) -> "Demand":
        """Follow what a function's results and effects need."""
        demand = cls(facts, callees, names)
        known = {set_name(op)[0] for op in function.body.walk() if op.name in SETTING}
        demand._all_names = (REST, *(Part("name", name) for name in known if name is not None))
        for op in function.body.walk():
            demand._add_root(op, function)
        while demand._pending:
            demand._follow(*demand._pending.pop())
        return demand

    def has(self, value: Value, kind: str, name: str = "") -> bool:
        """Whether a part of a value is needed, of any item."""
        wanted = Part(kind, name)
        return any(_covers(part.at(None), wanted) for part in self.parts.get(value, ()))

    # Roots.

    def _add_root(self, op: Op, function: Function) -> None:
        if op.name == "func.return":
            shown = [p for p in self._all_names if not p.name.startswith(HIDDEN)]
            if function.kind == "helper":
                # Its caller may go on with what it returns, states among them.
                for value in op.operands[1:]:
                    self._need_all(value)
                return
            for value in op.operands[1:-1]:
                for part in (VALUE, TEXT, *shown):
                    self._need(value, part)
            self._need_all(op.operands[-1])  # it may be a state, or hold some
        elif op.name in EFFECTS or op.name == "cf.while" or op.name not in SPECS:
            self._execute(op)
        elif op.name in CALLEES:
            callee = self.callees.get(str(op.attributes["callee"]))
            if callee is None or callee.has_effects or callee.may_diverge:
                self._execute(op)

    # Marking.

    def _need(self, value: Value, part: Part) -> None:
        known = self.parts.setdefault(value, set())
        if any(_covers(other, part) for other in known):
            return
        known.add(part)
        self._pending.append((value, part))

    def _need_all(self, value: Value) -> None:
        for part in (VALUE, TEXT, *self._all_names):
            self._need(value, part)

    def _execute(self, op: Op) -> None:
        """Note that an op runs: what decides that it does is needed, and what it takes."""
        if op in self.executed:
            return
        self.executed.add(op)
        owner = self.facts.owners[self.facts.blocks[op]]
        if owner is not None:
            self._execute(owner)
        if op.name == "func.apply":
            for value in op.operands[1:]:
                self._need_all(value)
        elif op.name in EFFECTS or op.name in CALLEES or op.name == "host.pure":
            for value in op.operands:
                self._need(value, VALUE)
        elif op.name in ("cf.if", "cf.for"):
            self._need(op.operands[0], VALUE)
        if op.name in ("cf.for", "cf.while"):
            self._need(op.blocks[0].terminator.operands[0], VALUE)
        elif op.name not in SPECS:
            self._execute_unknown(op)

    def _execute_unknown(self, op: Op) -> None:
        """Take everything that an op of an unknown kind could need."""
        ends = [block.terminator.operands for block in op.blocks]
        for value in (*op.operands, *(value for values in ends for value in values)):
            self._need_all(value)

    # Following.

    def _follow(self, value: Value, part: Part) -> None:
        found = self.facts.arguments.get(value)
        if found is not None:
            owner, index = found
            if owner is not None:
                self._execute(owner)
                self._follow_argument(owner, index, part)
            return
        op, index = self.facts.definitions[value]
        if op.name != "func.call" or index > 1:
            self._execute(op)
        if op.name not in SPECS:
            return
        if op.blocks:
            self._follow_result(op, index, part)
        elif op.name.startswith("lm."):
            self._follow_state_op(op, index, part)
        elif op.name == "func.call":
            if index == 1:
                self._need(op.operands[1], part)
            elif index > 1:
                self.used.add(op)
        elif op.name.startswith("val."):
            self._follow_pure(op, index, part)

    def _follow_result(self, op: Op, index: int, part: Part) -> None:
        if op.name == "cf.try":
            self._follow_try(op, index, part)
        elif op.name == "cf.if":
            for block in op.blocks:
                self._need(block.terminator.operands[index], part)
        else:
            self._follow_argument(op, index + (op.name == "cf.for"), part)

    def _follow_try(self, op: Op, index: int, part: Part) -> None:
        """Follow a result of a `try`: whether it failed needs all that could fail in it."""
        for value in result_sources(op, index):
            self._need(value, part)
        if index > 0:
            return
        for inner in op.blocks[0].walk():
            self._execute(inner)
            for value in inner.operands:
                self._need_all(value)
            for value in inner.results[1:] if inner.name in SETTING else inner.results:
                self._need(value, VALUE)

    def _follow_argument(self, owner: Op, index: int, part: Part) -> None:
        """Follow an argument of a block: the item of a loop, or a value that it carries."""
        if owner.name not in ("cf.for", "cf.while"):
            for value in owner.operands:
                self._need(value, part.at(None))
            return
        is_for = owner.name == "cf.for"
        if is_for and index == 0:
            self._need(owner.operands[0], part.at(None))
            return
        self._need(owner.operands[index], part)
        self._need(owner.blocks[0].terminator.operands[index + 1 - is_for], part)

    # States.

    def _follow_state_op(self, op: Op, index: int, part: Part) -> None:
        match op.name:
            case "lm.prompt" | "lm.prologue":
                pass
            case "lm.extend":
                if part.kind == "text":
                    self.told.add(op)
                    self._need(op.operands[1], VALUE)
                self._need(op.operands[0], part)
            case "lm.image":
                for value in op.operands[1:] if part.kind == "text" else ():
                    self._need(value, VALUE)
                self._need(op.operands[0], part)
            case name if name in _SAME_STATE:
                self._need(op.operands[0], part)
            case "lm.gen" | "lm.select":
                self._follow_call(op, index, part)
            case "lm.set":
                self._follow_set(op, part)
            case "lm.get" | "lm.has" | "lm.meta":
                self._follow_read(op)
            case "lm.text" | "lm.messages":
                self._need(op.operands[0], TEXT)
            case "lm.fork":
                for value in op.operands[1:] if index == 1 else ():
                    self._need(value, VALUE)
                self._need(op.operands[0], part.at(None))
            case "lm.group":
                self._need(op.operands[index + 1], part)
            case "lm.join":
                self._follow_join(op, part)
            case _:
                for value in op.operands:
                    self._need_all(value)

    def _follow_call(self, op: Op, index: int, part: Part) -> None:
        state = op.operands[0]
        if index > 0:
            self._use(op, is_read=True)
            return
        name, is_dynamic = set_name(op)
        if part.kind == "text":
            self._use(op, is_read=False)
        elif part.kind == "value":
            self._need(state, part)
        elif is_dynamic:
            self._use(op, is_read=True)
            self._need(state, part)
        elif part.kind == "name" and part.name == name:
            self._use(op, is_read=True)
        else:
            self._need(state, part)

    def _use(self, op: Op, *, is_read: bool) -> None:
        if is_read:
            self.read.add(op)
        if op in self.used:
            return
        self.used.add(op)
        self._need(op.operands[0], TEXT)
        for value in op.operands[1:]:
            self._need(value, VALUE)

    def _follow_set(self, op: Op, part: Part) -> None:
        name, is_dynamic = set_name(op)
        is_asked = part.kind == "name" and part.name == name
        if is_asked or (is_dynamic and part.kind in ("name", "rest")):
            self.read.add(op)
            for value in op.operands[1:]:
                self._need(value, VALUE)
        if not is_asked:
            self._need(op.operands[0], part)

    def _follow_read(self, op: Op) -> None:
        name = op.attributes.get("name")
        for value in op.operands[1:]:
            self._need(value, VALUE)
        for part in (Part("name", name),) if isinstance(name, str) else self._all_names:
            self._need(op.operands[0], part)

    def _follow_join(self, op: Op, part: Part) -> None:
        parent, children = op.operands
        self._need(parent, part)
        if part.kind == "name" and part.name.startswith(HIDDEN):
            return
        is_appended = op.attributes.get("mode") == "concate_and_append"
        match part.kind:
            case "value":
                self._need(children, part.at(None))
            case "text" if is_appended:
                self._need(children, part.at(None))
            case "name" if not is_appended and part.name not in self.names.at(parent).sure:
                self._need(children, part.at(None))
            case "rest" if not is_appended:
                self._need(children, part.at(None))
            case _:
                pass

    # Plain values and containers.

    def _follow_pure(self, op: Op, index: int, part: Part) -> None:
        operands = op.operands
        if op.name == "val.index":
            source, is_item = taken(op, self.facts)
            self._need(source, part.at(None if is_item else self._position(operands[1])))
            self._need(operands[1], VALUE)
            self._need(operands[0], VALUE)
        elif op.name == "val.unpack":
            self._need(operands[0], part.at(index))
        elif op.name in _BUILT_LISTS and part.index is not None and part.index < len(operands):
            self._need(operands[part.index], part.at(None))
        elif op.name == "val.mutate" and op.attributes["name"] == "__setitem__" and index == 0:
            self._follow_stored(op, part)
        else:
            for value in operands:
                self._need(value, part.at(None))

    def _follow_stored(self, op: Op, part: Part) -> None:
        held, place, stored = op.operands
        position = self._position(place)
        while (change := self._change_at(held, place)) is not None:
            held = change.operands[0]  # what it stored there is gone
        self._need(place, VALUE)
        if part.index is None or position is None:
            self._need(held, part)
            self._need(stored, part.at(None))
        elif part.index == position:
            self._need(stored, part.at(None))
        else:
            self._need(held, part)

    def _change_at(self, held: Value, place: Value) -> Op | None:
        """Return the change of a list that makes it, if it is certainly at a place."""
        op = self.facts.op_of(held, "val.mutate")
        if op is None or op.attributes["name"] != "__setitem__":
            return None
        return op if is_same(op.operands[1], place, self.facts) else None

    def _position(self, value: Value) -> int | None:
        found = self.facts.constant_int(value)
        return found if found is not None and found >= 0 else None


def _covers(known: Part, part: Part) -> bool:
    """Whether a part that is needed already includes another."""
    if known.index is not None and known.index != part.index:
        return False
    return known.kind == part.kind and known.name == part.name
