"""What the runs of a batch ask first is handed over together, in the order of the tokens."""

import time
from itertools import pairwise

from manual_backend import ECHO, Background, ManualBackend, executor_of

from lmc.errors import Cancelled, LmcError, UsageError
from lmc.runtime.executor import opening


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


WITH_EFFECT = ECHO.replace(
    "%s: state = lm.prompt",
    '%e: effect, %h: py = host.call %effect, %x {callee = "builtins:print"}\n    '
    "%s: state = lm.prompt",
).replace("return %effect", "return %e")


class SmallBackend(ManualBackend):
    """Has room for a few tokens only."""

    num_slots = 8


def started(text, batch, backend, limit=1, **options):
    """Answer calls as they come; return the prompts in the order of asking, and the results."""
    backend.order = []
    run = Background(
        lambda: list(
            executor_of(text, backend).run_many("main", batch, limit=limit, seed=0, **options)
        )
    )
    while run.is_running:
        for opened in list(backend.open):
            backend.order.append(backend.target.tokenizer.decode(opened.call.context))
            opened.say("x")
        time.sleep(0.001)
    return backend.order, run.result()


LISTED = [{"x": text} for text in ("bbb one", "aaa one", "bbb two", "aaa two", "bbb three")]


def test_what_shares_most_starts_one_after_another_where_memory_is_small():
    order, results = started(ECHO, LISTED, SmallBackend())
    assert sorted(order) == sorted(item["x"] for item in LISTED)
    heads = [text[:3] for text in order]
    assert sum(a != b for a, b in pairwise(heads)) == 1, "each head in one go"
    assert [result.instance for result in results] == [0, 1, 2, 3, 4]
    assert [result.text()[:-1] for result in results] == [item["x"] for item in LISTED]


def test_the_order_stays_where_memory_suffices_or_it_could_be_seen():
    given = [item["x"] for item in LISTED]
    assert started(ECHO, LISTED, ManualBackend())[0] == given
    assert started(ECHO, iter(LISTED), SmallBackend())[0] == given
    assert started(WITH_EFFECT, LISTED, SmallBackend())[0] == given


def test_wrong_arguments_stay_in_their_places():
    batch = [LISTED[0], UsageError("wrong"), LISTED[1], {}]
    order, results = started(ECHO, batch, SmallBackend(), keep_errors=True)
    assert sorted(order) == ["aaa one", "bbb one"]
    assert [isinstance(result, LmcError) for result in results] == [False, True, False, True]
