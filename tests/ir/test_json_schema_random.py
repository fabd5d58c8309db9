"""Random schemas against a small validator: drawn texts are valid, invalid values refused."""

import json
import random
import re
from decimal import Decimal
from fractions import Fraction

import pytest

from lmc.errors import ConstraintError
from lmc.ir.automata.minimise import distances
from lmc.ir.json_schema import compile_json_schema

NAMES = ("a", "b", "ab", "c")
CONSTANTS = (None, True, False, 0, 1, -3, "a", "ab", "", [], {}, [1, "a"], {"a": 1})
TYPES = (
    "null", "boolean", "number", "integer", "string", "array", "object",
    ["integer", "string"], ["object", "null"],
)  # fmt: skip


def is_number(value):
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


def equal(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if is_number(a) and is_number(b):
        return Fraction(a) == Fraction(b)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


def has_type(kind, value):
    return {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "number": is_number(value),
        "integer": is_number(value) and Fraction(value).denominator == 1,
        "string": isinstance(value, str),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }[kind]


def within(size, schema, what):
    return schema.get(f"min{what}", 0) <= size <= schema.get(f"max{what}", size)


def number_fits(schema, value):
    value = Fraction(value)
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        return False
    if "multipleOf" in schema and value % schema["multipleOf"]:
        return False
    return schema.get("minimum", value) <= value <= schema.get("maximum", value)


def array_fits(schema, value):
    prefix = schema.get("prefixItems", [])
    if not within(len(value), schema, "Items"):
        return False
    if not all(valid(part, item) for part, item in zip(prefix, value, strict=False)):
        return False
    if not all(valid(schema.get("items", True), item) for item in value[len(prefix) :]):
        return False
    found = sum(valid(schema.get("contains", True), item) for item in value)
    return "contains" not in schema or 1 <= found <= schema.get("maxContains", found)


def object_fits(schema, value):
    if not within(len(value), schema, "Properties"):
        return False
    if any(name not in value for name in schema.get("required", [])):
        return False
    for name, then in schema.get("dependentRequired", {}).items():
        if name in value and any(other not in value for other in then):
            return False
    return all(member_fits(schema, name, item) for name, item in value.items())


def member_fits(schema, name, item):
    parts = [part for p, part in schema.get("patternProperties", {}).items() if re.search(p, name)]
    parts += [schema["properties"][name]] if name in schema.get("properties", {}) else []
    parts = parts or [schema.get("additionalProperties", True)]
    return valid(schema.get("propertyNames", True), name) and all(valid(p, item) for p in parts)


def valid(schema, value):
    """Return whether a value is valid; written apart from the code under test."""
    if isinstance(schema, bool):
        return schema
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(has_type(kind, value) for kind in kinds):
        return False
    if "enum" in schema and not any(equal(value, item) for item in schema["enum"]):
        return False
    if is_number(value) and not number_fits(schema, value):
        return False
    if isinstance(value, str):
        fits = within(len(value), schema, "Length")
        if not fits or not re.search(schema.get("pattern", ""), value):
            return False
    if isinstance(value, list) and not array_fits(schema, value):
        return False
    if isinstance(value, dict) and not object_fits(schema, value):
        return False
    return applied_fit(schema, value)


def applied_fit(schema, value):
    if not all(valid(part, value) for part in schema.get("allOf", [])):
        return False
    if "anyOf" in schema and not any(valid(part, value) for part in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(valid(part, value) for part in schema["oneOf"]) != 1:
        return False
    if "not" in schema and valid(schema["not"], value):
        return False
    if "if" in schema:
        return valid(schema["then" if valid(schema["if"], value) else "else"], value)
    return True


def random_schema(rng, depth):
    """Return a schema of any keywords, each with some probability."""
    if rng.random() < 0.06:
        return rng.choice([True, False, {}])

    def inner():
        return random_schema(rng, depth - 1)

    def names(most):
        return rng.sample(NAMES, rng.randint(1, most))

    makers = {
        "type": (0.75, lambda: rng.choice(TYPES)),
        "enum": (0.1, lambda: rng.sample(CONSTANTS, rng.randint(1, 4))),
        "minimum": (0.2, lambda: rng.randint(-5, 12)),
        "maximum": (0.2, lambda: rng.randint(-5, 20)),
        "exclusiveMinimum": (0.1, lambda: rng.randint(-5, 5)),
        "multipleOf": (0.1, lambda: rng.randint(1, 7)),
        "minLength": (0.15, lambda: rng.randint(0, 3)),
        "maxLength": (0.15, lambda: rng.randint(0, 5)),
        "pattern": (0.1, lambda: rng.choice(["^a", "b$", "[0-9]+", "a|b", "^[a-c]{1,3}$"])),
    }
    if depth:
        makers |= {
            "items": (0.2, inner),
            "prefixItems": (0.1, lambda: [inner() for _ in range(rng.randint(1, 2))]),
            "minItems": (0.15, lambda: rng.randint(0, 3)),
            "maxItems": (0.15, lambda: rng.randint(0, 4)),
            "contains": (0.1, inner),
            "maxContains": (0.1, lambda: rng.randint(1, 2)),
            "properties": (0.4, lambda: {name: inner() for name in names(3)}),
            "required": (0.2, lambda: names(2)),
            "additionalProperties": (0.2, inner),
            "patternProperties": (0.12, lambda: {rng.choice(["^a", "b", "c$"]): inner()}),
            "propertyNames": (0.08, lambda: {"maxLength": rng.randint(1, 3)}),
            "minProperties": (0.1, lambda: rng.randint(0, 2)),
            "maxProperties": (0.1, lambda: rng.randint(0, 3)),
            "dependentRequired": (0.1, lambda: {rng.choice(NAMES): names(1)}),
            "allOf": (0.12, lambda: [inner(), inner()]),
            "anyOf": (0.15, lambda: [inner(), inner()]),
            "oneOf": (0.15, lambda: [inner(), inner()]),
            "not": (0.15, inner),
        }
    schema = {key: make() for key, (chance, make) in makers.items() if rng.random() < chance}
    if depth and rng.random() < 0.1:
        schema |= {"if": inner(), "then": inner(), "else": inner()}
    return schema


def random_text(rng, dfa, shortest):
    """Return a text of the automaton, drawn byte by byte."""
    state, out = 0, bytearray()
    while True:
        allowed = dfa.allowed_bytes(state)
        if dfa.is_accepting(state) and (not allowed or rng.random() < 0.5):
            return bytes(out)
        if len(out) > 60:  # take the shortest way out
            closer = [b for b in allowed if shortest[dfa.step(state, bytes([b]))] < shortest[state]]
            allowed = closer or allowed
        plain = [byte for byte in allowed if byte in b'"{}[],: ab01-tfn']
        byte = rng.choice(plain if plain and rng.random() < 0.8 else list(allowed))
        state = dfa.step(state, bytes([byte]))
        out.append(byte)


def random_value(rng, depth):
    kind = rng.random()
    if not depth or kind < 0.6:
        return rng.choice(CONSTANTS)
    if kind < 0.8:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {n: random_value(rng, depth - 1) for n in rng.sample(NAMES, rng.randint(0, 3))}


def check_schema(rng):
    """Check one random schema; return whether it was compiled."""
    schema = random_schema(rng, 2)
    values = [random_value(rng, 2) for _ in range(40)]
    try:
        dfa = compile_json_schema(schema, open_objects=rng.random() < 0.5)
    except ConstraintError as error:
        if "no valid value" in error.message:
            assert not any(valid(schema, value) for value in values), schema
        return False
    shortest = distances(dfa.table, dfa.accepting)[0]
    for _ in range(20):
        text = random_text(rng, dfa, shortest)
        assert valid(schema, json.loads(text, parse_float=Decimal)), (schema, text)
    for value in values:
        if dfa.matches(json.dumps(value).encode()):
            assert valid(schema, value), (schema, value)
    return True


def test_drawn_texts_are_valid_and_invalid_values_refused():
    rng = random.Random(11)
    assert sum(check_schema(rng) for _ in range(25)) > 8


@pytest.mark.long
def test_many_random_schemas():
    rng = random.Random(12)
    assert sum(check_schema(rng) for _ in range(500)) > 150
