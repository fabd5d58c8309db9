"""Work ahead of choices on a real engine: the same bits, a tool called once, little in vain."""

from collections.abc import Iterator
from typing import Any

import choosing
import pytest
from cost_runs import open_tiny
from examples_support import ESSAY, program

import lmc

QUESTIONS = [f"What is {number} times {number + 3}, and why?" for number in range(10)]
ESSAYS = [ESSAY[:200], ESSAY[100:320], ESSAY[:200] + " The end.", "A poem."]
WORKLOADS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "branches": (choosing.route, [{"question": question} for question in QUESTIONS]),
    "long arm": (choosing.long_arm, [{"question": question} for question in QUESTIONS]),
    "judge": (program("judge"), [{"essay": essay} for essay in ESSAYS]),
}


@pytest.fixture
def engine() -> Iterator[Any]:
    """A young engine on a small random model."""
    with open_tiny(num_slots=6000) as opened:
        yield opened


def compiled(name: str, engine: Any, *, is_profiled: bool) -> Any:
    """Return a program compiled, with what all its runs took if asked for."""
    source, batch = WORKLOADS[name]
    if not is_profiled:
        return source.compile(engine)
    profile = lmc.Profile()
    source.run_batch(batch, backend=engine, seed=1, profile=profile, speculate="off")
    return source.compile(engine, profile=profile)


def shown(results: list[Any]) -> list[Any]:
    """Return all that can be seen of runs, log-probabilities of their calls included."""
    return [(r.value, r.text(), r.variables, r.messages(), r.calls) for r in results]


@pytest.mark.parametrize("is_profiled", [False, True], ids=["plain", "profiled"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_on_off_and_wrong_give_the_same_bits(engine, name, is_profiled):
    made, (_, batch) = compiled(name, engine, is_profiled=is_profiled), WORKLOADS[name]
    wanted = shown([made.run(**each, backend=engine, seed=5, speculate="off") for each in batch])
    adopted = 0
    for mode in ("on", "wrong", "on"):
        engine.flush_cache()
        choosing.CALLS.clear()
        results = [made.run(**each, backend=engine, seed=5, speculate=mode) for each in batch]
        assert shown(results) == wanted
        adopted += sum(r.usage.adopted_tokens for r in results)
        if name == "branches":
            assert [r.value[2] for r in results] == [text[:4] for text in choosing.CALLS]
        together = made.run_batch(batch, backend=engine, seed=5, speculate=mode)
        assert shown(together[:1]) == wanted[:1]
        assert len(together) == len(batch)
    # The judge chooses on a context that is new each time, so nothing is ready before it; the
    # arms of the other are short, so without a profile nothing is foreseen.
    assert adopted or (name, is_profiled) != ("branches", False)
    assert adopted or (name, is_profiled) != ("long arm", True)
    engine.check()


@pytest.mark.parametrize("name", WORKLOADS)
def test_streams_are_the_same(engine, name):
    made, (_, batch) = compiled(name, engine, is_profiled=True), WORKLOADS[name]
    for each in batch[:3]:
        texts = []
        for mode in ("off", "on", "wrong"):
            run = made.run(**each, stream=True, backend=engine, seed=2, speculate=mode)
            texts.append("".join(run.text_iter()))
            assert texts[-1] == run.text()
        assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("is_batch", [False, True], ids=["one by one", "batch"])
@pytest.mark.parametrize("is_profiled", [False, True], ids=["plain", "profiled"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_at_most_a_tenth_is_in_vain(engine, name, is_profiled, is_batch):
    _, batch = WORKLOADS[name]
    made = compiled(name, engine, is_profiled=is_profiled)
    with open_tiny(num_slots=6000) as young:
        if is_batch:
            results = made.run_batch(batch, backend=young, seed=5)
        else:
            results = [made.run(**each, backend=young, seed=5) for each in batch]
        stats = young.stats()
    assert stats.wasted_tokens <= 0.1 * stats.forward_tokens
    assert sum(r.usage.wasted_tokens for r in results) <= stats.wasted_tokens
    assert sum(r.usage.speculated_tokens for r in results) == stats.speculated_tokens


def test_a_started_generation_saves_steps(engine):
    made, (_, batch) = compiled("long arm", engine, is_profiled=True), WORKLOADS["long arm"]
    steps: dict[str, int] = {}
    for mode in ("off", "on"):
        engine.flush_cache()
        before = engine.stats()
        for each in batch:
            made.run(**each, backend=engine, seed=5, speculate=mode)
        steps[mode] = (engine.stats() - before).engine_steps
    assert steps["on"] < steps["off"]
