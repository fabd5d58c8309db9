"""Values that know which model calls they need, as the reference interpreter tracks them.

A call is demanded when something observable needs it: what a lazy evaluation would force.
Making a list or a dict forces nothing, reading one item forces that item only; any other
operation forces its operands. Each call is known by its position in the run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmc.errors import RunError
from lmc.ir.core import Op
from lmc.ir.evaluate import evaluate
from lmc.ir.expressions import HIDDEN
from lmc.ir.interpreter_prompt import NO_CALLS, Calls, Prompt


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A value and the calls that it needs.

    `calls` are needed to know the value itself; for a container with `items`, its shape
    only, and each item has its own. A prompt carries its calls within.
    """

    value: Any
    calls: Calls = NO_CALLS
    items: "Mapping[Any, Traced] | None" = None

    def needing(self, calls: Calls) -> "Traced":
        """Return the same value, known only after `calls` as well."""
        if not calls:
            return self
        if isinstance(self.value, Prompt):
            return replace(self, value=self.value.needing(calls))
        return replace(self, calls=self.calls | calls)

    @property
    def all_calls(self) -> Calls:
        """Calls that a reader of the value with all its items needs, prompts left aside."""
        held = self.items.values() if self.items else ()
        return self.calls.union(*(item.all_calls for item in held))


def union(values: Iterable[Traced]) -> Calls:
    """Return all calls that some values need."""
    return NO_CALLS.union(*(value.all_calls for value in values))


def observed_calls(traced: Traced) -> Calls:
    """Return the calls that an observer needs who sees everything within the value."""
    return traced.all_calls | _calls_of_prompts(traced.value)


def _calls_of_prompts(value: Any) -> Calls:
    if isinstance(value, Prompt):
        held = (observed_calls(item) for item in value.variables.values())
        return (value.text_calls | value.name_calls).union(*held)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return NO_CALLS.union(*map(_calls_of_prompts, value))
    return NO_CALLS


def evaluate_traced(op: Op, operands: Sequence[Traced]) -> list[Traced]:
    """Evaluate a `val.*` op and track what its results need.

    Raises:
        RunError: as `ir.evaluate.evaluate` does.
    """
    if op.name in ("val.concat", "val.format") and any(
        isinstance(operand.value, Prompt) for operand in operands
    ):
        raise RunError(
            "a prompt state is not text", hint="use its text(): s.text()", location=op.location
        )
    values = evaluate(op, [operand.value for operand in operands])
    made = _lazily(op, operands, values)
    if made is None:
        calls = union(operands)
        made = [Traced(value).needing(calls) for value in values]
    return made


def _lazily(op: Op, operands: Sequence[Traced], values: list[Any]) -> list[Traced] | None:
    """Return the results of ops that make containers or look into them; None for others."""
    match op.name:
        case "val.list" | "val.tuple":
            return [Traced(values[0], items=dict(enumerate(operands)))]
        case "val.dict":
            keys = operands[::2]
            pairs = zip((key.value for key in keys), operands[1::2], strict=True)
            return [Traced(values[0], union(keys), dict(pairs))]
        case "val.slice":
            return _sliced(operands, values)
        case "val.call" if not op.attributes.get("keywords"):
            made = _rearranged(str(op.attributes["callee"]), operands, values)
            if made is not None:
                return [made]
    if not operands:
        return None
    subject = operands[0]
    if subject.items is None:
        if op.name != "val.mutate" or subject.calls:
            return None
        # A constant or an argument: a container as `val.list` makes it, of items without needs.
        subject = replace(subject, items=_plain_items(subject.value))
    match op.name:
        case "val.index":
            item = subject.items.get(_position(subject.value, operands[1].value))
            return None if item is None else [item.needing(subject.calls | union(operands[1:]))]
        case "val.unpack" if not isinstance(subject.value, dict):
            return [item.needing(subject.calls) for item in subject.items.values()]
        case "val.truth" | "val.not":
            return [Traced(values[0], subject.calls)]
        case "val.call" if op.attributes["callee"] == "len":
            return [Traced(values[0], subject.calls)]
        case "val.mutate":
            return _mutated(op.attributes["name"], subject, operands[1:], values)
    return None


def _plain_items(container: Any) -> dict[Any, Traced]:
    pairs = container.items() if isinstance(container, dict) else enumerate(container)
    return {key: Traced(value) for key, value in pairs}


def _mutated(
    name: Any, subject: Traced, arguments: Sequence[Traced], values: list[Any]
) -> list[Traced] | None:
    items = dict(subject.items or {})
    if name == "append":
        items[len(subject.value)] = arguments[0]
        return [Traced(values[0], subject.calls, items), Traced(None)]
    if name == "__setitem__" and not isinstance(arguments[0].value, slice):
        items[_position(subject.value, arguments[0].value)] = arguments[1]
        calls = subject.calls | union(arguments[:1])
        return [Traced(values[0], calls, items), Traced(None)]
    if name == "extend" and len(arguments) == 1 and isinstance(subject.value, list):
        more = _sequence(arguments[0])
        if more is not None:
            held = enumerate(more, len(subject.value))
            calls = subject.calls | arguments[0].calls
            return [Traced(values[0], calls, items | dict(held)), Traced(None)]
    return None


def _sequence(traced: Traced) -> list[Traced] | None:
    """Return the items of a list or tuple, each with what it needs; None for other values."""
    if not isinstance(traced.value, (list, tuple)):
        return None
    known = traced.items or {}
    return [
        known.get(index, Traced(value)).needing(traced.calls)
        for index, value in enumerate(traced.value)
    ]


def _sliced(operands: Sequence[Traced], values: list[Any]) -> list[Traced] | None:
    """Return a part of a list or tuple."""
    items, bounds = _sequence(operands[0]), operands[1:]
    if items is None:
        return None
    part = items[slice(*(bound.value for bound in bounds))]
    return [Traced(values[0], operands[0].calls | union(bounds), dict(enumerate(part)))]


def _rearranged(callee: str, operands: Sequence[Traced], values: list[Any]) -> Traced | None:
    """Return what a function gives that only arranges the items of lists and tuples anew."""
    sequences = [_sequence(operand) for operand in operands]
    if not sequences or sequences[0] is None:
        return None
    first, shape, made = sequences[0], operands[0].calls, values[0]
    match callee, len(operands):
        case ("list" | "tuple", 1) | ("starred", 2):
            return Traced(made, shape, dict(enumerate(first)))
        case "reversed", 1:
            return Traced(made, shape, dict(enumerate(reversed(first))))
        case "enumerate", 1 | 2:
            start = union(operands[1:])
            rows = [[Traced(row[0], start), item] for row, item in zip(made, first, strict=True)]
        case "zip", _:
            if any(sequence is None for sequence in sequences):
                return None
            shape = shape.union(*(operand.calls for operand in operands))
            rows = [
                list(row) for row in zip(*(s for s in sequences if s is not None), strict=False)
            ]
        case _:
            return None
    packed = (Traced(row, items=dict(enumerate(of))) for row, of in zip(made, rows, strict=True))
    return Traced(made, shape, dict(enumerate(packed)))


def _position(container: Any, key: Any) -> Any:
    if isinstance(container, dict) or not isinstance(key, int):
        return key
    return key + len(container) if key < 0 else int(key)


def join_prompts(parent: Prompt, children: Sequence[Prompt], mode: str) -> Prompt:
    """Join children into their parent: gather variables or, by mode, append their texts."""
    made = parent
    if mode == "concate_and_append":
        calls = NO_CALLS.union(*(child.text_calls for child in children))
        for added in [part for child in children for part in child.added]:
            is_text = isinstance(added, str)
            made = made.append_text(added) if is_text else made.append_media(added)
        made = made.append_text("", calls)
    named = [n for child in children for n in child.variables if not n.startswith(HIDDEN)]
    is_gathered = mode == "gather_variable"
    name_calls = NO_CALLS.union(*(child.name_calls for child in children))
    nothing = Traced(None)
    for name in dict.fromkeys(named if is_gathered else ()):
        if name in parent.variables:
            continue
        holders = [child for child in children if name in child.variables]
        values = [child.variables[name] for child in holders]
        metas = [child.metas.get(name, nothing) for child in holders]
        has_meta = any(meta is not nothing for meta in metas)
        made = made.set(name, _gathered(values), _gathered(metas) if has_meta else None)
    failures = [child.failed for child in children if child.failed is not None]
    for failed in sorted(failures, key=lambda failed: failed.number):
        made = made.failing(failed)
    return replace(
        made,
        name_calls=made.name_calls | name_calls,
        names={name: known | name_calls for name, known in made.names.items()},
    )


def _gathered(values: Sequence[Traced]) -> Traced:
    return Traced([value.value for value in values], items=dict(enumerate(values)))
