"""Regular expressions as deterministic automata over UTF-8 bytes.

Importing this package imports numpy; `lmc.ir` itself does not import it.
"""

from lmc.ir.automata.compiler import compile_regex, context_needed
from lmc.ir.automata.dfa import DEAD, ByteDfa

__all__ = ["DEAD", "ByteDfa", "compile_regex", "context_needed"]
