"""Constraints to languages, on the thread that asks: automata and networks.

`compile_here` takes as long as it takes; `compile_small` gives up after some milliseconds, which
is enough for most constraints and little enough for a thread beside the engine's.
"""

import re

from lmc.errors import ConstraintError
from lmc.ir.automata import ByteDfa, compile_regex
from lmc.ir.calls import Constraint
from lmc.ir.grammar import (
    Network,
    compile_grammar,
    compile_tags_source,
    network_from_bytes,
    network_to_bytes,
)
from lmc.ir.grammar.stored import MAGIC as NETWORK_MAGIC
from lmc.ir.json_schema import compile_source

Language = ByteDfa | Network

MAX_SECONDS = 5.0
"""Processor time of one compilation."""

SMALL_SECONDS = 0.02
"""Processor time that a compilation may take beside the engine's thread."""

_SMALL_SOURCE = {"regex": 300, "json_schema": 800, "ebnf": 800, "tags": 800}
"""Characters above which a constraint is not tried beside the engine's thread."""

_SMALL_COUNT = 64
"""The same for repetition counts of patterns and grammars."""

_COUNT = re.compile(r"(?:\{|,|~|\.\.)\s*([0-9]+)")
_TOO_COMPLEX = "is too complex"


def compile_here(constraint: Constraint, *, max_seconds: float = MAX_SECONDS) -> Language:
    """Return the language of a constraint, compiled on this thread.

    Args:
        constraint: of any kind.
        max_seconds: the most processor time of this thread, about.

    Raises:
        ConstraintError: it is wrong, unsupported or too costly; carries the place.
    """
    source = constraint.source
    match constraint.kind:
        case "regex":
            return compile_regex(source, max_seconds=max_seconds)
        case "json_schema":
            return compile_source(source, max_seconds=max_seconds)
        case "ebnf":
            return compile_grammar(source, max_seconds=max_seconds).network
        case "tags":
            return compile_tags_source(source, max_seconds=max_seconds)
    raise ConstraintError(
        f"constraint of unknown kind {constraint.kind!r}",
        hint="write it as a regex, a JSON schema or a grammar",
    )


def compile_small(constraint: Constraint) -> Language | None:
    """Return the language of a constraint that is compiled at once; None where one is not.

    Raises:
        ConstraintError: it is wrong or unsupported; as from `compile_here`.
    """
    if not _looks_small(constraint):
        return None
    try:
        return compile_here(constraint, max_seconds=SMALL_SECONDS)
    except ConstraintError as error:
        if _TOO_COMPLEX in error.message:
            return None  # perhaps for want of time: whoever has more shall say
        raise


def _looks_small(constraint: Constraint) -> bool:
    source, limit = constraint.source, _SMALL_SOURCE.get(constraint.kind)
    if limit is None:
        return True  # refused at once
    if len(source) > limit:
        return False
    if constraint.kind == "json_schema":
        return "multipleOf" not in source
    return all(len(n) < 4 and int(n) <= _SMALL_COUNT for n in _COUNT.findall(source))


def language_to_bytes(language: Language) -> bytes:
    """Return the versioned, checksummed form of a language."""
    if isinstance(language, Network):
        return network_to_bytes(language)
    return language.to_bytes()


def language_from_bytes(data: bytes | memoryview) -> Language:
    """Read what `language_to_bytes` wrote; the data is kept, and is not to change.

    Raises:
        ArtifactError: the data is no language, is damaged, or is of another version.
    """
    if data[: len(NETWORK_MAGIC)] == NETWORK_MAGIC:
        return network_from_bytes(data)
    return ByteDfa.from_bytes(data)
