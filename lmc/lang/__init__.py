"""Module names of the reference frontend, so that imports from them need one word changed."""

from importlib import import_module
from typing import Any

_MODULES = ("api", "choices", "global_config", "ir")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'lmc.lang' has no attribute {name!r}")
    return import_module(f"lmc.lang.{name}")
