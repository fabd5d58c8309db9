"""Keywords to shapes: what a schema says of the values of each type.

Every keyword is followed, is known to say nothing of values, or is refused with its place.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.json_schema import numbers as num
from lmc.ir.json_schema import shapes as sh
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.document import Document, dump, escape, parse, refuse
from lmc.ir.json_schema.keywords import SILENT, TypeKeywords
from lmc.ir.json_schema.shapes import (
    ANY,
    NEVER,
    ArrayShape,
    Atom,
    Conj,
    Layer,
    ObjectShape,
    Shape,
    both,
)
from lmc.ir.json_schema.unevaluated import WORDS, lower_unevaluated

REFUSED = {
    "$recursiveRef": "name the schema by '$ref'",
    "$vocabulary": "a schema of values has no vocabulary",
    "extends": "use 'allOf'",
    "disallow": "use 'not'",
    "divisibleBy": "use 'multipleOf'",
}
FOLLOWED = frozenset((
    "$ref", "$dynamicRef", "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "items",
    "prefixItems", "additionalItems", "minItems", "maxItems", "contains", "minContains",
    "maxContains", "uniqueItems", "properties", "required", "additionalProperties",
    "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies",
    "dependentRequired", "dependentSchemas", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else", *WORDS,
))  # fmt: skip
_EMPTY_DEPTH = 3


class HoldsItselfError(ConstraintError):
    """What a schema means was asked for while that is being found out."""


class Reader(TypeKeywords):
    """Reads the schemas of one document as they are asked for.

    `max_length` is how long a text of bounded length may be; longer bounds count as this.
    """

    def __init__(self, document: Document, budget: Budget, max_length: int) -> None:
        super().__init__(document, budget, max_length)
        self._shapes: dict[Atom, Shape] = {}
        self._conjs: dict[Conj, Shape] = {}
        self._open: set[Atom] = set()

    # Values.

    def shape(self, conj: Conj) -> Shape:
        """Return what a conjunction means.

        Raises:
            ConstraintError: some keyword of it is wrong or cannot be followed.
        """
        if conj not in self._conjs:
            made = sh.anything()
            for index, atom in enumerate(conj):
                part = self._atom(atom)
                made = sh.intersect(made, part, self.budget) if index else part
            self._conjs[conj] = made
        return self._conjs[conj]

    def _atom(self, atom: Atom) -> Shape:
        found = self._shapes.get(atom)
        if found is not None:
            return found
        if atom in self._open:
            raise refuse(
                str(atom[1]),
                "the schema refers to itself",
                "let it refer from inside",
                kind=HoldsItselfError,
            )
        self._open.add(atom)
        try:
            found = self._shapes[atom] = self._read(atom)
        finally:
            self._open.discard(atom)
        return found

    def _read(self, atom: Atom) -> Shape:
        kind, source = atom
        if kind == "never":
            return sh.nothing()
        if kind == "value":
            return self._literals([parse(source)])  # type: ignore[arg-type]
        if kind == "not":
            return sh.complement(self.shape(source), self.budget)  # type: ignore[arg-type]
        pointer: str = source  # type: ignore[assignment]
        try:
            return self._schema(self.document.at(pointer), pointer)
        except ConstraintError as error:
            if error.pointer is not None:
                raise
            raise refuse(pointer, error.message, error.hint or "") from None

    def is_empty(self, conj: Conj, depth: int = _EMPTY_DEPTH) -> bool:
        """Return whether surely no value fulfils a conjunction."""
        if conj == NEVER:
            return True
        if not depth:
            return False
        try:
            return self.shape_is_empty(self.shape(conj), depth)
        except HoldsItselfError:
            return False  # an option of a union that holds the union: nothing is sure of it yet

    def shape_is_empty(self, shape: Shape, depth: int = _EMPTY_DEPTH) -> bool:
        """Return whether surely no value is in a shape."""
        if shape.null or shape.bools or not shape.numbers.is_empty or not shape.strings.is_empty:
            return False
        return all(self._no_array(array, depth - 1) for array in shape.arrays) and all(
            self._no_object(made, depth - 1) for made in shape.objects
        )

    def _no_array(self, array: ArrayShape, depth: int) -> bool:
        return any(self.is_empty(conj, depth) for conj in array.prefix[: array.low])

    def _no_object(self, made: ObjectShape, depth: int) -> bool:
        return any(self.is_empty(made.value(name), depth) for name in made.required)

    # Schemas.

    def _schema(self, schema: Any, pointer: str) -> Shape:
        if isinstance(schema, bool):
            return sh.anything() if schema else sh.nothing()
        if not isinstance(schema, dict):
            raise refuse(pointer, f"{schema!r:.60} is no schema", "use an object, true or false")
        self.budget.check_time()
        if self.document.is_old and "$ref" in schema:
            return self._atom(("schema", self.document.resolve(schema["$ref"], pointer)))
        for word in schema:
            self._check_word(word, schema, pointer)
        made = self._types(schema, pointer)
        for part in self._applied(schema, pointer):
            made = sh.intersect(made, part, self.budget)
        return made

    def _check_word(self, word: str, schema: dict[str, Any], pointer: str) -> None:
        if word in REFUSED or (self.document.is_old and word in WORDS):
            if schema[word] is True or schema[word] == {}:
                return
            raise refuse(
                f"{pointer}/{escape(word)}",
                "this is not supported",
                REFUSED.get(word, "use draft 2020-12"),
            )
        if word not in FOLLOWED and word not in SILENT:
            self.warnings.append(f"{pointer}/{escape(word)}: unknown keyword, says nothing")

    # Keywords that apply other schemas.

    def _applied(self, schema: dict[str, Any], pointer: str) -> Iterator[Shape]:
        if "const" in schema:
            yield self._literals([schema["const"]])
        if "enum" in schema:
            if not isinstance(schema["enum"], list):
                raise refuse(f"{pointer}/enum", "a list of values is wanted", "use a list")
            yield self.placed(f"{pointer}/enum", lambda: self._literals(schema["enum"]))
        for word, resolve in self.document.references:
            if word in schema:
                yield self._atom(("schema", resolve(schema[word], pointer)))
        for part in self._options(schema, "allOf", pointer):
            yield self._atom(part[0]) if part else sh.anything()
        if "anyOf" in schema:
            yield self._any_of(self._options(schema, "anyOf", pointer))
        if "oneOf" in schema:
            yield self._one_of(self._options(schema, "oneOf", pointer))
        if "not" in schema:
            yield self.shape(sh.negated(self.conj(schema["not"], f"{pointer}/not")))
        if "if" in schema:
            yield self._condition(schema, pointer)
        yield from self._dependencies(schema, pointer)
        yield from lower_unevaluated(self, schema, pointer)

    def _options(self, schema: dict[str, Any], word: str, pointer: str) -> list[Conj]:
        parts = schema.get(word, [])
        if not isinstance(parts, list) or (word in schema and not parts):
            raise refuse(f"{pointer}/{word}", "a list of schemas is wanted", "use a list")
        return [self.conj(part, f"{pointer}/{word}/{i}") for i, part in enumerate(parts)]

    def _any_of(self, options: list[Conj]) -> Shape:
        made = sh.nothing()
        for option in options:
            made = sh.unite(made, self.shape(option), self.budget)
        return made

    def _one_of(self, options: list[Conj]) -> Shape:
        """Return the values of exactly one option: each one less those that it may meet."""
        made = sh.nothing()
        for index, option in enumerate(options):
            part = self.shape(option)
            for other_index, other in enumerate(options):
                meets = sh.intersect(self.shape(option), self.shape(other), self.budget)
                if other_index != index and not self.shape_is_empty(meets):
                    rest = self.shape(sh.negated(other))
                    part = sh.intersect(part, rest, self.budget)
            part = self.possible(part)
            made = sh.unite(made, part, self.budget)
        return made

    def possible(self, shape: Shape) -> Shape:
        """Return a shape without alternatives that surely hold nothing."""
        return Shape(
            shape.null, shape.bools, shape.numbers, shape.strings,
            tuple(a for a in shape.arrays if not self._no_array(a, _EMPTY_DEPTH)),
            tuple(o for o in shape.objects if not self._no_object(o, _EMPTY_DEPTH)),
        )  # fmt: skip

    def _condition(self, schema: dict[str, Any], pointer: str) -> Shape:
        test = self.conj(schema["if"], f"{pointer}/if")
        arms = [self.conj(schema.get(word, True), f"{pointer}/{word}") for word in ("then", "else")]
        if arms == [ANY, ANY]:
            return sh.anything()
        yes = self.shape(both(test, arms[0]))
        no = self.shape(both(sh.negated(test), arms[1]))
        return sh.unite(self.possible(yes), self.possible(no), self.budget)

    def _dependencies(self, schema: dict[str, Any], pointer: str) -> Iterator[Shape]:
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            found = schema.get(word, {})
            if not isinstance(found, dict):
                raise refuse(f"{pointer}/{word}", "an object is wanted", "use an object")
            for name, part in found.items():
                where = f"{pointer}/{word}/{escape(name)}"
                if isinstance(part, str) and word == "dependencies":
                    part = [part]
                if word == "dependentRequired" or isinstance(part, list):
                    then = self.needs((name, *self._text_list(part, where)))
                else:
                    then = sh.intersect(
                        self.shape(self.conj(part, where)), self.needs((name,)), self.budget
                    )
                absent = Shape(
                    True, frozenset((False, True)), num.every_number(), txt.everything(),
                    (ArrayShape(),), (ObjectShape({name: NEVER}),),
                )  # fmt: skip
                both_ways = (*absent.objects, *then.objects)
                yield Shape(
                    absent.null, absent.bools, absent.numbers, absent.strings, absent.arrays,
                    both_ways,
                )  # fmt: skip

    def needs(self, names: tuple[str, ...]) -> Shape:
        """Return the values that have some properties, if they are objects."""
        any_shape = sh.anything()
        return Shape(
            any_shape.null, any_shape.bools, any_shape.numbers, any_shape.strings,
            any_shape.arrays, (ObjectShape(required=names),),
        )  # fmt: skip

    # Values that are written out.

    def _literals(self, values: list[Any]) -> Shape:
        """Return the set of the given values."""
        numbers = [v for v in values if isinstance(v, (int, Decimal)) and not isinstance(v, bool)]
        return Shape(
            any(v is None for v in values),
            frozenset(v for v in values if isinstance(v, bool)),
            num.of_values(numbers),
            txt.of_words(v for v in values if isinstance(v, str)),
            tuple(self._literal_array(v) for v in values if isinstance(v, list)),
            tuple(self._literal_object(v) for v in values if isinstance(v, dict)),
        )

    def _literal_array(self, value: list[Any]) -> ArrayShape:
        items = tuple(_literal(item) for item in value)
        return ArrayShape(items, NEVER, len(items), len(items))

    def _literal_object(self, value: dict[str, Any]) -> ObjectShape:
        properties = {name: _literal(part) for name, part in value.items()}
        return ObjectShape(properties, tuple(properties), (Layer((), NEVER),))


def _literal(value: Any) -> Conj:
    return (("value", dump(value)),)
