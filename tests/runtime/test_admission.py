"""The order of those who wait is kept, not made anew: it is right, and cheap to keep."""

import random

import pytest
from scheduler_driver import Driver, random_prompts

from lmc.ir.calls import CallHint
from lmc.runtime.engine import admission
from lmc.runtime.engine.sequence import SequenceState


def order_from_scratch(driver, tenant):
    """Return what the queue's order must be, looking at every waiting sequence anew."""
    queue, step = driver.scheduler.waiting, driver.scheduler.step
    lane = queue._lanes.get(tenant)
    if lane is None:
        return []
    for seq in queue:
        tokens = seq.token_ids[: seq.logits_from]
        assert queue.matched_len(seq) == driver.cache.match_len(tokens, seq.namespace)
    oldest = sorted(lane.window.values(), key=lambda seq: seq.arrival_step)
    assert len(oldest) <= admission.WINDOW
    urgent = sorted(lane.preempted.values(), key=lambda seq: seq.serial)
    return urgent + sorted(oldest, key=lambda seq: queue._rank(seq, step))


@pytest.mark.parametrize("seed", range(8))
def test_the_order_is_what_sorting_anew_would_give(seed, monkeypatch):
    monkeypatch.setattr(admission, "WINDOW", 12)
    monkeypatch.setattr(admission, "PATIENCE", 40)
    rng = random.Random(seed)
    page_size = rng.choice([1, 1, 4])
    driver = Driver(slots=rng.choice([120, 400]), budget=24, max_running=3, page_size=page_size,
                    check_every=10)  # fmt: skip
    prompts, live, others = random_prompts(120, seed=seed), [], ["", "a"]
    for step in range(250):
        if prompts and rng.random() < 0.5:
            hint = None
            if rng.random() < 0.7:
                hint = CallHint(
                    run=rng.randrange(12), number=step + 1, remaining=rng.randrange(3),
                    result="more", tenant=rng.choice(others[: 1 + seed % 2]),
                )  # fmt: skip
            options = {"hint": hint, "namespace": rng.choice(["", "", "n"])}
            live.append(driver.submit(prompts.pop(), rng.randint(1, 12), **options))
        event = rng.random()
        live = [seq for seq in live if not seq.is_finished]
        if event < 0.05 and live:
            driver.end(rng.choice(live), "cancelled")
        elif event < 0.08:
            driver.cache.flush()
        elif event < 0.12:
            driver.scheduler.end_run(rng.randrange(12))
        elif event < 0.16 and driver.scheduler.running:
            driver.scheduler.room.preempt(rng.choice(driver.scheduler.running))
        for tenant in others:
            wanted = order_from_scratch(driver, tenant)
            assert driver.scheduler.waiting.ordered(driver.scheduler.step, tenant) == wanted
        driver.step()
    driver.run()
    for run in range(12):
        driver.scheduler.end_run(run)
    driver.assert_clean()
    foresight = driver.scheduler.foresight
    kept = (foresight._waiting, foresight._holders, foresight._by_run, foresight._stale)
    assert not any([*kept, foresight._changed, foresight._orders])


def looks(waiting, monkeypatch):
    """Count how often a waiting sequence is looked at while one ends in every fourth step."""
    driver = Driver(slots=60_000, max_len=600, budget=512, max_running=32, check_every=10**9)
    rng = random.Random(0)
    stems = [[rng.randrange(50) for _ in range(40)] for _ in range(8)]

    def submit():
        tail = [rng.randrange(50, 1_000_000) for _ in range(20)]
        return driver.submit(rng.choice(stems)[: rng.randint(5, 40)] + tail, 500)

    for _ in range(32 + waiting):
        submit()
    for _ in range(12):
        driver.step()
    count = [0]

    def counting(owner, name):
        method = getattr(owner, name)

        def call(*args, **options):
            count[0] += 1
            return method(*args, **options)

        monkeypatch.setattr(owner, name, call)

    counting(driver.cache.tree, "_walk")
    counting(driver.scheduler.waiting, "_rank")
    for step in range(80):
        if step % 4 == 0:
            driver.end(driver.scheduler.running[0], "cut")
            submit()
        driver.step()
    assert sum(1 for _ in driver.scheduler.waiting) == waiting
    assert all(seq.state is SequenceState.WAITING for seq in driver.scheduler.waiting)
    return count[0]


def test_the_work_of_a_step_grows_with_what_changed_not_with_what_waits(monkeypatch):
    few, many = looks(128, monkeypatch), looks(2048, monkeypatch)
    assert many < 1.5 * few
    assert many < 80 * 20, "a few looks per step"
