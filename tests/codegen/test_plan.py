"""Plans survive JSON without loss, print for people, and damaged ones are refused."""

import copy
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manual_backend import module_of

from lmc.codegen.lower import lower
from lmc.codegen.plan import print_plan
from lmc.codegen.plan_json import decode_attr, encode_attr, plan_from_json, plan_to_json
from lmc.errors import ArtifactError

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=8)
ATTRS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats()
    | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXTS | st.sampled_from(["$tuple", "$int", "$"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def through_json(value):
    return decode_attr(json.loads(json.dumps(encode_attr(value), allow_nan=False)))


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right


@settings(max_examples=300, deadline=None)
@given(ATTRS)
def test_attributes_survive(value):
    assert same(through_json(value), value)


@pytest.mark.parametrize(
    "value",
    [math.inf, -math.inf, math.nan, -0.0, 5e-324, 2**53 + 1, -(10**5000), (), ((),), [(1, [2])],
     "\ud83d\ude00", "\ud800", "a\x00b\n", {"$float": 1}, {"$x": 1, "y": 2}, {"": {"\udc00": ()}},
     True, 1, 1.0],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_json_has_no_word_for(value):
    assert same(through_json(value), value)


def test_what_is_no_attribute_is_refused():
    with pytest.raises(TypeError, match="set"):
        encode_attr({"a": {1}})
    with pytest.raises(ValueError, match="unknown kind"):
        decode_attr({"$thing": 1})


MODULE = """
module "m" {} {
  entry @main
  func @main program (%effect: effect, %x: py) {params = [{name = "x", default = (1, inf)}],
      doc = "Do \\ud800 it."} {
    %s: state = lm.prompt loc(#0)
    %c: bool = val.truth %x
    %e: effect, %r: state = cf.if %c {} {
      %t: text = val.const {value = "yes"}
      %s1: state = lm.extend %s, %t
      cf.yield %effect, %s1
    } {
      %e1: effect, %v: py = host.call %effect, %x {callee = "builtins:print"}
      cf.yield %e1, %s
    }
    func.return %e, %r, %x
  }
}
#0 = "m.py":3:5-3:9 "    s += 1"
"""


def plan():
    return lower(module_of(MODULE))


def test_a_plan_survives():
    made = plan()
    again = plan_from_json(json.loads(json.dumps(plan_to_json(made))))
    assert again == made
    assert print_plan(again) == print_plan(made)
    assert made.callees() == ["builtins:print"]


def test_a_plan_prints_for_people():
    text = print_plan(plan())
    assert "program main(x) entry" in text
    assert "lm.prompt  ; m.py:3:5" in text
    assert "r1 = outer r" in text
    assert "host.call" in text
    assert "callee='builtins:print'" in text


def damaged(change):
    data = copy.deepcopy(plan_to_json(plan()))
    change(data)
    return data


DAMAGES = {
    "no version": lambda d: d.pop("version"),
    "newer version": lambda d: d.update(version=99),
    "no functions": lambda d: d.pop("functions"),
    "register outside": lambda d: d["functions"][0]["body"]["results"].append(1000),
    "negative register": lambda d: d["functions"][0]["body"]["results"].append(-1),
    "location outside": lambda d: d["functions"][0]["body"]["steps"][0].__setitem__(5, 40),
    "state position outside": lambda d: d["functions"][0]["body"]["steps"][0].__setitem__(7, [9]),
    "text for a number": lambda d: d["functions"][0]["body"].update(registers="7"),
    "a list": lambda d: d.update(functions=[[]]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_plans_are_refused(name):
    with pytest.raises(ArtifactError):
        plan_from_json(damaged(DAMAGES[name]))


def test_foreign_data_is_refused():
    for data in (None, [], 3, {"version": "1"}, {"version": 1}):
        with pytest.raises(ArtifactError):
            plan_from_json(data)
