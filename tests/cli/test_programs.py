"""Programs from Python: arguments, options, graph breaks, use in the wrong place."""

import warnings

import pytest

import lmc
from lmc.errors import CaptureError, GraphBreakWarning, RunError, UsageError


@lmc.function
def plain(s, text: str, times: int = 2):
    """Repeat a text."""
    for _ in range(times):
        s += text + lmc.gen("x", max_tokens=3)
    return s["x"]


@lmc.function
def broken(s, text: str):
    s += text

    class Inner:
        """Nothing that capture follows."""

    s += lmc.gen("x", max_tokens=3)
    return s["x"]


@lmc.function
def clash(s, seed, backend="own", temperature=3):
    s += f"{seed} {backend} {temperature}"
    return [seed, backend, temperature]


@pytest.fixture(autouse=True)
def oracle():
    lmc.set_default_backend("oracle")
    yield
    lmc.set_default_backend(None)


def test_a_graph_break_warns_and_runs_eagerly():
    with pytest.warns(
        GraphBreakWarning, match=r"'ClassDef'[^\n]*\n *at test_programs\.py:2[0-9]:"
    ) as caught:
        run = broken.run(text="a", seed=1)
    assert caught[0].filename == __file__, "the warning is at the caller's line"
    assert run.value == broken.run(text="a", seed=1, mode="eager").value
    with pytest.warns(GraphBreakWarning):
        runs = list(broken.run_batch([{"text": "a"}, {"text": "b"}], seed=1))
    assert runs[0].value == run.value
    for refused in (broken.trace, broken.compile):
        with pytest.raises(CaptureError, match="'ClassDef'"):
            refused()


def test_what_is_captured_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain.run(text="a", seed=1).value == plain.run("a", seed=1, mode="eager").value


@pytest.mark.parametrize(
    ("args", "keywords", "told"),
    [
        ((), {}, "missing a required argument: 'text'"),
        (("a", 2, 3), {}, "too many positional arguments"),
        (("a",), {"text": "b"}, "multiple values for argument 'text'"),
        (("a",), {"txt": "b"}, "txt"),
        (("a",), {"mode": "fast"}, "mode='fast' is unknown"),
        (("a",), {"passes": "frob"}, "no pass 'frob'"),
        (("a",), {"temperature": -1}, "temperature"),
        (("a",), {"backend": "/no/such/model"}, "no model at"),
    ],
)
def test_wrong_use(args, keywords, told):
    with pytest.raises(UsageError, match=told):
        plain.run(*args, **keywords)


def test_a_programs_own_arguments_win_over_options():
    assert clash.run("s").value == ["s", "own", 3]
    assert clash.run(1, temperature=0.5).value == [1, "own", 0.5]
    assert clash.run(1, mode="eager", backend="b").value == [1, "b", 3]
    assert [r.value[0] for r in clash.run_batch([{"seed": 1}, {"seed": 2}])] == [1, 2]


def test_a_call_outside_a_program_is_a_run():
    assert plain("a", seed=4).text() == plain.run("a", seed=4).text()


def test_a_program_needs_a_state():
    with pytest.raises(UsageError, match=r"def nothing\(s, \.\.\.\)"):

        @lmc.function
        def nothing():
            pass


def test_a_batch_stops_at_its_first_error_and_yields_in_order():
    batch = [{"text": "a"}, {"text": "b"}, {"text": "c", "times": -1}, {"text": "d"}]
    runs = plain.run_batch(batch, seed=2, generator_style=True)
    assert [next(runs).text()[0], next(runs).text()[0]] == ["a", "b"]
    with pytest.raises(RunError, match="has no variable 'x'"):
        next(runs)


WRONG_ITEMS = [{"text": 3}, {"txt": "c"}, ("c", 1, 2), "c", {}]


@pytest.mark.parametrize("wrong", WRONG_ITEMS, ids=repr)
@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_wrong_arguments_of_one_item_lose_no_other_result(wrong, mode):
    batch = [{"text": "a"}, {"text": "b"}, wrong, {"text": "d"}]
    runs = plain.run_batch(iter(batch), seed=2, generator_style=True, mode=mode)
    assert [next(runs).text()[0], next(runs).text()[0]] == ["a", "b"]
    with pytest.raises(UsageError, match="item 2 of the batch"):
        next(runs)
    kept = plain.run_batch(batch, seed=2, keep_errors=True, mode=mode)
    assert [isinstance(run, UsageError) for run in kept] == [False, False, True, False]
    ended = dict(plain.run_batch(batch, seed=2, as_completed=True, keep_errors=True, mode=mode))
    assert sorted(ended) == [0, 1, 2, 3]
    assert ended[3].text()[0] == "d"


def test_batch_items_have_keys_of_their_own():
    runs = list(plain.run_batch([{"text": "a"}] * 4, seed=2))
    assert len({run.text() for run in runs}) > 1
    assert [run.instance for run in runs] == [0, 1, 2, 3]
    alone = plain.run(text="a", seed=2)
    assert alone.text() == runs[0].text()


def test_what_a_program_says_about_itself():
    assert plain.name == plain.__name__ == "plain"
    assert plain.__doc__ == "Repeat a text."
    assert repr(plain) == "<lmc program plain(text: str, times: int = 2)>"
    assert repr(plain.compile()) == "<compiled lmc program plain(text: str, times: int = 2)>"
