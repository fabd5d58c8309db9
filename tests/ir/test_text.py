"""The text form: every module survives it, no text breaks the parser."""

import math
import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.errors import ParseError
from lmc.ir import Block, Function, Location, Module, Op, Param, Value, parse_module, print_module
from lmc.ir.ops import SPECS
from lmc.ir.parser import MAX_CHARS, MAX_DEPTH
from lmc.ir.types import SCALAR_NAMES, Type

Numbers = dict[Value, int]


def same_module(a: Module, b: Module) -> bool:
    """Whether two modules differ in nothing but the names of values."""
    return (
        (a.name, a.entries) == (b.name, b.entries)
        and same_attr(a.attributes, b.attributes)
        and list(a.functions) == list(b.functions)
        and all(map(_same_function, a.functions.values(), b.functions.values()))
    )


def same_attr(a: Any, b: Any) -> bool:
    """Whether two attributes are equal in value, type and order; nan equals nan."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex() or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_attr, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same_attr, a.values(), b.values()))
    return bool(a == b)


def _same_function(a: Function, b: Function) -> bool:
    pairs = zip(a.params, b.params, strict=False)
    return (
        (a.name, a.kind, a.location) == (b.name, b.kind, b.location)
        and same_attr(a.attributes, b.attributes)
        and len(a.params) == len(b.params)
        and all(_same_param(p, q) for p, q in pairs)
        and _same_block(a.body, b.body, ({}, {}))
    )


def _same_param(a: Param, b: Param) -> bool:
    return (a.name, a.annotation, a.has_default, a.keyword_only) == (
        b.name, b.annotation, b.has_default, b.keyword_only,
    ) and same_attr(a.default, b.default)  # fmt: skip


def _same_block(a: Block, b: Block, numbers: tuple[Numbers, Numbers]) -> bool:
    return (
        _same_values(a.arguments, b.arguments, numbers)
        and len(a.ops) == len(b.ops)
        and all(_same_op(p, q, numbers) for p, q in zip(a.ops, b.ops, strict=True))
    )


def _same_op(a: Op, b: Op, numbers: tuple[Numbers, Numbers]) -> bool:
    return (
        (a.name, a.location, len(a.blocks)) == (b.name, b.location, len(b.blocks))
        and same_attr(a.attributes, b.attributes)
        and [numbers[0][v] for v in a.operands] == [numbers[1][v] for v in b.operands]
        and all(_same_block(p, q, numbers) for p, q in zip(a.blocks, b.blocks, strict=True))
        and _same_values(a.results, b.results, numbers)
    )


def _same_values(a: list[Value], b: list[Value], numbers: tuple[Numbers, Numbers]) -> bool:
    for values, known in zip((a, b), numbers, strict=True):
        for value in values:
            known[value] = len(known)
    return [value.type for value in a] == [value.type for value in b]


# Any code point may stand in a string, lone surrogates too.
strings = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["", "\n", '"', "\\", "\\u0041", "\ud800", "\ud83d\ude00", "🙂", "\x00", "\u2028", "// x", "#0"]
)
attributes = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | strings
    | st.sampled_from([1 << 3000, -(1 << 3000)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(strings, inner, max_size=3)
    ),
    max_leaves=6,
)
dicts = st.dictionaries(strings.filter(lambda key: key != "params"), attributes, max_size=3)
types = st.recursive(
    st.sampled_from(SCALAR_NAMES).map(Type),
    lambda t: t.map(lambda e: Type("list", e)),
    max_leaves=3,
)
numbers = st.integers(0, 10**6)
locations = st.none() | st.builds(Location, strings, numbers, numbers, numbers, numbers, strings)
values = st.builds(Value, types, strings | st.sampled_from(["s", "s_1", "s_2", "x", "0", "_1"]))
params = st.builds(Param, strings, strings) | st.builds(
    Param, strings, strings, st.just(True), attributes, st.booleans()
)


@st.composite
def blocks(draw: st.DrawFn, visible: tuple[Value, ...] = (), depth: int = 0) -> Block:
    """A block of any ops over the visible values."""
    block = Block(draw(st.lists(values, max_size=2)))
    known = (*visible, *block.arguments)
    for _ in range(draw(st.integers(0, 3))):
        operands = draw(st.lists(st.sampled_from(known), max_size=3)) if known else []
        nested = st.lists(blocks(known, depth + 1), max_size=2) if depth < 2 else st.just([])
        op = Op(
            draw(st.sampled_from(sorted(SPECS))),
            operands,
            draw(st.lists(values, max_size=2)),
            draw(dicts),
            draw(nested),
            draw(locations),
        )
        block.ops.append(op)
        known = (*known, *op.results)
    return block


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """A module that prints; most do not verify."""
    module = Module(draw(strings), {}, draw(st.lists(strings, max_size=2)), draw(dicts))
    for name in draw(st.lists(strings, max_size=2, unique=True)):
        kind = draw(st.sampled_from(["program", "helper"]))
        held = draw(st.lists(params, max_size=2))
        body = draw(blocks())
        module.functions[name] = Function(name, kind, held, body, draw(dicts), draw(locations))
    return module


SAMPLE = """module "judge" {} {
  entry @judge
  func @judge program (%effect: effect, %essay: py) {params = [{name = "essay"}]} loc(#0) {
    %s: state = lm.prompt
    %c: text = val.const {value = "Judge:\\n"} loc(#1)
    %s_1: state = lm.extend %s, %c
    %s_2: state, %x: text, %meta: meta = lm.gen %s_1 {name = "x", params = {top_p = 0.5}, dynamic = []}
    %b: bool = val.truth %x
    %s_3: state = cf.if %b {} {
      %s_4: state = lm.extend %s_2, %essay
      cf.yield %s_4
    } {
      cf.yield %s_2
    } loc(#1)
    %l: list<state> = val.list %s_3
    %1: state = cf.for %l, %s_3 {} { (%item: state, %st: state)
      %go: bool = val.const {value = true}
      cf.yield %go, %item
    }
    func.return %effect, %1, %x
  }
}
#0 = "judge.py":1:1-9:5 "def judge"
#1 = "judge.py":3:5-3:20 "s += \\"Judge\\""
"""  # noqa: E501


@settings(max_examples=60, deadline=None, derandomize=True)
@given(modules())
def test_every_module_survives(module: Module) -> None:
    text = print_module(module)
    read = parse_module(text)
    assert same_module(module, read)
    assert print_module(read) == text
    text.encode("utf-8")


def test_sample_is_canonical() -> None:
    read = parse_module(SAMPLE)
    again = print_module(read)
    assert same_module(read, parse_module(again))
    assert print_module(parse_module(again)) == again


def test_names_of_a_printed_module_stay() -> None:
    printed = print_module(parse_module(SAMPLE))
    assert "%s_2: state, %x: text, %meta: meta = lm.gen %s_1" in printed
    assert "%0: state = cf.for %l, %s_3 {} {" in printed


def test_a_name_taken_twice_gets_a_number() -> None:
    text = SAMPLE.replace("%c: text", "%s_9: text").replace("%s, %c", "%s, %s_9")
    assert "lm.extend %s, %s_9" in print_module(parse_module(text))


SPLINTERS = (
    '"', "\\", "{", "}", "%s", "loc(#7)", "9" * 5000, "\ud800", "", "\n", "list<", "-", "0x", "nan",
)  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_changed_text_never_crashes(seed: int) -> None:
    chance = random.Random(seed)
    text = SAMPLE
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice([0, 1, 1, 2, 30]))
        other = chance.randrange(len(SAMPLE))
        insert = chance.choice([*SPLINTERS, SAMPLE[other : other + 25]])
        text = text[:at] + insert + text[end:]
    error = None
    try:
        module = parse_module(text)
    except ParseError as caught:
        error = caught
    if error is None:
        assert same_module(module, parse_module(print_module(module)))
    else:
        place = error.location
        assert isinstance(place, Location)
        assert min(place.line, place.column) >= 1
        assert str(error)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=60))
def test_any_text_is_a_module_or_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_module(text)


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("lm.extend %s, %c", "lm.extend %s, %d", 6, 33, "%d is not defined before this use"),
        ("%c: text = val", "%s: text = val", 5, 5, "%s is defined twice"),
        ("{} {\n      %s_4", "{}\n      %s_4", 12, 7, "expected"),
        ("(%effect: effect,", "(%effect: effekt,", 3, 33, "unknown type 'effekt'"),
        ("list<state>", "list", 15, 9, "list<type>"),
        ("entry @judge", "entry judge", 2, 9, "expected '@' or a function name"),
        ('"Judge:\\n"', '"Judge:\\q"', 5, 35, "unknown escape \\q"),
        ('"Judge:\\n"', '"Judge:\\n', 5, 35, "a string that does not end on its line"),
        ("top_p = 0.5", "top_p = 0.5, top_p = 1", 7, 90, "'top_p' is given twice"),
        ("lm.prompt", "lm.prompt loc(#9)", 4, 31, "#9 is not in the table"),
        ("cf.yield %go, %item", "cf.yield %go, %s_4", 18, 21, "belongs to a block that has ended"),
        ("#1 = ", "#0 = ", 24, 1, "#0 is defined twice"),
        ('name = "essay"', "name = 3", 3, 8, "is no parameter"),
        ("top_p = 0.5", "top_p = " + "9" * 5000, 7, 85, "write it as 0x"),
        ('"judge.py":1:1-9:5', '"judge.py":1:-1-9:5', 23, 19, "whole numbers"),
    ],
)
def test_errors_have_a_place(old: str, new: str, line: int, column: int, message: str) -> None:
    assert SAMPLE.count(old) >= 1
    with pytest.raises(ParseError) as caught:
        parse_module(SAMPLE.replace(old, new, 1), "x.lmir")
    error = caught.value
    assert message in error.message
    assert error.location is not None
    assert str(error.location) == f"x.lmir:{line}:{column}"  # type: ignore[attr-defined]


def test_a_caret_stands_under_the_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_module('module "m" {} {\n  entry 7\n}')
    assert str(caught.value).splitlines()[1:] == ["  at <ir>:2:9", "      entry 7", "            ^"]


def test_the_end_is_named() -> None:
    with pytest.raises(ParseError, match="found the end of the text") as caught:
        parse_module('module "m" {} {\n  entry @x\n')
    assert str(caught.value.location) == "<ir>:2:11"


@pytest.mark.parametrize(
    "text",
    [
        "{" * 1_000_000,
        'module "m" {a = ' + "[" * 100_000,
        'module "m" {a = ' + "(" * (MAX_DEPTH + 1),
        "list<" * 500_000,
        "x" * (MAX_CHARS + 1),
        '"' * 2_000_000,
        '"' + "\\" * 3_000_000,
        "%a: " * 500_000,
    ],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        parse_module(text)
    assert time.process_time() - start < 5


def test_nesting_up_to_the_limit_is_read() -> None:
    depth = MAX_DEPTH - 1
    text = f'module "m" {{a = {"[" * depth}{"]" * depth}}} {{\n}}\n'
    assert print_module(parse_module(text)) == text
