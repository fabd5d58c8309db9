"""What an artifact needs of its surroundings: parameters of host functions, shared values."""

import functools

import pytest

from lmc.codegen.requirements import (
    CallShape,
    host_from_json,
    host_to_json,
    params_of,
    params_text,
    takes,
)
from lmc.codegen.shared_values import join_shared, split_shared


def plain(a, b=object(), /, c=1, *rest, d, e="x" * 100, **more):  # noqa: B008
    """Have every kind of parameter."""


@functools.wraps(plain)
def wrapped(*args, **keywords):
    """Be called through another function."""


class Made:
    """Be made by calling."""

    def __init__(self, x, *, y=2): ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (plain, "(a, b=..., /, c=..., *rest, d, e=..., **more)"),
        (wrapped, "(a, b=..., /, c=..., *rest, d, e=..., **more)"),
        (Made, "(x, *, y=...)"),
        (lambda: 0, "()"),
        (print, "(*args, sep=..., end=..., file=..., flush=...)"),
    ],
)
def test_parameters_are_told_without_values(function, text):
    params = params_of(function)
    assert params_text(params) == text
    assert host_from_json(host_to_json({"m:f": params, "m:g": None})) == {
        "m:f": params,
        "m:g": None,
    }


def test_what_has_no_signature_has_no_parameters():
    assert params_of(max) is None


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        (CallShape(1, ("d",)), True),
        (CallShape(0, ("a", "d")), False),
        (CallShape(5, ("d", "other")), True),
        (CallShape(1), False),
        (CallShape(2, ("c", "d", "e")), True),
        (CallShape(3, ("c", "d")), False),
    ],
)
def test_calls_that_fit(shape, fits):
    assert takes(params_of(plain), shape) is fits


def test_shapes_read_well():
    assert str(CallShape(0)) == "no arguments"
    assert str(CallShape(2, ("mode",))) == "2 positional, mode="


def test_foreign_data_is_refused():
    twice = [["a", "KEYWORD_ONLY", False], ["a", "KEYWORD_ONLY", False]]
    for data in (
        [7],
        [{}],
        [{"callee": "m:f", "params": [["a", "NONE", False]]}],
        [{"callee": "m:f", "params": [["a b", "VAR_KEYWORD", False]]}],
        [{"callee": "m:f", "params": twice}],
    ):
        with pytest.raises((LookupError, TypeError, ValueError)):
            host_from_json(data)


def test_long_values_are_written_once_and_come_back():
    text, ids = "long text " * 20, list(range(100))
    data = {"a": [text, {"b": text}], "c": ids, "d": [ids, ids[:-1]], "e": ["short", "short"],
            "f": [True] * 40, "g": [1] * 40, "h": [1.0] * 40}  # fmt: skip
    made = split_shared(data)
    assert made["shared"] == [text, ids]
    assert join_shared(made) == data
    assert [type(i) for i in join_shared(made)["f"]] == [bool] * 40
    assert split_shared({"a": text}) == {"shared": [], "data": {"a": text}}
