"""Languages: what constraints compile to before any tokenizer, and where they are compiled.

`language_of` is for all who need one. Importing this package imports numpy; `lmc.ir` itself does
not import it.
"""

from lmc.ir.languages.compiling import Language, language_from_bytes, language_to_bytes
from lmc.ir.languages.finding import (
    DEFAULT_SECONDS,
    forget_languages,
    language_of,
    steps_of,
)
from lmc.ir.languages.process import CompilationLost

__all__ = [
    "DEFAULT_SECONDS",
    "CompilationLost",
    "Language",
    "forget_languages",
    "language_from_bytes",
    "language_of",
    "language_to_bytes",
    "steps_of",
]
