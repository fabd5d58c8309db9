"""The executor on IR text: groups and prologues, computed first and given back."""

import time

import pytest
from manual_backend import ManualBackend, executor_of, module_of, run_in_background

from lmc.errors import Cancelled, EngineError

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
