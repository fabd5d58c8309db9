"""The verifier: every rule is found broken, at its place, and all at once."""

import pytest

from lmc.errors import VerifyError
from lmc.ir import (
    Block,
    Builder,
    Location,
    Module,
    find_failures,
    new_function,
    parse_module,
    print_module,
    read_module,
    verify,
)
from lmc.ir.types import EFFECT, INT, STATE, TEXT

HEAD = 'module "m" {} {\n  entry @p\n'
BODY = """  func @p program (%effect: effect, %a: py) {params = [{name = "a"}]} {
    %s: state = lm.prompt
    %t: text = val.const {value = "x"}
    %b: bool = val.const {value = true}
    %n: int = val.const {value = 2}
    OP
    func.return %effect, %s, %a
  }
  func @h helper (%effect: effect, %x: py) {params = [{name = "x"}]} {
    func.return %effect, %x
  }
"""


CALL = 'call = "lm.gen",'
"""The choice that is foreseen, where a case does not say one."""


def messages(op: str, tail: str = "}") -> list[str]:
    """Return what is wrong with a program that holds an op."""
    op = op.replace("CALL", CALL)
    return [
        failure.message
        for failure in find_failures(parse_module(HEAD + BODY.replace("OP", op) + tail))
    ]


GOOD = [
    "%s1: state = lm.extend %s, %t",
    '%s1: state = lm.begin %s {role = "user"}',
    '%s1: state, %x: text, %m: meta = lm.gen %s, %a {params = {n = 1}, dynamic = ["top_k"]}',
    '%s1: state, %x: text, %m: meta = lm.gen %s, %a {params = {}, dynamic = ["name"]}',
    '%s1: state, %x: text, %m: meta = lm.select %s, %a {name = "x", params = {}, dynamic = []}',
    "%s1: state, %f: list<state> = lm.fork %s {count = 0}",
    "%s1: state, %f: list<state> = lm.fork %s, %n",
    "%s1: state = cf.if %b {} { cf.yield %s } { cf.yield %s }",
    "%v: py = cf.if %b {} { cf.yield %t } { cf.yield %n }",
    "%v: py = cf.for %a, %a {} { (%i: py, %c: py) cf.yield %b, %i }",
    "%v: py = cf.while %n {} { (%c: py) cf.yield %b, %t }",
    '%e: effect, %s1: state, %c: state, %v: py = func.call %effect, %s, %a {callee = "p"}',
    '%e: effect, %v: py = func.apply %effect, %a {callee = "h"}',
    '%e: effect, %v: py = host.call %effect, %a {callee = "m:f", keywords = ["k"]}',
    '%s1: state = lm.prologue {pieces = [["text", "a"], ["begin", "user"], ["control", "<x>"]]}',
    "%s1: state = lm.group %s, %s",
    "%s1: state = lm.tick %s {n = 3}",
    "%s1: state = lm.prompt %s",
    "%s1: state = lm.prologue %s {pieces = []}",
    '%s1: state, %x: text, %m: meta = lm.gen %s {params = {}, dynamic = [], defaults = {n = 2}}',
    '%m: meta = lm.meta %s {name = "x"} '
    '%s1: state, %x: text, %m1: meta = lm.again %s, %s, %t, %m {kind = "gen", name = "x"}',
    '%s1: state = lm.foresee %s {CALL paths = [{choice = "a", pieces = [["text", "b"]]}]}',
]  # fmt: skip


@pytest.mark.parametrize("op", GOOD)
def test_sound_ops_verify(op: str) -> None:
    used_effect = "func.return %e," if "%e: effect" in op else "func.return %effect,"
    text = (
        HEAD
        + BODY.replace("OP", op.replace("CALL", CALL)).replace(
            "func.return %effect,", used_effect, 1
        )
        + "}"
    )
    verify(parse_module(text))


BAD = [
    ("%x: py = lm.nothing %s", "unknown op"),
    ("%x: state = lm.extend %s", "takes 2 operand(s), not 1"),
    ("%x: state = lm.extend %t, %t", "operand 0 is text instead of state"),
    ("%x: text = lm.extend %s, %t", "result 0 is text instead of state"),
    ("lm.extend %s, %t", "gives 1 result(s), not 0"),
    ("%x: state = lm.begin %s", "lacks the attribute 'role'"),
    ('%x: state = lm.begin %s {role = "tutor"}', "one of 'system', 'user', 'assistant'"),
    ("%x: state = lm.prompt {depth = 1}", "unknown attribute 'depth'"),
    ("%x: state = lm.control %s {token = 3}", "instead of a string"),
    ("%x: state = cf.if %b {} { cf.yield %s }", "1 block(s) instead of 2"),
    ("%x: state = cf.if %a {} { cf.yield %s } { cf.yield %s }", "operand 0 is py instead of bool"),
    ("%x: state = cf.if %b {} { cf.yield %s } { cf.yield }", "second block yields 0 value(s)"),
    ("%x: state = cf.if %b {} { cf.yield %t } { cf.yield %s }", "yields is text instead of state"),
    ("%x: state = cf.if %b {} { cf.yield %s } { }", "ends in nothing instead of cf.yield"),
    ("%x: py = cf.for %a, %t {} { (%i: py) cf.yield %b, %t }", "the item and 0"),
    ("%x: py = cf.for %a, %s {} { (%i: py, %c: text) cf.yield %b, %c }", "the block takes text"),
    ("%x: py = cf.for %a, %a {} { (%i: py, %c: py) cf.yield %a, %c }", "is py instead of bool"),
    ("%x: py = cf.while %a {} { (%c: py) cf.yield %b }", "yields 1 value(s) instead of 2"),
    ("%x: text = cf.while %a {} { (%c: py) cf.yield %b, %c }", "leaves as text"),
    ("cf.yield %a", "ops follow the end of the block"),
    ('%e: effect, %v: py = func.apply %effect, %a {callee = "q"}', "@q is no function"),
    ('%e: effect, %v: py = func.apply %effect, %a {callee = "p"}', "@p is a program"),
    ('%e: effect, %v: py = func.apply %effect {callee = "h"}', "takes 1 argument(s), not 0"),
    ('%e: effect, %v: py = func.apply %effect, %s {callee = "h"}', "is a state, not a py"),
    ('%e: effect = func.apply %effect, %a {callee = "h"}', "@h returns (effect, py), not (effect)"),
    ('%e: effect, %v: state = func.apply %effect, %a {callee = "h"}', "not (effect, state)"),
    ('%x: state, %v: text, %m: meta = lm.gen %s {params = {}, dynamic = ["top_k"]}', "takes 2"),
    ("%x: state, %v: text, %m: meta = lm.gen %s {params = {topk = 1}, dynamic = []}", "'topk'"),
    ('%x: state, %v: text, %m: meta = lm.gen %s, %a {params = {n = 1}, dynamic = ["n"]}', "twice"),
    ('%x: state, %v: text, %m: meta = lm.gen %s {params = {type = "date"}, dynamic = []}', "date"),
    ("%x: state, %f: list<state> = lm.fork %s", "either the attribute 'count' or operand 1"),
    ("%x: state, %f: list<state> = lm.fork %s, %n {count = 2}", "either the attribute"),
    ("%x: state, %f: list<state> = lm.fork %s, %t", "text instead of int"),
    ("%x: state, %f: list<state> = lm.fork %s {count = -1}", "instead of a whole number"),
    ('%x: state = lm.join %s, %a {mode = "glue"}', "'glue'; one of 'gather_variable'"),
    ("%x: py = lm.get %s", "either the attribute 'name' or operand 1"),
    ("%x: state = lm.tick %s {n = true}", "instead of a whole number"),
    ("%x: state = lm.prompt %t", "the state that its program is called from"),
    ("%x: state = lm.prologue %s, %s {pieces = []}", "the state that its program is called from"),
    (
        "%x: state, %v: text, %m: meta = lm.gen %s {params = {}, dynamic = [], "
        "defaults = {topk = 1}}",
        "defaults are decode parameters",
    ),
    (
        '%m: meta = lm.meta %s {name = "x"} '
        '%x: state, %v: py, %m1: meta = lm.again %s, %s, %t, %m {kind = "gen"}',
        "gives a py, but the call gave a text",
    ),
    ('%x: state = lm.prologue {pieces = [["begin", "tutor"]]}', "none of ['text', t]"),
    ("%x: state = lm.foresee %s {CALL paths = 3}", "paths is a list"),
    ('%x: state = lm.foresee %s {call = "lm.fork", paths = []}', "one of 'lm.select', 'lm.gen'"),
    ("%x: state = lm.foresee %s {CALL paths = [{pieces = []}]}", "none of {choice, pie"),
    (
        "%x: state = lm.foresee %s {CALL paths = [{choice = 1, pieces = []}]}",
        "choice 1 is no string",
    ),
    (
        '%x: state = lm.foresee %s {CALL paths = [{choice = "a", pieces = [["x"]]}]}',
        "piece ['x'] is",
    ),
    (
        '%x: state = lm.foresee %s {CALL paths = [{choice = "a", pieces = [], share = 2.0}]}',
        "share 2.0",
    ),
    (
        '%x: state = lm.foresee %s {CALL paths = [{choice = "a", pieces = [], gen = {}}]}',
        "constant",
    ),
    ("%x: py = cf.if %b {taken = [1]} { cf.yield %t } { cf.yield %t }", "instead of two counts"),
    ("%x: py = cf.if %b {taken = [1, -1]} { cf.yield %t } { cf.yield %t }", "whole number from 0"),
    ("%x: text = lm.group %s, %s", "gives back the children"),
    ('%x: py = val.binary %n, %n {op = "@"}', "attribute 'op' is '@'"),
    ('%x: py = val.call %n {callee = "exec"}', "attribute 'callee' is 'exec'"),
    ('%x: py = val.method %t {name = "append"}', "attribute 'name' is 'append'"),
    ('%x: py = val.method %t {name = "split", keywords = ["a"]}', "do not name the last operands"),
    ("%x: py = val.dict %t", "pairs of key and value"),
    ('%e: effect, %v: py = host.call %effect {callee = "f"}', "is not 'module:qualname'"),
    ('%e: effect, %v: py = host.call %effect {callee = "m:f"}', "was taken by host.call before"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "message"), BAD)
def test_broken_ops_are_told(op: str, message: str) -> None:
    assert any(message in found for found in messages(op)), messages(op)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("entry @p", "entry @q", "entry @q is no function of the module"),
        ("entry @p", "entry @h", "entry @h is a helper, not a program"),
        ("entry @p", "entry @p entry @p", "an entry is listed twice"),
        ("(%effect: effect, %a: py)", "(%effect: effect, %a: py, %c: py)", "1 parameter(s)"),
        ("(%effect: effect, %a: py)", "(%effect: effect, %a: state)", "plain values"),
        ("(%effect: effect, %x: py)", "(%effect: py, %x: py)", "takes an effect"),
        (
            "func.return %effect, %s, %a",
            "func.return %effect, %a",
            "returns (effect, state, value)",
        ),
        ("func.return %effect, %s, %a", "cf.yield %a", "ends in cf.yield instead of func.return"),
    ],
)
def test_broken_functions_are_told(old: str, new: str, message: str) -> None:
    text = (HEAD + BODY + "}").replace("    OP\n", "").replace(old, new, 1)
    found = [failure.message for failure in find_failures(parse_module(text))]
    assert any(message in one for one in found), found


def sound() -> Module:
    """Return a module of one program, built in code."""
    function = new_function("p", ["a"], location=Location("p.py", 1, 1, 1, 8, "def p()"))
    build = Builder(function.body, location=Location("p.py", 2, 5, 2, 11, "    s += a"))
    state = build.extend(build.prompt(), function.body.arguments[1])
    build.return_(function.body.arguments[0], state, function.body.arguments[1])
    return Module("m", {"p": function}, ["p"])


def test_what_text_cannot_say_is_told_as_well() -> None:
    module = sound()
    ops = module.functions["p"].body.ops
    ops[1].operands.reverse()
    ops.insert(1, ops.pop(0))
    ops.insert(0, ops[0])
    ops[2].attributes["x"] = object()  # type: ignore[assignment]
    found = [failure.message for failure in find_failures(module)]
    assert any("is not defined before this op" in message for message in found)
    assert "the op stands in two places; clone it" in found
    assert any("which is no plain data" in message for message in found)
    with pytest.raises(VerifyError):
        verify(module)


def test_a_shared_block_is_told() -> None:
    module = sound()
    body = module.functions["p"].body
    build = Builder(body, index=1)
    arm = Block()
    Builder(arm).yield_()
    build.if_(build.const(True), arm, arm, [])
    assert [f.message for f in find_failures(module)] == ["a block stands in two places; clone it"]


def test_a_value_defined_twice_is_told() -> None:
    module = sound()
    ops = module.functions["p"].body.ops
    ops[1].results = ops[0].results
    assert "value 's' is defined twice" in [f.message for f in find_failures(module)]


def test_names_must_match() -> None:
    module = sound()
    module.functions["q"] = module.functions.pop("p")
    found = [failure.message for failure in find_failures(module)]
    assert found[:2] == ["entry @p is no function of the module", "it is stored under the name @q"]


def test_the_error_shows_all_failures_in_the_text_and_the_source_line() -> None:
    module = sound()
    build = Builder(
        module.functions["p"].body, index=1, location=Location("p.py", 3, 1, 3, 3, "s+=1")
    )
    build.op("lm.extend", [build.const(1)], [STATE])
    build.op("lm.text", [build.const(2)], [INT])
    with pytest.raises(VerifyError) as caught:
        verify(module)
    text = str(caught.value)
    assert text.startswith(
        "module 'm' breaks 4 rule(s) of the IR:\n- lm.extend: takes 2 operand(s)"
    )
    assert "    %1: state = lm.extend %0 loc(#2)\n    // ^ takes 2 operand(s), not 1\n" in text
    assert "    // ^ result 0 is int instead of text\n" in text
    assert text.endswith("  at p.py:3:1\n    s+=1\n    ^^")


def test_effects_stay_in_one_chain_through_branches() -> None:
    function = new_function("p")
    build = Builder(function.body)
    effect, state = function.body.arguments[0], build.prompt()
    arms = []
    for _ in range(2):
        arm = Block()
        inside = Builder(arm)
        call = inside.op("host.call", [effect], [EFFECT, TEXT], attributes={"callee": "m:f"})
        call.results[1].type = build.const(None).type
        inside.yield_(call.results[0])
        arms.append(arm)
    branch = build.if_(build.const(True), *arms, [EFFECT])
    build.return_(branch.results[0], state, build.const(None))
    failures = [f.message for f in find_failures(Module("m", {"p": function}, ["p"]))]
    assert all("was taken" not in message for message in failures)
    function.body.ops[-1].operands[0] = effect
    failures = [f.message for f in find_failures(Module("m", {"p": function}, ["p"]))]
    assert any("was taken by cf.if before" in message for message in failures)


BROKEN = """// a comment
module "m" {} {
  entry @q
  func @p program (%e: effect) {} {
    %s: state = lm.prompt
    %c: text = val.const {value = "c"} loc(#0)
    %n: state, %m: state = lm.extend %s,
      %c loc(#0)
    func.return %e, %s
  }
}
#0 = "p.py":3:1-3:3 "s += 'c'"
"""


def test_a_module_from_text_is_refused_at_places_of_the_text() -> None:
    with pytest.raises(VerifyError) as caught:
        read_module(BROKEN, "b.lmir")
    assert str(caught.value).splitlines() == [
        "module 'm' breaks 3 rule(s) of the IR:",
        "- b.lmir:2:8: entry @q is no function of the module",
        "- b.lmir:7:28: lm.extend: gives 1 result(s), not 2",
        "- b.lmir:9:5: func.return: a program returns (effect, state, value), not (effect, state)",
        "  at b.lmir:2:8",
        '    module "m" {} {',
        "           ^^^",
    ]


def test_what_is_read_from_text_and_verified_is_what_is_parsed() -> None:
    text = print_module(sound())
    assert print_module(read_module(text)) == text == print_module(parse_module(text))
