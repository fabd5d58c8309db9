"""What a JSON schema means, type by type, closed under and, or and not.

A `Shape` is a set of JSON values. What lies inside arrays and objects is a `Conj`: a list of
atoms that all hold, looked into only when it is needed, so recursive schemas are finite here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.json_schema import numbers as num
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.numbers import NumberSet
from lmc.ir.json_schema.textset import TextSet

MAX_ALTERNATIVES = 256

Atom = tuple[str, object]
"""("schema", pointer), ("value", JSON text), ("not", Conj) or ("never", None)."""
Conj = tuple[Atom, ...]
ANY: Conj = ()
NEVER: Conj = (("never", None),)
_BOOLS = frozenset((False, True))


def both(a: Conj, b: Conj) -> Conj:
    """Return the conjunction of two conjunctions."""
    return tuple(dict.fromkeys((*a, *b)))


def negated(conj: Conj) -> Conj:
    """Return the conjunction that holds where `conj` does not."""
    if not conj:
        return NEVER
    if conj == NEVER:
        return ANY
    if len(conj) == 1 and conj[0][0] == "not":
        return conj[0][1]  # type: ignore[return-value]
    return (("not", conj),)


@dataclass(frozen=True, slots=True)
class Contains:
    """`low` to `high` items from index `first` on fulfil `conj`."""

    conj: Conj
    low: int
    high: int | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """Arrays: the first items by `prefix`, the others by `rest`, `low` to `high` items."""

    prefix: tuple[Conj, ...] = ()
    rest: Conj = ANY
    low: int = 0
    high: int | None = None
    contains: tuple[Contains, ...] = ()
    is_unique: bool = False
    where: str = ""

    def item(self, index: int) -> Conj:
        """Return what the item at an index fulfils."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True, slots=True)
class Layer:
    """What one schema says of properties that are not listed.

    A name that matches patterns fulfils each of those; another one fulfils `default`.
    `is_told` is False where the schema lists properties and leaves the others open.
    """

    patterns: tuple[tuple[TextSet, Conj], ...] = ()
    default: Conj = ANY
    is_told: bool = True

    def of(self, name: str) -> Conj:
        """Return what the value of an unlisted name fulfils."""
        matched = [conj for names, conj in self.patterns if name in names]
        if not matched:
            return self.default
        found: Conj = ANY
        for conj in matched:
            found = both(found, conj)
        return found


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """Objects: listed properties in their order, others by layers, `low` to `high` of them.

    Every pair of `exists` asks for a property, listed or not, with a name of that set and a
    value of that kind. `names` is what every name must be in; None for all names.
    """

    properties: dict[str, Conj] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    layers: tuple[Layer, ...] = ()
    names: TextSet | None = None
    low: int = 0
    high: int | None = None
    exists: tuple[tuple[TextSet, Conj], ...] = ()
    where: str = ""

    def value(self, name: str) -> Conj:
        """Return what the value of a property fulfils."""
        if self.names is not None and name not in self.names:
            return NEVER
        if name in self.properties:
            return self.properties[name]
        found: Conj = ANY
        for layer in self.layers:
            found = both(found, layer.of(name))
        return found


@dataclass(frozen=True, slots=True)
class Shape:
    """A set of JSON values, by type; arrays and objects are unions of alternatives."""

    null: bool
    bools: frozenset[bool]
    numbers: NumberSet
    strings: TextSet
    arrays: tuple[ArrayShape, ...]
    objects: tuple[ObjectShape, ...]


def anything() -> Shape:
    """Return the set of all JSON values."""
    return Shape(
        True, _BOOLS, num.every_number(), txt.everything(), (ArrayShape(),), (ObjectShape(),)
    )


def nothing() -> Shape:
    """Return the empty set."""
    return Shape(False, frozenset(), num.no_number(), txt.nothing(), (), ())


def intersect(a: Shape, b: Shape, budget: Budget) -> Shape:
    """Return the values that are in both sets."""
    return Shape(
        a.null and b.null,
        a.bools & b.bools,
        num.intersect(a.numbers, b.numbers, budget),
        txt.intersect(a.strings, b.strings, budget),
        _pairs(a.arrays, b.arrays, _both_arrays, budget),
        _pairs(a.objects, b.objects, lambda x, y: _both_objects(x, y, budget), budget),
    )


def unite(a: Shape, b: Shape, budget: Budget) -> Shape:
    """Return the values that are in either set."""
    return Shape(
        a.null or b.null,
        a.bools | b.bools,
        num.unite(a.numbers, b.numbers, budget),
        txt.unite(a.strings, b.strings, budget),
        _checked((*a.arrays, *b.arrays)),
        _checked((*a.objects, *b.objects)),
    )


def complement(a: Shape, budget: Budget) -> Shape:
    """Return all other JSON values.

    Raises:
        ConstraintError: some part has no complement that can be followed.
    """
    arrays: tuple[ArrayShape, ...] = (ArrayShape(),)
    for array in a.arrays:
        arrays = _pairs(arrays, tuple(_other_arrays(array)), _both_arrays, budget)
    objects: tuple[ObjectShape, ...] = (ObjectShape(),)
    for made in a.objects:
        others = tuple(_other_objects(made, budget))
        objects = _pairs(objects, others, lambda x, y: _both_objects(x, y, budget), budget)
    return Shape(
        not a.null,
        _BOOLS - a.bools,
        num.complement(a.numbers, budget),
        txt.subtract(txt.everything(), a.strings, budget),
        arrays,
        objects,
    )


def _checked(alternatives: tuple) -> tuple:  # type: ignore[type-arg]
    if len(alternatives) > MAX_ALTERNATIVES:
        raise ConstraintError(
            f"schema is too complex: a value has more than {MAX_ALTERNATIVES} alternatives",
            hint="use fewer options in 'anyOf' and 'oneOf', above all combined ones",
        )
    return alternatives


def _pairs(a, b, join, budget: Budget):  # type: ignore[no-untyped-def]
    _checked((None,) * (len(a) * len(b)))
    budget.check_time()
    return tuple(made for x in a for y in b if (made := join(x, y)) is not None)


def _both_arrays(a: ArrayShape, b: ArrayShape) -> ArrayShape | None:
    low = max(a.low, b.low)
    high = b.high if a.high is None else a.high if b.high is None else min(a.high, b.high)
    length = max(len(a.prefix), len(b.prefix))
    if high is not None and low > high:
        return None
    return ArrayShape(
        tuple(both(a.item(index), b.item(index)) for index in range(length)),
        both(a.rest, b.rest),
        low,
        high,
        tuple(dict.fromkeys((*a.contains, *b.contains))),
        a.is_unique or b.is_unique,
        a.where or b.where,
    )


def _both_objects(a: ObjectShape, b: ObjectShape, budget: Budget) -> ObjectShape | None:
    low = max(a.low, b.low)
    high = b.high if a.high is None else a.high if b.high is None else min(a.high, b.high)
    if high is not None and low > high:
        return None
    names = a.names if b.names is None else b.names
    if a.names is not None and b.names is not None:
        names = txt.intersect(a.names, b.names, budget)
    listed = tuple(dict.fromkeys((*a.properties, *b.properties)))
    made = ObjectShape(
        {name: both(a.value(name), b.value(name)) for name in listed},
        tuple(dict.fromkeys((*a.required, *b.required))),
        tuple(dict.fromkeys((*a.layers, *b.layers))),
        names,
        low,
        high,
        (*a.exists, *b.exists),
        a.where or b.where,
    )
    if any(made.value(name) == NEVER for name in made.required):
        return None
    return made


def _other_arrays(a: ArrayShape) -> Iterator[ArrayShape]:
    if a.is_unique:
        raise ConstraintError(
            "the complement of 'uniqueItems' cannot be followed",
            hint="take it out of 'not', 'if' and the options of 'oneOf'",
        )
    where = a.where
    if a.low:
        yield ArrayShape(high=a.low - 1, where=where)
    if a.high is not None:
        yield ArrayShape(low=a.high + 1, where=where)
    for index, conj in enumerate(a.prefix):
        if conj:
            prefix = (*(ANY,) * index, negated(conj))
            yield ArrayShape(prefix, low=index + 1, where=where)
    first = len(a.prefix)
    if a.rest == NEVER:
        yield ArrayShape(low=first + 1, where=where)
    elif a.rest:
        yield ArrayShape(contains=(Contains(negated(a.rest), 1, None, first),), where=where)
    for part in a.contains:
        if part.low:
            yield ArrayShape(contains=(replace(part, low=0, high=part.low - 1),), where=where)
        if part.high is not None:
            yield ArrayShape(contains=(replace(part, low=part.high + 1, high=None),), where=where)


def _other_objects(a: ObjectShape, budget: Budget) -> Iterator[ObjectShape]:
    where = a.where
    for name in a.required:
        yield ObjectShape({name: NEVER}, where=where)
    for name, conj in a.properties.items():
        if conj:
            yield ObjectShape({name: negated(conj)}, (name,), where=where)
    if a.low:
        yield ObjectShape(high=a.low - 1, where=where)
    if a.high is not None:
        yield ObjectShape(low=a.high + 1, where=where)
    others = txt.subtract(txt.everything(), txt.of_words(a.properties), budget)
    for layer in a.layers:
        rest = others
        for names, conj in layer.patterns:
            if conj:
                here = txt.intersect(names, others, budget)
                yield ObjectShape(exists=((here, negated(conj)),), where=where)
            if layer.default:
                rest = txt.subtract(rest, names, budget)
        if layer.default:
            yield ObjectShape(exists=((rest, negated(layer.default)),), where=where)
    if a.names is not None:
        wrong = txt.subtract(txt.everything(), a.names, budget)
        yield ObjectShape(exists=((wrong, ANY),), where=where)
    for names, conj in a.exists:
        yield _without(names, conj, where)


def _without(names: TextSet, conj: Conj, where: str) -> ObjectShape:
    """Return the objects in which no name of a set has a value that fulfils `conj`."""
    return ObjectShape(layers=(Layer(((names, negated(conj)),)),), where=where)
