"""The ways to run a program: streams, async, batches, time limits, cancelling, in both modes."""

import asyncio
import gc
import threading
import time
import tracemalloc

import pytest
from slow_backend import SlowOracle

import lmc
from lmc.errors import Cancelled, RunError, UsageError
from lmc.runtime.oracle import Oracle

MODES = ("compiled", "eager")
both_modes = pytest.mark.parametrize("mode", MODES)


@lmc.function
def answer(s, question: str, tone: str = "kind"):
    s += "Q: " + question + "\n"
    s += "A: " + lmc.gen("answer", max_tokens=8) + "\n"
    s += lmc.select("sure", choices=["yes", "no"])
    s["tone"] = tone
    forks = s.fork(2)
    forks += lmc.gen("more", max_tokens=4)
    forks.join()
    s += lmc.gen("end", max_tokens=8)
    return s["answer"]


@lmc.function
def three_calls(s, x: int):
    s += f"Item {x}: "
    for number in range(3):
        s += lmc.gen(f"part{number}", max_tokens=4) + ", "
    return x


@lmc.function
def typed(s):
    s += "Age: " + lmc.gen("age", type=int, max_tokens=3, stop="9")


@lmc.function
def forever(s):
    s += "Go " + lmc.gen("a", max_tokens=3)
    s += lmc.gen("b", max_tokens=3)


@pytest.fixture(autouse=True)
def _threads_before():
    """Engines that other tests keep open have threads of their own: only new ones count."""
    _before.clear()
    _before.update(threading.enumerate())


_before: set[threading.Thread] = set()


def threads(word):
    started = set(threading.enumerate()) - _before
    return [thread.name for thread in started if thread.name.startswith(word)]


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.01)


# -- streams -----------------------------------------------------------------------------------


@both_modes
def test_pieces_join_to_the_text_and_to_each_variable(mode):
    run = answer.run("Why?", stream=True, backend=SlowOracle(), seed=4, mode=mode)
    pieces = list(run.text_iter())
    assert len(pieces) > 8
    assert "".join(pieces) == run.text() == answer.run("Why?", backend=Oracle(), seed=4).text()
    for name in ("answer", "sure", "end"):
        again = answer.run("Why?", stream=True, backend=SlowOracle(), seed=4, mode=mode)
        assert "".join(again.text_iter(name)) == again[name] == run[name]
    assert list(run.text_iter()) == pieces, "a stream can be read again"


@both_modes
def test_a_variable_that_no_call_set_comes_whole(mode):
    run = answer.run("Why?", stream=True, backend=Oracle(), seed=4, mode=mode)
    assert list(run.text_iter("tone")) == ["kind"]
    assert list(run.text_iter("more")) == [str(run["more"])]
    with pytest.raises(RunError, match="no variable 'nothing'"):
        list(run.text_iter("nothing"))


@both_modes
def test_a_stream_comes_while_the_run_goes_on(mode):
    late = threading.Event()

    def script(name, prompt, call):
        if name == "b":
            assert late.wait(5)
        return "one" if name == "a" else "two"

    run = forever.run(stream=True, backend=SlowOracle(script), seed=1, mode=mode)
    assert "".join(run.text_iter("a")) == "one"
    assert not run.is_done
    stream = run.text_iter()
    assert next(stream) == "Go "
    late.set()
    assert "".join(stream) == "onetwo"
    assert run["b"] == "two"
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_a_failing_run_raises_after_the_pieces_that_came(mode):
    script = {"a": "one"}

    def fail(name, prompt, call):
        if name == "b":
            raise UsageError("no answer")
        return script[name]

    run = forever.run(stream=True, backend=SlowOracle(fail), seed=1, mode=mode)
    got = []
    with pytest.raises(RunError, match="no answer") as caught:
        got.extend(run.text_iter())
    assert "".join(got) == "Go one"
    assert caught.value.location is not None
    assert caught.value.location.line == forever.func.__code__.co_firstlineno + 3
    assert "Go one" in str(caught.value)
    assert list(run.text_iter("a")) == ["one"]
    for read in (run.text, lambda: run["b"], lambda: list(run.text_iter("b"))):
        with pytest.raises(RunError, match="no answer"):
            read()
    assert isinstance(run.error(), RunError)
    assert run.is_done


@both_modes
def test_the_async_stream_is_the_same(mode):
    async def read(name=None, **options):
        run = answer.run("Why?", stream=True, backend=SlowOracle(), seed=4, mode=mode)
        return [item async for item in run.text_async_iter(name, **options)], run

    async def check():
        pieces, run = await read()
        assert "".join(pieces) == run.text()
        pairs, run = await read("answer", return_meta_data=True)
        assert "".join(piece for piece, _ in pairs) == run["answer"]
        counts = [0, *(meta["completion_tokens"] for _, meta in pairs)]
        assert counts == sorted(counts)
        assert counts[-1] <= run.get_meta_info("answer")["completion_tokens"]

    asyncio.run(check())


def test_a_finished_run_streams_in_one_piece():
    run = answer.run("Why?", backend=Oracle(), seed=4)
    assert list(run.text_iter()) == [run.text()]
    assert list(run.text_iter("answer")) == [run["answer"]]
    assert run.error() is None

    async def read():
        return [item async for item in run.text_async_iter("answer", return_meta_data=True)]

    assert asyncio.run(read()) == [(run["answer"], run.get_meta_info("answer"))]


@both_modes
def test_what_a_run_and_a_handle_tell_is_the_same(mode):
    run = answer.run("Why?", backend=Oracle(), seed=4, mode=mode)
    handle = answer.run("Why?", stream=True, backend=Oracle(), seed=4, mode=mode)
    for told in (run, handle):
        assert told["answer"] == told.get_var("answer") == told.ret_value == told.value
        assert list(told) == ["answer", "sure", "tone", "more", "end"]
        assert dict(told) == told.variables
        assert "answer" in told
        assert "nothing" not in told
        assert told.text().startswith("Q: Why?\nA: ")
        assert told.messages() == []
        assert told.get_meta_info("answer")["finish_reason"] in ("stop", "length")
        assert told.state.text() == told.text()
        told.sync()
    assert handle.result().calls == run.calls


# -- errors, time limits, cancelling -----------------------------------------------------------


@both_modes
def test_errors_come_from_the_line_with_the_end_of_the_prompt(mode):
    with pytest.raises(RunError, match="cut before it was complete") as caught:
        typed.run(backend=Oracle({"age": "9"}), seed=1, mode=mode)
    assert caught.value.location.line == typed.func.__code__.co_firstlineno + 2
    assert "the prompt ends in 'Age: '" in str(caught.value)


@both_modes
def test_a_time_limit_names_the_seconds_and_what_was_waited_for(mode):
    backend = SlowOracle(delay=lambda call: 30.0 if call.site.startswith("b@") else 0.0)
    started = time.monotonic()
    with pytest.raises(RunError, match=r"took longer than 0\.3 s") as caught:
        forever.run(backend=backend, timeout=0.3, mode=mode)
    assert time.monotonic() - started < 2
    assert "b@" in str(caught.value)
    assert not [ticket for ticket in backend.open if not ticket.is_cancelled]
    handle = forever.run(backend=backend, timeout=0.3, stream=True, mode=mode)
    assert handle.error().message == "the run took longer than 0.3 s"
    with pytest.raises(UsageError, match="timeout must be a number of seconds above 0"):
        forever.run(backend=backend, timeout=0, mode=mode)
    assert forever.run(backend=Oracle(), timeout=30, mode=mode).text().startswith("Go ")
    wait_until(lambda: not threads("lmc-"))


def test_a_time_limit_ends_a_body_that_computes():
    @lmc.function
    def busy(s):
        s += "Go " + lmc.gen("a", max_tokens=3)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass
        s += s["a"]

    started = time.monotonic()
    with pytest.raises(RunError, match=r"took longer than 0\.2 s"):
        busy.run(backend=Oracle(), timeout=0.2, mode="eager")
    assert time.monotonic() - started < 1.2
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_cancelling_a_run(mode):
    backend = SlowOracle(delay=30.0)
    handle = forever.run(stream=True, backend=backend, mode=mode)
    wait_until(lambda: backend.open)
    assert "".join([next(handle.text_iter())]) == "Go "
    handle.cancel()
    with pytest.raises(Cancelled):
        handle.text()
    with pytest.raises(Cancelled):
        list(handle.text_iter())
    handle.cancel()
    assert isinstance(handle.error(), Cancelled)
    with forever.run(stream=True, backend=backend, mode=mode) as other:
        wait_until(lambda: backend.open)
    assert isinstance(other.error(), Cancelled)
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_waiting_for_a_result_has_a_limit_of_its_own(mode):
    backend = SlowOracle(delay=0.3)
    handle = forever.run(stream=True, backend=backend, mode=mode)
    with pytest.raises(TimeoutError, match=r"0\.01 s"):
        handle.result(timeout=0.01)
    assert handle.result(timeout=10).text().startswith("Go ")


# -- async -------------------------------------------------------------------------------------


@both_modes
def test_many_runs_are_awaited_on_few_threads(mode):
    backend = SlowOracle(delay=0.02)

    async def all_of_them():
        runs = [three_calls.arun(x=x, backend=backend, seed=x, mode=mode) for x in range(40)]
        return await asyncio.gather(*runs)

    results = asyncio.run(all_of_them())
    assert [result.value for result in results] == list(range(40))
    assert backend.most > 10, "they run side by side"
    wait_until(lambda: not threads("lmc-"))
    assert results[7].text() == three_calls.run(x=7, backend=Oracle(), seed=7).text()


@both_modes
def test_an_awaited_run_raises_at_once_and_leaves_nothing(mode):
    async def fails():
        with pytest.raises(RunError, match="cut before it was complete"):
            await typed.arun(backend=Oracle({"age": "9"}), mode=mode)
        return len(asyncio.all_tasks())

    started = time.monotonic()
    assert asyncio.run(fails()) == 1
    assert time.monotonic() - started < 5
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_cancelling_the_task_cancels_the_run(mode):
    backend = SlowOracle(delay=30.0)

    async def give_up():
        task = asyncio.ensure_future(forever.arun(backend=backend, mode=mode))
        while not backend.open:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    wait_until(lambda: not [t for t in backend.open if not t.is_cancelled])
    wait_until(lambda: not threads("lmc-"))


# -- batches -----------------------------------------------------------------------------------


@both_modes
def test_a_batch_is_a_list_in_order(mode):
    batch = [{"question": "a"}, ("b",), ["c", "rude"], {"question": "d", "tone": "dry"}]
    results = answer.run_batch(batch, backend=SlowOracle(), seed=3, mode=mode)
    assert isinstance(results, list)
    assert [result["tone"] for result in results] == ["kind", "kind", "rude", "dry"]
    assert [result.instance for result in results] == [0, 1, 2, 3]
    compiled = answer.compile("oracle").run_batch(batch, backend=Oracle(), seed=3)
    assert [run.text() for run in compiled] == [run.text() for run in results]
    assert answer.run_batch([], backend=Oracle(), mode=mode) == []
    named = answer.run_batch(batch, backend=Oracle(), seed=3, mode=mode, max_tokens=2)
    assert all(run.get_meta_info("end")["completion_tokens"] <= 8 for run in named)


@both_modes
def test_wrong_items_of_a_batch_are_told_by_number(mode):
    with pytest.raises(UsageError, match=r"item 1 of the batch: .*missing a required"):
        answer.run_batch([("a",), {}], backend=Oracle(), mode=mode)
    with pytest.raises(UsageError, match="item 0 of the batch is str"):
        answer.run_batch(["a"], backend=Oracle(), mode=mode)
    with pytest.raises(UsageError, match="no run option 'num_thread'"):
        answer.run_batch([], backend=Oracle(), mode=mode, num_thread=3)


@both_modes
def test_results_come_in_order_or_as_they_end(mode):
    delays = {0: 0.2}
    backend = SlowOracle(delay=lambda call: delays.get(_item(backend, call), 0.0))
    batch = [{"x": x} for x in range(12)]
    options = {"backend": backend, "seed": 3, "mode": mode}
    ended = list(three_calls.run_batch(batch, as_completed=True, num_threads=4, **options))
    assert sorted(index for index, _ in ended) == list(range(12))
    assert all(result.value == index == result.instance for index, result in ended)
    assert ended[-1][0] == 0
    in_order = three_calls.run_batch(batch, generator_style=True, num_threads=4, **options)
    assert [result.value for result in in_order] == list(range(12))
    assert backend.most <= 4
    backend.most = 0
    assert [r.value for r in three_calls.run_batch_iter(iter(batch), **options)] == list(range(12))


def _item(backend, call):
    return int(backend.spell(call.context).partition("Item ")[2].partition(":")[0])


@both_modes
def test_a_batch_holds_few_instances_and_threads(mode):
    backend = SlowOracle(delay=0.002)
    most_threads = taken = ahead = 0

    def items():
        nonlocal taken
        for number in range(500):
            taken += 1
            yield {"x": number}

    three_calls.run_batch([{"x": 0}], backend=backend, mode=mode)
    gc.collect()
    tracemalloc.start()
    half = last = 0
    runs = three_calls.run_batch(
        items(), as_completed=True, num_threads=16, backend=backend, mode=mode
    )
    for number, (_, result) in enumerate(runs):
        assert result.value >= 0
        most_threads = max(most_threads, len(threads("lmc-")))
        ahead = max(ahead, taken - number)
        if number in (250, 499):
            del result
            gc.collect()
            half, last = last, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken == 500
    assert backend.most <= 16
    assert ahead <= 16 * 4 + 1
    assert most_threads <= (1 if mode == "compiled" else 1 + 2 * 16)
    assert last < half + 1_500_000, "what has ended is kept"
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_a_slow_first_item_holds_up_the_order_but_not_the_memory(mode):
    """In order, what has ended waits for item 0: only so many items are taken meanwhile."""
    backend = SlowOracle(delay=lambda call: 0.3 if _item(backend, call) == 0 else 0.0)
    taken = 0

    def items():
        nonlocal taken
        for number in range(300):
            taken += 1
            yield (number,)

    options = {"backend": backend, "mode": mode, "num_threads": 8}
    runs = three_calls.run_batch(items(), generator_style=True, **options)
    first = next(runs)
    assert first.value == 0
    assert taken <= 8 * 4 + 1, "items are taken far ahead of what was handed out"
    rest = [result.value for result in runs]
    assert rest == list(range(1, 300))
    assert backend.most <= 8
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_leaving_a_batch_in_its_middle_takes_no_more_items(mode):
    """Arguments that come lazily are asked for no more, and their generator is closed."""
    closed = []

    def items():
        try:
            yield from ({"x": number} for number in range(10_000))
        finally:
            closed.append(True)

    backend = SlowOracle(delay=0.002)
    given = items()
    for style in ("as_completed", "generator_style"):
        runs = three_calls.run_batch(given, backend=backend, mode=mode, **{style: True})
        next(runs)
        runs.close()
    del given, runs
    gc.collect()
    assert closed == [True]
    assert backend.num_calls < 2_000
    wait_until(lambda: not threads("lmc-"))


@both_modes
def test_leaving_a_batch_cancels_the_rest_at_once(mode):
    backend = SlowOracle(delay=lambda call: 0.0 if _item(backend, call) < 10 else 60.0)
    batch = [{"x": x} for x in range(100)]
    for style in ("as_completed", "generator_style"):
        for number, _ in enumerate(
            three_calls.run_batch(
                batch, backend=backend, mode=mode, num_threads=20, **{style: True}
            )
        ):
            if number == 8:
                left = time.monotonic()
                break
        gc.collect()
        assert time.monotonic() - left < 5
        assert not [ticket for ticket in backend.open if not ticket.is_cancelled]
        wait_until(lambda: not threads("lmc-"))
    assert backend.num_calls < 200


@both_modes
def test_an_error_ends_a_batch_or_stands_in_its_place(mode):
    @lmc.function
    def picky(s, x: int):
        s += f"Item {x}: " + lmc.gen("a", max_tokens=2)
        return 10 // x

    batch = [{"x": x} for x in (5, 0, 2)]
    with pytest.raises(RunError, match="ZeroDivisionError"):
        picky.run_batch(batch, backend=SlowOracle(), mode=mode)
    kept = picky.run_batch(batch, backend=SlowOracle(), mode=mode, keep_errors=True)
    assert [kept[0].value, kept[2].value] == [2, 5]
    assert isinstance(kept[1], RunError)
    slow = SlowOracle(delay=lambda call: 30.0 if _item(slow, call) == 2 else 0.0)
    kept = picky.run_batch(batch, backend=slow, mode=mode, keep_errors=True, timeout=0.5)
    assert kept[2].message == "the run took longer than 0.5 s"


@both_modes
def test_a_progress_bar_counts(mode, capsys, monkeypatch):
    monkeypatch.setattr("lmc.progress.QUIET_SECONDS", 0.0)
    monkeypatch.setattr("lmc.progress.REDRAW_SECONDS", 0.01)
    batch = [{"x": x} for x in range(6)]
    results = three_calls.run_batch(
        batch, progress_bar=True, backend=SlowOracle(delay=0.03), mode=mode, num_threads=2
    )
    assert [result.value for result in results] == list(range(6))
    assert "running three_calls" in capsys.readouterr().err


# -- backends, fixed arguments -----------------------------------------------------------------


def test_backends_by_call_and_by_default(monkeypatch):
    monkeypatch.setattr("lmc.backends._default", None)
    first, second = Oracle({"a": "first"}), Oracle({"a": "second"})
    lmc.set_default_backend(first)
    assert forever.run()["a"] == "first"
    assert forever.run(backend=second)["a"] == "second"
    assert forever.run(mode="eager")["a"] == "first"
    assert forever.run_batch([{}, {}])[1]["a"] == "first"
    assert forever.run(backend=second, stream=True)["a"] == "second"
    assert lmc.default_backend() is first


@both_modes
def test_fixed_arguments(mode):
    rude = answer.bind(tone="rude")
    assert str(rude.__signature__) == "(question: str)"
    run = rude.run("Why?", backend=Oracle(), seed=4, mode=mode)
    assert run["tone"] == "rude"
    assert run.text() == answer.run("Why?", "rude", backend=Oracle(), seed=4).text()
    assert answer.run("Why?", backend=Oracle(), mode=mode)["tone"] == "kind"
    done = rude.bind(question="What?").run_batch([{}, {}], backend=Oracle(), mode=mode)
    assert [run.text()[:8] for run in done] == ["Q: What?"] * 2
    with pytest.raises(UsageError, match="has no argument 'tune'"):
        answer.bind(tune="rude")
    with pytest.raises(UsageError, match="unexpected keyword argument 'tone'"):
        rude.run("Why?", tone="kind", backend=Oracle(), mode=mode)
    compiled = answer.compile("oracle").bind(tone="dry")
    assert compiled.run(question="Why?", backend=Oracle())["tone"] == "dry"
    assert compiled("Why?", backend=Oracle()) is not None
