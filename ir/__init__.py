"""The language between all stages: modules, ops and values, their text form and meaning.

Everything light is here; what needs a third party or is rarely wanted loads at first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Block, Function, Module, Op, Param, Value, clone_module
from lmc.ir.location import Location
from lmc.ir.printer import format_attr, print_function, print_module, print_op

if TYPE_CHECKING:
    from lmc.ir.graph import to_dot, to_mermaid, to_networkx
    from lmc.ir.interpreter import Interpretation, interpret
    from lmc.ir.parser import parse_module, read_module
    from lmc.ir.verifier import find_failures, verify

_LAZY = {
    "Interpretation": "lmc.ir.interpreter",
    "find_failures": "lmc.ir.verifier",
    "interpret": "lmc.ir.interpreter",
    "parse_module": "lmc.ir.parser",
    "read_module": "lmc.ir.parser",
    "to_dot": "lmc.ir.graph",
    "to_mermaid": "lmc.ir.graph",
    "to_networkx": "lmc.ir.graph",
    "verify": "lmc.ir.verifier",
}

__all__ = [
    "Block", "Builder", "Function", "Interpretation", "Location", "Module", "Op", "Param", "Value",
    "clone_module", "find_failures", "format_attr", "interpret", "new_function", "parse_module",
    "print_function", "print_module", "print_op", "read_module", "to_dot", "to_mermaid",
    "to_networkx", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load the heavier names on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'lmc.ir' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
