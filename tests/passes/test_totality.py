"""Expressions that are called total never raise, whatever their operands."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Function, Op, Value
from lmc.ir.evaluate import evaluate
from lmc.ir.types import BOOL, FLOAT, INT, NONE, PY, TEXT, Type, list_of
from lmc.passes.analysis import Facts
from lmc.passes.totality import is_total, may_be_undefined

VALUES = {
    TEXT: st.text(max_size=6),
    BOOL: st.booleans(),
    INT: st.integers(-5, 5),
    FLOAT: st.floats(),
    NONE: st.none(),
    list_of(TEXT): st.lists(st.text(max_size=2), max_size=3),
    list_of(INT): st.lists(st.integers(), max_size=3),
    PY: st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers())),
}
SHAPES: list[tuple[str, dict[str, Any], int]] = [
    ("val.list", {}, 2), ("val.tuple", {}, 2), ("val.set", {}, 2), ("val.dict", {}, 2),
    ("val.concat", {}, 2), ("val.truth", {}, 1), ("val.not", {}, 1), ("val.index", {}, 2),
    *(("val.binary", {"op": op}, 2) for op in ("+", "-", "*", "/", "//", "%", "**", "&", "<<")),
    *(("val.unary", {"op": op}, 1) for op in "+-~"),
    *(("val.compare", {"op": op}, 2) for op in ("==", "<", "in", "is", "not in", ">=")),
    *(
        ("val.method", {"name": name}, count)
        for name in ("strip", "upper", "split", "join", "startswith", "find", "index", "format")
        for count in (1, 2)
    ),
    *(
        ("val.call", {"callee": name}, 1)
        for name in ("len", "int", "sorted", "list", "bool", "any", "zip", "sum", "max", "repr")
    ),
    *(("val.mutate", {"name": name}, 2) for name in ("append", "extend", "remove", "pop")),
]  # fmt: skip


def make(name: str, attributes: dict[str, Any], kinds: Sequence[Type]) -> tuple[Op, Facts]:
    """Return an op on the parameters of a function, and the function's facts."""
    function = new_function("f", [f"p{i}" for i in range(len(kinds))])
    for value, kind in zip(function.body.arguments[1:], kinds, strict=True):
        value.type = kind
    b = Builder(function.body)
    results: list[Type] = [PY, PY] if name == "val.mutate" else [PY]
    op = b.op(name, function.body.arguments[1:], results, attributes=attributes)
    return op, Facts.of(function)


@settings(max_examples=400, derandomize=True, deadline=None)
@given(data=st.data())
def test_a_total_expression_gives_a_value(data: st.DataObject) -> None:
    name, attributes, count = data.draw(st.sampled_from(SHAPES))
    kinds = [data.draw(st.sampled_from(list(VALUES))) for _ in range(count)]
    op, facts = make(name, attributes, kinds)
    if is_total(op, facts):
        evaluate(op, [data.draw(VALUES[kind]) for kind in kinds])  # must not raise


@pytest.mark.parametrize(
    ("name", "attributes", "kinds"),
    [
        ("val.binary", {"op": "//"}, [INT, INT]),
        ("val.binary", {"op": "+"}, [TEXT, INT]),
        ("val.call", {"callee": "int"}, [TEXT]),
        ("val.index", {}, [list_of(TEXT), INT]),
        ("val.method", {"name": "index"}, [TEXT, TEXT]),
        ("val.truth", {}, [PY]),
        ("val.set", {}, [list_of(INT)]),
        ("lm.extend", {}, [PY, PY]),
    ],
)
def test_what_may_raise_is_not_total(
    name: str, attributes: dict[str, Any], kinds: list[Type]
) -> None:
    assert not is_total(*make(name, attributes, kinds))


def test_total_expressions_are_found() -> None:
    found = [
        (name, attributes)
        for name, attributes, count in SHAPES
        if any(is_total(*make(name, attributes, [kind] * count)) for kind in VALUES)
    ]
    assert len(found) > len(SHAPES) // 2


def undefined_in_a_branch() -> tuple[Function, Value]:
    """A name that only one arm assigns."""
    from lmc.ir.core import Block

    function = new_function("f", ["x"])
    b = Builder(function.body)
    then, other = Block(), Block()
    Builder(then).yield_(function.body.arguments[1])
    inner = Builder(other)
    made = inner.op("val.undefined", [], [PY], attributes={"name": "y"}).result
    inner.yield_(made)
    result = b.if_(b.truth(function.body.arguments[1]), then, other, [PY]).result
    return function, result


def test_a_name_without_a_value_is_followed_through_branches() -> None:
    function, value = undefined_in_a_branch()
    facts = Facts.of(function)
    assert may_be_undefined(value, facts)
    assert not may_be_undefined(function.body.arguments[1], facts)
