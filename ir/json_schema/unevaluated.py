"""`unevaluatedProperties` and `unevaluatedItems`: what no other keyword has looked at.

Which properties and items have been looked at depends on the subschemas that a value fulfils:
each way to fulfil them is a case, with what the schemas of that way look at. A case need not
say what is not fulfilled: a value that fulfils more has more looked at, so it is in the case
of more as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from lmc.ir.json_schema import shapes as sh
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.document import escape, refuse
from lmc.ir.json_schema.patterns import pattern_set
from lmc.ir.json_schema.shapes import ANY, ArrayShape, Conj, Layer, ObjectShape, Shape
from lmc.ir.json_schema.textset import TextSet

if TYPE_CHECKING:
    from lmc.ir.json_schema.reader import Reader

WORDS = ("unevaluatedProperties", "unevaluatedItems")
MAX_OPTIONS = 6
"""Options of one `anyOf` that look at something; each set of them is a case."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What has been looked at.

    Args:
        names: names of properties, as words and as sets.
        has_all_names: all properties.
        items: that many items at the start; None for all.
        containing: items that fulfil one of these.
    """

    words: tuple[str, ...] = ()
    names: tuple[TextSet, ...] = ()
    has_all_names: bool = False
    items: int | None = 0
    containing: tuple[Conj, ...] = ()

    def __or__(self, other: "Seen") -> "Seen":
        both = None if None in (self.items, other.items) else max(self.items or 0, other.items or 0)
        return Seen(
            (*self.words, *other.words),
            (*self.names, *other.names),
            self.has_all_names or other.has_all_names,
            both,
            (*self.containing, *other.containing),
        )


Case = tuple[Shape, Seen]


def lower_unevaluated(reader: "Reader", schema: dict[str, Any], pointer: str) -> Iterator[Shape]:
    """Yield what the two keywords of a schema allow.

    Raises:
        ConstraintError: they depend on too many cases.
    """
    for word in WORDS:
        if word not in schema:
            continue
        others = reader.conj(schema[word], f"{pointer}/{word}")
        made = sh.nothing()
        for shape, seen in _cases(reader, schema, pointer, frozenset([pointer]), word):
            part = sh.intersect(shape, _rest(word, seen, others), reader.budget)
            made = sh.unite(made, reader.possible(part), reader.budget)
        yield made


def _rest(word: str, seen: Seen, others: Conj) -> Shape:
    """Return the values whose properties, or items, that have not been seen fulfil `others`."""
    if word == "unevaluatedItems":
        if seen.items is None:
            return sh.anything()
        prefix = (ANY,) * seen.items
        array = ArrayShape(prefix, _either((others, *seen.containing)))
        return replace(sh.anything(), arrays=(array,))
    looked_at = tuple((names, ANY) for names in (txt.of_words(seen.words), *seen.names))
    layer = Layer((), ANY) if seen.has_all_names else Layer(looked_at, others)
    return replace(sh.anything(), objects=(ObjectShape(layers=(layer,)),))


def _either(options: Sequence[Conj]) -> Conj:
    """Return the conjunction that holds where one of some does."""
    if ANY in options:
        return ANY
    failing: Conj = ANY
    for option in options:
        failing = sh.both(failing, sh.negated(option))
    return options[0] if len(options) == 1 else sh.negated(failing)


def _cases(
    reader: "Reader", schema: Any, pointer: str, inside: frozenset[str], without: str = ""
) -> list[Case]:
    """Return the cases of a schema's values; `without` is a keyword that is left aside."""
    if not isinstance(schema, dict):
        return [(sh.anything(), Seen())]
    found = [(sh.anything(), _own(reader, schema, pointer, without))]
    for alternatives in _applied(reader, schema, pointer, inside):
        found = [
            (reader.possible(sh.intersect(shape, more, reader.budget)), seen | also)
            for shape, seen in found
            for more, also in alternatives
        ]
        found = [case for case in found if not reader.shape_is_empty(case[0])]
        if len(found) > sh.MAX_ALTERNATIVES:
            raise refuse(pointer, "what is unevaluated has too many cases", "list the properties")
    return found


def _own(reader: "Reader", schema: dict[str, Any], pointer: str, without: str) -> Seen:
    """Return what the keywords of a schema itself look at."""
    sets = tuple(
        reader.placed(f"{pointer}/patternProperties/{escape(source)}",
                      lambda source=source: pattern_set(source, reader.budget))
        for source in schema.get("patternProperties", {})
    )  # fmt: skip
    prefix = schema.get("prefixItems", [])
    items = schema.get("items")
    if isinstance(items, list):
        prefix, items = items, schema.get("additionalItems")
    inner = [word for word in WORDS if word in schema and word != without]
    has_all_items = items is not None or "unevaluatedItems" in inner
    contains = schema.get("contains")
    return Seen(
        tuple(schema.get("properties", {})),
        sets,
        "additionalProperties" in schema or "unevaluatedProperties" in inner,
        None if has_all_items else len(prefix),
        () if contains is None else (reader.conj(contains, f"{pointer}/contains"),),
    )  # fmt: skip


def _applied(
    reader: "Reader", schema: dict[str, Any], pointer: str, inside: frozenset[str]
) -> Iterator[list[Case]]:
    """Yield the alternatives of each keyword that applies schemas to the same value."""
    for word, resolve in reader.document.references:
        if word in schema:
            yield _within(reader, resolve(schema[word], pointer), inside)
    for index in range(len(schema.get("allOf", ()))):
        yield _within(reader, f"{pointer}/allOf/{index}", inside)
    if "anyOf" in schema:
        yield _any_of(reader, len(schema["anyOf"]), pointer, inside)
    if "oneOf" in schema:
        # Exactly one is fulfilled: `oneOf` itself says so.
        options = range(len(schema["oneOf"]))
        yield [c for i in options for c in _within(reader, f"{pointer}/oneOf/{i}", inside)]
    if "if" in schema:
        yield list(_condition(reader, schema, pointer, inside))
    for word in ("dependentSchemas", "dependencies"):
        for name, part in schema.get(word, {}).items():
            if isinstance(part, (dict, bool)):
                where = f"{pointer}/{word}/{escape(name)}"
                then = _within(reader, where, inside)
                needed = reader.needs((name,))
                held = [(sh.intersect(s, needed, reader.budget), seen) for s, seen in then]
                yield [(sh.anything(), Seen()), *held]


def _within(reader: "Reader", pointer: str, inside: frozenset[str]) -> list[Case]:
    """Return the cases of a subschema that is fulfilled."""
    if pointer in inside:
        raise refuse(pointer, "the schema refers to itself", "let it refer from inside")
    schema = reader.document.at(pointer)
    shape = reader.shape(reader.conj(schema, pointer))
    return [
        (sh.intersect(shape, case, reader.budget), seen)
        for case, seen in _cases(reader, schema, pointer, inside | {pointer})
    ]


def _any_of(reader: "Reader", count: int, pointer: str, inside: frozenset[str]) -> list[Case]:
    """Return the cases of every set of options; that one is fulfilled, `anyOf` itself says."""
    options = [_within(reader, f"{pointer}/anyOf/{i}", inside) for i in range(count)]
    telling = [cases for cases in options if any(seen != Seen() for _, seen in cases)]
    if len(telling) > MAX_OPTIONS:
        raise refuse(
            f"{pointer}/anyOf", f"more than {MAX_OPTIONS} options decide what is unevaluated",
            "use 'oneOf', or list the properties",
        )  # fmt: skip
    made: list[Case] = []
    for size in range(len(telling) + 1):
        for chosen in combinations(telling, size):
            cases: list[Case] = [(sh.anything(), Seen())]
            for option in chosen:
                cases = [
                    (reader.possible(sh.intersect(a, b, reader.budget)), seen | more)
                    for a, seen in cases
                    for b, more in option
                ]
                cases = [case for case in cases if not reader.shape_is_empty(case[0])]
            made += cases
    return made


def _condition(
    reader: "Reader", schema: dict[str, Any], pointer: str, inside: frozenset[str]
) -> Iterator[Case]:
    for shape, seen in _within(reader, f"{pointer}/if", inside):
        if "then" not in schema:
            yield shape, seen
            continue
        for more, also in _within(reader, f"{pointer}/then", inside):
            yield sh.intersect(shape, more, reader.budget), seen | also
    if "else" not in schema:
        yield sh.anything(), Seen()
        return
    fails = reader.shape(sh.negated(reader.conj(schema["if"], f"{pointer}/if")))
    for more, also in _within(reader, f"{pointer}/else", inside):
        yield sh.intersect(fails, more, reader.budget), also
