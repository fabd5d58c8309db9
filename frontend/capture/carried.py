"""Handing what a block made out of it: the same names and objects, under new SSA values."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from lmc.frontend.capture.store import Store
from lmc.frontend.capture.values import (
    Abstract,
    Broken,
    Generator,
    Iterable,
    Numbered,
    Pieces,
    Remaining,
)
from lmc.ir.core import Value

Rename = Callable[[Value], Value]

_HIDING = (Generator, Iterable, Numbered, Remaining)
"""What holds values where they cannot be replaced."""


def rename_store(store: Store, own: set[Value], entry: Store) -> dict[Value, Value]:
    """Replace the values among `own` throughout a store; return what stands for each.

    `entry` is the store at the begin of the block: what it had is as it was.
    """
    made: dict[Value, Value] = {}

    def rename(value: Value) -> Value:
        if value not in own:
            return value
        if value not in made:
            made[value] = Value(value.type, value.hint)
        return made[value]

    for key, bound in store.names.items():
        if isinstance(bound, _HIDING) and entry.names.get(key) is not bound:
            bound = Broken("an iterator was made in a try", "make it a list there")
        store.names[key] = _renamed(bound, rename)
    for cell, value in store.contents.items():
        store.contents[cell] = rename(value)
    return made


def _renamed(part: Any, rename: Rename) -> Any:
    """Return a part of what a name is bound to with its values replaced."""
    match part:
        case Value():
            return rename(part)
        case Pieces():
            return part.with_values(map(rename, part.values()))
        case tuple():
            return tuple(_renamed(item, rename) for item in part)
        case dict():
            return {key: _renamed(item, rename) for key, item in part.items()}
        case Abstract():
            changed = {}
            for field in fields(part):  # type: ignore[arg-type]
                old = getattr(part, field.name)
                new = _renamed(old, rename)
                if new is not old and new != old:
                    changed[field.name] = new
            return replace(part, **changed) if changed else part
        case _:
            return part
