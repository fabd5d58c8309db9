"""What the runs of a batch ask first is handed over together, in the order of the tokens."""

import time

from manual_backend import Background, ManualBackend, executor_of

from lmc.errors import Cancelled
from lmc.runtime.executor import opening

ECHO = """
module "m" {} {
  entry @main
  func @main program (%effect: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %t: state = lm.extend %s, %x
    %u: state, %v: text, %m: meta = lm.gen %t {name = "v", params = {}, dynamic = []}
    func.return %effect, %u, %v
  }
}
"""


def contexts(opened):
    return [each.call.context for each in opened]


def slowly(items, seconds):
    for item in items:
        time.sleep(seconds)
        yield {"x": item}


def test_first_calls_come_together_in_the_order_of_their_tokens():
    backend = ManualBackend()
    names = ["b one", "a one", "b two", "a two"]
    runs = executor_of(ECHO, backend).run_many("main", slowly(names, 0.01), seed=0)
    run = Background(lambda: list(runs))
    opened = backend.wait(4)
    assert contexts(opened) == sorted(contexts(opened))
    for each in list(opened):
        each.say("x")
    assert [result.instance for result in run.result()] == [0, 1, 2, 3]


def test_no_call_is_held_for_long(monkeypatch):
    monkeypatch.setattr(opening, "MOST_SECONDS", 0.05)
    backend = ManualBackend()
    runs = executor_of(ECHO, backend).run_many("main", slowly(["a", "b"], 0.6), seed=0)
    run = Background(lambda: list(runs))
    assert len(backend.wait(1)) == 1, "the second is still to come"
    backend.wait(2)
    for each in list(backend.wait(2)):
        each.say("x")
    assert len(run.result()) == 2


def test_a_held_call_is_cancelled_and_nothing_is_sent(monkeypatch):
    monkeypatch.setattr(opening, "MOST_SECONDS", 60)
    backend = ManualBackend()
    executor = executor_of(ECHO, backend)

    def items():
        yield {"x": "a"}
        time.sleep(0.1)
        executor.cancel()

    outcome = Background(
        lambda: list(executor.run_many("main", items(), seed=0, keep_errors=True))
    ).result()
    assert [type(each) for each in outcome] == [Cancelled]
    assert not backend.log
