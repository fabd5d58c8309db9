"""Keywords that speak of one type: numbers, strings, arrays, objects."""

import abc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.json_schema import numbers as num
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.document import Document, escape, refuse
from lmc.ir.json_schema.formats import format_set
from lmc.ir.json_schema.patterns import pattern_set
from lmc.ir.json_schema.shapes import (
    ANY,
    NEVER,
    ArrayShape,
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
"""Keywords that say nothing of values; `format` is looked at where texts are."""
MAX_COUNT = 10**9
MAX_HOPS = 64
_BESIDE = (SILENT - {"format"}) | {"$ref"}


class TypeKeywords(abc.ABC):
    """Reads what a schema says of the values of each type.

    `max_length` is how long a text of bounded length may be; longer bounds count as this.
    """

    def __init__(self, document: Document, budget: Budget, max_length: int) -> None:
        self.document = document
        self.max_length = max_length
        self.budget = budget
        self.warnings: list[str] = []

    @abc.abstractmethod
    def shape(self, conj: Conj) -> Shape:
        """Return what a conjunction means."""

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
            parts.append(self.placed(where, lambda: num.multiples_of(value, budget)))
        made = parts[0]
        for part in parts[1:]:
            made = num.intersect(made, part, budget)
        return made

    def _number(self, value: Any, where: str) -> num.Number:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            raise refuse(where, f"{value!r:.60} is no number", "use a number")
        self.placed(where, lambda: num.spelling(value))
        return value

    def placed(self, where: str, make: Any) -> Any:
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
            made = self.placed(where, lambda: pattern_set(source, self.budget))
        if "format" in schema:
            where = f"{pointer}/format"
            found = self.placed(where, lambda: format_set(schema["format"], self.budget))
            if found is None:
                name = schema["format"]
                self.warnings.append(f"{where}: unknown format {name!r:.60}, says nothing")
            else:
                made = txt.intersect(made, found, self.budget)
        if low or high is not None:
            made = self.placed(
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
            names = self.placed(where, lambda source=source: pattern_set(source, self.budget))
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
