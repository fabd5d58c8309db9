"""Rules of `fold` for `val.*` ops: constants, texts, lists of known length."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lmc.errors import RunError
from lmc.ir.core import Op, Value, copy_attr
from lmc.ir.evaluate import MAX_ITEMS, evaluate
from lmc.ir.ops import SPECS
from lmc.ir.types import BOOL, INT, PY, TEXT, Attr, Type, is_attr, type_of
from lmc.passes.analysis import Child, Const, known_items
from lmc.passes.rewriting import Rewriter, Rule, is_count, make_const, make_items
from lmc.passes.totality import in_range

MAX_WORK = 4 * 1024 * 1024
MAX_BITS = 4096
_WIDE = re.compile(r"\d{5,}|\*")


def fold_constants(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Compute an expression of constants; one that raises stays."""
    operands = [rewriter.facts.constant(value) for value in op.operands]
    known = [operand.value for operand in operands if operand is not None]
    if len(known) < len(operands) or not is_affordable(op, known):
        return None
    if any(_is_open(rewriter, *pair) for pair in zip(op.operands, known, strict=True)):
        return None
    try:
        results = evaluate(op, [copy_attr(value) for value in known])
    except RunError:
        rewriter.remarks.missed(f"{op.name} of constants raises; it stays", op)
        return None
    if not all(is_attr(value) and attr_size(value) <= rewriter.max_text for value in results):
        rewriter.remarks.missed(f"the result of {op.name} is no constant or too large", op)
        return None
    rewriter.remarks.fired(f"{op.name} is {shown(results[0])}", op)
    ops: list[Op] = []
    for result, value in zip(op.results, results, strict=True):
        if result.type == PY and not is_count(result, rewriter.facts):
            result.type = type_of(value)
        ops.append(Op("val.const", [], [result], {"value": value}, [], op.location))
    return ops


def _is_open(rewriter: Rewriter, operand: Value, value: Attr) -> bool:
    """Whether host code may change a constant in place before it is read."""
    return holds_mutable(value) and rewriter.facts.is_exposed(operand)


def holds_mutable(value: Attr) -> bool:
    """Whether a constant is or holds a list or dict."""
    if isinstance(value, tuple):
        return any(map(holds_mutable, value))
    return isinstance(value, (list, dict))


def attr_size(value: Attr) -> int:
    """Return roughly the characters that an attribute takes; very long ints are too large."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple)):
        return 8 + sum(map(attr_size, value))
    if isinstance(value, dict):
        return 8 + sum(len(key) + attr_size(item) for key, item in value.items())
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return 1 << 62
    return 8


def shown(value: Any) -> str:
    """Return a short form of a value for remarks."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def is_affordable(op: Op, operands: list[Any]) -> bool:
    """Whether computing at compile time is quick, small and the same as at run time."""
    match op.name:
        case "val.compare" if op.attributes["op"] in ("is", "is not"):
            # Identity of equal constants is no property of the program, but for these.
            return any(value is None or type(value) is bool for value in operands)
        case "val.call":
            return _is_call_affordable(op, operands)
        case "val.method" | "val.binary":
            return _is_work_small(op, operands)
        case "val.concat":
            return sum(map(attr_size, operands)) <= MAX_WORK
        case _:
            return True


def _is_call_affordable(op: Op, operands: list[Any]) -> bool:
    callee = str(op.attributes["callee"])
    if callee.startswith("re.") and callee != "re.escape":
        return False  # matching can take exponential time
    if callee == "range":
        try:
            return len(range(*operands)) <= MAX_WORK // 64
        except (TypeError, ValueError, OverflowError):
            return True
    return True


def _is_work_small(op: Op, operands: list[Any]) -> bool:
    if not any(isinstance(value, (str, list, tuple)) for value in operands):
        return op.attributes.get("op") not in ("**", "<<") or max(map(_bits, operands)) <= 64
    name = op.attributes.get("op") or op.attributes.get("name")
    if name in ("%", "format", "format_map") and _WIDE.search(str(operands[0])):
        return False
    work = 1
    for value in operands:
        work *= max(1, abs(value) if isinstance(value, int) else min(attr_size(value), MAX_ITEMS))
    return work <= MAX_WORK


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def truth_of_bool(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop bool(x) where x is a bool."""
    operand = op.operands[0]
    if operand.type != BOOL:
        return None
    rewriter.replace(op.result, operand)
    return []


def not_of_not(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop `not not x` where x is a bool."""
    inner = rewriter.facts.op_of(op.operands[0], "val.not")
    if inner is None or inner.operands[0].type != BOOL:
        return None
    rewriter.replace(op.result, inner.operands[0])
    return []


def format_of_text(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop the plain f-string field of a text."""
    value, spec = op.operands
    is_plain = op.attributes["conversion"] in ("", "s")
    if value.type != TEXT or not is_plain or rewriter.facts.constant_text(spec) != "":
        return None
    rewriter.replace(op.result, value)
    return []


def sum_to_concat(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Write the sum of two texts as a concat, which merges with others."""
    if op.attributes["op"] != "+" or not _are_texts([*op.operands, *op.results]):
        return None
    return [Op("val.concat", list(op.operands), op.results, {}, [], op.location)]


def _are_texts(values: Sequence[Value]) -> bool:
    return all(value.type == TEXT for value in values)


def refine_type(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Note that a method of a text that gives a text does so, and the like."""
    result = op.results[0]
    if result.type != PY or is_count(result, rewriter.facts):
        return None
    kind = _result_type(op)
    if kind is None:
        return None
    result.type = kind
    return [op]


def _result_type(op: Op) -> Type | None:
    first = op.operands[0].type if op.operands else None
    match op.name, op.attributes.get("name") or op.attributes.get("callee"):
        case "val.method", name if first == TEXT and name in _TEXT_METHODS:
            return TEXT
        case "val.index" | "val.slice", _ if first == TEXT:
            return TEXT
        case "val.binary", _ if op.attributes["op"] == "+" and _are_texts(op.operands):
            return TEXT
        case "val.call", ("str" | "repr"):
            return TEXT
        case "val.call", "len":
            return INT
        case _:
            return None


_TEXT_METHODS = frozenset({
    "capitalize", "casefold", "format", "join", "ljust", "lower", "lstrip", "removeprefix",
    "removesuffix", "replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper",
})  # fmt: skip
"""Methods of str that give a str."""


def merge_concat(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Take in nested concats, join adjacent constants, drop empty ones."""
    facts = rewriter.facts
    flat: list[Value] = []
    for value in op.operands:
        inner = facts.op_of(value, "val.concat")
        is_only = inner is not None and len(facts.uses(value)) == 1
        flat += inner.operands if inner is not None and is_only else [value]
    ops: list[Op] = []
    merged: list[Value] = []
    for is_text, group in groupby(flat, key=lambda v: facts.constant_text(v) is not None):
        values = list(group)
        if is_text:
            ops_made, values = _joined(rewriter, values, op)
            ops += ops_made
        merged += values
    if len(merged) == 1 and merged[0].type == TEXT and not ops:
        rewriter.replace(op.result, merged[0])
        return []
    if merged == op.operands:
        return None
    op.operands = merged
    return [*ops, op]


def _joined(rewriter: Rewriter, values: list[Value], op: Op) -> tuple[list[Op], list[Value]]:
    """Return one constant for several, or none for "", or the one there is."""
    texts = [rewriter.facts.constant_text(value) or "" for value in values]
    text = "".join(texts)
    if not text:
        return [], []
    if len(values) == 1 or len(text) > rewriter.max_text:
        return [], values
    made = make_const(text, op.location, values[0].hint)
    return [made], [made.result]


def index_of_known(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Take an item out of a list, tuple or dict that is made of known values."""
    container, key = op.operands
    constant = rewriter.facts.constant(key)
    if constant is None:
        return None
    if rewriter.facts.op_of(container, "val.dict") is not None:
        return _index_of_dict(rewriter, op, constant.value)
    items = known_items(container, rewriter.facts)
    index = constant.value
    if items is None or type(index) is not int or not in_range(index, len(items.items)):
        return None
    item = items.items[index]
    if item == Child(container, index) or not rewriter.fits(item, op.result):
        return None  # the first is the normal form of a child
    rewriter.remarks.fired(f"item {index} is known", op)
    return rewriter.produce(item, op.result, op.location)


def _index_of_dict(rewriter: Rewriter, op: Op, key: Attr) -> list[Op] | None:
    made = rewriter.facts.op_of(op.operands[0], "val.dict")
    assert made is not None
    if rewriter.facts.is_exposed(op.operands[0]):
        return None
    keys = [rewriter.facts.constant(value) for value in made.operands[::2]]
    if not all(known and isinstance(known.value, str) for known in keys):
        return None
    # The last of equal keys wins, as in Python.
    for known, value in reversed(list(zip(keys, made.operands[1::2], strict=True))):
        if known is not None and known.value == key:
            if not rewriter.fits(value, op.result):
                return None
            return rewriter.produce(value, op.result, op.location)
    return None


def unpack_known(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Unpack a list or tuple of known items."""
    items = known_items(op.operands[0], rewriter.facts)
    if items is None or len(items.items) != len(op.results):
        return None
    pairs = list(zip(items.items, op.results, strict=True))
    if not all(rewriter.fits(item, result) for item, result in pairs):
        return None
    ops: list[Op] = []
    for item, result in pairs:
        ops += rewriter.produce(item, result, op.location)
    return ops


def list_of_known(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Write a changed or sliced list of known items as a plain list."""
    if op.name == "val.mutate" and op.results[0].type.name != "list":
        return None
    items = known_items(op.results[0], rewriter.facts)
    if items is None or items.kind != "list":
        return None
    if all(isinstance(item, Const) for item in items.items):
        return None
    ops, values = make_items(items.items, op.location)
    ops.append(Op("val.list", values, [op.results[0]], {}, [], op.location))
    ops += [
        Op("val.const", [], [result], {"value": None}, [], op.location) for result in op.results[1:]
    ]
    return ops


def len_of_known(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Count the items of a list of known length."""
    if op.attributes["callee"] != "len" or len(op.operands) != 1:
        return None
    items = known_items(op.operands[0], rewriter.facts)
    if items is None:
        return None
    return [Op("val.const", [], [op.result], {"value": len(items.items)}, [], op.location)]


_NOT_COMPUTED = ("val.const", "val.undefined")
RULES: dict[str, tuple[Rule, ...]] = {
    name: (fold_constants,)
    for name, spec in SPECS.items()
    if spec.is_pure and name not in _NOT_COMPUTED
}
for _name in ("val.method", "val.index", "val.slice", "val.binary", "val.call"):
    RULES[_name] += (refine_type,)
RULES["val.binary"] += (sum_to_concat,)
RULES["val.truth"] += (truth_of_bool,)
RULES["val.not"] += (not_of_not,)
RULES["val.format"] += (format_of_text,)
RULES["val.concat"] += (merge_concat,)
RULES["val.index"] += (index_of_known,)
RULES["val.unpack"] += (unpack_known,)
RULES["val.mutate"] += (list_of_known,)
RULES["val.slice"] += (list_of_known,)
RULES["val.call"] += (len_of_known,)
