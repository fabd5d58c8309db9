"""Evaluation of `val.*` ops: the one meaning of pure Python expressions in a program.

Used by folding, by the reference interpreter and by the executor, so an expression gives the
same value wherever it is computed. Only the builtins, standard functions and methods listed
here can be reached: evaluating IR never runs arbitrary code.
"""

import copy
import json
import math
import operator
import re
import string
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

from lmc.errors import RunError
from lmc.ir.arguments import call_arguments
from lmc.ir.core import Op
from lmc.ir.reasoning import SPLIT_REASONING, split_reasoning

MAX_TEXT = 64 * 1024 * 1024
MAX_ITEMS = 4 * 1024 * 1024


class Undefined:
    """The value of a name that no path assigned."""

    def __init__(self, name: str) -> None:
        self.name = name


def _times(a: Any, b: Any) -> Any:
    for text, count in ((a, b), (b, a)):
        if isinstance(text, (str, list, tuple)) and isinstance(count, int):
            limit = MAX_TEXT if isinstance(text, str) else MAX_ITEMS
            if len(text) * count > limit:
                raise ValueError(f"repeating {len(text)} items {count} times is over the limit")
    return a * b


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() * max(b, 0) > 1_000_000:
        raise ValueError("the power is over the limit of a million bits")
    return a**b


def _shift(a: Any, b: Any) -> Any:
    if isinstance(b, int) and b > 1_000_000:
        raise ValueError("the shift is over the limit of a million bits")
    return a << b


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": _times, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": _power, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": _shift, ">>": operator.rshift,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg, "+": operator.pos, "~": operator.invert,
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
}  # fmt: skip

CLASSES = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict,
            "tuple": tuple, "set": set}  # fmt: skip


def _listed(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Make an iterator-returning builtin give a list: values must be readable twice."""
    return lambda *args, **keywords: list(function(*args, **keywords))


def _starred(value: Any, least: int) -> list[Any]:
    """Return the items that targets with a star among them take apart; `least` are needed."""
    try:
        items = list(value)
    except TypeError:
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object") from None
    if len(items) < least:
        raise ValueError(
            f"not enough values to unpack (expected at least {least}, got {len(items)})"
        )
    return items


def _range(*args: int) -> list[int]:
    span = range(*args)
    if len(span) > MAX_ITEMS:
        raise ValueError(f"a range of {len(span)} items is over the limit of {MAX_ITEMS}")
    return list(span)


def _isinstance(value: Any, name: str) -> bool:
    return isinstance(value, CLASSES[name])


def _defaultdict(name: str | None = None, *args: Any, **keywords: Any) -> Any:
    """Make a defaultdict of one of the plain classes."""
    return defaultdict(None if name is None else CLASSES[name], *args, **keywords)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **CLASSES,
    "len": len, "abs": abs, "min": min, "max": max, "sum": sum, "sorted": sorted,
    "round": round, "any": any, "all": all, "repr": repr, "ord": ord, "chr": chr,
    "range": _range, "starred": _starred, "enumerate": _listed(enumerate), "zip": _listed(zip),
    "reversed": _listed(reversed), "isinstance": _isinstance,
    "json.loads": json.loads, "json.dumps": json.dumps,
    "re.search": re.search, "re.match": re.match, "re.fullmatch": re.fullmatch,
    "re.findall": re.findall, "re.sub": re.sub, "re.split": re.split, "re.escape": re.escape,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.sqrt": math.sqrt,
    "math.log": math.log, "math.exp": math.exp, "math.isclose": math.isclose,
    "slice": slice, "dict.fromkeys": dict.fromkeys,
    "type name": lambda value: type(value).__name__,
    "collections.Counter": Counter, "collections.deque": deque,
    "collections.defaultdict": _defaultdict,
    "math.prod": math.prod, "string.capwords": string.capwords,
    SPLIT_REASONING: split_reasoning,
}  # fmt: skip
"""Functions by the name that capture gives them; all without effects."""

METHODS = frozenset(
    name
    for kind in (str, list, tuple, dict, set, frozenset, int, float, Counter, re.Match)
    for name in dir(kind)
    if not name.startswith("_")
) - {
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
    "setdefault", "popitem", "add", "discard", "difference_update", "intersection_update",
    "symmetric_difference_update", "subtract", "elements",
}  # fmt: skip
"""Methods that change nothing."""

MUTATORS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update",
    "setdefault", "popitem", "add", "discard", "difference_update", "intersection_update",
    "symmetric_difference_update", "__setitem__", "__delitem__", "__getitem__", "appendleft",
    "popleft", "extendleft", "rotate", "subtract",
})  # fmt: skip
"""Methods that change their object; `val.mutate` calls them on a copy."""


def evaluate(op: Op, operands: Sequence[Any]) -> list[Any]:
    """Return the results of a `val.*` op.

    Raises:
        RunError: the expression raised; the message has Python's own words, the location is
            the op's.
    """
    return evaluate_parts(op.name, op.attributes, operands, len(op.results), op.location)


def evaluate_parts(
    name: str, attributes: dict[str, Any], operands: Sequence[Any], num_results: int, location: Any
) -> list[Any]:
    """Do what `evaluate` does, for callers that hold a step instead of an op."""
    for value in operands:
        if isinstance(value, Undefined):
            raise undefined_error(value.name, location)
    try:
        return _evaluate(name, attributes, operands, num_results)
    except RunError:
        raise
    except Exception as error:
        # Whatever a user's expression raises is the program's failure, told at its line.
        made = RunError(f"{type(error).__name__}: {error}", location=location)
        made.raised = error
        raise made from error


def undefined_error(name: str, location: Any = None) -> RunError:
    """Return the error of reading a name that has no value."""
    made = RunError(
        f"'{name}' has no value on the path taken here",
        hint="assign it on every path before it is read",
        location=location,
    )
    words = f"cannot access local variable '{name}' where it is not associated with a value"
    made.raised = UnboundLocalError(words)
    return made


def _evaluate(
    name: str, attributes: dict[str, Any], operands: Sequence[Any], num_results: int
) -> list[Any]:
    match name:
        case "val.const":
            return [copy.deepcopy(attributes["value"])]
        case "val.undefined":
            return [Undefined(attributes["name"])]
        case "val.concat":
            return ["".join(operands)]
        case "val.format":
            return [_format(operands[0], attributes["conversion"], operands[1])]
        case "val.binary":
            return [BINARY[attributes["op"]](*operands)]
        case "val.unary":
            return [UNARY[attributes["op"]](*operands)]
        case "val.compare":
            return [COMPARE[attributes["op"]](*operands)]
        case "val.truth":
            return [bool(operands[0])]
        case "val.not":
            return [not operands[0]]
        case "val.index":
            return [_item(*operands)]
        case "val.slice":
            return [operands[0][slice(*operands[1:])]]
        case "val.list":
            return [list(operands)]
        case "val.tuple":
            return [tuple(operands)]
        case "val.set":
            return [set(operands)]
        case "val.dict":
            return [dict(zip(operands[::2], operands[1::2], strict=True))]
        case "val.unpack":
            return _unpack(operands[0], num_results)
        case _:
            return _call(name, attributes, operands)


def _call(name: str, attributes: dict[str, Any], operands: Sequence[Any]) -> list[Any]:
    positional, keywords = call_arguments(attributes.get("keywords") or [], operands)
    if name == "val.call":
        return [FUNCTIONS[attributes["callee"]](*positional, **keywords)]
    subject, member = positional[0], attributes["name"]
    if name == "val.attr":
        if member.startswith("_"):
            raise AttributeError(f"'{member}' is private")
        return [getattr(subject, member)]
    if name == "val.method":
        if member not in METHODS:
            raise AttributeError(f"'{member}' is not a method without effects")
        return [_listed_view(getattr(subject, member)(*positional[1:], **keywords))]
    if name == "val.mutate":
        if member not in MUTATORS:
            raise AttributeError(f"'{member}' is not a known method")
        made = copy.copy(subject)
        return [made, getattr(made, member)(*positional[1:], **keywords)]
    raise ValueError(f"no evaluation for {name}")


def _listed_view(value: Any) -> Any:
    """Turn dict views into lists: values must not change behind a reader's back."""
    return list(value) if isinstance(value, ({}.keys().__class__, {}.values().__class__,
                                             {}.items().__class__)) else value  # fmt: skip


def _item(container: Any, key: Any) -> Any:
    """Return an item; looking into a defaultdict puts nothing into it."""
    if isinstance(container, defaultdict) and key not in container and container.default_factory:
        return container.default_factory()
    return container[key]


def _format(value: Any, conversion: str, spec: str) -> str:
    convert: dict[str, Callable[[Any], Any]] = {"s": str, "r": repr, "a": ascii}
    if conversion:
        value = convert[conversion](value)
    width = re.search(r"\d{6,}", spec)
    if width:
        raise ValueError(f"format width {width.group()} is over the limit")
    return format(value, spec)


def _unpack(value: Any, count: int) -> list[Any]:
    try:
        items = list(value)
    except TypeError:
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object") from None
    if len(items) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    return items
