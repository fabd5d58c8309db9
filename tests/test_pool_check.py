"""A run is told before it starts where it needs more KV memory than there is."""

import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from cost_runs import open_tiny

import lmc
from lmc.errors import LmcError, PoolWarning, RunError
from lmc.runtime.oracle import Oracle

SLOTS = 400


@pytest.fixture
def engine() -> Iterator[Any]:
    """An engine with little KV memory."""
    with open_tiny(num_slots=SLOTS) as opened:
        yield opened


@lmc.function
def short(s, text: str):
    s += "Say: " + text + lmc.gen("said", max_tokens=4)


@lmc.function
def many(s, texts: list[str]):
    said = []
    for text in texts:
        fork = s.copy()
        fork += text + lmc.gen("said", max_tokens=30)
        said.append(fork["said"])
    return said


@lmc.function
def long(s, text: str):
    s += "Read: " + text + "\n" + lmc.gen("said", max_tokens=20)


@lmc.function
def maybe_long(s, text: str):
    s += "Well" + lmc.gen("first", max_tokens=1)
    if s["first"] == "never":
        s += text + lmc.gen("said", max_tokens=20)


@lmc.function
def caught(s, text: str):
    s += "Well" + lmc.gen("first", max_tokens=1)
    try:
        other = s.copy()
        other += text + lmc.gen("said", max_tokens=20)
        return other["said"]
    except lmc.errors.LmcError:
        return "too long"


@lmc.function
def aside(s, text: str):
    fork = s.copy()
    fork += text + lmc.gen("said", max_tokens=20)
    s += "Well" + lmc.gen("first", max_tokens=1)
    if s["first"] == "never":
        s += fork["said"]


WORDS = " ".join(f"word{i}" for i in range(200))


def line_of(program: lmc.Program, line: int) -> str:
    """Return how a message names a line of a program, counted from its decorator."""
    code = program.__wrapped__.__code__  # type: ignore[attr-defined]
    return f"test_pool_check.py:{code.co_firstlineno + line}:"


def test_what_fits_is_told_nothing(engine) -> None:
    """And what is small is not analysed at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "a boat" in short.run("a boat", backend=engine).text()
        assert len(many.run(["a", "b"], backend=engine).value) == 2
        results = many.run_batch([{"texts": ["a"]}] * 3, backend=engine)
    assert [len(result.value) for result in results] == [1, 1, 1]


def test_a_run_that_may_be_slow_is_told_once_with_its_line(engine) -> None:
    """It runs all the same."""
    with pytest.warns(PoolWarning) as told:
        (result, _) = [many.run([f"text {i}" for i in range(n)], backend=engine) for n in (20, 21)]
    assert len(result.value) == 20
    (message,) = [str(each.message) for each in told]
    assert "'many' may need up to" in message
    assert f"the pool holds {SLOTS}" in message
    assert line_of(many, 5) in message
    assert "MiB" in message
    assert "num_slots=" in message


def test_a_run_that_cannot_fit_is_refused_before_any_call(engine) -> None:
    """With its line and both numbers."""
    before = engine.stats()
    with pytest.raises(RunError, match="this run cannot fit: a call needs at least") as refused:
        long.run(WORDS, backend=engine)
    assert f"the pool holds {SLOTS}" in str(refused.value)
    assert "max_tokens=20" in str(refused.value)
    assert line_of(long, 2) in str(refused.value)
    assert (engine.stats() - before).requests == 0
    with pytest.raises(RunError, match="cannot fit"):
        long.run(WORDS, backend=engine, stream=True)


def test_an_artifact_and_a_batch_are_refused_alike(engine, tmp_path) -> None:
    """An instance that fits still runs where errors are kept."""
    path = tmp_path / "long.lmc"
    long.compile(engine).save(path)
    loaded = lmc.load(path)
    with pytest.raises(RunError, match="cannot fit"):
        loaded.run(WORDS, backend=engine)
    first, second = loaded.run_batch([("a",), (WORDS,)], backend=engine, keep_errors=True)
    assert "said" in first
    assert "cannot fit" in str(second)


@pytest.mark.parametrize("program", [maybe_long, caught, aside])
@pytest.mark.filterwarnings("ignore::lmc.errors.PoolWarning")
def test_a_call_that_may_not_be_needed_refuses_nothing(engine, program) -> None:
    """In a branch, in a try, on a prompt that nobody may read."""
    assert program.run(WORDS, backend=engine).calls


def test_what_is_at_the_limit_runs(engine) -> None:
    """The refusal is never sooner than the engine's own."""
    tokenizer = engine.target.tokenizer
    fits = None
    for count in range(180, 400):
        text = "a " * count
        needed = len(tokenizer.encode("Read: " + text + "\n")) + 19
        if needed == SLOTS:
            fits = text
    assert fits is not None
    long.run(fits, backend=engine)
    with pytest.raises(LmcError):
        long.run(fits + "a ", backend=engine)


def test_a_backend_without_a_pool_checks_nothing() -> None:
    """The oracle holds everything."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "said" in long.run(WORDS * 100, backend=Oracle())


def test_a_check_takes_little_time(engine) -> None:
    """Repeated runs with arguments of one size are analysed once."""
    many.run(["a", "b"], backend=engine)
    check = many._compile_for(engine, None)._pool_check(engine)
    began = time.perf_counter()
    for _ in range(100):
        check({"texts": ["a", "c"]}, {})
    assert time.perf_counter() - began < 0.05
