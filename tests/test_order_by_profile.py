"""A profile orders the calls of a run on a real engine; results stay as they are."""

from typing import Any

import pytest
from cost_runs import open_tiny

import lmc


@lmc.function
def branches(s, topic):
    """Branches of very different lengths, the longest last."""
    s += "Think about " + topic + ".\n"
    a, b, c, d, e = s.fork(5)
    a += "A: " + lmc.gen("x", max_tokens=4, ignore_eos=True)
    b += "B: " + lmc.gen("x", max_tokens=6, ignore_eos=True)
    c += "C: " + lmc.gen("x", max_tokens=10, ignore_eos=True)
    d += "D: " + lmc.gen("x", max_tokens=20, ignore_eos=True)
    e += "E: " + lmc.gen("x", max_tokens=20, ignore_eos=True)
    e += "\nMore: " + lmc.gen("y", max_tokens=30, ignore_eos=True)
    s += a["x"] + b["x"] + c["x"] + d["x"] + e["y"]
    s += "\nSo: " + lmc.gen("end", max_tokens=5, temperature=0, return_logprob=True)


def measured(batch: list[dict[str, Any]], profile: lmc.Profile | None) -> tuple[int, list[Any]]:
    """Return the engine steps of a batch with few rows, and all that can be seen of its runs."""
    with open_tiny(num_slots=6000, max_running=2) as engine:
        made = branches.compile(engine, profile=profile)
        before = engine.stats()
        results = made.run_batch(batch, backend=engine, seed=3)
        steps = (engine.stats() - before).engine_steps
        engine.check()
    return steps, [(r.value, r.text(), r.variables, r.calls) for r in results]


@pytest.mark.parametrize(("count", "most"), [(1, 1.0), (3, 1.08)])
def test_the_longest_chain_first_takes_fewer_steps(count: int, most: float) -> None:
    """What a batch takes depends on how fast its runs start, too."""
    profile = lmc.Profile()
    branches.run(topic="tea", backend="oracle", seed=1, profile=profile)
    batch = [{"topic": f"{number} cups"} for number in range(count)]
    steps, wanted = measured(batch, None)
    fewer, shown = measured(batch, profile)
    assert shown == wanted
    assert fewer < most * steps
