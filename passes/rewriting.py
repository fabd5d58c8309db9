"""A forward walk that lets rules replace ops, with facts kept current enough to be safe.

Rules see ops in order, outer ops before the ops of their blocks. A rule returns the ops that
stand in place of the one it was given, or None. Use counts may be too high within a round and
are made anew for the next, so a rule that asks for a single use is only ever late.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lmc.ir.core import Block, Function, Op, Value
from lmc.ir.location import Location
from lmc.ir.types import INT, PY, STATE, Attr, Type, type_of
from lmc.ir.verifier_ops import is_assignable
from lmc.passes.analysis import Child, Const, Facts, Item, Pack
from lmc.passes.base import Remarks
from lmc.passes.totality import is_total

Rule = Callable[["Rewriter", Op], "list[Op] | None"]
MAX_ROUNDS = 64


@dataclass(slots=True)
class Rewriter:
    """One round over one function."""

    facts: Facts
    remarks: Remarks
    rules: Mapping[str, Sequence[Rule]]
    max_text: int
    replaced: dict[Value, Value] = field(default_factory=dict)
    skipped: set[Op] = field(default_factory=set)
    changed: bool = False

    def block(self, block: Block) -> None:
        """Apply the rules to a block and to the blocks within it."""
        pending = deque(block.ops)
        done: list[Op] = []
        while pending:
            op = pending.popleft()
            self.facts.blocks[op] = block
            op.operands = [self.final(value) for value in op.operands]
            made = self._apply(op)
            if made is not None:
                self.changed = True
                for fresh in made:
                    self.facts.add(fresh, block)
                pending.extendleft(reversed(made))
                continue
            done.append(op)
            for nested in op.blocks:
                self.block(nested)
        block.ops = [op for op in done if op not in self.skipped]

    def _apply(self, op: Op) -> list[Op] | None:
        for rule in self.rules.get(op.name, ()):
            made = rule(self, op)
            if made is not None:
                return made
        return None

    def final(self, value: Value) -> Value:
        """Return what stands for a value now."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def can_replace(self, old: Value, new: Value) -> bool:
        """Whether the types allow `new` wherever `old` stands."""
        return can_stand(self.final(new), old, self.facts)

    def replace(self, old: Value, new: Value) -> None:
        """Let `new` stand wherever `old` stood."""
        new = self.final(new)
        self.replaced[old] = new
        self.facts.users.setdefault(new, []).extend(self.facts.uses(old))

    def skip(self, op: Op) -> None:
        """Drop an op of the block at hand that was passed already and that nobody uses now."""
        self.skipped.add(op)

    def fits(self, item: Item, result: Value) -> bool:
        """Whether the types allow an item to stand where `result` stands."""
        if isinstance(item, Value):
            return self.can_replace(result, item)
        return is_assignable(_item_type(item), result.type)

    def produce(self, item: Item, result: Value, location: Location | None) -> list[Op]:
        """Return ops that give `result` the value of an item that fits."""
        if isinstance(item, Value):
            self.replace(result, item)
            return []
        ops, _ = make_item(item, location)
        ops[-1].results[0] = result
        return ops


def can_stand(new: Value, old: Value, facts: Facts) -> bool:
    """Whether the types allow a value wherever another stands."""
    if not is_assignable(new.type, old.type):
        return False
    return not is_count(old, facts) or new.type in (INT, old.type)


def is_count(value: Value, facts: Facts) -> bool:
    """Whether a fork takes a value as its count, which must not be of another known type."""
    return any(op.name == "lm.fork" and i == 1 for op, i in facts.uses(value))


def _item_type(item: Const | Child | Pack) -> Type:
    match item:
        case Const(value=value):
            return type_of(value)
        case Child():
            return STATE
        case Pack():
            return PY


def make_item(item: Item, location: Location | None) -> tuple[list[Op], Value]:
    """Return ops that make an item, and its value; the last op gives it."""
    match item:
        case Value():
            return [], item
        case Const(value=value):
            op = make_const(value, location)
            return [op], op.result
        case Child(children=children, index=index):
            number = make_const(index, location)
            result = Value(STATE, "child")
            taken = Op("val.index", [children, number.result], [result], {}, [], location)
            return [number, taken], result
        case Pack(items=items):
            ops, values = make_items(items, location)
            result = Value(PY, "item")
            return [*ops, Op("val.tuple", values, [result], {}, [], location)], result


def make_items(items: Sequence[Item], location: Location | None) -> tuple[list[Op], list[Value]]:
    """Return ops that make several items, and their values."""
    ops: list[Op] = []
    values: list[Value] = []
    for item in items:
        made, value = make_item(item, location)
        ops += made
        values.append(value)
    return ops, values


def make_const(value: Attr, location: Location | None, hint: str = "c") -> Op:
    """Return a constant."""
    return Op("val.const", [], [Value(type_of(value), hint)], {"value": value}, [], location)


def rewrite_function(
    function: Function,
    remarks: Remarks,
    rules: Mapping[str, Sequence[Rule]],
    *,
    max_text: int,
    is_called: bool = True,
) -> bool:
    """Apply rules until none fires; return whether any did.

    `is_called` says that other functions of the module call this one.
    """
    changed = False
    for _ in range(MAX_ROUNDS):
        rewriter = Rewriter(Facts.of(function, is_called=is_called), remarks, rules, max_text)
        rewriter.block(function.body)
        swept = sweep_total(function)
        if not (rewriter.changed or swept):
            break
        changed = True
    return changed


def sweep_total(function: Function) -> bool:
    """Remove unread pure expressions that cannot raise; return whether there were any."""
    facts = Facts.of(function)
    counts = {value: len(users) for value, users in facts.users.items()}
    dead: set[Op] = set()
    pending = [op for op in function.body.walk() if _is_sweepable(op)]
    while pending:
        op = pending.pop()
        if op in dead or any(counts.get(value) for value in op.results):
            continue
        if not is_total(op, facts):
            continue
        dead.add(op)
        for value in op.operands:
            counts[value] -= 1
            source = facts.op_of(value)
            if counts[value] == 0 and source is not None and _is_sweepable(source):
                pending.append(source)
    _remove(function.body, dead)
    return bool(dead)


def _is_sweepable(op: Op) -> bool:
    return op.name.startswith("val.")


def _remove(block: Block, dead: set[Op]) -> None:
    if not dead:
        return
    block.ops = [op for op in block.ops if op not in dead]
    for op in block.ops:
        for nested in op.blocks:
            _remove(nested, dead)
