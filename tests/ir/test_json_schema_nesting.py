"""Schemas that hold themselves: exact at any depth, and nothing invalid among the texts."""

import json
import random
from functools import partial
from pathlib import Path

import pytest

from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint
from lmc.ir.grammar import Machine, Network
from lmc.ir.json_schema import compile_json_schema, compile_schema, compile_source, schema_source
from lmc.runtime.constraint import ConstraintCache, GrammarConstraint, RegexConstraint
from lmc.runtime.oracle_grammar import _Drawing
from lmc.runtime.oracle_text import Draw

try:
    import jsonschema
except ModuleNotFoundError:
    jsonschema = None

BENCH = Path(__file__).resolve().parents[3] / "shared" / "data" / "jsonschemabench"

TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer", "minimum": 0, "maximum": 12},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3},
            },
            "required": ["v"],
        }
    },
}
LIST = {
    "type": "object",
    "properties": {"x": {"enum": ["a", "é"]}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    "required": ["x", "next"],
}
EXPR = {
    "$defs": {
        "expr": {
            "oneOf": [
                {"type": "integer"},
                {
                    "type": "object",
                    "properties": {
                        "op": {"enum": ["+", "-"]},
                        "args": {"type": "array", "items": {"$ref": "#/$defs/expr"}, "minItems": 1},
                    },
                    "required": ["op", "args"],
                },
                {"type": "array", "prefixItems": [{"$ref": "#/$defs/pair"}], "maxItems": 2,
                 "items": {"type": "boolean"}},
            ]
        },
        "pair": {"type": "object", "additionalProperties": {"$ref": "#/$defs/expr"}},
    },
    "$ref": "#/$defs/expr",
}  # fmt: skip
NOT = {
    "type": "array",
    "items": {"anyOf": [{"$ref": "#"}, {"not": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}}]},
    "minItems": 1,
}
ANYTHING = {"type": "object", "properties": {"me": {"$ref": "#"}, "x": {}}, "required": ["x"]}
UNION = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"t": {"enum": ["num"]}, "n": {"type": "integer"}},
            "required": ["t", "n"],
        },
        {
            "type": "object",
            "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}, "t": {"enum": ["sum"]}},
            "required": ["l", "r", "t"],
        },
    ]
}
OVERLAP = {
    "oneOf": [
        {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        {"type": "array", "maxItems": 1},
        {"type": "boolean"},
    ]
}
SCHEMAS = {
    "tree": TREE,
    "list": LIST,
    "expr": EXPR,
    "not": NOT,
    "anything": ANYTHING,
    "union": UNION,
    "overlap": OVERLAP,
}


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def fits(root, schema, value) -> bool:
    """Validate a value, as the standard says, by the keywords that stand above."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        return fits(root, target, value)
    inside = partial(fits, root)
    kind = schema.get("type")
    is_number = type(value) in (int, float)
    if kind == "integer" and not (is_number and value == int(value)):
        return False
    if kind in TYPES and not isinstance(value, TYPES[kind]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if is_number and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if "anyOf" in schema and not any(inside(part, value) for part in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(inside(part, value) for part in schema["oneOf"]) != 1:
        return False
    if "not" in schema and inside(schema["not"], value):
        return False
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        pairs = zip([*first, *[schema.get("items", {})] * len(value)], value, strict=False)
        length = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
        return length and all(inside(part, item) for part, item in pairs)
    if isinstance(value, dict):
        listed, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        has_all = all(name in value for name in schema.get("required", []))
        return has_all and all(inside(listed.get(k, others), v) for k, v in value.items())
    return True


def is_valid(schema, value) -> bool:
    """Return the verdict, that of the package `jsonschema` too where it is installed."""
    found = fits(schema, schema, value)
    if jsonschema is not None:
        assert jsonschema.Draft202012Validator(schema).is_valid(value) == found
    return found


def nested(depth: int):
    value = {"v": 1}
    for _ in range(depth):
        value = {"v": 1, "kids": [value, {"v": 2}]}
    return value


def machine(schema, **options) -> Machine:
    found = compile_schema(schema, **options).language
    assert isinstance(found, Network)
    return Machine(found)


def text(value) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def test_a_schema_may_stand_in_itself_as_often_as_it_is_written():
    tree = machine(TREE)
    for depth in (0, 1, 8, 9, 40, 200):
        made = text(nested(depth))
        assert tree.matches(made)
        assert not tree.matches(made.replace(b'"v": 2', b'"v": 13', 1)) or depth == 0
        assert not tree.matches(made[:-1])
    assert machine(TREE, separators=(",", ":")).matches(text(nested(9)).replace(b" ", b""))


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("open_objects", [False, True])
def test_drawn_texts_are_valid(name, open_objects):
    schema = SCHEMAS[name]
    tree = machine(schema, open_objects=open_objects)
    made = {"".join(_Drawing(tree, Draw(seed, name)).pieces()) for seed in range(60)}
    assert len(made) > 2
    for each in made:
        assert is_valid(schema, json.loads(each)), each
        assert tree.matches(each.encode())


def random_value(rng: random.Random, depth: int):
    kind = rng.choice(
        ["int", "text", "flag", "null", "list", "node", "op", "link", "me", "num", "sum"]
    )
    inside = (
        (lambda: random_value(rng, depth - 1)) if depth else (lambda: rng.choice([1, "a", None]))
    )
    match kind:
        case "int":
            return rng.choice([0, 5, 12, 13, -1])
        case "text":
            return rng.choice(["a", "é", "+", ""])
        case "flag":
            return rng.random() < 0.5
        case "null":
            return None
        case "list":
            return [inside() for _ in range(rng.randint(0, 3))]
        case "node":
            kids = {"kids": [inside() for _ in range(rng.randint(0, 2))]}
            return {"v": rng.choice([0, 13]), **(kids if rng.random() < 0.7 else {})}
        case "op":
            return {"op": rng.choice("+-*"), "args": [inside() for _ in range(rng.randint(0, 2))]}
        case "link":
            return {"x": rng.choice(["a", "b"]), "next": inside()}
        case "num":
            return {"t": rng.choice(["num", "sum"]), "n": 1}
        case "sum":
            return {"l": inside(), "r": inside(), "t": rng.choice(["num", "sum"])}
        case _:
            return {"me": inside(), "x": inside()}


@pytest.mark.parametrize("name", SCHEMAS)
def test_random_values_are_judged_as_the_standard_does(name):
    schema = SCHEMAS[name]
    tree, rng = machine(schema, open_objects=True), random.Random(name)
    verdicts = [0, 0]
    for _ in range(1500):
        value = random_value(rng, 3)
        expected = is_valid(schema, value)
        assert tree.matches(text(value)) == expected, value
        verdicts[expected] += 1
    assert min(verdicts) > 0


@pytest.mark.parametrize("name", ["tree", "expr"])
def test_what_unrolling_allows_is_allowed(name):
    tree, schema = machine(SCHEMAS[name]), SCHEMAS[name]
    unrolled = compile_json_schema(schema, max_depth=2)
    rng, count = random.Random(name), 0
    for _ in range(200):
        made = text(random_value(rng, 3))
        if unrolled.matches(made):
            count += 1
            assert tree.matches(made)
    assert count > 1


def test_unrolling_on_request_and_schemas_without_end():
    assert not isinstance(compile_schema(TREE, max_depth=3).language, Network)
    assert not compile_json_schema(TREE, max_depth=3).matches(text(nested(5)))
    assert not isinstance(compile_schema({"type": "array", "items": {"type": "null"}}).language,
                          Network)  # fmt: skip
    for schema in ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
                   {"type": "array", "items": {"$ref": "#"}, "minItems": 1}):  # fmt: skip
        with pytest.raises(ConstraintError, match="no valid value"):
            compile_schema(schema)


def test_constraints_take_the_network():
    from lmc.codegen.target import oracle_target

    tokenizer = oracle_target().tokenizer
    cache = ConstraintCache(tokenizer)
    nested_limit = cache.get(Constraint("json_schema", schema_source(TREE)))
    unrolled = cache.get(Constraint("json_schema", schema_source(TREE, max_depth=2)))
    assert isinstance(nested_limit, GrammarConstraint)
    assert isinstance(unrolled, RegexConstraint)
    assert isinstance(compile_source(schema_source(LIST)), Network)
    matcher = nested_limit.matcher()
    for token_id in tokenizer.encode(json.dumps(nested(20))):
        matcher.accept_token(token_id)
    assert matcher.is_terminated()


@pytest.mark.long
@pytest.mark.skipif(not BENCH.is_dir(), reason="shared/data is not there")
def test_schemas_of_the_field_that_hold_themselves():
    doubtful = json.loads((BENCH / "labels_not_confirmed.json").read_text())
    doubtful = {(item["id"], item["test_index"]) for item in doubtful}
    count = 0
    for part in ("cases_part1.jsonl", "cases_part2.jsonl"):
        for line in (BENCH / part).read_text().splitlines():
            if '"$ref"' not in line:
                continue
            row = json.loads(line)
            try:
                found = compile_schema(row["schema"], open_objects=True).language
            except ConstraintError:
                continue
            if not isinstance(found, Network):
                continue
            tree, count = Machine(found), count + 1
            for index, test in enumerate(row["tests"]):
                if not test["valid"] and (row["id"], index) not in doubtful:
                    assert not tree.matches(text(test["data"])), (row["id"], index)
    assert count >= 10


def test_an_option_that_holds_its_union_may_stand_in_it_at_any_depth():
    union, value = machine(UNION), {"t": "num", "n": 1}
    for _ in range(30):
        value = {"l": value, "r": {"t": "num", "n": 2}, "t": "sum"}
        assert union.matches(text(value))
    assert not union.matches(text(value).replace(b'"t": "num"', b'"t": "sum"', 1))


def test_a_union_that_is_its_own_option_is_refused():
    with pytest.raises(ConstraintError, match="refers to itself") as caught:
        compile_schema(
            {"$defs": {"a": {"oneOf": [{"$ref": "#/$defs/a"}, {}]}}, "$ref": "#/$defs/a"}
        )
    assert caught.value.pointer == "/$defs/a"
