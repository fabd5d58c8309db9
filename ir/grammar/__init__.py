"""Context-free grammars: notation, networks of automata, and following them.

Importing this package imports numpy; `lmc.ir` itself does not import it.
"""

from lmc.ir.grammar.compiler import CompiledGrammar, compile_grammar
from lmc.ir.grammar.extent import Extent
from lmc.ir.grammar.machine import Machine, Reading
from lmc.ir.grammar.network import Network, NetworkBuilder
from lmc.ir.grammar.skeleton import network_skeleton
from lmc.ir.grammar.steps import MachineSteps
from lmc.ir.grammar.stored import network_from_bytes, network_to_bytes
from lmc.ir.grammar.tags import compile_tags_source, tags_source

__all__ = [
    "CompiledGrammar",
    "Extent",
    "Machine",
    "MachineSteps",
    "Network",
    "NetworkBuilder",
    "Reading",
    "compile_grammar",
    "compile_tags_source",
    "network_from_bytes",
    "network_skeleton",
    "network_to_bytes",
    "tags_source",
]
