"""JSON schemas to byte automata: the way through the parts of this package."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.dfa import ByteDfa
from lmc.ir.automata.graph import to_dfa
from lmc.ir.grammar.network import Network
from lmc.ir.json_schema.document import Document, canonical, parse
from lmc.ir.json_schema.lowering import Limits, Lowering
from lmc.ir.json_schema.nesting import lower_network
from lmc.ir.json_schema.reader import Reader

DEFAULT_MAX_STATES = 32_000
DEFAULT_MAX_SECONDS = 5.0
LADDER = (
    Limits(),
    Limits(depth=8, free_depth=2, length=256, items=32),
    Limits(depth=3, free_depth=1, length=128, items=16),
    Limits(depth=1, free_depth=1, length=64, items=8),
)
"""Limits to try one after another: the first ones under which the states suffice are used."""
SEPARATORS = (", ", ": ")
COMPACT = (",", ":")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSchema:
    """What follows JSON texts, and what the schema says that nothing follows from.

    It is an automaton, or, where the schema holds itself, a network, in which it stands inside
    itself as often as it may.
    """

    language: ByteDfa | Network
    warnings: tuple[str, ...]


def compile_json_schema(
    schema: dict[str, object] | str | bool,
    *,
    separators: tuple[str, str] = SEPARATORS,
    open_objects: bool = False,
    max_depth: int | None = None,
    max_states: int = DEFAULT_MAX_STATES,
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> ByteDfa:
    """Return the automaton of JSON texts whose values are valid under a schema.

    A schema that holds itself is unrolled (`compile_schema` does better).

    Every text of the automaton is valid JSON and valid under the schema, which is read as
    draft 2020-12, or as draft 7 and below where its `$schema` says so. The texts are in one
    layout: `separators` between items and after names, listed properties in the order of
    the schema, others after them. What else is left out of the valid texts is told in
    docs/constraints.md.

    Args:
        schema: as a dict or as JSON text.
        separators: between items, and between a name and its value.
        open_objects: let objects whose schema lists properties, and says nothing of others,
            have others (the standard's meaning).
        max_depth: how often a recursive schema may stand inside itself; None lets 8, 3 or 1
            be chosen, as far as `max_states` suffices.
        max_states: the most states of the automaton.
        max_seconds: the most processor time of this thread.

    Raises:
        ConstraintError: the schema is wrong, says something that cannot be followed, has no
            valid value, or is too costly; `.pointer` is the place, where there is one.
    """
    budget = Budget(max_states=max_states, max_seconds=max_seconds, subject="schema")
    found = _compile_within(schema, budget, separators, open_objects, max_depth, False).language
    assert isinstance(found, ByteDfa), "only networks were asked for otherwise"
    return found


def compile_schema(
    schema: dict[str, object] | str | bool,
    *,
    separators: tuple[str, str] = SEPARATORS,
    open_objects: bool = False,
    max_depth: int | None = None,
    max_states: int = DEFAULT_MAX_STATES,
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> CompiledSchema:
    """Return what follows the texts of a schema, with the warnings.

    Args and errors are those of `compile_json_schema`. A schema that holds itself becomes a
    network, exactly, unless `max_depth` is given or the network is too large: then it is
    unrolled.
    """
    budget = Budget(max_states=max_states, max_seconds=max_seconds, subject="schema")
    nests = max_depth is None
    return _compile_within(schema, budget, separators, open_objects, max_depth, nests)


def _compile_within(
    schema: dict[str, object] | str | bool,
    budget: Budget,
    separators: tuple[str, str],
    open_objects: bool,
    max_depth: int | None,
    nests: bool,
) -> CompiledSchema:
    _check_separators(separators)
    ladder = LADDER if max_depth is None else [replace(LADDER[0], depth=max_depth)]
    try:
        document = Document(schema if isinstance(schema, str) else canonical(schema))
        if not nests:
            return _first_that_fits(document, ladder, budget, separators, open_objects, False)
        try:
            return _first_that_fits(document, ladder, budget, separators, open_objects, True)
        except ConstraintError as error:
            budget.check_time()
            if not budget.is_exceeded(error):
                raise
            return _first_that_fits(document, ladder, budget, separators, open_objects, False)
    except ConstraintError as error:
        if error.pointer is None:
            error.pointer = ""  # no single place is to blame: all of it
        raise


def _first_that_fits(
    document: Document,
    ladder: Sequence[Limits],
    budget: Budget,
    separators: tuple[str, str],
    open_objects: bool,
    nests: bool,
) -> CompiledSchema:
    """Compile under the first limits under which the states suffice."""
    for step, limits in enumerate(ladder):
        try:
            return _compile(document, limits, budget, separators, open_objects, nests)
        except ConstraintError as error:
            budget.check_time()
            if not budget.is_exceeded(error) or step + 1 == len(ladder):
                raise
    raise AssertionError("the ladder has steps")


def _compile(
    document: Document,
    limits: Limits,
    budget: Budget,
    separators: tuple[str, str],
    open_objects: bool,
    nests: bool,
) -> CompiledSchema:
    reader = Reader(document, budget, limits.length)
    # Where nothing holds itself, once is as deep as it goes.
    flat = replace(limits, depth=1) if nests else limits
    low = Lowering(reader, budget, flat, separators, not open_objects)
    found: ByteDfa | Network | None
    try:
        root = reader.conj(document.root, "")
        start, end = low.graph.node(), low.graph.node()
        low.value(root, start, end)
        if nests and low.cuts:
            found = lower_network(reader, budget, flat, separators, not open_objects, root)
        else:
            found = to_dfa(low.graph, start, end, budget)
    except RecursionError:
        raise ConstraintError(
            f"schema is too complex: too many levels within max_depth={limits.depth}",
            hint="use fewer levels, or a smaller max_depth",
        ) from None
    except ConstraintError as error:
        if budget.is_exceeded(error) and low.is_recursive:
            error.hint = f"give a smaller max_depth (now {limits.depth})"
        raise
    if found is None:
        reason = f" within max_depth={limits.depth}" if low.was_cut and not nests else ""
        raise ConstraintError(
            f"schema has no valid value{reason}", hint="look for contradicting keywords"
        )
    return CompiledSchema(found, tuple(dict.fromkeys(reader.warnings)))


def _check_separators(separators: tuple[str, str]) -> None:
    if not isinstance(separators, (tuple, list)) or len(separators) != 2:  # type: ignore[redundant-expr]
        raise ConstraintError(
            f"separators {separators!r} are no pair of texts", hint='use (", ", ": ") or (",", ":")'
        )
    for part, mark in zip(separators, ",:", strict=True):
        if part.strip(" \t\r\n") != mark:
            raise ConstraintError(
                f"separator {part!r} is not {mark!r} with white space",
                hint='use (", ", ": ") or (",", ":")',
            )


def schema_source(
    schema: dict[str, object] | str | bool,
    *,
    separators: tuple[str, str] = SEPARATORS,
    open_objects: bool = False,
    max_depth: int | None = None,
) -> str:
    """Return a schema with its options as the source text of a constraint.

    Raises:
        ConstraintError: the schema is not JSON, too long or nested too deep.
    """
    _check_separators(separators)
    text = canonical(schema)
    options: dict[str, object] = {}
    if separators != SEPARATORS:
        options["separators"] = list(separators)
    if open_objects:
        options["open_objects"] = True
    if max_depth is not None:
        options["max_depth"] = max_depth
    # A schema is never a list, so the two forms cannot be taken for each other.
    return f"[{text},{json.dumps(options, separators=(',', ':'))}]" if options else text


def compile_source(source: str, *, max_seconds: float = DEFAULT_MAX_SECONDS) -> ByteDfa | Network:
    """Return what follows the texts of what `schema_source` gave; see `compile_schema`."""
    if not source.startswith("["):
        return compile_schema(source, max_seconds=max_seconds).language
    schema, options = parse(source)
    if "separators" in options:
        options["separators"] = tuple(options["separators"])
    return compile_schema(canonical(schema), max_seconds=max_seconds, **options).language
