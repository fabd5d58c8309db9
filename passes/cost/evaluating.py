"""What the cost analysis knows of the results of pure expressions."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lmc.errors import LmcError
from lmc.ir.core import Op
from lmc.ir.evaluate import evaluate
from lmc.ir.types import TEXT
from lmc.passes.cost.values import (
    NUMBER_SIZE,
    Abstract,
    Items,
    Known,
    OneOf,
    Serials,
    Spelled,
    Table,
    Unknown,
    alternatives,
    deep_ready,
    is_text_like,
    items_of,
    one_of,
    plain_ready,
    product,
    size_of,
    written_size,
)
from lmc.passes.fold_values import is_affordable

SHRINKING_METHODS = frozenset({
    "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "partition", "rpartition",
    "removeprefix", "removesuffix", "get", "keys", "values", "items", "copy", "group", "groups",
})  # fmt: skip
SHRINKING_CALLS = frozenset({
    "int", "list", "tuple", "set", "sorted", "reversed", "min", "max", "abs",
    "re.search", "re.match", "re.fullmatch", "re.findall", "re.split", "json.loads",
})  # fmt: skip
COUNTING = frozenset({"count", "find", "rfind", "index", "rindex", "len", "ord", "float"})
NUMBERS = COUNTING | {"int"}
RECASING = frozenset({"lower", "upper", "title", "capitalize", "casefold", "swapcase"})
"""Methods whose result may take more tokens; four times as many are taken to be enough."""


RECASED = 4


def evaluate_abstract(op: Op, given: Sequence[Abstract], serials: Serials) -> list[Abstract]:
    """Return what is known of the results of a `val.*` op."""
    operands = [operand.value for operand in given]
    ready = max(map(deep_ready, given), default=0)
    rows = product([alternatives(operand) for operand in operands])
    rows = None if rows is None else list(rows)
    if op.name in _CONTAINERS and rows is not None and len(rows) > 1 and _are_flat(given):
        # What is known of each item says more than a few of the many lists that there may be.
        found = _STRUCTURED[op.name](op, given)
        if found is not None:
            return _all_later(found, given)
    if rows is not None and all(is_affordable(op, list(row)) for row in rows):
        made = list(_evaluated(op, rows))
        if made:
            columns = zip(*made, strict=True)
            return [Abstract(one_of(column, serials), ready) for column in columns]
    structured = _STRUCTURED.get(op.name)
    if structured is not None:
        found = structured(op, given)
        if found is not None:
            return _all_later(found, given)
    if op.name in ("val.truth", "val.not", "val.compare"):
        return [Abstract(OneOf((True, False)), ready)]
    size = _result_size(op, operands)
    is_number = op.name in ("val.call", "val.method") and _name_of(op) in NUMBERS
    return [
        Abstract(serials.unknown(size, is_text=result.type == TEXT, is_number=is_number), ready)
        for result in op.results
    ]


def _all_later(found: Sequence[Abstract], given: Sequence[Abstract]) -> list[Abstract]:
    """Return results that wait for all operands, as expressions do."""
    ready = max(map(plain_ready, given), default=0)
    return [Abstract(each.value, max(each.ready, ready)) for each in found]


def _evaluated(op: Op, rows: Iterable[tuple[Any, ...]]) -> Iterator[list[Any]]:
    """Yield the results for each row of operands; a row that fails ends the run, and costs none."""
    for row in rows:
        try:
            yield evaluate(op, row)
        except LmcError:
            continue


def _result_size(op: Op, operands: Sequence[Any]) -> float:
    sizes = [size_of(operand) for operand in operands]
    name = _name_of(op)
    match op.name:
        case "val.concat":
            return sum(sizes)
        case "val.binary" if op.attributes["op"] == "+":
            return sum(sizes)
        case "val.slice":
            return min(sizes[0], _slice_size(operands))
        case "val.index" | "val.unpack":
            return sizes[0]
        case "val.method" if name in SHRINKING_METHODS:
            return max(sizes)
        case "val.method" if name in RECASING:
            return RECASED * sizes[0]
        case "val.method" | "val.call" if name in COUNTING:
            return NUMBER_SIZE
        case "val.call" if name == "str" and operands:
            return written_size(operands[0])
        case "val.call" if name in SHRINKING_CALLS:
            return max(sizes, default=0)
        case _:
            return math.inf


def _name_of(op: Op) -> str:
    return str(op.attributes.get("name", op.attributes.get("callee", "")))


def _slice_size(operands: Sequence[Any]) -> float:
    """Return a bound on `text[a:b]` by its ends alone: a character has four bytes at the most."""
    _, start, stop, _ = (each.value if isinstance(each, Known) else None for each in operands)
    known = [each for each in operands[1:] if isinstance(each, Known)]
    if len(known) < 3 or not is_text_like(operands[0]):
        return math.inf
    if start is None and type(stop) is int and stop >= 0:
        return 4 * stop
    if stop is None and type(start) is int and start < 0:
        return -4 * start
    if type(start) is int and type(stop) is int and 0 <= start:
        return 4 * max(0, stop - start) if stop >= 0 else math.inf
    return math.inf


MAX_LENGTH = 1_000_000
"""Characters of a text that is followed piece by piece."""

MAX_PARTS = 1_000
"""Parts of such a text that are not known."""


def _joined(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    """Put texts together; None where that is too long: texts can double with each op."""
    length = sum(_length(operand.value) for operand in given)
    return _concat(op, given) if length <= MAX_LENGTH else None


def _length(value: Any) -> int:
    """Return the characters of a text, each part that is not known as a share of the limit."""
    parts = value.parts if isinstance(value, Spelled) else (value,)
    each = MAX_LENGTH // MAX_PARTS
    return sum(
        len(part.value) if isinstance(part, Known) and isinstance(part.value, str) else each
        for part in parts
    )


def _concat(op: Op, given: Sequence[Abstract]) -> list[Abstract]:
    parts: list[Any] = []
    for operand in given:
        more = operand.value.parts if isinstance(operand.value, Spelled) else (operand.value,)
        for part in more:
            if parts and isinstance(part, Known) and isinstance(parts[-1], Known):
                parts[-1] = Known(str(parts[-1].value) + str(part.value))
            else:
                parts.append(part)
    return [Abstract(Spelled(tuple(parts)), max(operand.ready for operand in given))]


def _binary(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    if op.attributes["op"] != "+" or not any(map(_is_text, given)):
        return None
    return _joined(op, given)


def _is_text(given: Abstract) -> bool:
    value = given.value
    if isinstance(value, OneOf):
        return all(isinstance(each, str) for each in value.values)
    return isinstance(value, Spelled) or (isinstance(value, Known) and type(value.value) is str)


def _format(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    value, spec = given
    if spec.value != Known("") or op.attributes["conversion"] not in ("", "s"):
        return None
    is_kept = is_text_like(value.value) or getattr(value.value, "is_number", False)
    return [value] if is_kept else None


def _later(found: Abstract, *others: Abstract) -> Abstract:
    return Abstract(found.value, max(found.ready, *(other.ready for other in others)))


def _index(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    items, index = given
    if isinstance(items.value, Table) and isinstance(index.value, Known):
        found = items.value.get(index.value.value)
        return None if found is None else [_later(found, items, index)]
    if not isinstance(items.value, Items) or not isinstance(index.value, Known):
        return None
    held, place = items.value.items, index.value.value
    if type(place) is not int or not -len(held) <= place < len(held):
        return None
    return [_later(held[place], items, index)]


def _unpack(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    items = given[0].value
    if not isinstance(items, Items) or len(items.items) != len(op.results):
        return None
    return [_later(item, given[0]) for item in items.items]


def _slice(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    items, *bounds = (operand.value for operand in given)
    if isinstance(items, Spelled):
        return _cut(items, bounds, max(operand.ready for operand in given))
    if not isinstance(items, Items) or not all(isinstance(bound, Known) for bound in bounds):
        return None
    parts = [bound.value for bound in bounds]
    if not all(part is None or type(part) is int for part in parts) or parts[2] == 0:
        return None
    part = items.items[slice(*parts)]
    return [Abstract(Items(part, items.is_tuple), max(operand.ready for operand in given))]


def _cut(text: Spelled, bounds: Sequence[Any], ready: float) -> list[Abstract] | None:
    """Cut known text off the beginning, as hoist-prefix does."""
    first = text.parts[0]
    match bounds:
        case [Known(value=int() as start), Known(value=None), Known(value=None)] if isinstance(
            first, Known
        ) and 0 <= start <= len(first.value):
            rest = (Known(first.value[start:]),) if start < len(first.value) else ()
            return [Abstract(Spelled((*rest, *text.parts[1:])), ready)]
    return None


def _mutate(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    value = given[0].value
    if isinstance(value, Table) or value == Known({}):
        return _set_key(op, value, given)
    items = items_of(value)
    if items is None or (isinstance(value, Known) and type(value.value) is not list):
        return None
    nothing, ready = Abstract(Known(None)), given[0].ready
    match op.attributes["name"], given[1:]:
        case "append", [item]:
            return [Abstract(Items((*items, item)), ready), nothing]
        case "extend", [more] if (added := items_of(more.value)) is not None:
            return [Abstract(Items((*items, *added)), max(ready, more.ready)), nothing]
        case "__setitem__", [Abstract(value=Known(value=int() as place)), item]:
            if not -len(items) <= place < len(items):
                return None
            held = list(items)
            held[place] = item
            return [Abstract(Items(tuple(held)), ready), nothing]
        case _:
            return None


def _set_key(op: Op, value: Any, given: Sequence[Abstract]) -> list[Abstract] | None:
    match op.attributes["name"], given[1:]:
        case "__setitem__", [Abstract(value=Known(value=key)), item]:
            table = value if isinstance(value, Table) else Table(())
            return [Abstract(table.set(key, item), given[0].ready), Abstract(Known(None))]
        case _:
            return None


def _dict(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    keys = given[::2]
    table = Table(())
    for key, value in zip(keys, given[1::2], strict=True):
        if not isinstance(key.value, Known):
            return None
        table = table.set(key.value.value, value)
    return [Abstract(table, max((key.ready for key in keys), default=0))]


def _method(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    if op.attributes["name"] == "join" and len(given) == 2:
        return _join(op, *given)
    table, ready = given[0].value, given[0].ready
    if not isinstance(table, Table) or len(given) > 1:
        return None
    keys = [Abstract(Known(key)) for key, _ in table.entries]
    values = [value for _, value in table.entries]
    match op.attributes["name"]:
        case "keys":
            return [Abstract(Items(tuple(keys)), ready)]
        case "values":
            return [Abstract(Items(tuple(values)), ready)]
        case "items":
            return [Abstract(_rows(zip(keys, values, strict=True)), ready)]
        case _:
            return None


def _join(op: Op, separator: Abstract, joined: Abstract) -> list[Abstract] | None:
    """Put the items of a list together; one that is no text ends the run, and costs none."""
    items = items_of(joined.value)
    if not items or not _is_text(separator):
        return None
    if not all(isinstance(item.value, Unknown) or _is_text(item) for item in items):
        return None
    between = [part for item in items for part in (separator, item)][1:]
    (made,) = _concat(op, between)
    return [_later(made, joined)]


def _are_flat(given: Sequence[Abstract]) -> bool:
    """Whether what is put into a container is a choice of plain values, none of them in itself."""
    kinds = (str, int, float)
    return all(
        isinstance(each, kinds)
        for item in given
        if isinstance(item.value, OneOf)
        for each in item.value.values
    ) and not any(isinstance(item.value, (Items, Table)) for item in given[1:])


def _list(op: Op, given: Sequence[Abstract]) -> list[Abstract]:
    return [Abstract(Items(tuple(given), op.name == "val.tuple"))]


def _call(op: Op, given: Sequence[Abstract]) -> list[Abstract] | None:
    columns = [items_of(operand.value) for operand in given]
    if op.attributes.get("keywords") or not columns or None in columns:
        return None
    held = [column for column in columns if column is not None]
    made: Any
    match op.attributes["callee"]:
        case "list" | "tuple" as callee:
            made = Items(held[0], callee == "tuple")
        case "reversed":
            made = Items(held[0][::-1])
        case "len":
            made = Known(len(held[0]))
        case "enumerate" if len(held) == 1:
            made = _rows((Abstract(Known(i)), item) for i, item in enumerate(held[0]))
        case "zip":
            made = _rows(zip(*held, strict=False))
        case _:
            return None
    return [Abstract(made, max(operand.ready for operand in given))]


def _rows(rows: Iterable[tuple[Abstract, ...]]) -> Items:
    return Items(tuple(Abstract(Items(row, True)) for row in rows))


_CONTAINERS = frozenset({"val.mutate", "val.list", "val.tuple"})

_STRUCTURED: dict[str, Callable[[Op, Sequence[Abstract]], list[Abstract] | None]] = {
    "val.concat": _joined,
    "val.binary": _binary,
    "val.format": _format,
    "val.index": _index,
    "val.unpack": _unpack,
    "val.slice": _slice,
    "val.mutate": _mutate,
    "val.list": _list,
    "val.tuple": _list,
    "val.call": _call,
    "val.dict": _dict,
    "val.method": _method,
}
