"""Steps cost what has changed, and are those that looking at everything anew would give.

A second scheduler does by definition what the first one keeps from step to step: what is cached
of each waiting sequence, their order, what is evicted next, what runs may still add, what tenants
hold. Both get the same random events, and must make the same steps, slot by slot.
"""

import random

import pytest
from scheduler_driver import Driver, contents, random_prompts

from lmc.ir.calls import CallHint
from lmc.runtime.cache.holds import LATEST
from lmc.runtime.engine import admission
from lmc.runtime.engine.room import growth
from lmc.runtime.engine.tenants import uses_of
from lmc.runtime.guess import Guess


class Naive:
    """What replaces the methods of a scheduler's parts; each says what is meant, and no more."""

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.cache, self.tree = scheduler.cache, scheduler.cache.tree
        self.foresight, self.rows = scheduler.foresight, scheduler.rows
        self.settle, self.follow = scheduler.foresight.settle_ranks, self.tree.follow
        self.replace(self.tree.evictions, "pop", self.first_leaf)
        self.replace(self.tree, "touch", self.touch)
        self.replace(self.tree, "follow", self.hold_anew)
        self.replace(self.foresight, "settle_ranks", self.settle_all)
        self.replace(self.foresight, "claim", self.claim)
        self.replace(self.foresight, "found", lambda seq: None)
        self.replace(scheduler.waiting, "ordered", self.ordered)
        self.replace(scheduler.waiting, "matched_len", self.matched_len)
        self.replace(scheduler.room, "is_hopeless", lambda *_: False)
        self.replace(scheduler.room, "reserved", self.reserved)
        self.replace(self.rows, "uses", lambda: uses_of(self.rows.running))

    def replace(self, owner, name, method):
        assert callable(getattr(owner, name))
        setattr(owner, name, method)

    # -- the cache ---------------------------------------------------------------------------

    def first_leaf(self):
        free = [node for node in self.tree.nodes() if not node.children and not node.lock_ref]
        spare = [node for node in free if not node.hold_ref]
        if spare:
            return min(spare, key=lambda node: (not node.is_dead, node.stamp))
        orders = self.foresight._orders.values()
        self.places = {seq: place for order in orders for place, seq in enumerate(order)}
        return max(free, key=lambda node: (self.rank(node), -node.stamp), default=None)

    def rank(self, node):
        return min(self.hold_rank(hold) for group in node.groups.values() for hold in group.holds)

    def hold_rank(self, hold):
        """Say when what is held is needed: what waits without a place in the order comes last."""
        seq = self.foresight._holders.get(hold)
        if seq is None:
            return hold.rank
        known = self.places.get(seq)
        if known is None:
            lane = self.scheduler.waiting._lanes[seq.tenant]
            known = 0 if seq.serial in lane.preempted else LATEST + seq.serial
        return hold.rank[0], known

    def touch(self, node):
        self.tree._clock += 1
        while node is not None:
            node.stamp, node.is_dead = self.tree._clock, False
            node = node.parent

    def hold_anew(self, hold, key, namespace=""):
        node, length = self.tree.find(key, namespace)
        assert self.follow(hold, key, namespace) == length
        assert hold.node is node
        return length

    # -- what waits --------------------------------------------------------------------------

    def matched_len(self, seq):
        return self.cache.match_len(seq.token_ids[: seq.logits_from], seq.namespace)

    def look_at_all(self):
        """Look for everything that waits, whatever has changed."""
        for seq in self.foresight._waiting:
            self.foresight._stale[seq] = None
        self.foresight.take_changed()

    def ordered(self, step, tenant):
        self.look_at_all()
        lane = self.scheduler.waiting._lanes.get(tenant)
        if lane is None:
            return []
        urgent = sorted(lane.preempted.values(), key=lambda seq: seq.serial)
        order = urgent + sorted(
            lane.window.values(), key=lambda seq: self.scheduler.waiting._rank(seq, step)
        )
        self.foresight.set_order(tenant, order)
        return order

    def settle_all(self):
        self.foresight._are_settled = False
        self.settle()

    # -- who may start -----------------------------------------------------------------------

    def reserved(self):
        slots = self.cache.new_slots
        return sum(slots(s.cached_len, s.goal_len + growth(s)) for s in self.rows.running)

    def claim(self, seq, need, most):
        runs, sizes = self.foresight._runs, self.foresight._sizes
        record = runs.get(seq.hint.run) if seq.hint is not None else None
        if record is None:
            return need

        def rest(run):
            alike = [other.added for other in runs.values() if other.program == run.program]
            known = sizes.get(run.program, max(2 * max(alike), run.added + run.asked))
            return max(0, min(known, self.cache.num_slots // 2) - run.added)

        begun = [run for run in runs.values() if run.place is not None]
        earlier = [run for run in begun if record.place is None or run.place < record.place]
        need = need if record.program in sizes else max(need, most)
        return sum(map(rest, earlier)) + max(need, rest(record))


class Pair:
    """Two drivers that get the same events; the second is naive."""

    def __init__(self, **sizes):
        self.drivers = [Driver(check_every=25, **sizes) for _ in range(2)]
        Naive(self.drivers[1].scheduler)
        self.live = []

    def submit(self, prompt, max_tokens, is_guess, **options):
        made = []
        for driver in self.drivers:
            own = {"guess": Guess()} if is_guess else {}
            made.append(driver.submit(prompt, max_tokens, **options, **own))
        self.live.append(made)

    def end(self, index, keep_cache):
        for driver, seq in zip(self.drivers, self.live.pop(index), strict=True):
            if seq.guess is not None:
                seq.guess.drop()
            driver.end(seq, "ended", keep_cache=keep_cache)

    def preempt(self, draw):
        running = [driver.scheduler.running for driver in self.drivers]
        if running[0]:
            index = draw.randrange(len(running[0]))
            for driver, seqs in zip(self.drivers, running, strict=True):
                driver.scheduler.room.preempt(seqs[index])

    def step(self):
        """Do one step in both; return whether anything was computed."""
        plans = [contents(driver.step()) for driver in self.drivers]
        assert plans[0] == plans[1]
        for driver in self.drivers:
            for seq in driver.scheduler.guesses.take_dropped():
                driver.end(seq, "dropped")
        states = [
            (
                [seq.serial for seq in driver.scheduler.running],
                sorted(seq.serial for seq in driver.scheduler.waiting),
                driver.cache.tree.held_len,
                driver.cache.available,
                driver.cache.totals,
            )
            for driver in self.drivers
        ]
        assert states[0] == states[1]
        self.live = [pair for pair in self.live if not pair[0].is_finished]


def hint(draw, number, tenants):
    run = draw.randrange(10)
    return CallHint(
        run=run, program=f"p{run % 2}", before=draw.randrange(number), number=number,
        context=draw.choice(["last", "more", "unknown"]), remaining=draw.randrange(3),
        result=draw.choice(["none", "more", "unknown"]), tenant=tenants[run % len(tenants)],
    )  # fmt: skip


def play(seed, steps):
    """Let random events happen to a pair; return how many tokens were evicted and who gave way."""
    draw = random.Random(seed)
    pair = Pair(
        slots=draw.choice([90, 120, 160, 240]), budget=draw.choice([8, 24, 64]),
        max_running=draw.choice([3, 8, 16]), page_size=draw.choice([1, 1, 4]),
    )  # fmt: skip
    prompts, tenants = random_prompts(200, seed=seed), ["", "a", "b"][: draw.choice([1, 1, 3, 3])]
    rate, is_hinted = draw.choice([0.4, 0.8]), draw.choice([0.0, 0.6, 0.9])
    if len(tenants) > 1:
        is_hinted = 1.0
    for step in range(1, steps):
        while step % 50 < 30 and draw.random() < rate:
            known = hint(draw, step, tenants) if draw.random() < is_hinted else None
            pair.submit(
                draw.choice(prompts), draw.randint(1, 12), draw.random() < 0.05,
                hint=known, namespace=draw.choice(["", "", "n"]),
            )  # fmt: skip
        event = draw.random()
        if event < 0.05 and pair.live:
            pair.end(draw.randrange(len(pair.live)), draw.random() < 0.7)
        elif event < 0.08:
            pair.preempt(draw)
        elif event < 0.14:
            run = draw.randrange(10)
            for driver in pair.drivers:
                driver.scheduler.end_run(run)
        pair.step()
    fast = pair.drivers[0]
    return fast.cache.totals.evicted_tokens, fast.scheduler.num_preemptions


def compare(seeds, steps, monkeypatch):
    monkeypatch.setattr(admission, "WINDOW", 8)
    monkeypatch.setattr(admission, "PATIENCE", 40)
    evicted = preempted = 0
    for seed in seeds:
        tokens, count = play(seed, steps)
        evicted, preempted = evicted + tokens, preempted + count
    assert evicted > 100 * len(seeds)
    assert preempted > len(seeds)


def test_plans_are_those_of_looking_at_everything_anew(monkeypatch):
    compare(range(48), 100, monkeypatch)


@pytest.mark.long
def test_many_plans_are_those_of_looking_at_everything_anew(monkeypatch):
    compare(range(48, 300), 250, monkeypatch)
