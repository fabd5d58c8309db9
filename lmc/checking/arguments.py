"""Arguments to check a program with, drawn from its signature by hypothesis."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lmc.checking.answers import MANNERS, Scenario, Words
from lmc.errors import UsageError
from lmc.frontend.dsl import Image

TEXTS = (
    "", "a", " ", "\n", "two words", "Ada", "naïve 🙂", "<|im_end|>", "12", "x\n\ny ", "日本語",
    " leading", "trailing ", "don't", '"quoted"', "e\u0301",
)  # fmt: skip
"""Texts whose borders merge, whose characters are long, or that look like something else."""

PICTURES = (b"", b"\x89PNG\r\n\x1a\n one", b"\xff\xd8\xff another")
"""Contents of images: what they show does not matter to the oracle, only whether they differ."""

MAX_ITEMS = 4


def require_hypothesis() -> Any:
    """Return hypothesis; raises UsageError, naming the remedy, where it is not installed."""
    try:
        from importlib import import_module

        import_module("hypothesis.strategies")
        return import_module("hypothesis")
    except ImportError as error:
        raise UsageError(
            "checking a program needs the package 'hypothesis', which is not installed",
            hint="pip install hypothesis",
        ) from error


def arguments_strategy(
    function: Callable[..., Any], given: Mapping[str, Any] | None, words: Words
) -> Any:
    """Return a strategy of the arguments of a program's function, whose first is the state.

    Args:
        function: the Python function.
        given: strategies for some of its arguments by name.
        words: what the program compares values with; drawn often.

    Raises:
        UsageError: an argument is annotated with what no values are known for, or `given`
            names an argument that there is not.
    """
    st = require_hypothesis().strategies
    parameters = list(inspect.signature(function).parameters.values())[1:]
    hints = _hints(function)
    chosen = dict(given or {})
    for name in chosen:
        if name not in [parameter.name for parameter in parameters]:
            known = ", ".join(parameter.name for parameter in parameters) or "none"
            raise UsageError(f"there is no argument {name!r}", hint=f"the program has: {known}")
    return st.fixed_dictionaries(
        {
            parameter.name: chosen[parameter.name]
            if parameter.name in chosen
            else _strategy_of(parameter, hints.get(parameter.name), words)
            for parameter in parameters
        }
    )


def scenarios() -> Any:
    """Return a strategy of scenarios; the simplest is an unscripted oracle of seed 0."""
    st = require_hypothesis().strategies
    return st.builds(Scenario, st.integers(0, 2**16 - 1), st.sampled_from(MANNERS))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:
        # Annotations may name what is not there at run time; then they stay texts.
        return dict(getattr(function, "__annotations__", {}))


def _strategy_of(parameter: inspect.Parameter, hint: Any, words: Words) -> Any:
    st = require_hypothesis().strategies
    default = parameter.default
    has_default = default is not inspect.Parameter.empty
    if hint is None:
        hint = default.__class__ if has_default and default is not None else str
    found = _of_type(hint, words, parameter.name)
    # The default comes first, so that a difference shrinks towards it.
    return st.one_of(st.just(default), found) if has_default else found


def _of_type(hint: Any, words: Words, name: str) -> Any:
    st = require_hypothesis().strategies
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, types.UnionType):
        return st.one_of(*(_of_type(option, words, name) for option in inner))
    if origin is Image:
        return st.sampled_from(PICTURES)
    scalar = _scalar(origin, words)
    if scalar is not None:
        return scalar
    if origin in (list, Sequence):
        return st.lists(_item(inner, words, name), max_size=MAX_ITEMS)
    if origin in (dict, Mapping):
        keys = _of_type(inner[0] if inner else str, words, name)
        return st.dictionaries(keys, _item(inner[1:], words, name), max_size=MAX_ITEMS)
    if origin is tuple:
        if inner and inner[-1] is not Ellipsis:
            return st.tuples(*(_of_type(item, words, name) for item in inner))
        return st.lists(_item(inner, words, name), max_size=MAX_ITEMS).map(tuple)
    if origin is set:
        return st.sets(_item(inner, words, name), max_size=MAX_ITEMS)
    raise UsageError(
        f"no values are known for the argument '{name}' of type {hint}",
        hint=f"give some: strategies={{{name!r}: hypothesis.strategies.sampled_from([...])}}",
    )


def _item(inner: Sequence[Any], words: Words, name: str) -> Any:
    return _of_type(inner[0] if inner else str, words, name)


def _scalar(kind: Any, words: Words) -> Any:
    st = require_hypothesis().strategies
    if kind is str:
        return st.one_of(st.sampled_from((*TEXTS, *words.texts)), st.text(max_size=12))
    if kind is bool:
        return st.booleans()
    if kind is int:
        near = [number + step for number in words.numbers for step in (0, -1, 1)]
        small = st.integers(-2, 6)
        return st.one_of(small, st.sampled_from(near)) if near else small
    if kind is float:
        return st.one_of(
            st.sampled_from((0.0, 0.5, -1.0, 2.0)), st.floats(-1e6, 1e6, allow_nan=False)
        )
    if kind in (None, type(None)):
        return st.none()
    if kind in (Any, object):
        return st.one_of(st.sampled_from(TEXTS), st.integers(-2, 6), st.booleans(), st.none())
    return None
