"""Faults of lowering: the module is changed on its way to the plan."""

from itertools import pairwise
from typing import Any

from lmc.ir.core import Block, Function, Op
from planted_faults.tools import (
    dropped,
    fault,
    lowered,
    ops_of,
    param,
)


@fault
def role_marker_lost(patch: Any) -> None:
    """Turns are not closed."""
    lowered(patch, "lm.end", dropped)


@fault
def control_token_lost(patch: Any) -> None:
    """Control tokens are dropped."""
    lowered(patch, "lm.control", dropped)


@fault
def stop_strings_lost(patch: Any) -> None:
    """Generations do not stop at strings."""
    lowered(patch, "lm.gen", lambda f, b, op: param(op, lambda p: p.pop("stop", None)))


@fault
def first_stop_only(patch: Any) -> None:
    """Of a list of stop strings, one counts."""

    def change(params: dict[str, Any]) -> None:
        if isinstance(params.get("stop"), list):
            params["stop"] = params["stop"][:1]

    lowered(patch, "lm.gen", lambda f, b, op: param(op, change))


@fault
def max_tokens_off_by_one(patch: Any) -> None:
    """A generation gets one token more."""

    def change(params: dict[str, Any]) -> None:
        if "max_tokens" in params:
            params["max_tokens"] += 1

    lowered(patch, "lm.gen", lambda f, b, op: param(op, change))


@fault
def constants_trimmed(patch: Any) -> None:
    """Constant text loses the blank at its end."""

    def edit(function: Function, block: Block, op: Op) -> None:
        value = op.attributes["value"]
        if isinstance(value, str):
            op.attributes["value"] = value.rstrip(" ")

    lowered(patch, "val.const", edit)


@fault
def arms_swapped(patch: Any) -> None:
    """Branches take the other arm."""
    lowered(patch, "cf.if", lambda f, b, op: op.blocks.reverse())


@fault
def carried_values_swapped(patch: Any) -> None:
    """Two results of a loop that have one type change places."""

    def edit(function: Function, block: Block, op: Op) -> None:
        for i, first in enumerate(op.results):
            for other in op.results[i + 1 :]:
                if first.type == other.type:
                    users = [o for _, o in ops_of(function.body)]
                    swap = {first: other, other: first}
                    for user in users:
                        user.operands = [swap.get(value, value) for value in user.operands]
                    return

    lowered(patch, "cf.for", edit)


@fault
def defaults_of_the_call_lost(patch: Any) -> None:
    """Decode parameters given to a nested program are dropped."""
    lowered(patch, "func.call", lambda f, b, op: op.attributes.pop("defaults", None))


@fault
def host_keywords_swapped(patch: Any) -> None:
    """Keywords of a host call get each other's values."""

    def edit(function: Function, block: Block, op: Op) -> None:
        names = op.attributes.get("keywords")
        if isinstance(names, list):
            op.attributes["keywords"] = names[::-1]

    lowered(patch, "host.call", edit)


@fault
def effects_swapped(patch: Any) -> None:
    """Two host calls in a row change places."""

    def edit(function: Function, block: Block, op: Op) -> None:
        calls = [each for each in block.ops if each.name == "host.call"]
        for first, second in pairwise(calls):
            is_next = second.operands[0] is first.results[0]
            if is_next and first.results[1] not in second.operands and op is first:
                for key in ("callee", "keywords"):
                    held = first.attributes.pop(key, None), second.attributes.pop(key, None)
                    first.attributes |= {} if held[1] is None else {key: held[1]}
                    second.attributes |= {} if held[0] is None else {key: held[0]}
                defined = {v for o in block.ops[: block.ops.index(first)] for v in o.results}
                free = {v for o in block.ops for v in o.results}
                if all(v in defined or v not in free for v in second.operands[1:]):
                    rest = first.operands[1:], second.operands[1:]
                    first.operands[1:], second.operands[1:] = rest[1], rest[0]
                return

    lowered(patch, "host.call", edit)


@fault
def ticks_lost(patch: Any) -> None:
    """Calls that a pass dropped are not counted."""
    lowered(patch, "lm.tick", dropped)


@fault
def prologue_with_a_wrong_head(patch: Any) -> None:
    """Constant text is computed ahead with a token that nothing forces."""

    def head(users: Any, tokenizer: Any) -> tuple[int, ...]:
        return tuple(tokenizer.encode("x", first=False))

    patch.setattr("lmc.codegen.lower.forced_head", head)
