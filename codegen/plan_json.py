"""Plans as JSON, without loss: tuples, infinities, NaN, big integers and lone surrogates survive.

What JSON has no word for stands as an object with one key that begins with '$':
{"$tuple": [...]}, {"$float": "inf"}, {"$int": "0x..."}, {"$text": [code points]} and
{"$dict": [[key, value], ...]} for a dict whose keys could be mistaken for these.
"""

import math
from collections.abc import Callable
from typing import Any

from lmc.codegen.plan import PLAN_VERSION, Plan, PlanBlock, PlanFunction, PlanParam, Step
from lmc.codegen.plan_check import check_plan
from lmc.errors import ArtifactError
from lmc.ir.location import Location
from lmc.ir.types import Attr

SAFE_INT = 2**53
MAX_DEPTH = 400


def encode_attr(value: Attr) -> Any:
    """Return an attribute as JSON data; raises TypeError for what is no attribute."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -SAFE_INT <= value <= SAFE_INT else {"$int": hex(value)}  # type: ignore
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}  # type: ignore[arg-type]
    if kind is str:
        return {"$text": [ord(char) for char in value]} if _has_surrogate(value) else value  # type: ignore
    if kind is list:
        return [encode_attr(item) for item in value]  # type: ignore[union-attr]
    if kind is tuple:
        return {"$tuple": [encode_attr(item) for item in value]}  # type: ignore[union-attr]
    if kind is dict:
        return _encode_dict(value)  # type: ignore[arg-type]
    raise TypeError(f"a plan cannot hold a {kind.__name__}: {value!r}")


def _encode_dict(value: dict[str, Attr]) -> Any:
    if any(key.startswith("$") or _has_surrogate(key) for key in value):
        return {"$dict": [[encode_attr(key), encode_attr(item)] for key, item in value.items()]}
    return {key: encode_attr(item) for key, item in value.items()}


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False


_DECODERS: dict[str, Callable[[Any], Attr]] = {
    "$int": lambda item: int(item, 16),
    "$float": float,
    "$text": lambda item: "".join(map(chr, item)),
    "$tuple": lambda item: tuple(map(decode_attr, item)),
    "$dict": lambda item: {decode_attr(key): decode_attr(value) for key, value in item},  # type: ignore
}


def decode_attr(data: Any) -> Attr:
    """Undo `encode_attr`; raises ValueError or TypeError for foreign data."""
    if isinstance(data, list):
        return [decode_attr(item) for item in data]
    if isinstance(data, dict):
        if len(data) == 1:
            ((key, item),) = data.items()
            if key.startswith("$"):
                if key not in _DECODERS:
                    raise ValueError(f"unknown kind of value {key!r}")
                return _DECODERS[key](item)
        return {key: decode_attr(item) for key, item in data.items()}
    return data


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON data."""
    return {
        "version": plan.version,
        "name": encode_attr(plan.name),
        "target_fingerprint": plan.target_fingerprint,
        "entries": list(plan.entries),
        "functions": [_function_to_json(function) for function in plan.functions.values()],
        "locations": [
            [loc.file, loc.line, loc.column, loc.end_line, loc.end_column, encode_attr(loc.text)]
            for loc in plan.locations
        ],
    }


def plan_from_json(data: Any) -> Plan:
    """Undo `plan_to_json`.

    Raises:
        ArtifactError: the data is no plan, or one of a newer version.
    """
    if not isinstance(data, dict) or not isinstance(data.get("version"), int):
        raise ArtifactError("the plan has no version")
    if data["version"] != PLAN_VERSION:
        raise ArtifactError(
            f"the plan has version {data['version']}, this lmc reads version {PLAN_VERSION}",
            hint="compile the program again with this lmc",
        )
    try:
        return _plan(data)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"the plan is damaged: {type(error).__name__}: {error}") from error


def _plan(data: dict[str, Any]) -> Plan:
    functions = [_function_from_json(item) for item in data["functions"]]
    locations = tuple(
        Location(*(int_or_text(part) for part in row[:5]), decode_attr(row[5]))  # type: ignore
        for row in data["locations"]
    )
    plan = Plan(
        name=str(decode_attr(data["name"])),
        functions={function.name: function for function in functions},
        entries=tuple(map(str, data["entries"])),
        locations=locations,
        target_fingerprint=str(data["target_fingerprint"]),
        version=data["version"],
    )
    for function in functions:
        _check_block(function.body, (), len(locations))
    if len(plan.functions) != len(functions):
        raise ValueError("two functions have the same name")
    check_plan(plan)
    return plan


def int_or_text(value: Any) -> int | str:
    """Return a part of a location as it is; raises TypeError for another kind."""
    if isinstance(value, (int, str)):
        return value
    raise TypeError(f"{value!r} cannot stand in a location")


def _check_block(block: PlanBlock, outer: tuple[PlanBlock, ...], num_locations: int) -> None:
    """Check that every register number lies inside its frame."""
    if len(outer) > MAX_DEPTH:
        raise ValueError(f"blocks are nested deeper than {MAX_DEPTH}")
    limit = block.num_registers
    used = [*block.results, *(register for register, _ in block.constants)]
    used += [r for step in block.steps for r in (*step.inputs, *step.outputs)]
    if any(not 0 <= register < limit for register in used):
        raise IndexError(f"a register lies outside a frame of {limit}")
    if block.num_arguments + len(block.captures) > limit:
        raise IndexError("more arguments than registers")
    if outer and any(not 0 <= register < outer[-1].num_registers for register in block.captures):
        raise IndexError("a captured register lies outside the outer frame")
    _check_positions(block.state_arguments, block.num_arguments)
    for step in block.steps:
        _check_positions(step.state_inputs, len(step.inputs))
        _check_positions(step.state_outputs, len(step.outputs))
        if not -1 <= step.location < num_locations:
            raise IndexError(f"location {step.location} does not exist")
        for nested in step.blocks:
            _check_block(nested, (*outer, block), num_locations)


def _check_positions(positions: tuple[int, ...], limit: int) -> None:
    if any(not 0 <= position < limit for position in positions):
        raise IndexError(f"a position lies outside of {limit}")


def _function_to_json(function: PlanFunction) -> dict[str, Any]:
    return {
        "name": function.name,
        "kind": function.kind,
        "params": [
            [p.name, p.annotation, p.has_default, encode_attr(p.default), p.keyword_only]
            for p in function.params
        ],
        "attributes": encode_attr(function.attributes),
        "body": _block_to_json(function.body),
    }


def _function_from_json(data: dict[str, Any]) -> PlanFunction:
    params = tuple(
        PlanParam(str(name), str(annotation), bool(has), decode_attr(default), bool(keyword))
        for name, annotation, has, default, keyword in data["params"]
    )
    attributes = decode_attr(data["attributes"])
    body = _block_from_json(data["body"])
    return PlanFunction(str(data["name"]), str(data["kind"]), params, body, attributes)  # type: ignore


def _block_to_json(block: PlanBlock) -> dict[str, Any]:
    return {
        "arguments": block.num_arguments,
        "captures": list(block.captures),
        "registers": block.num_registers,
        "constants": [[register, encode_attr(value)] for register, value in block.constants],
        "steps": [_step_to_json(step) for step in block.steps],
        "results": list(block.results),
        "states": list(block.state_arguments),
    }


def _block_from_json(data: dict[str, Any]) -> PlanBlock:
    return PlanBlock(
        num_arguments=_int(data["arguments"]),
        captures=_ints(data["captures"]),
        num_registers=_int(data["registers"]),
        constants=tuple((_int(register), decode_attr(v)) for register, v in data["constants"]),
        steps=tuple(_step_from_json(step) for step in data["steps"]),
        results=_ints(data["results"]),
        state_arguments=_ints(data["states"]),
    )


def _step_to_json(step: Step) -> list[Any]:
    return [
        step.op,
        list(step.inputs),
        list(step.outputs),
        encode_attr(step.attributes),
        [_block_to_json(block) for block in step.blocks],
        step.location,
        list(step.state_inputs),
        list(step.state_outputs),
        step.may_fail,
    ]


def _step_from_json(data: list[Any]) -> Step:
    op, inputs, outputs, attributes, blocks, location, state_inputs, state_outputs, may = data
    return Step(
        op=str(op),
        inputs=_ints(inputs),
        outputs=_ints(outputs),
        attributes=decode_attr(attributes),  # type: ignore[arg-type]
        blocks=tuple(_block_from_json(block) for block in blocks),
        location=_int(location),
        state_inputs=_ints(state_inputs),
        state_outputs=_ints(state_outputs),
        may_fail=_bool(may),
    )


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{value!r} is not a bool")
    return value


def _int(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an int")
    return value


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(map(_int, values))
