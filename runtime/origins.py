"""Origins: which model calls a value rests on, so that a run can tell which calls it needed.

A call is needed when something observable needs it: what a lazy evaluation would force.
Making a list or a dict forces nothing, looking at one item forces that item only; any other
operation forces its operands. Origins form a graph that values share; it is walked once,
when a run ends. A prompt state carries its origins within (see prompt_state).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class Origin:
    """What a value rests on: a call of its own, and the origins of what it is made of.

    For a container with `items`, `shape` is what its length rests on.
    """

    __slots__ = ("call", "items", "parents", "shape")

    def __init__(
        self,
        parents: "tuple[Origin, ...]" = (),
        call: Any = None,
        *,
        items: "Mapping[Any, Origin | None] | None" = None,
        shape: "Origin | None" = None,
    ) -> None:
        self.parents = parents
        self.call = call
        self.items = items
        self.shape = shape


def join_origins(origins: "Iterable[Origin | None]") -> Origin | None:
    """Return one origin for a value that is made of several."""
    first: Origin | None = None
    rest: dict[Origin, None] | None = None
    for origin in origins:
        if origin is None or origin is first:
            continue
        if first is None:
            first = origin
        else:
            rest = rest if rest is not None else {first: None}
            rest[origin] = None
    return first if rest is None else Origin(tuple(rest))


def of_call(call: Any, rest: Origin | None) -> Origin:
    """Return the origin of what a call gave, which also rests on `rest`."""
    return Origin((rest,) if rest is not None else (), call)


def of_items(origins: Sequence[Origin | None]) -> Origin | None:
    """Return the origin of a list of values."""
    if all(origin is None for origin in origins):
        return None
    return Origin(items=dict(enumerate(origins)))


def shape_of(origin: Origin | None) -> Origin | None:
    """Return what a value's kind and length rest on."""
    return origin.shape if origin is not None and origin.items is not None else origin


def item_of(origin: Origin | None, key: Any) -> Origin | None:
    """Return what one item of a container rests on."""
    if origin is None or origin.items is None:
        return origin
    return join_origins((origin.items.get(key), origin.shape))


def whole(origin: Origin | None) -> Origin | None:
    """Return the origin of what was made of a value with all its items."""
    return Origin((origin,)) if origin is not None and origin.items is not None else origin


def needing(origin: Origin | None, more: Origin | None) -> Origin | None:
    """Return the origin of the same value, known only after `more` as well."""
    if more is None or origin is more:
        return origin
    if origin is not None and origin.items is not None:
        return Origin(items=origin.items, shape=join_origins((origin.shape, more)))
    return join_origins((origin, more))


def calls_of(origins: Iterable[Origin | None]) -> list[Any]:
    """Return every call that the origins rest on, each once."""
    pending = [origin for origin in origins if origin is not None]
    seen = set(pending)
    calls: dict[Any, None] = {}
    while pending:
        origin = pending.pop()
        if origin.call is not None:
            calls[origin.call] = None
        held = origin.items.values() if origin.items is not None else ()
        for parent in (*origin.parents, origin.shape, *held):
            if parent is not None and parent not in seen:
                seen.add(parent)
                pending.append(parent)
    return list(calls)


def value_origins(
    op: str,
    attributes: Mapping[str, Any],
    values: Sequence[Any],
    origins: Sequence[Origin | None],
    num_results: int,
) -> list[Origin | None]:
    """Return the origins of a `val.*` op's results, given its operands and theirs."""
    if not any(origin is not None for origin in origins):
        return [None] * num_results
    if op in ("val.list", "val.tuple"):
        return [of_items(origins)]
    if op == "val.dict":
        items = dict(zip(values[::2], origins[1::2], strict=True))
        return [Origin(items=items, shape=join_origins(origins[::2]))]
    if op == "val.slice" and isinstance(values[0], (list, tuple)):
        part = _items(values[0], origins[0])[slice(*values[1:])]
        return [_arranged(part, join_origins((shape_of(origins[0]), *origins[1:])))]
    if op == "val.call" and not attributes.get("keywords"):
        arranged = _rearranged(str(attributes["callee"]), values, origins)
        if arranged is not None:
            return [arranged]
    subject = origins[0]
    found = None
    if subject is None and op == "val.mutate":
        # No item of the container rests on a call so far.
        found = _mutated(attributes["name"], Origin(items={}), values, origins)
    elif subject is not None and subject.items is not None:
        found = _looked_into(op, attributes, values, origins, num_results)
    if found is not None:
        return found
    return [whole(join_origins(origins))] * num_results


def _looked_into(
    op: str,
    attributes: Mapping[str, Any],
    values: Sequence[Any],
    origins: Sequence[Origin | None],
    num_results: int,
) -> list[Origin | None] | None:
    """Return the origins for ops that look into a container, or change one item; else None."""
    subject = origins[0]
    assert subject is not None, "the caller looked"
    assert subject.items is not None, "the caller looked"
    if op == "val.index":
        if isinstance(values[1], slice):
            return None
        return [join_origins((item_of(subject, _key(values[0], values[1])), origins[1]))]
    if op == "val.unpack" and not isinstance(values[0], dict):
        return [item_of(subject, index) for index in range(num_results)]
    is_length = op == "val.call" and attributes["callee"] == "len"
    if op in ("val.truth", "val.not") or is_length:
        return [subject.shape]
    if op == "val.mutate":
        return _mutated(attributes["name"], subject, values, origins)
    return None


def _mutated(
    name: str, subject: Origin, values: Sequence[Any], origins: Sequence[Origin | None]
) -> list[Origin | None] | None:
    items = dict(subject.items or {})
    if name == "append":
        items[len(values[0])] = origins[1]
        return [Origin(items=items, shape=subject.shape), None]
    if name == "__setitem__" and not isinstance(values[1], slice):
        items[_key(values[0], values[1])] = origins[2]
        return [Origin(items=items, shape=join_origins((subject.shape, origins[1]))), None]
    is_extended = name == "extend" and len(values) == 2 and isinstance(values[0], list)
    if is_extended and isinstance(values[1], (list, tuple)):
        items |= enumerate(_items(values[1], origins[1]), len(values[0]))
        shape = join_origins((subject.shape, shape_of(origins[1])))
        return [Origin(items=items, shape=shape), None]
    return None


def _items(container: Sequence[Any], origin: Origin | None) -> list[Origin | None]:
    """Return what each item of a list or tuple rests on."""
    return [item_of(origin, index) for index in range(len(container))]


def _arranged(items: Sequence[Origin | None], shape: Origin | None) -> Origin:
    return Origin(items=dict(enumerate(items)), shape=shape)


def _rearranged(
    callee: str, values: Sequence[Any], origins: Sequence[Origin | None]
) -> Origin | None:
    """Return the origin for functions that only arrange the items of lists and tuples anew."""
    if not values or not isinstance(values[0], (list, tuple)):
        return None
    first, shape = _items(values[0], origins[0]), shape_of(origins[0])
    match callee, len(values):
        case ("list" | "tuple", 1) | ("starred", 2):
            return _arranged(first, shape)
        case "reversed", 1:
            return _arranged(first[::-1], shape)
        case "enumerate", 1 | 2:
            start = join_origins(origins[1:])
            return _arranged([_arranged((start, item), None) for item in first], shape)
        case "zip", _ if all(isinstance(value, (list, tuple)) for value in values):
            columns = [_items(*pair) for pair in zip(values, origins, strict=True)]
            rows = [_arranged(row, None) for row in zip(*columns, strict=False)]
            return _arranged(rows, join_origins(map(shape_of, origins)))
        case _:
            return None


def _key(container: Any, key: Any) -> Any:
    """Return the key of an item as origins hold it: list positions from the start."""
    is_position = isinstance(key, int) and not isinstance(container, dict)
    return key + len(container) if is_position and key < 0 else key
