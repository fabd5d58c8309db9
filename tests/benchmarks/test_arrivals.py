"""Programs that arrive one after another share as much as if all had been known."""

import pytest
from sharing.arrivals import arrival_steps, run_arriving
from sharing.measure import offline, run_workload
from sharing.workloads import MAKERS, DataMissing

from lmc.backends import open_target

LARGE = 400_000
KINDS = {"gsm8k": 0.1, "react": 0.05, "tree": 0.05, "chat": 0.1, "branches": 0.05}
"""Few-shot, ReAct, tree of thought, chat, and forks: parts that take a second each."""

pytestmark = pytest.mark.model


@pytest.mark.parametrize("name", KINDS)
def test_the_hit_rate_is_that_of_the_offline_optimum(name):
    try:
        workload = MAKERS[name](KINDS[name])
    except DataMissing as missing:
        pytest.skip(str(missing))
    arrived = run_arriving(workload, open_target(None), num_slots=LARGE)
    run = arrived.run
    best = 1 - offline(run.offline_calls(), LARGE).best / run.tokens
    assert best > 0.3
    assert 1 - run.computed / run.tokens >= 0.99 * best


def test_arrivals_are_the_same_each_time_and_do_not_change_results():
    try:
        workload = MAKERS["chat"](0.05)
    except DataMissing as missing:
        pytest.skip(str(missing))
    steps = arrival_steps(workload)
    assert steps == arrival_steps(workload) == sorted(steps)
    target = open_target(None)
    arrived = run_arriving(workload, target, num_slots=LARGE)
    assert arrived.run.values == run_workload(workload, target, num_slots=LARGE).values
