"""JSON schemas as automata over the bytes of JSON texts; fails closed.

Importing this package imports numpy; `lmc.ir` itself does not import it.
"""

from lmc.ir.json_schema.compiler import (
    CompiledSchema,
    compile_json_schema,
    compile_schema,
    compile_source,
    schema_source,
)
from lmc.ir.json_schema.document import canonical

__all__ = [
    "CompiledSchema",
    "canonical",
    "compile_json_schema",
    "compile_schema",
    "compile_source",
    "schema_source",
]
