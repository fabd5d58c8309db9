"""Batches: results in order, a bounded number of running instances, early ends."""

import threading

import pytest
from manual_backend import ECHO, Background, ManualBackend, executor_of

from lmc.errors import EngineError, RunError, UsageError
from lmc.ir.calls import derive_key
from lmc.runtime.oracle import Oracle


def batch(count):
    return [{"x": f"item {number}"} for number in range(count)]


def text_of(opened):
    return opened.backend.target.tokenizer.decode(opened.call.context)


def test_results_come_in_order_and_keys_have_the_instance():
    results = list(executor_of(ECHO, Oracle()).run_many("main", batch(40), seed=9, limit=7))
    assert [result.instance for result in results] == list(range(40))
    assert all(result.text().startswith(f"item {n}") for n, result in enumerate(results))
    keys = [result.calls[0].call.key for result in results]
    assert keys == [derive_key(9, number, (), 0) for number in range(40)]
    alone = executor_of(ECHO, Oracle()).run("main", {"x": "item 7"}, seed=9, instance=7)
    assert alone.value == results[7].value


def test_at_most_the_limit_run_at_once():
    backend = ManualBackend()
    taken = []

    def instances():
        for number in range(10):
            taken.append(number)
            yield {"x": f"item {number}"}

    results = executor_of(ECHO, backend).run_many("main", instances(), seed=0, limit=3)
    run = Background(lambda: list(results))
    opened = backend.wait(3)
    assert len(taken) == 3, "arguments are taken as instances start"
    opened[1].say("b")
    opened = backend.wait(3, log=4)
    for step in range(20):
        if not run.is_running:
            break
        for o in list(backend.open):
            o.say(f"{step}")
        with backend.changed:
            backend.changed.wait_for(lambda: backend.open or not run.is_running, 1)
        assert len(backend.open) <= 3
    assert [result.text()[:6] for result in run.result()] == [f"item {n}" for n in range(10)]


def test_leaving_early_cancels_the_rest():
    backend = ManualBackend()
    results = executor_of(ECHO, backend).run_many("main", batch(50), seed=0, limit=4)
    first = Background(lambda: next(results))
    opened = backend.wait(4)
    assert text_of(opened[0]) == "item 0"
    opened[0].say("done")
    assert first.result().value == "done"
    results.close()
    backend.wait(0)
    assert all(o.is_cancelled for o in opened[1:])
    assert not [t for t in threading.enumerate() if t.name == "lmc-executor"]


def test_a_failed_instance_ends_the_batch_in_its_place():
    backend = ManualBackend()
    results = executor_of(ECHO, backend).run_many("main", batch(4), seed=0, limit=4)
    first = Background(lambda: next(results))
    opened = backend.wait(4)
    opened[1].answer(EngineError("broken"))
    opened[0].say("fine")
    assert first.result().value == "fine"
    with pytest.raises(RunError, match="broken"):
        next(results)
    backend.wait(0)
    assert opened[2].is_cancelled


def test_errors_can_be_kept_in_their_place():
    backend = ManualBackend()
    executor = executor_of(ECHO, backend)
    run = Background(lambda: list(executor.run_many("main", batch(3), seed=0, keep_errors=True)))
    for number, o in enumerate(backend.wait(3)):
        o.answer(EngineError("broken")) if number == 1 else o.say("ok")
    results = run.result()
    assert isinstance(results[1], RunError)
    assert [results[0].value, results[2].value] == ["ok", "ok"]


def test_wrong_arguments_in_a_batch_are_told():
    executor = executor_of(ECHO, Oracle())
    with pytest.raises(UsageError, match="needs a value for 'x'"):
        list(executor.run_many("main", [{"x": "a"}, {}], seed=0))
    with pytest.raises(UsageError, match="num_threads must be a number from 1"):
        list(executor.run_many("main", [], seed=0, limit=0))
    assert list(executor.run_many("main", [], seed=0)) == []


def test_what_the_arguments_raise_is_raised():
    def instances():
        yield {"x": "a"}
        raise OSError("the file is gone")

    with pytest.raises(OSError, match="the file is gone"):
        list(executor_of(ECHO, Oracle()).run_many("main", instances(), seed=0))


def test_several_threads_may_run_at_once():
    executor = executor_of(ECHO, Oracle())
    runs = [
        Background(lambda n=n: executor.run("main", {"x": f"item {n}"}, seed=1)) for n in range(8)
    ]
    expected = [executor.run("main", {"x": f"item {n}"}, seed=1).value for n in range(8)]
    assert [run.result().value for run in runs] == expected
