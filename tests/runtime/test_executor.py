"""The executor on IR text: concurrency, loops, events, samples, keys."""

import sys
import time

import pytest
from manual_backend import ManualBackend, executor_of, module_of, run_in_background

from lmc.codegen.lower import lower
from lmc.codegen.target import oracle_target
from lmc.errors import RunError, UsageError
from lmc.ir.calls import derive_key
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle

FORK = """
    %n: int = val.const {value = 3}
    %s: state = lm.prompt
    %text: text = val.const {value = "Start."}
    %s1: state = lm.extend %s, %text
    %p: state, %forks: list<state> = lm.fork %s1, %n {}
    %none: py = val.list
    %zero: int = val.const {value = 0}
    %values: py, %made: list<state> = cf.for %forks, %none, %forks {} {
      (%child: state, %v: py, %f: list<state>)
      %c: state, %x: text, %m: meta = lm.gen %child {name = "x", params = {}, dynamic = []}
      %v1: py, %r: py = val.mutate %v, %x {name = "append"}
      %go: bool = val.const {value = true}
      cf.yield %go, %v1, %f
    }
    func.return %effect, %p, %values
"""


def test_children_of_a_dynamic_fork_generate_side_by_side():
    backend = ManualBackend()
    run = run_in_background(executor_of(FORK, backend))
    opened = backend.wait(3)
    keys = {derive_key(5, 0, (f"fork0.{index}",), 0) for index in range(3)}
    assert {o.call.key for o in opened} == keys
    for number, o in sorted(enumerate(opened), reverse=True):
        o.say(f"answer {number}")
    result = run.result()
    assert sorted(result.value) == ["answer 0", "answer 1", "answer 2"]
    order = [record.lineage for record in result.calls]
    assert order == [("fork0.0",), ("fork0.1",), ("fork0.2",)]
    assert result.value == [record.result.text for record in result.calls]


INDEPENDENT = """
    %s: state = lm.prompt
    %a: state, %x: text, %m: meta = lm.gen %s {name = "a", params = {}, dynamic = []}
    %b: state, %y: text, %k: meta = lm.gen %s {name = "b", params = {}, dynamic = []}
    %e: effect, %q: state, %c: state, %z: py = func.call %effect, %b {callee = "inner"}
    %both: text = val.concat %x, %y, %z
    func.return %e, %a, %both
"""
WITH_INNER = f"""
module "m" {{}} {{
  entry @main
  func @main program (%effect: effect) {{}} {{{INDEPENDENT}
  }}
  func @inner program (%effect: effect) {{}} {{
    %s: state = lm.prompt
    %t: state, %x: text, %m: meta = lm.gen %s {{name = "in", params = {{}}, dynamic = []}}
    func.return %effect, %t, %x
  }}
}}
"""


def test_nested_programs_start_before_the_calls_that_they_do_not_need():
    backend = ManualBackend()
    run = run_in_background(executor_of(WITH_INNER, backend))
    backend.wait(3)
    backend.named("in").say("3")
    backend.named("b").say("2")
    backend.named("a").say("1")
    result = run.result()
    assert result.value == "123"
    inner = next(record for record in result.calls if record.name == "in")
    assert (inner.lineage, inner.ordinal) == (("call1",), 0)
    assert inner.call.key == derive_key(5, 0, ("call1",), 0)


LOOP = """
    %n: int = val.const {value = 10000}
    %items: list<py> = val.call %n {callee = "range"}
    %s: state = lm.prompt
    %zero: int = val.const {value = 0}
    %acc: py, %st: state = cf.for %items, %zero, %s {} {
      (%i: py, %a: py, %t: state)
      %x: text = val.const {value = "x"}
      %t2: state = lm.extend %t, %x
      %b: py = val.binary %a, %i {op = "+"}
      %go: bool = val.const {value = true}
      cf.yield %go, %b, %t2
    }
    func.return %effect, %st, %acc
"""
WHILE = """
    %s: state = lm.prompt
    %zero: int = val.const {value = 0}
    %acc: py, %st: state = cf.while %zero, %s {} {
      (%a: py, %t: state)
      %one: int = val.const {value = 1}
      %b: py = val.binary %a, %one {op = "+"}
      %text: text = val.call %b {callee = "str"}
      %set: state = lm.set %t, %b {name = "count"}
      %limit: int = val.const {value = 10000}
      %more: py = val.compare %b, %limit {op = "<"}
      %go: bool = val.truth %more
      cf.yield %go, %b, %set
    }
    func.return %effect, %st, %acc
"""


@pytest.mark.parametrize("text", [LOOP, WHILE])
def test_long_loops_need_no_deep_stack(text):
    before = sys.getrecursionlimit()
    executor = executor_of(text, Oracle())
    started = time.perf_counter()
    result = executor.run("main", {}, seed=0)
    assert time.perf_counter() - started < 20
    assert result.value == (49995000 if text is LOOP else 10000)
    assert sys.getrecursionlimit() == before


def test_a_long_chain_of_generations():
    text = LOOP.replace("10000", "600").replace(
        '%t2: state = lm.extend %t, %x',
        '%t2: state, %v: text, %m: meta = lm.gen %t {params = {max_tokens = 1}, dynamic = []}',
    )  # fmt: skip
    result = executor_of(text, Oracle()).run("main", {}, seed=0)
    assert len(result.calls) == 600
    assert [record.ordinal for record in result.calls] == list(range(600))


EVENTS = """
    %s: state = lm.prompt
    %a: state = lm.begin %s {role = "user"}
    %t: text = val.const {value = "Hi "}
    %b: state = lm.extend %a, %t
    %c: state = lm.end %b {role = "user"}
    %d: state, %x: text, %m: meta = lm.gen %c {name = "x", params = {}, dynamic = []}
    %o: list<text> = val.const {value = ["yes", "no"]}
    %e: state, %y: text, %k: meta = lm.select %d, %o {name = "y", params = {}, dynamic = []}
    %p: state, %forks: list<state> = lm.fork %e {count = 2}
    %zero: int = val.const {value = 0}
    %f: state = val.index %forks, %zero
    %g: state, %z: text, %l: meta = lm.gen %f {name = "z", params = {}, dynamic = []}
    %h: state = lm.join %p, %forks {mode = "gather_variable"}
    %i: state = lm.extend %h, %z
    %j: state = lm.control %i {token = "<|im_end|>"}
    %w: text = lm.text %g
    func.return %effect, %j, %w
"""


def test_events_spell_out_the_text_of_each_lineage_in_order():
    heard = []
    result = executor_of(EVENTS, Oracle()).run(
        "main", {}, seed=3, on_event=lambda *event: heard.append(event)
    )
    root = "".join(text for _, _, text, lineage in heard if lineage == ())
    child = "".join(text for _, _, text, lineage in heard if lineage == ("fork2.0",))
    assert root == result.text()
    assert child == result.calls[-1].result.text
    kinds = {(kind, name) for kind, name, _, _ in heard}
    assert kinds == {("text", None), ("gen", "x"), ("gen", "z"), ("select", "y")}


def test_a_listener_that_raises_ends_the_run():
    def broken(*event):
        raise ZeroDivisionError("no listening")

    with pytest.raises(ZeroDivisionError, match="no listening"):
        executor_of(EVENTS, Oracle()).run("main", {}, seed=3, on_event=broken)


SAMPLES = """
    %s: state = lm.prompt
    %t: text = val.const {value = "Say: "}
    %a: state = lm.extend %s, %t
    %b: state, %x: py, %m: meta = lm.gen %a {name = "x", params = {n = 3, temperature = 0.5},
        dynamic = []}
    %c: state, %y: py, %k: meta = lm.gen %b {name = "y", params = {top_k = 1}, dynamic = []}
    func.return %effect, %c, %x
"""


def test_samples_are_asked_at_once_with_keys_of_their_own():
    backend = ManualBackend()
    run = run_in_background(executor_of(SAMPLES, backend), instance=4, defaults={"max_tokens": 9})
    opened = backend.wait(3)
    assert [o.call.key for o in opened] == [derive_key(5, 4, (), 0, sample) for sample in range(3)]
    assert all(o.call.params.max_tokens == 9 for o in opened)
    for number, o in enumerate(opened):
        o.say(f"s{number}")
    greedy = backend.wait(1)[0]
    assert greedy.call.key == 0, "a greedy call needs no randomness"
    greedy.say("!")
    result = run.result()
    assert result.value == ["s0", "s1", "s2"]
    assert result.text() == "Say: s0!"
    metas = result.state.get_meta_info("x")
    assert [meta["completion_tokens"] for meta in metas] == [
        len(record.result.token_ids) for record in result.calls[:3]
    ]


RECURSIVE = """
module "m" {} {
  entry @main
  func @main program (%effect: effect, %n: py) {params = [{name = "n"}]} {
    %s: state = lm.prompt
    %zero: int = val.const {value = 0}
    %is: py = val.compare %n, %zero {op = "=="}
    %c: bool = val.truth %is
    %e: effect, %st: state, %v: py = cf.if %c {} {
      cf.yield %effect, %s, %zero
    } {
      %one: int = val.const {value = 1}
      %m: py = val.binary %n, %one {op = "-"}
      %x: effect, %s1: state, %t: state, %r: py = func.call %effect, %s, %m {callee = "main"}
      %sum: py = val.binary %r, %one {op = "+"}
      cf.yield %x, %s1, %sum
    }
    func.return %e, %st, %v
  }
}
"""


def test_recursion_is_bounded():
    run = executor_of(RECURSIVE, Oracle()).run
    assert run("main", {"n": 150}, seed=0).value == 150
    with pytest.raises(RunError, match="nested deeper than 200"):
        run("main", {"n": -1}, seed=0)


def test_arguments_are_checked():
    executor = executor_of(RECURSIVE, Oracle())
    with pytest.raises(UsageError, match="needs a value for 'n'"):
        executor.run("main", {}, seed=0)
    with pytest.raises(UsageError, match="no argument 'm'"):
        executor.run("main", {"n": 0, "m": 1}, seed=0)
    with pytest.raises(UsageError, match="no program 'other'"):
        executor.run("other", {}, seed=0)
    with pytest.raises(UsageError, match="'temprature' is no decode parameter"):
        executor.run("main", {"n": 0}, seed=0, defaults={"temprature": 1})


def test_a_plan_for_another_tokenizer_is_refused():
    class Other:
        name, fingerprint, template = "other", "other", None
        tokenizer = oracle_target().tokenizer

    plan = lower(module_of(RECURSIVE), oracle_target())
    with pytest.raises(UsageError, match="another tokenizer"):
        Executor(Oracle(target=Other()), plan)
    assert Executor(Oracle(target=Other()), lower(module_of(RECURSIVE)))
