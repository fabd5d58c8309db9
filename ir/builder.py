"""Builds IR op by op at an insertion point.

b = Builder(function.body)
state = b.extend(b.prompt(), "Judge this essay: ")
state, grade, meta = b.gen(state, "grade", max_tokens=4).results
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmc.ir.core import Block, Function, Op, Param, Value
from lmc.ir.location import Location
from lmc.ir.types import BOOL, EFFECT, META, PY, STATE, TEXT, Attr, Type, list_of, type_of

Result = Type | tuple[Type, str]
"""A result to make: its type, or its type and the hint that names it."""

_VALUE_TYPES = {
    "val.concat": TEXT, "val.format": TEXT, "val.truth": BOOL, "val.not": BOOL,
}  # fmt: skip


class Builder:
    """Inserts ops into a block, at its end or before a given index.

    Args:
        block: where ops go.
        index: insert before this position; None appends.
        location: the source location of ops that are given none.
    """

    def __init__(
        self, block: Block, *, index: int | None = None, location: Location | None = None
    ) -> None:
        self.block = block
        self.index = index
        self.location = location

    def insert(self, op: Op) -> Op:
        """Put an op at the insertion point and move the point behind it."""
        if self.index is None:
            self.block.ops.append(op)
        else:
            self.block.ops.insert(self.index, op)
            self.index += 1
        return op

    def op(
        self,
        name: str,
        operands: Iterable[Value] = (),
        results: Iterable[Result] = (),
        *,
        attributes: Mapping[str, Attr] | None = None,
        blocks: Sequence[Block] = (),
        location: Location | None = None,
    ) -> Op:
        """Make an op with fresh results and insert it."""
        made = [
            Value(*result) if isinstance(result, tuple) else Value(result) for result in results
        ]
        where = location or self.location
        return self.insert(
            Op(name, list(operands), made, dict(attributes or {}), list(blocks), where)
        )

    def const(self, value: Attr, hint: str = "", *, kind: Type | None = None) -> Value:
        """Make a constant; its type is the value's unless given."""
        result = (kind or type_of(value), hint)
        return self.op("val.const", (), [result], attributes={"value": value}).result

    def value(
        self,
        name: str,
        operands: Sequence[Value | Attr] = (),
        hint: str = "",
        *,
        kind: Type | None = None,
        **attributes: Attr,
    ) -> Value:
        """Make a `val.*` op with one result; operands that are plain data become constants."""
        result = (kind or _VALUE_TYPES.get(name, PY), hint)
        return self.op(name, self._values(operands), [result], attributes=attributes).result

    def binary(self, op: str, left: Value | Attr, right: Value | Attr) -> Value:
        """Make `left op right` for one of Python's binary operators."""
        return self.value("val.binary", [left, right], op=op)

    def compare(self, op: str, left: Value | Attr, right: Value | Attr) -> Value:
        """Make a comparison."""
        return self.value("val.compare", [left, right], op=op)

    def truth(self, value: Value) -> Value:
        """Make the bool of a value, as conditions need it."""
        return value if value.type == BOOL else self.value("val.truth", [value])

    def prompt(self, hint: str = "s") -> Value:
        """Make the root state."""
        return self.op("lm.prompt", (), [(STATE, hint)]).result

    def extend(self, state: Value, text: Value | str) -> Value:
        """Append a text."""
        return self._on_state("lm.extend", state, *self._values([text]))

    def begin(self, state: Value, role: str) -> Value:
        """Open a turn."""
        return self._on_state("lm.begin", state, role=role)

    def end(self, state: Value, role: str) -> Value:
        """Close a turn."""
        return self._on_state("lm.end", state, role=role)

    def control(self, state: Value, token: str) -> Value:
        """Append a control token."""
        return self._on_state("lm.control", state, token=token)

    def gen(
        self,
        state: Value,
        name: str | None = None,
        *,
        kind: Type = TEXT,
        dynamic: Mapping[str, Value] | None = None,
        **params: Attr,
    ) -> Op:
        """Make a generation: results are the state, the value and the meta dict."""
        return self._call("lm.gen", [state], name, kind, dynamic or {}, params)

    def select(
        self,
        state: Value,
        choices: Value | list[str],
        name: str | None = None,
        *,
        dynamic: Mapping[str, Value] | None = None,
        **params: Attr,
    ) -> Op:
        """Make a choice among strings: results are the state, the text and the meta dict."""
        operands = [state, *self._values([list(choices) if isinstance(choices, list) else choices])]
        return self._call("lm.select", operands, name, TEXT, dynamic or {}, params)

    def fork(self, state: Value, count: int | Value) -> tuple[Value, Value]:
        """Fork a state; return the parent and the list of children."""
        dynamic = isinstance(count, Value)
        operands = [state, count] if isinstance(count, Value) else [state]
        attributes = {} if dynamic else {"count": count}
        results = [(STATE, state.hint), (list_of(STATE), "forks")]
        made = self.op("lm.fork", operands, results, attributes=attributes)  # type: ignore[arg-type]
        return made.results[0], made.results[1]

    def child(self, children: Value, index: int, hint: str = "") -> Value:
        """Take one state out of a list of states."""
        return self.value("val.index", [children, index], hint, kind=STATE)

    def join(self, parent: Value, children: Value, mode: str = "gather_variable") -> Value:
        """Join children into their parent."""
        return self._on_state("lm.join", parent, children, mode=mode)

    def if_(self, condition: Value, then: Block, other: Block, results: Iterable[Result]) -> Op:
        """Make a branch over two finished blocks."""
        return self.op("cf.if", [condition], results, blocks=[then, other])

    def for_(self, items: Value, init: Sequence[Value], body: Block) -> Op:
        """Make a loop over items; the block's arguments are the item and the carried values."""
        results = [(value.type, value.hint) for value in init]
        return self.op("cf.for", [items, *init], results, blocks=[body])

    def while_(self, init: Sequence[Value], body: Block) -> Op:
        """Make a loop that runs at least once; the block's arguments are the carried values."""
        results = [(value.type, value.hint) for value in init]
        return self.op("cf.while", init, results, blocks=[body])

    def yield_(self, *values: Value) -> Op:
        """End a block of a cf op."""
        return self.op("cf.yield", values)

    def return_(self, *values: Value) -> Op:
        """End a function."""
        return self.op("func.return", values)

    def _values(self, operands: Iterable[Value | Attr]) -> list[Value]:
        return [item if isinstance(item, Value) else self.const(item) for item in operands]

    def _on_state(self, op: str, state: Value, *operands: Value, **attributes: Attr) -> Value:
        result = (STATE, state.hint)
        return self.op(op, [state, *operands], [result], attributes=attributes).result

    def _call(
        self,
        op: str,
        operands: list[Value],
        name: str | None,
        kind: Type,
        dynamic: Mapping[str, Value],
        params: dict[str, Any],
    ) -> Op:
        attributes: dict[str, Attr] = {} if name is None else {"name": name}
        attributes |= {"params": params, "dynamic": list(dynamic)}
        state = operands[0]
        results = [(STATE, state.hint), (kind, name or "text"), (META, "meta")]
        return self.op(op, [*operands, *dynamic.values()], results, attributes=attributes)


def new_function(
    name: str,
    params: Sequence[Param | str] = (),
    *,
    kind: str = "program",
    location: Location | None = None,
) -> Function:
    """Make a function with its block arguments: the effect token and one value per parameter."""
    made = [Param(param) if isinstance(param, str) else param for param in params]
    arguments = [Value(EFFECT, "effect"), *(Value(PY, param.name) for param in made)]
    return Function(name, kind, made, Block(arguments), {}, location)
