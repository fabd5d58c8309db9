"""JSON schemas as automata: meaning, refusals, layout, limits."""

import json
import time

import pytest

from lmc.errors import ConstraintError
from lmc.ir.json_schema import compile_json_schema, compile_schema, compile_source, schema_source

TREE = {
    "$defs": {
        "t": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}},
            },
            "required": ["v"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/t",
}
ABC = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in "abc"},
    "required": ["b"],
    "additionalProperties": False,
}

CASES = [
    # schema, accepted texts, refused texts
    ({"type": "integer", "minimum": 0, "maximum": 30000000000},
     ["0", "30000000000", "7.0", "-0"], ["30000000001", "-1", "1.5", "01", "1.", "+1"]),
    ({"type": "integer", "minimum": 2**63, "maximum": 2**64 + 1},
     [str(2**63), str(2**64 + 1)], [str(2**63 - 1), str(2**64 + 2), "-" + str(2**63)]),
    ({"type": "integer", "maximum": 10**20}, [str(10**20), "-5"], [str(10**20 + 1)]),
    ({"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 5},
     ["-4", "4", "0"], ["-5", "5", "10"]),
    ({"type": "number", "minimum": 0.5, "maximum": 1.25}, ["0.5", "1.25", "1.250", "1"],
     ["0.49", "1.26", "1.2500001", "-0.7"]),
    ({"type": "number"}, ["1", "-0.5", "1e5", "2.5E-3"], ["", "1.e2", ".5", "1e"]),
    ({"type": "integer", "multipleOf": 3, "minimum": 10}, ["12", "15"], ["13", "9"]),
    ({"type": "number", "multipleOf": 0.01}, ["1.25", "1.250"], ["1.255"]),
    ({"type": "string", "maxLength": 1},
     ['"a"', r'"\n"', r'"\u0041"', r'"\ud83d\ude00"', '"é"', '"😀"', '""'],
     ['"ab"', '"\n"', '"\\x"', r'"\ud83d"', r'"\ude00"']),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ['"éé"', '"😀😀"'], ['"é"', '"😀😀😀"']),
    ({"type": "string", "pattern": "o+k"}, ['"book1"', '"ok"'], ['"ko"']),
    ({"type": "string", "pattern": "^.$"}, [r'"\""', r'"\\"', '"é"'], ['"""', '"ab"', '""']),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ['"abc"'], ['"abcd"', '"ab\\n"']),
    ({"type": "string", "pattern": r"^\d+$"}, ['"12"'], ['"٣"', r'"\\d"']),
    ({"enum": [True, None, 'q"\\', -0.5, "é", [], {}]},
     ["true", "null", r'"q\"\\"', "-0.5", '"é"', "[]", "{}"], ["True", "None", "[1]", "0.5"]),
    ({"type": "integer", "enum": [1, "a"]}, ["1"], ['"a"']),
    ({"const": {"a": [1, {"b": None}]}}, ['{"a": [1, {"b": null}]}'], ['{"a": [1, {}]}', "{}"]),
    (ABC, ['{"b": 1}', '{"a": 1, "b": 1}', '{"b": 1, "c": 1}', '{"a": 1, "b": 1, "c": 1}'],
     ["{}", '{"a": 1}', '{"b": 1, }', '{, "b": 1}', '{"b": 1 "c": 1}', '{"b": 1, "x": 1}']),
    ({"type": "object", "required": ["z"], "properties": {}}, ['{"z": 1}'], ["{}", '{"a": 1}']),
    ({"type": "object", "required": ["k"], "properties": {n: {} for n in "kab"},
      "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
     ['{"k": 1, "a": 1}', '{"k": 1, "b": 1}', '{"k": 1, "a": 1, "b": 1}'], ['{"k": 1}']),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]}, ["3", "5"], ["2", "6"]),
    ({"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]},
     ["2", "6"], ["3", "4", "5"]),
    ({"not": {"const": "x"}}, ['"y"', "1", "{}", "[]", "null"], ['"x"']),
    ({"not": {"enum": [1]}, "type": "integer"}, ["2", "-1"], ["1", "1.0", "1.00"]),
    ({"type": "integer", "if": {"minimum": 10}, "then": {"multipleOf": 5}, "else": {"minimum": 0}},
     ["10", "15", "3", "0"], ["11", "-1"]),
    ({"minLength": 3}, ['"abc"', "5"], ['"ab"']),
    ({"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 3}},
      "patternProperties": {"^n": {"type": "integer", "maximum": 7}}, "required": ["n"],
      "additionalProperties": False},
     ['{"n": 6}', '{"n": 3, "nn": 7}'], ['{"n": 9}', '{"n": 3, "nn": 8}', '{"n": 4}']),
    ({"patternProperties": {"x": {"type": "integer"}}}, ['{"axb": 1}'], ['{"axb": "s"}']),
    ({"properties": {'a"b': {}}, "required": ['a"b'], "type": "object"}, [r'{"a\"b": 1}'], ["{}"]),
    ({"type": "object", "propertyNames": {"maxLength": 2}}, ['{"ab": 1}'], ['{"abc": 1}']),
    ({"type": "object", "properties": {n: {} for n in "abc"}, "maxProperties": 2,
      "minProperties": 2, "additionalProperties": False},
     ['{"a": 1, "c": 1}'], ['{"a": 1}', '{"a": 1, "b": 1, "c": 1}']),
    ({"type": "object", "properties": {n: {} for n in "ab"}, "dependentRequired": {"a": ["b"]}},
     ["{}", '{"b": 1}', '{"a": 1, "b": 1}'], ['{"a": 1}']),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
     ["[true, false]", "[true, true, true]"], ["[]", "[true]", "[true, true, true, true]"]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False},
     ["[]", "[1]", "[1, 2]"], ["[2]", "[1, 2, 3]"]),
    ({"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True},
     ["[]", "[1, 3]", "[3, 1, 2]"], ["[1, 1]", "[1, 2, 3, 1]"]),
    ({"type": "array", "contains": {"const": 3}}, ["[3]", "[1, 3]"], ["[]", "[1]"]),
    ({"type": "array", "items": {"enum": [1, 3]}, "contains": {"const": 3}, "maxContains": 1},
     ["[3]", "[1, 3, 1]"], ["[1]", "[3, 3]"]),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}],
      "additionalItems": False, "type": "array"}, ["[1]", "[]"], ["[1, 2]"]),
    ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"2024-13-01"']),
    ({"type": "string", "format": "email", "maxLength": 6}, ['"a@b.cd"'], ['"ab@cd.org"', '"a"']),
    ({"type": "string", "format": "ipv4"}, ['"255.0.1.2"'], ['"256.0.1.2"', '"1.2.3"']),
    ({"$defs": {"a/b": {"type": "null"}, "A": {"$anchor": "n", "const": 1}},
      "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#n"}]}, ["null", "1"], ["2"]),
    (True, ["1", '{"a": [1, {}]}'], ["", "tru"]),
    (
        {"type": "object", "properties": {"a": True}, "required": ["a"],
         "anyOf": [{"properties": {"b": {"type": "null"}}, "required": ["b"]}, {"required": ["c"]}],
         "unevaluatedProperties": {"type": "integer"}},
        ['{"a": "x", "b": null}', '{"a": "x", "b": null, "d": 1}', '{"a": "x", "c": 1}',
         '{"a": "x", "c": 1, "b": 2}'],
        ['{"a": "x"}', '{"a": "x", "b": 2}', '{"a": "x", "c": null}',
         '{"a": 1, "b": null, "d": null}'],
    ),
    (
        {"type": "array", "prefixItems": [{"type": "string"}], "contains": {"const": 0},
         "if": {"minItems": 3}, "then": {"prefixItems": [True, {"type": "boolean"}]},
         "unevaluatedItems": {"type": "null"}},
        ['["a", 0]', '["a", false, 0]', '["a", true, 0, null]'],
        ['["a"]', '["a", null]', '["a", true]', '["a", 1, 0]', '[0, 0]'],
    ),
    (
        {"$defs": {"x": {"$dynamicAnchor": "x", "type": "null"}}, "items": {"$dynamicRef": "#x"},
         "type": "array"},
        ["[]", "[null, null]"], ["[1]"],
    ),
    ({"pattern": r"^[\p{Lu}-]\P{L}\s\cJ$", "type": "string"},
     [r'"É1\u00a0\n"', r'"-1 \n"'], ['"é1 \\n"', '"Éa \\n"', '"É1x\\n"']),
    ({"pattern": "^.$", "type": "string"}, ['"a"', r'"\t"'], [r'"\r"', r'"\u2028"']),
    ({"format": "regex", "type": "string"},
     ['"a(b|c)*[^x-z-]{1,3}?$"', r'"\\d+"'], ['"a("', '"*"', '"[z-a]"']),
    ({"format": "iri", "type": "string"}, ['"http://é.de/ü?x"'], ['"é"', '"http://a b"']),
    ({"format": "idn-email", "type": "string"}, ['"é@xé.de"'], ['"é"', '"a@-b.de"']),
    ({"format": "uri-template", "type": "string"}, ['"/a/{b}{?c,d*}"'], ['"/a/{b"', '"a b"']),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "accepted", "refused"), CASES)
def test_what_a_schema_accepts(schema, accepted, refused):
    dfa = compile_json_schema(schema)
    assert [text for text in accepted if not dfa.matches(text.encode())] == []
    assert [text for text in refused if dfa.matches(text.encode())] == []


REFUSALS = [
    ({"type": "objekt"}, "/type"),
    ({"properties": {"a": "bar"}}, "/properties/a"),
    ({"properties": {"a/b": {"type": "string", "pattern": "(("}}}, "/properties/a~1b/pattern"),
    ({"properties": {"a": {"pattern": r"(.)\1"}}}, "/properties/a/pattern"),
    ({"properties": {"a": {"$ref": "other.json"}}}, "/properties/a/$ref"),
    ({"$ref": "#/$defs/A"}, "/$ref"),
    ({"$ref": "#"}, ""),
    ({"items": {"$recursiveRef": "#"}}, "/items/$recursiveRef"),
    ({"pattern": r"\p{Script=Greek}"}, "/pattern"),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "/uniqueItems"),
    ({"multipleOf": 0}, "/multipleOf"),
    ({"minLength": -1}, "/minLength"),
    ({"minimum": "1"}, "/minimum"),
    ({"type": "string", "format": 3}, "/format"),
    ({"not": {"format": "regex"}}, ""),
    ({"required": "a"}, "/required"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "/$schema"),
]


@pytest.mark.parametrize(("schema", "pointer"), REFUSALS)
def test_refusals_name_the_place(schema, pointer):
    with pytest.raises(ConstraintError) as caught:
        compile_json_schema(schema)
    assert caught.value.pointer == pointer
    assert caught.value.hint


@pytest.mark.parametrize("text", ["{", "[1", '{"a": NaN}', '{"a": 1, "a": 2}', "5", ""])
def test_what_is_no_schema_is_refused(text):
    with pytest.raises(ConstraintError):
        compile_json_schema(text)


def test_schemas_without_a_value_are_refused():
    with pytest.raises(ConstraintError, match="no valid value"):
        compile_json_schema({"type": "integer", "minimum": 3, "maximum": 2})


def deep(levels):
    return {"v": 1} if levels == 1 else {"v": 1, "kids": [deep(levels - 1)]}


def test_recursion_is_unrolled_in_linear_size():
    sizes = {d: compile_json_schema(TREE, max_depth=d).state_count for d in (4, 8, 16)}
    assert sizes[16] - sizes[8] == 2 * (sizes[8] - sizes[4])
    dfa = compile_json_schema(TREE)
    assert dfa.matches(json.dumps(deep(8)).encode())
    assert not dfa.matches(json.dumps(deep(9)).encode())


def test_the_limit_on_recursion_is_named():
    schema = {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}}
    with pytest.raises(ConstraintError, match="max_depth=5"):
        compile_json_schema({**schema, "$ref": "#/$defs/a"}, max_depth=5)


def test_separators_and_open_objects():
    compact = compile_json_schema(ABC, separators=(",", ":"))
    assert compact.matches(b'{"a":1,"b":2}')
    assert not compact.matches(b'{"a": 1, "b": 2}')
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    extra = b'{"city": "x", "more": [1]}'
    assert not compile_json_schema(city).matches(extra)
    assert compile_json_schema(city, open_objects=True).matches(extra)
    assert compile_json_schema({**city, "additionalProperties": True}).matches(extra)
    with pytest.raises(ConstraintError, match="separator"):
        compile_json_schema(city, separators=(";", ":"))


def test_options_travel_in_the_source():
    source = schema_source(ABC, separators=(",", ":"), open_objects=True)
    assert compile_source(source).matches(b'{"a":1,"b":2}')
    assert compile_source(schema_source(ABC)).to_bytes() == compile_json_schema(ABC).to_bytes()


def test_unknown_words_are_told():
    told = compile_schema({"type": "string", "format": "slug", "x-mine": 1}).warnings
    assert [text.partition(":")[0] for text in told] == ["/x-mine", "/format"]


def test_every_state_can_end():
    """No text leads to a place where nothing may follow."""
    for schema, _, _ in CASES:
        dfa = compile_json_schema(schema)
        dead = [s for s in range(dfa.state_count)
                if not dfa.is_accepting(s) and not dfa.allowed_bytes(s)]  # fmt: skip
        assert dead == []
        assert dfa.shortest_len() >= 1


HOSTILE = {
    "nested arrays": '{"items":' * 5000 + "{}" + "}" * 5000,
    "brackets in enum": '{"enum": [' + "[" * 100_000 + "]" * 100_000 + "]}",
    "too long": json.dumps({"enum": ["x" * 1_100_000]}),
    "cyclic": '{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}',
    "huge number": '{"minimum": 1e999999}',
    "many digits": '{"minimum": ' + "9" * 3000 + "}",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_schemas_are_refused_at_once(name):
    started = time.thread_time()
    with pytest.raises(ConstraintError):
        compile_json_schema(HOSTILE[name])
    assert time.thread_time() - started < 1


def test_costly_schemas_end_within_their_budget():
    node = {"$ref": "#"}
    wide = {"type": "object", "properties": {f"p{i}": node for i in range(40)}}
    started = time.thread_time()
    with pytest.raises(ConstraintError, match="too complex"):
        compile_json_schema(wide, max_depth=8, max_seconds=1.0)
    assert time.thread_time() - started < 3
