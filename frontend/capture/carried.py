"""Handing what a block made out of it: the same names and objects, under new SSA values."""

from collections.abc import Callable
from dataclasses import replace

from lmc.frontend.capture.store import Store
from lmc.frontend.capture.values import (
    Abstract,
    Called,
    Closure,
    Element,
    Method,
    Pieces,
    Plain,
    Ref,
    Tuple,
)
from lmc.ir.core import Value

Rename = Callable[[Value], Value]


def rename_store(store: Store, own: set[Value]) -> dict[Value, Value]:
    """Replace the values among `own` throughout a store; return what stands for each."""
    made: dict[Value, Value] = {}

    def rename(value: Value) -> Value:
        if value not in own:
            return value
        if value not in made:
            made[value] = Value(value.type, value.hint)
        return made[value]

    for key, bound in store.names.items():
        store.names[key] = _renamed(bound, rename)
    for cell, value in store.contents.items():
        store.contents[cell] = rename(value)
    return made


def _renamed(abstract: Abstract, rename: Rename) -> Abstract:
    match abstract:
        case Plain(value):
            return Plain(rename(value))
        case Element(container, index, kind):
            inner, at = _renamed(container, rename), _renamed(index, rename)
            assert isinstance(inner, (Ref, Element))
            return Element(inner, at, kind)  # type: ignore[arg-type]
        case Tuple(items):
            return Tuple(tuple(_renamed(item, rename) for item in items))
        case Called(state, value):
            return Called(state, _renamed(value, rename))
        case Method(receiver):
            return replace(abstract, receiver=_renamed(receiver, rename))
        case Closure(defaults=defaults, keyword_defaults=named):
            return replace(
                abstract,
                defaults=tuple(_renamed(item, rename) for item in defaults),
                keyword_defaults=tuple(
                    None if item is None else _renamed(item, rename) for item in named
                ),
            )
        case Pieces():
            return abstract.with_values(map(rename, abstract.values()))
        case _:
            return abstract
