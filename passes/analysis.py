"""Read-only facts that several passes need: definitions, uses, state chains, purity.

Facts describe the module as it was when they were made; a pass that rewrites makes them anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lmc.ir.core import Block, Function, Op, Value
from lmc.ir.tries import FIRST_SLOT, num_slots, result_sources, saved_slots
from lmc.ir.types import BOOL, EFFECT, FLOAT, INT, NONE, STATE, TEXT, Attr

MAX_ITEMS = 256
APPENDING = frozenset({"lm.extend", "lm.begin", "lm.end", "lm.control"})
"""Ops that only append to a state what is known without a model."""

PASSING = APPENDING | {"lm.tick", "lm.set", "lm.foresee"}
"""Ops of one state that call no model; the first operand is the state before."""

CALLS = frozenset({"lm.gen", "lm.select", "func.call"})
"""Ops that ask a model, or run a program that may."""

EFFECTS = frozenset({"host.call", "host.method"})
"""Ops that may change the world."""

LOOPS = frozenset({"cf.for", "cf.while"})
"""Ops whose block is carried out several times."""

EXPOSING = frozenset({"host.call", "host.method", "func.call", "func.apply", "lm.set"})
"""Ops that give values to code which may change them in place, or put them where it is unseen."""

ALIASING = frozenset({
    "val.list", "val.tuple", "val.dict", "val.index", "val.slice", "val.mutate", "val.method",
    "val.call", "val.unpack", "val.attr", "val.binary",
})  # fmt: skip
"""Ops whose results may be their operands, or hold them."""

UNSHARED = frozenset({TEXT, BOOL, INT, FLOAT, NONE, EFFECT, STATE})
"""Types whose values nobody can change in place."""


@dataclass(slots=True)
class Facts:
    """Who defines and who uses the values of one function.

    `is_called` says that other functions may hand it arguments that rest on model calls.
    """

    definitions: dict[Value, tuple[Op, int]] = field(default_factory=dict)
    arguments: dict[Value, tuple[Op | None, int]] = field(default_factory=dict)
    users: dict[Value, list[tuple[Op, int]]] = field(default_factory=dict)
    blocks: dict[Op, Block] = field(default_factory=dict)
    owners: dict[Block, Op | None] = field(default_factory=dict)
    exposed: dict[Value, bool] = field(default_factory=dict)
    is_called: bool = True

    @classmethod
    def of(cls, function: Function, *, is_called: bool = True) -> "Facts":
        """Collect the facts of a function."""
        facts = cls(is_called=is_called)
        facts.add_block(function.body, None)
        return facts

    def add_block(self, block: Block, owner: Op | None) -> None:
        self.owners[block] = owner
        for i, value in enumerate(block.arguments):
            self.arguments[value] = (owner, i)
        for op in block.ops:
            self.add(op, block)
            for nested in op.blocks:
                self.add_block(nested, op)

    def add(self, op: Op, block: Block) -> None:
        """Take in one more op, without its blocks."""
        self.blocks[op] = block
        for i, value in enumerate(op.results):
            self.definitions[value] = (op, i)
        for i, value in enumerate(op.operands):
            self.users.setdefault(value, []).append((op, i))

    def op_of(self, value: Value, *names: str) -> Op | None:
        """Return the op that defines a value, if it has one of the names (or none given)."""
        found = self.definitions.get(value)
        return found[0] if found and (not names or found[0].name in names) else None

    def uses(self, value: Value) -> Sequence[tuple[Op, int]]:
        """Return the ops that take a value, with the operand's position."""
        return self.users.get(value, ())

    def only_user(self, value: Value) -> tuple[Op, int] | None:
        """Return the one use of a value, or None if there are none or several."""
        users = self.uses(value)
        return users[0] if len(users) == 1 else None

    def constant(self, value: Value) -> "Const | None":
        """Return what a `val.const` gives, wrapped, since None is a constant too."""
        op = self.op_of(value, "val.const")
        return Const(op.attributes["value"]) if op else None

    def constant_text(self, value: Value) -> str | None:
        """Return a constant str."""
        known = self.constant(value)
        return known.value if known and isinstance(known.value, str) else None

    def constant_int(self, value: Value) -> int | None:
        """Return a constant int; a bool is none."""
        known = self.constant(value)
        return known.value if known and type(known.value) is int else None

    def fork_of_list(self, value: Value) -> Op | None:
        """Return the fork whose children list a value is."""
        found = self.definitions.get(value)
        return found[0] if found and found[0].name == "lm.fork" and found[1] == 1 else None

    def is_exposed(self, value: Value) -> bool:
        """Whether host code may get hold of a value itself, alone or within a container."""
        if value not in self.exposed:
            self.exposed[value] = self._find_exposed(value)
        return self.exposed[value]

    def _find_exposed(self, value: Value) -> bool:
        pending, seen = [value], {value}
        while pending:
            held = pending.pop()
            for op in dict.fromkeys(op for op, _ in self.uses(held)):
                if op.name in EXPOSING:
                    return True
                if op.name not in ALIASING and not op.name.startswith("cf."):
                    continue
                # Rewrites may have moved operands since the uses were noted.
                places = [i for i, operand in enumerate(op.operands) if operand is held]
                made = [holder for i in places for holder in self.holders(op, i)]
                fresh = [each for each in made if each.type not in UNSHARED and each not in seen]
                seen.update(fresh)
                pending += fresh
        return False

    def holders(self, op: Op, position: int) -> list[Value]:
        """Return values that may be, or hold, what an op takes as an operand."""
        if op.name == "cf.yield":
            owner = self.owners[self.blocks[op]]
            return yield_holders(owner, position) if owner is not None else []
        if op.name == "cf.save":
            owner = self.owners[self.blocks[op]]
            while owner is not None and owner.name != "cf.try":
                owner = self.owners[self.blocks[owner]]
            return [] if owner is None else [owner.results[FIRST_SLOT + saved_slots(op)[position]]]
        return operand_holders(op, position)


def operand_holders(op: Op, position: int) -> list[Value]:
    """Return the results and block arguments that may be, or hold, an operand."""
    match op.name:
        case "cf.if":
            return []
        case "cf.for":
            argument = op.blocks[0].arguments[position]
            return [argument, *op.results[position - 1 : position]] if position else [argument]
        case "cf.while":
            return [op.blocks[0].arguments[position], op.results[position]]
        case "cf.try":
            return [op.results[FIRST_SLOT + position - 1]] if position else []
        case _:
            return list(op.results)


def yield_holders(owner: Op, position: int) -> list[Value]:
    """Return what may be, or hold, what a block of an op yields at a position."""
    match owner.name:
        case "cf.if":
            return [owner.results[position]]
        case "cf.for" if position:
            return [owner.results[position - 1], owner.blocks[0].arguments[position]]
        case "cf.while" if position:
            return [owner.results[position - 1], owner.blocks[0].arguments[position - 1]]
        case "cf.try" if position:
            return [owner.results[FIRST_SLOT + num_slots(owner) + position - 1]]
        case _:
            return []  # whether a loop goes on, and effects


@dataclass(frozen=True, slots=True)
class Const:
    """A known constant."""

    value: Attr


@dataclass(frozen=True, slots=True)
class Child:
    """A child of a fork, by its place in the list of children."""

    children: Value
    index: int


@dataclass(frozen=True, slots=True)
class Pack:
    """A tuple of items."""

    items: tuple["Item", ...]


Item = Const | Child | Pack | Value
"""An item of a list whose length is known at compile time."""


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a sequence, and whether it is a list (else a tuple or something iterable)."""

    items: tuple[Item, ...]
    kind: str


def known_items(value: Value, facts: Facts) -> Items | None:
    """Return the items of a list or tuple whose length is known, at most MAX_ITEMS.

    A list that host code can get hold of has no known items: it may change them in place.
    """
    op = facts.op_of(value)
    if op is None or (op.name != "val.tuple" and facts.is_exposed(value)):
        return None
    found = _items_of(op, value, facts)
    return found if found is not None and len(found.items) <= MAX_ITEMS else None


def _items_of(op: Op, value: Value, facts: Facts) -> Items | None:
    match op.name:
        case "val.const":
            return const_items(op.attributes["value"])
        case "val.list" | "val.tuple":
            return Items(tuple(op.operands), op.name[4:])
        case "lm.fork" if value is op.results[1] and isinstance(op.attributes.get("count"), int):
            count = min(op.attributes["count"], MAX_ITEMS + 1)  # type: ignore[type-var]
            return Items(tuple(Child(value, i) for i in range(count)), "list")  # type: ignore[arg-type]
        case "val.mutate" if value is op.results[0]:
            return _mutated_items(op, facts)
        case "val.slice":
            return _sliced_items(op, facts)
        case "val.call":
            return _call_items(op, facts)
        case _:
            return None


def const_items(value: Attr) -> Items | None:
    """Return the items of a constant list or tuple."""
    if not isinstance(value, (list, tuple)) or len(value) > MAX_ITEMS:
        return None
    return Items(tuple(map(Const, value)), type(value).__name__)


def _mutated_items(op: Op, facts: Facts) -> Items | None:
    base = known_items(op.operands[0], facts)
    if base is None or base.kind != "list" or op.attributes.get("keywords"):
        return None
    items = list(base.items)
    match op.attributes["name"], len(op.operands):
        case "append", 2:
            items.append(op.operands[1])
        case "__setitem__", 3:
            index = facts.constant_int(op.operands[1])
            if index is None or not -len(items) <= index < len(items):
                return None
            items[index] = op.operands[2]
        case "extend", 2:
            more = known_items(op.operands[1], facts)
            if more is None:
                return None
            items += more.items
        case _:
            return None
    return Items(tuple(items), "list")


def _sliced_items(op: Op, facts: Facts) -> Items | None:
    base = known_items(op.operands[0], facts)
    bounds = [facts.constant(value) for value in op.operands[1:]]
    if base is None or None in bounds:
        return None
    parts = [bound.value for bound in bounds if bound is not None]
    if not all(part is None or type(part) is int for part in parts) or parts[2] == 0:
        return None
    return Items(base.items[slice(*parts)], base.kind)


def _call_items(op: Op, facts: Facts) -> Items | None:
    if op.attributes.get("keywords") or not op.operands:
        return None
    parts = [known_items(value, facts) for value in op.operands]
    match op.attributes["callee"], parts:
        case "list", [Items(items=items)]:
            return Items(items, "list")
        case "tuple", [Items(items=items)]:
            return Items(items, "tuple")
        case "reversed", [Items(items=items)]:
            return Items(items[::-1], "list")
        case "enumerate", [Items(items=items)]:
            return Items(tuple(Pack((Const(i), item)) for i, item in enumerate(items)), "list")
        case "enumerate", [Items(items=items), None]:
            start = facts.constant_int(op.operands[1])
            if start is None:
                return None
            return Items(
                tuple(Pack((Const(i), item)) for i, item in enumerate(items, start)), "list"
            )
        case "zip", _ if None not in parts:
            rows = zip(*(part.items for part in parts if part is not None), strict=False)
            return Items(tuple(Pack(row) for row in rows), "list")
        case _:
            return None


def lookup(state: Value, name: str, facts: Facts) -> "tuple[Op, int] | Missing | None":
    """Find the op that set a variable of a state, and its first operand or result for it.

    Walks back through ops that keep variables. Returns (op, 0) of a gen, select or set;
    Missing where the state certainly has no such variable; None where it cannot be told
    (a dynamic name, a join, a block's argument, another program's final state).
    """
    while True:
        found = facts.definitions.get(state)
        if found is None:
            return None
        op, position = found
        step = _look_through(op, position, name, facts)
        if not isinstance(step, Value):
            return step
        state = step


class Missing:
    """A variable that is certainly not set."""


def _look_through(
    op: Op, position: int, name: str, facts: Facts
) -> "Value | tuple[Op, int] | Missing | None":
    """Return the state before, or the end of the walk."""
    match op.name:
        case "lm.prompt" | "lm.prologue":
            return Missing()
        case "lm.extend" | "lm.begin" | "lm.end" | "lm.control" | "lm.tick" | "lm.fork":
            return op.operands[0]
        case "lm.image" | "lm.unordered" | "lm.foresee" | "lm.place":
            return op.operands[0]
        case "lm.gen" | "lm.select" | "lm.again" | "lm.set":
            is_dynamic = "name" in op.attributes.get("dynamic", ()) or (  # type: ignore[operator]
                op.name == "lm.set" and "name" not in op.attributes
            )
            if is_dynamic:
                return None
            return (op, 0) if op.attributes.get("name") == name else op.operands[0]
        case "func.call":
            return op.operands[1] if position == 1 else None
        case "lm.group":
            return op.operands[position + 1]
        case "val.index":
            # A child of a counted fork has what its parent had.
            fork = facts.fork_of_list(op.operands[0])
            return fork.operands[0] if fork is not None and "count" in fork.attributes else None
        case _:
            return None


def count_ops(block: Block) -> int:
    """Return the number of ops of a block, nested ones included."""
    return sum(1 for _ in block.walk())


def joined_sources(op: Op, index: int) -> list[Value]:
    """Return the values that a result of `cf.if`, `cf.for`, `cf.while` or `cf.try` may be."""
    if op.name == "cf.if":
        return [block.terminator.operands[index] for block in op.blocks]
    if op.name == "cf.try":
        return result_sources(op, index)
    return carried_sources(op, index + (op.name == "cf.for")) or []


def carried_sources(owner: Op, index: int) -> list[Value] | None:
    """Return what an argument of a loop's block is: the init, and what a trip hands on.

    Of the item of a `cf.for` it is what the loop goes over; None for a block of another op.
    """
    if owner.name not in LOOPS:
        return None
    is_for = owner.name == "cf.for"
    if is_for and index == 0:
        return [owner.operands[0]]
    return [owner.operands[index], owner.blocks[0].terminator.operands[index + 1 - is_for]]
