"""The executor on IR text: failures, cancelling, interrupts."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from manual_backend import ManualBackend, executor_of, run_in_background

from lmc.errors import Cancelled, EngineError, RunError
from lmc.runtime.oracle import Oracle

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


ONE_CALL = """
    %s: state = lm.prompt
    %b: state, %x: text, %m: meta = lm.gen %s {name = "n", params = {}, dynamic = []}
    func.return %effect, %b, %x
"""
INTERRUPTED = """
import sys
sys.path.insert(0, {tests!r})
from manual_backend import ManualBackend, executor_of

class Telling(ManualBackend):
    def submit_gen(self, call, on_done, on_text=None):
        opened = super().submit_gen(call, on_done, on_text)
        print("open", flush=True)
        return opened

backend = Telling()
try:
    executor_of({program!r}, backend).run("main", {{}}, seed=0)
except KeyboardInterrupt:
    print("interrupted", len(backend.open), flush=True)
"""


def test_control_c_ends_a_run(tmp_path):
    tests = str(Path(__file__).resolve().parent.parent)
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.format(tests=tests, program=ONE_CALL))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert output == "interrupted 0\n"
    assert process.returncode == 0
