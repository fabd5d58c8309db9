"""The executor on IR text: values, concurrency, errors, cancelling, effects, keys, events."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from manual_backend import Background, ManualBackend, executor_of, module_of

from lmc.codegen.lower import lower
from lmc.codegen.target import oracle_target
from lmc.errors import Cancelled, EngineError, RunError, UsageError
from lmc.ir.calls import derive_key
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle
from lmc.runtime.result import RunState

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


def run_in_background(executor, entry="main", **options):
    return Background(lambda: executor.run(entry, options.pop("args", {}), seed=5, **options))


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


ERRORS = """
module "m" {} {
  entry @main
  func @main program (%effect: effect) {} {
    %s: state = lm.prompt
    %p: text = val.const {value = "The prompt."}
    %s1: state = lm.extend %s, %p
    %a: state, %x: text, %m: meta = lm.gen %s1 {name = "a", params = {}, dynamic = []} loc(#0)
    %b: state, %y: text, %k: meta = lm.gen %s1 {name = "b", params = {}, dynamic = []} loc(#1)
    %c: state, %z: text, %l: meta = lm.gen %s1 {name = "c", params = {}, dynamic = []} loc(#2)
    %d: state, %w: text, %o: meta = lm.gen %s1 {name = "dead", params = {}, dynamic = []} loc(#3)
    %all: text = val.concat %x, %y, %z
    func.return %effect, %a, %all
  }
}
#0 = "e.py":1:1-1:9 "s += gen1"
#1 = "e.py":2:1-2:9 "s += gen2"
#2 = "e.py":3:1-3:9 "s += gen3"
#3 = "e.py":4:1-4:9 "s += gen4"
"""


def test_the_first_failure_in_program_order_is_raised():
    backend = ManualBackend()
    run = run_in_background(executor_of(ERRORS, backend))
    backend.wait(4)
    backend.named("c").answer(EngineError("c is broken", hint="mend c"))
    backend.named("b").answer(EngineError("b is broken", hint="mend b"))
    assert run.is_running, "an earlier call could still fail"
    backend.named("a").say("fine")
    with pytest.raises(RunError, match="b is broken") as caught:
        run.result()
    text = str(caught.value)
    assert "e.py:2:1" in text
    assert "s += gen2" in text
    assert "mend b" in text
    assert "the prompt ends in 'The prompt.'" in text
    backend.wait(0)


def test_calls_behind_a_failure_are_cancelled():
    text = ERRORS.replace("func.return %effect, %a, %all", "func.return %effect, %c, %x")
    backend = ManualBackend()
    run = run_in_background(executor_of(text, backend))
    backend.wait(4)
    late = backend.named("c")
    backend.named("a").answer(EngineError("a is broken"))
    with pytest.raises(RunError, match="a is broken"):
        run.result()
    assert late.is_cancelled
    backend.wait(0)


def test_errors_of_what_nothing_needs_are_dropped():
    backend = ManualBackend()
    run = run_in_background(executor_of(ERRORS, backend))
    backend.wait(4)
    backend.named("dead").answer(EngineError("dead is broken"))
    for name in "abc":
        backend.named(name).say(name)
    result = run.result()
    assert result.value == "abc"
    assert [record.name for record in result.calls] == ["a", "b", "c"]


def test_what_nothing_needs_is_cancelled_at_the_end():
    backend = ManualBackend()
    run = run_in_background(executor_of(ERRORS, backend))
    backend.wait(4)
    dead = backend.named("dead")
    for name in "abc":
        backend.named(name).say(name)
    assert run.result().value == "abc"
    assert dead.is_cancelled


def test_cancelling_ends_everything():
    backend = ManualBackend()
    executor = executor_of(ERRORS, backend)
    run = run_in_background(executor)
    opened = backend.wait(4)
    executor.cancel()
    with pytest.raises(Cancelled):
        run.result()
    assert all(o.is_cancelled for o in opened)
    backend.wait(0)
    threads = [t for t in threading.enumerate() if t.name == "lmc-executor"]
    assert not threads


def test_an_interrupt_cancels_and_is_raised(monkeypatch):
    backend = ManualBackend()
    executor = executor_of(ERRORS, backend)
    waited = threading.Condition.wait_for
    calls = []

    def interrupted(self, predicate, timeout=None):
        if threading.current_thread() is threading.main_thread() and not calls:
            calls.append(1)
            backend.wait(4)
            raise KeyboardInterrupt
        return waited(self, predicate, timeout)

    monkeypatch.setattr(threading.Condition, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        executor.run("main", {}, seed=0)
    assert not backend.open
    assert len(backend.log) == 4


EFFECTS = """
    %n: int = val.const {value = 20}
    %items: list<py> = val.call %n {callee = "range"}
    %e: effect, %s: py = cf.for %items, %effect, %items {} {
      (%i: py, %x: effect, %l: py)
      %x1: effect, %r: py = host.call %x, %i {callee = "test:note"}
      %go: bool = val.const {value = true}
      cf.yield %go, %x1, %l
    }
    %p: state = lm.prompt
    %end: text = val.const {value = "end"}
    %e1: effect, %last: py = host.call %e, %end {callee = "test:note"}
    func.return %e1, %p, %last
"""


def test_effects_keep_their_order():
    seen = []

    def note(value):
        time.sleep(0.002 if value == 0 else 0)
        seen.append(value)
        return len(seen)

    result = executor_of(EFFECTS, Oracle(), {"test:note": note}).run("main", {}, seed=0)
    assert seen == [*range(20), "end"]
    assert result.value == 21


PURE = """
    %n: int = val.const {value = 4}
    %items: list<py> = val.call %n {callee = "range"}
    %none: py = val.list
    %out: py = cf.for %items, %none {} {
      (%i: py, %o: py)
      %r: py = host.pure %i {callee = "test:meet"}
      %o1: py, %_: py = val.mutate %o, %r {name = "append"}
      %go: bool = val.const {value = true}
      cf.yield %go, %o1
    }
    %p: state = lm.prompt
    func.return %effect, %p, %out
"""


def test_pure_host_functions_run_side_by_side():
    barrier = threading.Barrier(4)

    def meet(value):
        barrier.wait(10)  # broken unless all four are called at once
        return value * 2

    assert executor_of(PURE, Oracle(), {"test:meet": meet}).run("main", {}, seed=0).value == [
        0, 2, 4, 6,
    ]  # fmt: skip


def host_program(op):
    return f"""
    %p: state = lm.prompt
    %x: text = val.const {{value = "12"}}
    {op}
    func.return %e, %p, %r
    """


def call(callee, extra="", keywords=""):
    return host_program(
        f'%e: effect, %r: py = host.call %effect, %x{extra} {{callee = "{callee}"{keywords}}}'
    )


def test_host_functions_are_imported_by_name():
    run = executor_of(call("builtins:int"), Oracle()).run
    assert run("main", {}, seed=0).value == 12
    text = call("json.decoder:JSONDecoder.decode").replace("%effect, %x", "%effect, %d, %x")
    text = text.replace(
        "%x: text", '%d: py = host.pure {callee = "json:JSONDecoder"}\n    %x: text'
    )
    assert executor_of(text, Oracle()).run("main", {}, seed=0).value == 12
    keyword = call("builtins:print", ", %x", ', keywords = ["end"]')
    assert executor_of(keyword, Oracle()).run("main", {}, seed=0).value is None
    method = host_program('%e: effect, %r: py = host.method %effect, %x {name = "isdigit"}')
    assert executor_of(method, Oracle()).run("main", {}, seed=0).value is True


async def later(value):
    return f"later {value}"


def test_coroutines_are_awaited():
    executor = executor_of(call("test:later"), Oracle(), {"test:later": later})
    assert executor.run("main", {}, seed=0).value == "later 12"


@pytest.mark.parametrize(
    ("callee", "message"),
    [
        ("no_such_module_here:f", "module 'no_such_module_here', which cannot be imported"),
        ("json:no_such", "module 'json' has no no_such"),
        ("sys:version", "is not a function"),
    ],
)
def test_missing_host_functions_are_told(callee, message):
    with pytest.raises(RunError, match=message):
        executor_of(call(callee), Oracle()).run("main", {}, seed=0)


def test_what_a_host_function_raises_is_told_at_its_line():
    def broken(value):
        raise KeyError(value)

    with pytest.raises(RunError, match="test:broken raised KeyError: '12'") as caught:
        executor_of(call("test:broken"), Oracle(), {"test:broken": broken}).run("main", {}, seed=0)
    assert isinstance(caught.value.__cause__, KeyError)

    def leaves(value):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        executor_of(call("test:leaves"), Oracle(), {"test:leaves": leaves}).run("main", {}, seed=0)


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


TYPED = """
    %s: state = lm.prompt
    %b: state, %x: py, %m: meta = lm.gen %s {name = "n",
        params = {type = "KIND", max_tokens = 3}, dynamic = []} loc(#0)
    func.return %effect, %b, %x
"""


def typed(kind):
    body = TYPED.replace("KIND", kind)
    return (
        'module "m" {} {\n  entry @main\n  func @main program (%effect: effect) {} {'
        + body + '}\n}\n#0 = "t.py":7:1-7:4 "s += gen()"\n'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [("int", "-12", -12), ("float", "0.50", 0.5), ("bool", "False", False), ("str", "7", "7")],
)
def test_typed_generations_are_read(kind, text, value):
    backend = ManualBackend()
    run = run_in_background(executor_of(typed(kind), backend))
    backend.wait(1)[0].say(text)
    result = run.result()
    assert result.value == value
    assert type(result.value) is type(value)
    assert result["n"] == value


def test_a_typed_generation_that_was_cut_is_an_error():
    backend = ManualBackend()
    run = run_in_background(executor_of(typed("float"), backend))
    backend.wait(1)[0].say("0.", complete=False, finish_reason="length")
    with pytest.raises(RunError, match=r"cut before it was complete: '0\.'") as caught:
        run.result()
    assert "max_tokens (now 3)" in str(caught.value)
    assert "t.py:7:1" in str(caught.value)


def test_a_plain_generation_that_was_cut_can_be_read():
    text = typed("str").replace('type = "str"', 'regex = "[0-9]+"')
    backend = ManualBackend()
    run = run_in_background(executor_of(text, backend))
    backend.wait(1)[0].say("12", complete=False, finish_reason="length")
    result = run.result()
    assert result.value == "12"
    assert result.state.get_meta_info("n")["complete"] is False


GROUP = """
    %s: state = lm.prologue {pieces = [["text", "A constant beginning. "]]}
    %t: text = val.const {value = "Parent text, "}
    %a: state = lm.extend %s, %t
    %p: state, %forks: list<state> = lm.fork %a {count = 2}
    %zero: int = val.const {value = 0}
    %one: int = val.const {value = 1}
    %f: state = val.index %forks, %zero
    %g: state = val.index %forks, %one
    %f1: state, %g1: state = lm.group %p, %f, %g {}
    %u: state, %x: text, %m: meta = lm.gen %f1 {name = "x", params = {}, dynamic = []}
    %v: state, %y: text, %k: meta = lm.gen %g1 {name = "y", params = {}, dynamic = []}
    %both: text = val.concat %x, %y
    func.return %effect, %p, %both
"""


def test_a_group_that_is_computed_before_its_cancellation_comes_is_given_back():
    """A run that ends meanwhile leaves nothing pinned."""
    backend = ManualBackend()
    executor = executor_of(GROUP, backend)
    run = run_in_background(executor)
    (prologue,) = backend.wait(1)
    backend.pin(prologue)
    (group,) = backend.wait(1)
    group.cancel = lambda: backend.pin(group)
    executor.cancel()
    with pytest.raises(Cancelled):
        run.result()
    assert backend.pinned == [prologue.call]


def test_groups_and_prologues_are_computed_first_and_given_back():
    backend = ManualBackend()
    executor = executor_of(GROUP, backend)
    runs = [run_in_background(executor) for _ in range(2)]
    (prologue,) = backend.wait(1)
    tokenizer = backend.target.tokenizer
    assert tokenizer.decode(prologue.call).startswith("A constant beginning")
    backend.pin(prologue)
    groups = backend.wait(2)
    assert all("Parent text" in tokenizer.decode(o.call) for o in groups)
    for o in groups:
        backend.pin(o)
    assert len(backend.pinned) == 3
    opened = backend.wait(4)
    for o in opened[:2] + opened[2:]:
        assert o.call.context[: len(groups[0].call)] == groups[0].call
        o.say("z")
    results = [run.result() for run in runs]
    assert [result.value for result in results] == ["zz", "zz"]
    assert backend.pinned == [prologue.call], "groups give their pins back, prologues stay"
    assert sorted(result.usage.prologue_tokens for result in results) == [0, len(prologue.call)]
    assert results[0].usage.shared_tokens == len(groups[0].call)
    later = run_in_background(executor)
    backend.pin(backend.wait(1)[0])
    for o in backend.wait(2):
        o.say("w")
    assert later.result().value == "ww"
    assert len(backend.pinned) == 1


def test_a_prefix_that_cannot_be_computed_is_left_to_the_calls():
    backend = ManualBackend()
    run = run_in_background(executor_of(GROUP, backend))
    backend.wait(1)[0].answer(EngineError("too long for the pool"))
    backend.wait(1)[0].answer(EngineError("too long for the pool"))
    for o in backend.wait(2):
        o.say("z")
    assert run.result().value == "zz"


def test_a_cancelled_run_leaves_a_shared_prologue_to_the_others():
    backend = ManualBackend()
    module = module_of(GROUP)
    first, second = executor_of(module, backend), executor_of(module, backend)
    runs = [run_in_background(first), run_in_background(second)]
    (prologue,) = backend.wait(1)
    time.sleep(0.05)
    first.cancel()
    with pytest.raises(Cancelled):
        runs[0].result()
    assert not prologue.is_cancelled
    second.cancel()
    with pytest.raises(Cancelled):
        runs[1].result()
    assert prologue.is_cancelled
    assert not backend.pinned


STATES = """
    %s: state = lm.prompt
    %t: text = val.const {value = "T"}
    %a: state = lm.extend %s, %t
    %one: int = val.const {value = 1}
    %b: state = lm.set %a, %one {name = "x"}
    %list: list<state> = val.list %a, %b
    %key: text = val.const {value = "states"}
    %d: dict = val.dict %key, %list
    func.return %effect, %b, %d
"""


def test_states_in_the_return_value_can_be_read():
    result = executor_of(STATES, Oracle()).run("main", {}, seed=0)
    first, second = result.value["states"]
    assert isinstance(first, RunState)
    assert (first.text(), first.variables) == ("T", {})
    assert second["x"] == 1
    assert "x" in second
    with pytest.raises(RunError, match="no variable 'y'"):
        second["y"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%r: state = lm.extend %s, %five", "only text can be appended.*int: 5"),
        ("%r: state = val.index %list, %five", "IndexError"),
        ("%w: py = val.index %word, %zero\n%f: state, %r: list<state> = lm.fork %s, %w {}",
         "cannot fork 'w' children"),
        ("%r: py = lm.get %s {name = \"no\"}", "no variable 'no'"),
        ("%r: meta = lm.meta %s {name = \"no\"}", "no generation set"),
        ("%r: py = lm.get %s, %five {}", "name is a str, not 5"),
        ("%r: text = val.format %s, %word {conversion = \"\"}", "a prompt state is not text"),
        ("%r: py = host.pure %s {callee = \"builtins:print\"}", "cannot be handed"),
        ("%u: py = val.undefined {name = \"foo\"}\n%r: state = lm.extend %s, %u",
         "'foo' has no value on the path"),
        ("%r: state, %x: py, %m: meta = lm.gen %s {params = {top_p = 1.5}, dynamic = []}",
         "top_p must be above 0 and at most 1, not 1.5"),
        ("%r: state, %x: py, %m: meta = lm.gen %s, %word {params = {}, dynamic = [\"max_tokens\"]}",
         "max_tokens must be an int of at least 0, not 'word'"),
        ("%r: state, %x: text, %m: meta = lm.select %s, %list {params = {}, dynamic = []}",
         "nothing to choose from"),
        ("%r: state, %x: text, %m: meta = lm.select %s, %word {params = {}, dynamic = []}",
         "choices must be a list of str"),
        ("%r: py = cf.for %five, %five {} {\n(%i: py, %c: py)\n"
         "%go: bool = val.const {value = true}\ncf.yield %go, %c\n}", "not iterable"),
    ],
)  # fmt: skip
def test_wrong_values_are_told_at_their_op(body, message):
    text = f"""
    %s: state = lm.prompt
    %five: int = val.const {{value = 5}}
    %zero: int = val.const {{value = 0}}
    %word: text = val.const {{value = "word"}}
    %list: py = val.list
    {body}
    %out: py = val.list %r
    func.return %effect, %s, %out
    """
    with pytest.raises(RunError, match=message):
        executor_of(text, Oracle()).run("main", {}, seed=0)


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


FAILING = """
module "m" {} {
  entry @main
  func @main program (%effect: effect) {} {
    %u: py = val.undefined {name = "gone"}
    %c: bool = val.truth %u
    %s: state = lm.prompt
    %t: state = cf.if %c {} {
      cf.yield %s
    } {
      cf.yield %s
    }
    %e: effect, %q: state, %r: state, %v: py = func.call %effect, %t {callee = "inner"}
    %p: state, %forks: list<state> = lm.fork %q {count = 2}
    %zero: int = val.const {value = 0}
    %f: state = val.index %forks, %zero
    %g: state = lm.group %p, %f {}
    %h: state = lm.join %p, %forks {mode = "gather_variable"}
    %all: py = val.list %g, %h, %r
    func.return %e, %h, %all
  }
  func @inner program (%effect: effect) {} {
    %s: state = lm.prompt
    %x: text = lm.text %s
    func.return %effect, %s, %x
  }
}
"""


def test_a_failed_state_fails_all_that_is_made_of_it():
    with pytest.raises(RunError, match="'gone' has no value"):
        executor_of(FAILING, Oracle()).run("main", {}, seed=0)


INTERRUPTED = """
import sys
sys.path.insert(0, {tests!r})
from manual_backend import ManualBackend, executor_of
from test_program import TEXT

class Telling(ManualBackend):
    def submit_gen(self, call, on_done, on_text=None):
        opened = super().submit_gen(call, on_done, on_text)
        print("open", flush=True)
        return opened

backend = Telling()
try:
    executor_of(TEXT, backend).run("main", {{}}, seed=0)
except KeyboardInterrupt:
    print("interrupted", len(backend.open), flush=True)
"""


def test_control_c_ends_a_run(tmp_path):
    tests = str(Path(__file__).resolve().parent.parent)
    (tmp_path / "test_program.py").write_text(f"TEXT = {TYPED.replace('KIND', 'str')!r}\n")
    text = (tmp_path / "test_program.py").read_text().replace(" loc(#0)", "")
    (tmp_path / "test_program.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(tests=tests))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert output == "interrupted 0\n"
    assert process.returncode == 0
