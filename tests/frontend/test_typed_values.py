"""gen(type=...) and gen(json_schema=...): the same values in every mode, errors at the line."""

import dataclasses
import enum
import json
from typing import Literal

import pydantic
import pytest

import lmc
from lmc.codegen.artifact import load_artifact
from lmc.codegen.lower import lower
from lmc.errors import ConstraintError, RunError, UsageError
from lmc.frontend.capture import capture
from lmc.frontend.schema import type_text
from lmc.ir import value_types
from lmc.ir.decode_params import check_param
from lmc.ir.interpreter import interpret
from lmc.ir.parser import parse_module
from lmc.ir.printer import print_module
from lmc.passes.pipeline import PassManager
from lmc.runtime.eager import run_eager
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle

MODES = ("eager", "interpreter", "plain", "optimised")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    """A dataclass with nested parts."""

    x: int
    y: float | None
    color: Color
    tags: list[str] = dataclasses.field(default_factory=list)


class City(pydantic.BaseModel):
    """A pydantic model."""

    name: str
    size: Literal["small", "big"]
    at: tuple[int, int] | None = None


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@lmc.function
def typed(s):
    """Every kind of typed generation."""
    s += "A " + lmc.gen("literal", type=Literal["yes", "no"], max_tokens=20)
    s += "B " + lmc.gen("enum", type=Color, max_tokens=20)
    s += "C " + lmc.gen("level", type=Level, max_tokens=20)
    s += "D " + lmc.gen("point", type=Point, max_tokens=400)
    s += "E " + lmc.gen("city", type=City, max_tokens=400)
    s += "F " + lmc.gen("dict", json_schema=SCHEMA, max_tokens=200)
    s += "G " + lmc.gen("many", type=list[Color], max_tokens=300)
    s += "H " + lmc.gen("maybe", type=Point | None, max_tokens=300)
    s += "I " + lmc.gen("inline", json_schema={"enum": ["a", 1, None]}, max_tokens=30)
    names = ("literal", "enum", "level", "point", "city", "dict", "many", "maybe", "inline")
    return [s[name] for name in names]


@lmc.function
def cut(s):
    """A generation that is too short for its type."""
    s += "A " + lmc.gen("point", type=Point, max_tokens=3)
    return s["point"]


def run_in(mode, program, oracle):
    function = program.__lmc_function__
    if mode == "eager":
        return run_eager(oracle, function, {}, seed=3).value
    captured = capture([function], folder=None)
    module = parse_module(print_module(captured.module))
    if mode == "interpreter":
        return interpret(
            module, program.name, {}, model=oracle, target=oracle.target, seed=3,
            host=captured.host,
        ).value  # fmt: skip
    if mode == "optimised":
        module = PassManager.parse().run(module).module
    executor = Executor(oracle, lower(module, oracle.target), captured.host)
    return executor.run(function.__name__, {}, seed=3).value


SCRIPT = {
    "literal": "yes",
    "enum": "blue",
    "level": "2",
    "point": '{"x": 3, "y": 2, "color": "red", "tags": ["q", "é"]}',
    "city": '{"name": "Rome", "size": "big", "at": [1, 2]}',
    "dict": '{"a": 5}',
    "many": '["red", "blue"]',
    "maybe": "null",
    "inline": "1",
}


@pytest.mark.parametrize("mode", MODES)
def test_values_arrive_parsed(mode):
    assert run_in(mode, typed, Oracle(SCRIPT)) == [
        "yes", Color.BLUE, Level.HIGH, Point(3, 2.0, Color.RED, ["q", "é"]),
        City(name="Rome", size="big", at=(1, 2)), '{"a": 5}', [Color.RED, Color.BLUE], None, "1",
    ]  # fmt: skip


def test_unscripted_answers_agree_in_all_modes():
    values = [run_in(mode, typed, Oracle(seed=5)) for mode in MODES]
    assert values == [values[0]] * len(MODES)
    assert isinstance(values[0][3], Point)
    assert isinstance(values[0][4], City)


@pytest.mark.parametrize("mode", MODES)
def test_incomplete_text_is_an_error_at_the_line(mode):
    with pytest.raises(RunError, match="Point was cut before it was complete") as caught:
        run_in(mode, cut, Oracle(SCRIPT))
    assert "max_tokens=3" in str(caught.value)


def test_a_program_with_classes_names_them_as_imports(tmp_path, monkeypatch):
    plan = lower(capture([typed.__lmc_function__], folder=None).module, Oracle().target)
    assert plan.classes() == [f"{__name__}:{n}" for n in ("City", "Color", "Level", "Point")]
    monkeypatch.setattr(value_types, "_LIVE", {})
    with pytest.raises(RunError, match="cannot be imported"):
        value_types.find_class("no_such_module:Point")


def test_compiled_artifact_lists_and_checks_the_classes(tmp_path, monkeypatch):
    path = tmp_path / "typed.lmc"
    typed.compile("oracle").save(path)
    assert f"{__name__}:City" in load_artifact(path).host_imports
    loaded = lmc.load(path)
    monkeypatch.setattr(value_types, "_LIVE", {})
    if "." in __name__:  # the test module is not importable by name
        monkeypatch.setitem(__import__("sys").modules, __name__, None)
    with pytest.raises(RunError, match=r"class .*City.* cannot be imported"):
        loaded.check_imports()


@pytest.mark.parametrize(
    "kind", [object, bytes, set[int], "Point", Literal["a", ""], Literal["1", 1], dict[int, str]]
)
def test_other_types_are_refused(kind):
    with pytest.raises(UsageError):
        type_text(kind)


@pytest.mark.parametrize("schema", ["{", 5, [1], {"a": {1}}])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(UsageError):
        check_param("json_schema", schema)


def test_json_schema_beside_another_constraint_is_refused():
    with pytest.raises(UsageError, match="beside"):
        lmc.gen("x", json_schema=SCHEMA, type=int)


def test_recursive_classes_and_nested_models_have_schemas():
    @dataclasses.dataclass
    class Box:
        city: City
        color: Color

    schema = json.loads(json.loads(type_text(Box))["schema"])
    names = list(schema["$defs"])
    assert [name.rpartition(".")[2] for name in names] == ["Box", "City"]
    assert value_types.read_typed(
        type_text(Box), '{"city": {"name": "A", "size": "big"}, "color": "red"}'
    ) == Box(City(name="A", size="big"), Color.RED)


@lmc.function
def refused(s):
    """A schema that cannot be followed."""
    s += lmc.gen("x", json_schema={"properties": {"a": {"$ref": "elsewhere.json"}}})


def test_a_bad_schema_is_refused_when_compiled_with_place_and_line():
    with pytest.raises(ConstraintError) as caught:
        refused.compile("oracle")
    assert caught.value.pointer == "/properties/a/$ref"
    assert "test_typed_values.py" in str(caught.value)
