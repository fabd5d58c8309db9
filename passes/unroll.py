"""The `unroll` pass: loops over known items become straight lines."""

from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Block, Function, Module, Op, Value, clone_block
from lmc.passes.analysis import Facts, Item, const_items, count_ops, known_items
from lmc.passes.base import Level, Pass, Remarks, counted
from lmc.passes.demand import may_rest_on_call
from lmc.passes.rewriting import make_items

GROWTH_PER_TRIP = 4
"""Ops that a trip may add beside the body's: the item's, and a branch on going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrollPass(Pass):
    """Write out `cf.for` loops whose items are known when compiling.

    Exact (level E): the same ops run in the same order on the same values; lineage and
    ordinals hang on the states, which pass from one copy of the body to the next. Known are
    constants, lists and tuples of values, children of a fork of constant count, and zip and
    enumerate of those. Where the body may end the loop early, what follows a trip stands in a
    `cf.if`.

    Options: `max_trips` bounds the trips of one loop, `max_ops` the ops that the pass makes in
    one function. Loops inside a loop are unrolled first.
    """

    name: ClassVar[str] = "unroll"
    level: ClassVar[Level] = "E"

    max_trips: int = 16
    max_ops: int = 2000

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Unroll in every function."""
        changed = False
        for function in module.functions.values():
            unroller = _Unroller(self, function, remarks)
            # Unrolling a loop can make the items of a loop within it known.
            while unroller.round():
                changed = True
        return changed


class _Unroller:
    """Unrolls the loops of one function."""

    def __init__(self, limits: UnrollPass, function: Function, remarks: Remarks) -> None:
        self._limits = limits
        self._function = function
        self._remarks = remarks
        self._facts = Facts()
        self._replaced: dict[Value, Value] = {}
        self._made_ops = 0
        self._changed = False

    def round(self) -> bool:
        """Unroll what can be unrolled as the function is now; return whether there was any."""
        self._facts = Facts.of(self._function)
        self._changed = False
        self._block(self._function.body)
        return self._changed

    def _block(self, block: Block) -> None:
        """Unroll the loops of a block, those within a loop first."""
        done: list[Op] = []
        for op in block.ops:
            # Later ops must not name a loop that is gone: copies of them would not be mapped.
            op.operands = [self._final(value) for value in op.operands]
            for nested in op.blocks:
                self._block(nested)
            items = self._unrollable(op)
            done += [op] if items is None else self._unroll(op, items)
        block.ops = done

    def _unrollable(self, op: Op) -> tuple[Item, ...] | None:
        """Return the items of a loop that is to be unrolled."""
        if op.name != "cf.for":
            return None
        items = self._items(op.operands[0])
        if items is None:
            self._remarks.missed("the items are not known when compiling", op)
            return None
        trips = len(items)
        if trips > self._limits.max_trips:
            self._remarks.missed(f"{trips} trips are over max_trips={self._limits.max_trips}", op)
            return None
        size = trips * (count_ops(op.blocks[0]) + GROWTH_PER_TRIP)
        if self._made_ops + size > self._limits.max_ops:
            self._remarks.missed(
                f"{trips} trips make {size} ops beside the {self._made_ops} made before; "
                f"max_ops={self._limits.max_ops}",
                op,
            )
            return None
        self._made_ops += size
        return items

    def _items(self, value: Value) -> tuple[Item, ...] | None:
        found = known_items(value, self._facts)
        constant = self._facts.constant(value)
        if found is None and constant is not None and isinstance(constant.value, (str, dict)):
            found = const_items(list(constant.value))
        return None if found is None else found.items

    def _final(self, value: Value) -> Value:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _unroll(self, op: Op, items: tuple[Item, ...]) -> list[Op]:
        self._changed = True
        self._remarks.fired(f"unrolled {counted(len(items), 'trip')}", op)
        ops, values = self._trips(op, items, op.operands[1:])
        self._replaced.update(zip(op.results, values, strict=True))
        return ops

    def _trips(
        self, op: Op, items: tuple[Item, ...], carried: list[Value]
    ) -> tuple[list[Op], list[Value]]:
        """Return the ops of the trips over `items`, and the carried values after them."""
        ops: list[Op] = []
        for done, item in enumerate(items, start=1):
            trip, goes_on, carried = self._trip(op, item, carried)
            ops += trip
            known = self._facts.constant(goes_on)
            rest = items[done:]
            if known is not None and not known.value:
                break
            # After the last trip too, what the loop gives demands the calls that decide.
            if known is None and (rest or may_rest_on_call(goes_on, self._facts)):
                branch = self._branch(op, goes_on, rest, carried)
                return [*ops, branch], branch.results
        return ops, carried

    def _trip(
        self, op: Op, item: Item, carried: list[Value]
    ) -> tuple[list[Op], Value, list[Value]]:
        """Return a copy of the body for one item, whether to go on, and what is carried on."""
        body = op.blocks[0]
        made, (value,) = make_items([item], op.location)
        if made:
            value.hint = body.arguments[0].hint
        mapping = dict(zip(body.arguments, [value, *carried], strict=True))
        copy = clone_block(Block([], body.ops), mapping)
        self._take_in(copy, made)
        end = copy.ops.pop()
        return [*made, *copy.ops], end.operands[0], end.operands[1:]

    def _take_in(self, copy: Block, made: list[Op]) -> None:
        """Tell the facts of new ops, so that loops around can be unrolled over their values."""
        for fresh in made:
            self._facts.add(fresh, copy)
        self._facts.add_block(copy, None)

    def _branch(self, op: Op, goes_on: Value, rest: tuple[Item, ...], carried: list[Value]) -> Op:
        """Return `cf.if goes_on`: the rest of the trips, or what is carried so far."""
        ops, values = self._trips(op, rest, carried)
        more = Block([], [*ops, Op("cf.yield", values, [], {}, [], op.location)])
        ended = Block([], [Op("cf.yield", list(carried), [], {}, [], op.location)])
        results = [Value(result.type, result.hint) for result in op.results]
        branch = Op("cf.if", [goes_on], results, {}, [more, ended], op.location)
        self._facts.add_block(Block([], [branch]), None)
        return branch
