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
from lmc.ir.json_schema.patterns import format_set, pattern_set
from lmc.ir.json_schema.shapes import (
    ANY,
    NEVER,
    ArrayShape,
    Atom,
    Conj,
    Contains,
    Layer,
    ObjectShape,
    Shape,
    both,
)

TYPES = ("null", "boolean", "number", "integer", "string", "array", "object")
SILENT = frozenset((
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$comment", "$defs", "definitions",
    "title", "description", "default", "example", "examples", "deprecated", "readOnly",
    "writeOnly", "contentEncoding", "contentMediaType", "contentSchema", "format",
))  # fmt: skip
REFUSED = {
    "$dynamicRef": "name the schema by '$ref'",
    "$recursiveRef": "name the schema by '$ref'",
    "unevaluatedProperties": "list all properties beside 'additionalProperties': false",
    "unevaluatedItems": "use 'prefixItems' and 'items'",
    "$vocabulary": "a schema of values has no vocabulary",
    "extends": "use 'allOf'",
    "disallow": "use 'not'",
    "divisibleBy": "use 'multipleOf'",
}
FOLLOWED = frozenset((
    "$ref", "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "items",
    "prefixItems", "additionalItems", "minItems", "maxItems", "contains", "minContains",
    "maxContains", "uniqueItems", "properties", "required", "additionalProperties",
    "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies",
    "dependentRequired", "dependentSchemas", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "else",
))  # fmt: skip
MAX_COUNT = 10**9
MAX_HOPS = 64
_BESIDE = (SILENT - {"format"}) | {"$ref"}
_EMPTY_DEPTH = 3


class Reader:
    """Reads the schemas of one document as they are asked for.

    `max_length` is how long a text of bounded length may be; longer bounds count as this.
    """

    def __init__(self, document: Document, budget: Budget, max_length: int) -> None:
        self.document = document
        self.max_length = max_length
        self.budget = budget
        self.warnings: list[str] = []
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
            raise refuse(str(atom[1]), "the schema refers to itself", "let it refer from inside")
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
        return depth > 0 and self.shape_is_empty(self.shape(conj), depth)

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
        if word in REFUSED:
            if schema[word] is True or schema[word] == {}:
                return
            raise refuse(f"{pointer}/{escape(word)}", "this is not supported", REFUSED[word])
        if word not in FOLLOWED and word not in SILENT:
            self.warnings.append(f"{pointer}/{escape(word)}: unknown keyword, says nothing")

    def _types(self, schema: dict[str, Any], pointer: str) -> Shape:
        told = schema.get("type", [name for name in TYPES if name != "integer"])
        names = [told] if isinstance(told, str) else told
        if not isinstance(names, list) or not names or not set(map(str, names)) <= set(TYPES):
            raise refuse(f"{pointer}/type", f"{told!r:.60} is no type", f"use {', '.join(TYPES)}")
        has_numbers = "number" in names or "integer" in names
        return Shape(
            "null" in names,
            frozenset((False, True)) if "boolean" in names else frozenset(),
            self._numbers(schema, pointer, "number" not in names)
            if has_numbers
            else num.no_number(),
            self._strings(schema, pointer) if "string" in names else txt.nothing(),
            (self._array(schema, pointer),) if "array" in names else (),
            (self._object(schema, pointer),) if "object" in names else (),
        )

    def _numbers(self, schema: dict[str, Any], pointer: str, whole: bool) -> num.NumberSet:
        budget = self.budget
        parts = [num.integers() if whole else num.every_number()]
        for word, bound in (("Minimum", num.at_least), ("Maximum", num.at_most)):
            plain, strict = schema.get(word.lower()), schema.get(f"exclusive{word}")
            if isinstance(strict, bool):  # draft 4
                strict, plain = (plain, None) if strict else (None, plain)
            if plain is not None:
                value = self._number(plain, f"{pointer}/{word.lower()}")
                parts.append(bound(value, exclusive=False, budget=budget))
            if strict is not None:
                value = self._number(strict, f"{pointer}/exclusive{word}")
                parts.append(bound(value, exclusive=True, budget=budget))
        if "multipleOf" in schema:
            where = f"{pointer}/multipleOf"
            value = self._number(schema["multipleOf"], where)
            if value <= 0:
                raise refuse(where, f"{value} is not above 0", "use a positive number")
            parts.append(self._placed(where, lambda: num.multiples_of(value, budget)))
        made = parts[0]
        for part in parts[1:]:
            made = num.intersect(made, part, budget)
        return made

    def _number(self, value: Any, where: str) -> num.Number:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise refuse(where, f"{value!r:.60} is no number", "use a number")
        self._placed(where, lambda: num.spelling(value))
        return value

    def _placed(self, where: str, make: Any) -> Any:
        """Return what `make` gives; its refusal gets a place."""
        try:
            return make()
        except ConstraintError as error:
            if error.pointer is not None:
                raise
            raise refuse(where, error.message, error.hint or "") from None

    def _count(self, schema: dict[str, Any], word: str, pointer: str) -> int | None:
        value = schema.get(word)
        if value is None and word not in schema:
            return None
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise refuse(f"{pointer}/{word}", f"{value!r:.60} is no count", "use 0, 1, 2, ...")
        return min(value, MAX_COUNT)

    def _strings(self, schema: dict[str, Any], pointer: str) -> txt.TextSet:
        made = txt.everything()
        low, high = (self._count(schema, word, pointer) for word in ("minLength", "maxLength"))
        if "pattern" in schema:
            where = f"{pointer}/pattern"
            source = schema["pattern"]
            if not isinstance(source, str):
                raise refuse(where, f"{source!r:.60} is no pattern", "use a regular expression")
            made = self._placed(where, lambda: pattern_set(source, self.budget))
        if "format" in schema:
            where = f"{pointer}/format"
            found = self._placed(where, lambda: format_set(schema["format"], self.budget))
            if found is None:
                name = schema["format"]
                self.warnings.append(f"{where}: unknown format {name!r:.60}, says nothing")
            else:
                made = txt.intersect(made, found, self.budget)
        if low or high is not None:
            made = self._placed(
                f"{pointer}/{'minLength' if low else 'maxLength'}",
                lambda: self._sized(made, low or 0, high),
            )
        return made

    def _sized(self, made: txt.TextSet, low: int, high: int | None) -> txt.TextSet:
        if high is not None and low > high:
            return txt.nothing()
        shortest, longest = txt.lengths(made)
        if shortest >= low and longest is not None and (high is None or longest <= high):
            return made
        if low > self.budget.max_states:
            raise ConstraintError(
                f"texts of at least {low} characters need too many states", hint="use less"
            )
        if high is not None:
            # Shorter texts only: from within, so that no wrong text comes through.
            high = min(high, max(self.max_length, low))
        return txt.intersect(made, txt.of_length(low, high), self.budget)

    # Arrays.

    def _array(self, schema: dict[str, Any], pointer: str) -> ArrayShape:
        low, high = (self._count(schema, word, pointer) for word in ("minItems", "maxItems"))
        prefix, rest = self._items(schema, pointer)
        if not isinstance(schema.get("uniqueItems", False), bool):
            raise refuse(f"{pointer}/uniqueItems", "true or false is wanted", "use true or false")
        return ArrayShape(
            prefix, rest, low or 0, high, tuple(self._contains(schema, pointer)),
            schema.get("uniqueItems", False), pointer,
        )  # fmt: skip

    def _items(self, schema: dict[str, Any], pointer: str) -> tuple[tuple[Conj, ...], Conj]:
        items, prefix = schema.get("items", True), schema.get("prefixItems")
        where, rest = f"{pointer}/items", self.conj(items, f"{pointer}/items")
        if isinstance(items, list):
            if prefix is not None:
                raise refuse(where, "a list stands beside 'prefixItems'", "use a schema")
            prefix = items
            rest = self.conj(schema.get("additionalItems", True), f"{pointer}/additionalItems")
        elif prefix is not None:
            where = f"{pointer}/prefixItems"
        if prefix is None:
            return (), rest
        if not isinstance(prefix, list):
            raise refuse(where, "a list of schemas is wanted", "use a list")
        return tuple(self.conj(part, f"{where}/{i}") for i, part in enumerate(prefix)), rest

    def _contains(self, schema: dict[str, Any], pointer: str) -> Iterator[Contains]:
        low, high = (self._count(schema, word, pointer) for word in ("minContains", "maxContains"))
        if "contains" in schema:
            conj = self.conj(schema["contains"], f"{pointer}/contains")
            low = 1 if low is None else low
            if low or high is not None:
                yield Contains(conj, low, high)

    def conj(self, schema: Any, pointer: str) -> Conj:
        """Return the conjunction of one subschema."""
        for _ in range(MAX_HOPS):
            if not isinstance(schema, dict) or not self._is_reference(schema):
                break
            # One name for a schema however it is referred to: recursion is seen by it.
            pointer = self.document.resolve(schema["$ref"], pointer)
            schema = self.document.at(pointer)
        if schema is True or schema == {}:
            return ANY
        return NEVER if schema is False else (("schema", pointer),)

    def _is_reference(self, schema: dict[str, Any]) -> bool:
        """Return whether a schema says nothing but what it refers to."""
        return "$ref" in schema and (self.document.is_old or set(schema) <= _BESIDE)

    # Objects.

    def _object(self, schema: dict[str, Any], pointer: str) -> ObjectShape:
        told = self._map(schema, "properties", pointer)
        patterns = []
        for source, part in self._map(schema, "patternProperties", pointer).items():
            where = f"{pointer}/patternProperties/{escape(source)}"
            names = self._placed(where, lambda source=source: pattern_set(source, self.budget))
            patterns.append((names, self.conj(part, where)))
        properties = {}
        for name, part in told.items():
            found = self.conj(part, f"{pointer}/properties/{escape(name)}")
            for names, conj in patterns:
                found = both(found, conj) if name in names else found
            properties[name] = found
        word = "additionalProperties"
        default = self.conj(schema.get(word, True), f"{pointer}/{word}")
        layer = Layer(tuple(patterns), default, word in schema or not (told or patterns))
        layers = (layer,) if patterns or default or layer.is_told else ()
        low, high = (
            self._count(schema, word, pointer) for word in ("minProperties", "maxProperties")
        )
        return ObjectShape(
            properties, self._required(schema, pointer), layers, self._names(schema, pointer),
            low or 0, high, where=pointer,
        )  # fmt: skip

    def _map(self, schema: dict[str, Any], word: str, pointer: str) -> dict[str, Any]:
        found = schema.get(word, {})
        if not isinstance(found, dict):
            raise refuse(f"{pointer}/{word}", "an object of schemas is wanted", "use an object")
        for name, part in found.items():
            if not isinstance(part, (dict, bool)):
                raise refuse(
                    f"{pointer}/{word}/{escape(name)}", f"{part!r:.60} is no schema",
                    "use an object, true or false",
                )  # fmt: skip
        return found

    def _required(self, schema: dict[str, Any], pointer: str) -> tuple[str, ...]:
        if isinstance(schema.get("required"), bool) and self.document.is_old:
            raise refuse(f"{pointer}/required", "a list of names is wanted", "move it up")
        return self._text_list(schema.get("required", []), f"{pointer}/required")

    def _text_list(self, found: Any, where: str) -> tuple[str, ...]:
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise refuse(where, "a list of names is wanted", "use a list of strings")
        return tuple(dict.fromkeys(found))

    def _names(self, schema: dict[str, Any], pointer: str) -> txt.TextSet | None:
        if "propertyNames" not in schema:
            return None
        conj = self.conj(schema["propertyNames"], f"{pointer}/propertyNames")
        return self.shape(conj).strings

    # Keywords that apply other schemas.

    def _applied(self, schema: dict[str, Any], pointer: str) -> Iterator[Shape]:
        if "const" in schema:
            yield self._literals([schema["const"]])
        if "enum" in schema:
            if not isinstance(schema["enum"], list):
                raise refuse(f"{pointer}/enum", "a list of values is wanted", "use a list")
            yield self._placed(f"{pointer}/enum", lambda: self._literals(schema["enum"]))
        if "$ref" in schema:
            yield self._atom(("schema", self.document.resolve(schema["$ref"], pointer)))
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
            part = self._possible(part)
            made = sh.unite(made, part, self.budget)
        return made

    def _possible(self, shape: Shape) -> Shape:
        """Return the shape without alternatives that surely hold nothing."""
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
        return sh.unite(self._possible(yes), self._possible(no), self.budget)

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
                    then = self._needs((name, *self._text_list(part, where)))
                else:
                    then = sh.intersect(
                        self.shape(self.conj(part, where)), self._needs((name,)), self.budget
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

    def _needs(self, names: tuple[str, ...]) -> Shape:
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
