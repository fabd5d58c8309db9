"""The reference interpreter: forks, loops, functions, the host, errors, by hand on a tiny model."""

from typing import Any

import pytest
from ir_program_text import END, gen, program, text

from lmc.errors import EngineError, RunError, UsageError
from lmc.ir import interpret
from lmc.ir.calls import (
    GenCall,
    GenResult,
    SamplingParams,
    derive_key,
)

A, C = (9 + ord(char) for char in "ac")  # ids of the tiny tokenizer


# Forks, joins, variables.


def forked(join: str) -> str:
    """Return a program with two children that differ, joined."""
    return f"""%r: state = lm.prompt
      {text("a", "a")}
      %r1: state = lm.extend %r, %a
      %r2: state = lm.set %r1, %a {{name = "old"}}
      %p: state, %f: list<state> = lm.fork %r2 {{count = 2}}
      %i: int = val.const {{value = 0}}
      %j: int = val.const {{value = 1}}
      %c: state = val.index %f, %i
      %d: state = val.index %f, %j
      %c0: state, %d0: state = lm.group %p, %c, %d
      {gen("c1", "c0", "x")}
      %c2: state = lm.set %c1, %c1_v {{name = "old"}}
      {gen("d1", "d0", "y")}
      %l: list<state> = val.list %c2, %d1
      %s: state = lm.join %p, %l {{mode = "{join}"}}
      %t: text = lm.text %s
      func.return %effect, %s, %t"""


def test_join_gathers_what_is_new(run: Any) -> None:
    made = run(forked("gather_variable"), answers={"x": "no", "y": "yes"})
    assert made.variables == {"old": "a", "x": ["no"], "y": ["yes"]}
    assert made.value == "a"


def test_join_appends_what_the_children_added(run: Any) -> None:
    made = run(forked("concate_and_append"), answers={"x": "no", "y": "yes"})
    assert made.value == "anoyes"
    assert made.variables == {"old": "a"}
    assert made.state.context(made_tokenizer(run)) == (3, A, 7, 8)


def made_tokenizer(run: Any) -> Any:
    """Return the tokenizer that `run` uses."""
    return next(
        cell.cell_contents.tokenizer for cell in run.__closure__
        if hasattr(cell.cell_contents, "tokenizer") and hasattr(cell.cell_contents, "template")
    )  # fmt: skip


def test_reading_variables(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {gen("s", "r")}
      {text("n", "x")}
      %a: bool = lm.has %s, %n
      %b: bool = lm.has %s {{name = "y"}}
      %c: py = lm.get %s {{name = "x"}}
      %d: meta = lm.meta %s, %n
      %l: py = val.tuple %a, %b, %c, %d
      func.return %effect, %s, %l"""
    value = run(body, answers={"x": "ab"}).value
    assert value[:3] == (True, False, "ab")
    assert value[3]["token_ids"] == [4]
    with pytest.raises(RunError, match="no variable 'y'") as caught:
        run(body.replace('lm.get %s {name = "x"}', 'lm.get %s {name = "y"}'), answers={"x": "ab"})
    assert "set so far: 'x'" in str(caught.value)


# Control flow, functions, the host.


def test_a_loop_stops_when_told(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("start", "")}
      %s: state, %s_v: py = cf.for %items, %r, %start {{}} {{ (%item: py, %st: state, %acc: py)
        %st1: state = lm.extend %st, %item
        {gen("g", "st1")}
        {text("stop", "no")}
        %go: py = val.compare %g_v, %stop {{op = "!="}}
        %b: bool = val.truth %go
        %sum: py = val.binary %acc, %g_v {{op = "+"}}
        cf.yield %b, %g, %sum
      }}
      {END}"""
    answers = {"x": lambda call: "no" if call.context[-1] == C else "d"}
    made = run(body, {"items": ["a", "b", "c", "d"]}, answers=answers)
    assert made.value == "ddno"
    assert made.text == "adbdcno"
    assert run(body, {"items": []}).value == ""
    with pytest.raises(RunError, match="not iterable"):
        run(body, {"items": 3})


def test_a_while_loop_runs_at_least_once(run: Any) -> None:
    body = """%r: state = lm.prompt
      %one: int = val.const {value = 1}
      %n: py = cf.while %k {} { (%c: py)
        %d: py = val.binary %c, %one {op = "-"}
        %go: bool = val.truth %d
        cf.yield %go, %d
      }
      func.return %effect, %r, %n"""
    assert run(body, {"k": 3}).value == 0
    with pytest.raises(RunError, match="unsupported operand"):
        run(body, {"k": "a"})


NESTED = """ func @q program (%effect: effect, %k: py) {params = [{name = "k"}]} {
  %r: state = lm.prompt
  %s: state, %v: text, %m: meta = lm.gen %r {name = "q", params = {top_p = 0.5}, dynamic = []}
  func.return %effect, %s, %k
 }
 func @h helper (%effect: effect, %k: py) {params = [{name = "k"}]} {
  %b: bool = val.truth %k
  %e: effect, %v: py = cf.if %b {} {
    %one: int = val.const {value = 1}
    %less: py = val.binary %k, %one {op = "-"}
    %e1: effect, %w: py = func.apply %effect, %less {callee = "h"}
    %sum: py = val.binary %k, %w {op = "+"}
    cf.yield %e1, %sum
  } {
    cf.yield %effect, %k
  }
  func.return %e, %v
 }"""


def test_a_nested_program_has_its_own_prompt_lineage_and_defaults(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {gen("s", "r")}
      %k: int = val.const {{value = 3}}
      %e: effect, %s1: state, %c: state, %v: py = func.call %effect, %s, %k {{callee = "q", defaults = {{top_k = 5}}}}
      {gen("t", "s1", "y")}
      func.return %e, %t, %c"""  # noqa: E501
    made = run(body, answers={"x": "a", "q": "b", "y": "d"}, more=NESTED,
               defaults={"temperature": 0.5, "top_k": 2})  # fmt: skip
    first, nested, last = (call for call, _ in made.calls)
    assert first.params == SamplingParams(temperature=0.5, top_k=2)
    assert nested.params == SamplingParams(temperature=0.5, top_k=5, top_p=0.5)
    assert nested.context == (0,)
    assert nested.key == derive_key(0, 0, ("call1",), 0)
    assert last.key == derive_key(0, 0, (), 2)
    assert made.value.text == "b"
    assert made.value.variables["q"].value == "b"


def test_helpers_recurse_up_to_a_depth(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = func.apply %effect, %k {callee = "h"}
      func.return %e, %r, %v"""
    assert run(body, {"k": 150}, more=NESTED).value == 150 * 151 // 2
    with pytest.raises(RunError, match="nested deeper than 200"):
        run(body, {"k": 250}, more=NESTED)


def test_host_calls_are_recorded_in_order(run: Any) -> None:
    body = """%r: state = lm.prompt
      %two: int = val.const {value = 2}
      %e1: effect, %v: py = host.call %effect, %a, %two {callee = "m:f", keywords = ["k"]}
      %p: py = host.pure %v {callee = "math:sqrt"}
      %e2: effect, %u: py = host.method %e1, %a, %p {name = "append"}
      %l: py = val.tuple %p, %a
      func.return %e2, %r, %l"""
    made = run(body, {"a": [7]}, host={"m:f": lambda a, k: a[0] + k})
    assert made.host_calls == [("m:f", (([7],), {"k": 2})), (".append", (([7], 3.0), {}))]
    assert made.value == (3.0, [7, 3.0])
    found = run(body, {"a": [2]}, resolve_host=lambda callee: lambda *a, **k: 9.0)
    assert found.value == (9.0, [2, 9.0])


def test_async_functions_run_to_their_end(run: Any) -> None:
    async def twice(value: int) -> int:
        return 2 * value

    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect, %k {callee = "m:f"}
      func.return %e, %r, %v"""
    assert run(body, {"k": 4}, host={"m:f": twice}).value == 8


def test_a_state_is_neither_text_nor_an_argument_of_the_host(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect, %r {callee = "m:f"}
      func.return %e, %r, %v"""
    with pytest.raises(RunError, match="cannot be handed to a function of your own"):
        run(body, host={"m:f": print})
    body = """%r: state = lm.prompt
      %t: text = val.concat %r
      func.return %effect, %r, %t"""
    with pytest.raises(RunError, match="a prompt state is not text"):
        run(body)


def test_errors_of_the_host_are_told_at_its_line(run: Any) -> None:
    body = """%r: state = lm.prompt
      %e: effect, %v: py = host.call %effect {callee = "m:f"} loc(#0)
      func.return %e, %r, %v"""
    table = '#0 = "p.py":4:5-4:9 "    f()"'
    with pytest.raises(RunError, match="m:f raised ZeroDivisionError") as caught:
        run(body, host={"m:f": lambda: 1 // 0}, table=table)
    assert str(caught.value).splitlines()[1] == "  at p.py:4:5"
    with pytest.raises(RunError, match="cannot be imported"):
        run(body, table=table)


# Errors.


def test_only_text_can_be_appended(run: Any) -> None:
    body = f"""%r: state = lm.prompt
      {text("a", "the end")}
      %r1: state = lm.extend %r, %a
      %s: state = lm.extend %r1, %k
      func.return %effect, %s, %k"""
    with pytest.raises(RunError, match="not int: 3") as caught:
        run(body, {"k": 3})
    assert "the prompt ends in 'the end'" in str(caught.value)


def test_undefined_names_fail_where_they_are_read(run: Any) -> None:
    body = """%r: state = lm.prompt
      %u: py = val.undefined {name = "v"}
      %s: state = lm.set %r, READ {name = "w"}
      func.return %effect, %s, %k"""
    assert run(body.replace("READ", "%k"), {"k": 1}).variables == {"w": 1}
    with pytest.raises(RunError, match="'v' has no value on the path"):
        run(body.replace("READ", "%u"), {"k": 1})


def test_errors_of_the_model_get_the_line_and_the_tail(run: Any) -> None:
    class Full:
        def generate(self, call: GenCall) -> GenResult:
            raise EngineError("the pool is full", hint="wait")

    body = f"%r: state = lm.prompt\n{gen('s', 'r')}\n{END}"
    with pytest.raises(RunError, match="the pool is full") as caught:
        run(body, model=Full())
    assert caught.value.hint == "wait\nthe prompt ends in ''"


def test_roles_need_a_template_and_turns_must_match(run: Any, tiny_target: Any) -> None:
    body = """%r: state = lm.prompt
      %r1: state = lm.begin %r {role = "user"}
      %s: state = lm.end %r1 {role = "system"}
      %t: text = lm.text %s
      func.return %effect, %s, %t"""
    with pytest.raises(
        RunError, match=r"no turn of .system. can be closed: that of .user. is open"
    ):
        run(body)
    with pytest.raises(RunError, match="no control token '<x>'"):
        run(body.replace('lm.begin %r {role = "user"}', 'lm.control %r {token = "<x>"}'))
    tiny_target.template = None
    with pytest.raises(RunError, match="has no chat template"):
        run(body)


def test_arguments_are_bound_by_name(tiny_target: Any, tiny_model: Any) -> None:
    module = program("%r: state = lm.prompt\nfunc.return %effect, %r, %a", params="a")
    module.functions["p"].params[0].has_default = True
    module.functions["p"].params[0].default = [1]
    options = {"model": tiny_model(), "target": tiny_target}
    first = interpret(module, "p", {}, **options)
    first.value.append(2)
    assert interpret(module, "p", {}, **options).value == [1]
    with pytest.raises(UsageError, match="no parameter 'b'"):
        interpret(module, "p", {"b": 1}, **options)
    module.functions["p"].params[0].has_default = False
    with pytest.raises(UsageError, match="needs a value for 'a'"):
        interpret(module, "p", {}, **options)
    with pytest.raises(UsageError, match="has no program 'q'"):
        interpret(module, "q", {}, **options)
