"""Several tenants on one scheduler: whoever asks little is served soon, and nobody starves."""

import random

import numpy as np
import pytest
from scheduler_driver import Driver, reference

import lmc
from lmc.errors import EngineError, UsageError
from lmc.ir.calls import CallHint
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.tenants import BLOCKED_STEPS, MAX_DEBT, Tenants


class Office(Driver):
    """A driver that knows of tenants, and after how many steps each call had its first token."""

    def __init__(self, **sizes):
        super().__init__(**{"check_every": 20, **sizes})
        self.arrived, self.first, self.done = {}, {}, {}

    def ask(self, tenant, prompt, max_tokens=4):
        hint = CallHint(run=self.serial + 1, tenant=tenant)
        seq = self.submit(prompt, max_tokens, hint=hint)
        self.arrived[seq.serial] = self.steps
        return seq

    def take(self, part, plan):
        super().take(part, plan)
        if self.outputs[part.seq.serial]:
            self.first.setdefault(part.seq.serial, self.steps)

    def end(self, seq, reason, **options):
        super().end(seq, reason, **options)
        self.scheduler.end_run(seq.hint.run)
        self.done.setdefault(seq.tenant, []).append(seq)

    def wait_of(self, seq):
        return self.first[seq.serial] - self.arrived[seq.serial]


def fresh_prompt(rng, size):
    return [rng.randrange(50) for _ in range(size)]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def light_waits(*, heavy, seed=0, sizes=(5, 60), calls=40, shared=0, **options):
    """Return the steps to the first token of a light tenant's calls, one at a time.

    A heavy tenant, if there is one, has so many calls open at any moment; all calls are
    checked.
    """
    rng = random.Random(seed)
    office = Office(**{"slots": 2000, "max_len": 512, "budget": 64, "max_running": 8, **options})
    common = fresh_prompt(rng, shared)
    light, waits, prompts, open_heavy = None, [], {}, []
    while len(waits) < calls:
        open_heavy = [seq for seq in open_heavy if not seq.is_finished]
        while len(open_heavy) < heavy:
            prompt = common + fresh_prompt(rng, rng.choice([10, 60, 300]))
            open_heavy.append(office.ask("heavy", prompt, rng.choice([2, 20, 60])))
            prompts[open_heavy[-1]] = prompt
        if light is not None and light.is_finished:
            waits.append(office.wait_of(light))
            light = None
        if light is None and rng.random() < 0.3:
            prompt = common + fresh_prompt(rng, rng.randint(*sizes))
            light = office.ask("light", prompt, rng.choice([1, 8]))
            prompts[light] = prompt
        office.step()
    office.run(limit=20_000)
    for seq, prompt in prompts.items():
        assert office.outputs[seq.serial] == reference(prompt, seq.owner)
        assert office.ended[seq.serial] == ["done"]
    office.assert_clean()
    return waits


CROWDS = [
    pytest.param({}, id="rows"),
    pytest.param({"slots": 512}, id="small pool"),
    pytest.param({"max_running": 64, "slots": 8000, "budget": 256}, id="many rows"),
    pytest.param({"shared": 40}, id="shared beginning"),
    pytest.param({"sizes": (100, 250), "calls": 25}, id="long prompts"),
]


@pytest.mark.parametrize("options", CROWDS)
def test_fifty_to_one_leaves_the_light_tenant_its_time_to_first_token(options):
    alone = percentile(light_waits(heavy=0, **options), 0.99)
    crowded = percentile(light_waits(heavy=50, **options), 0.99)
    assert crowded <= max(2 * alone, 3)


def test_two_greedy_tenants_get_the_same_number_of_tokens():
    rng = random.Random(1)
    office = Office(slots=8000, budget=64, max_running=64, max_len=512)
    computed = {"small": 0, "large": 0}
    for _ in range(200):
        for tenant, size in (("small", 10), ("large", 200)):
            waiting = sum(seq.tenant == tenant for seq in office.scheduler.waiting)
            for _ in range(20 - waiting):
                office.ask(tenant, fresh_prompt(rng, size), 8)
        plan = office.step()
        for part in plan.extends:
            computed[part.seq.tenant] += part.length
    assert abs(computed["small"] - computed["large"]) < 0.05 * sum(computed.values())


def test_inside_a_turn_the_longest_cached_prefix_goes_first():
    office = Office(max_running=1, slots=500)
    office.ask("a", range(40), 1)
    office.run()
    office.ask("b", [49] * 5, 30)
    cold = office.ask("a", [48, *range(20)], 1)
    warm = office.ask("a", [*range(39), 1], 1)
    office.run()
    assert [seq.serial for seq in office.done["a"]][1:] == [warm.serial, cold.serial]


def test_more_tenants_than_rows_take_turns():
    office = Office(max_running=2, slots=500, max_len=128)
    rng = random.Random(2)
    names = [f"t{number}" for number in range(7)]
    waits = []
    for _ in range(600):
        for name in names:
            if not any(seq.tenant == name for seq in office.scheduler.waiting):
                waits.append(office.ask(name, fresh_prompt(rng, 12), 6))
        office.step()
    started = [seq for seq in waits if seq.serial in office.first]
    assert max(office.wait_of(seq) for seq in started) < 60
    assert max(office.steps - office.arrived[s.serial] for s in waits if s not in started) < 60


def test_a_call_larger_than_its_share_is_not_kept_waiting_by_small_ones():
    office = Office(slots=200, budget=64, max_running=4, max_len=200)
    rng = random.Random(3)
    for _ in range(10):
        office.ask("small", fresh_prompt(rng, 20), 10)
        office.step()
    large = office.ask("large", fresh_prompt(rng, 150), 20)
    for _ in range(BLOCKED_STEPS + 80):
        while sum(s.tenant == "small" for s in office.scheduler.waiting) < 5:
            office.ask("small", fresh_prompt(rng, 20), 10)
        office.step()
    assert large.is_finished
    assert len(office.done["small"]) > 20


def test_a_tenant_that_is_alone_may_have_everything():
    office = Office(max_running=4, slots=400)
    office.ask("a", [1], 1)
    office.run()
    seqs = [office.ask("b", [2, number], 20) for number in range(6)]
    office.step()
    office.step()
    assert sum(seq.state is SequenceState.RUNNING for seq in seqs) == 4
    assert office.scheduler.num_preemptions == 0


def test_credit_and_debt_have_limits_and_are_forgotten():
    tenants = Tenants(token_budget=64, rows=8, slots=100)
    seqs = [make_seq(name) for name in ("a", "b")]
    for seq in seqs:
        tenants.enter(seq)
    tenants.charge("a", 10_000)
    assert tenants.credit("a") == -MAX_DEBT * 32
    assert tenants.next_of(["a", "b"]) == "b"
    for _ in range(100):
        tenants.new_round()
    assert (tenants.credit("a"), tenants.credit("b")) == (32, 32)
    tenants.charge("a", 40)
    for seq in seqs:
        tenants.leave(seq)
    assert len(tenants) == 1, "a tenant that owes is remembered"
    tenants.new_round()
    assert len(tenants) == 0


def make_seq(tenant):
    tokens = np.arange(3, dtype=np.int32)
    return Sequence(1, tokens, max_len=3, logits_from=3, hint=CallHint(run=1, tenant=tenant))


# -- how a run says for whom it runs ---------------------------------------------------------


@lmc.function
def two_calls(s, word):
    s += "Say " + word
    s += lmc.gen("a", max_tokens=3)
    s += lmc.select("b", ["yes", "no"])


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_the_calls_of_a_run_carry_its_tenant(mode):
    backend, batch = lmc.Oracle(), [{"word": "a"}, {"word": "b"}]
    seen = []

    def noting(method):
        def submit(call, *args, **options):
            seen.append(call.hint.tenant)
            return method(call, *args, **options)

        return submit

    backend.submit_gen = noting(backend.submit_gen)
    backend.submit_score = noting(backend.submit_score)
    two_calls.run(word="x", backend=backend, tenant="one", mode=mode)
    with two_calls.run(word="x", backend=backend, tenant="two", mode=mode, stream=True) as run:
        run.text()
    two_calls.run_batch(batch, backend=backend, tenant="many", mode=mode)
    two_calls.run(word="x", backend=backend, mode=mode)
    assert seen == ["one"] * 2 + ["two"] * 2 + ["many"] * 4 + [""] * 2


@pytest.mark.parametrize("wrong", [3, None, "x" * 201])
def test_what_is_no_tenant_is_refused(wrong):
    with pytest.raises(UsageError, match="tenant must be a text of at most 200 characters"):
        two_calls.run(word="x", backend=lmc.Oracle(), tenant=wrong)


# -- nobody waits for ever -------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["", "poor"])
def test_ever_longer_cached_prefixes_do_not_starve_a_cold_call(tenant):
    office = Office(max_running=1, slots=3000, max_len=600)
    cold = office.ask(tenant, [49, 48, 47], 1)
    prefix = [1]
    for number in range(400):
        prefix.append(number % 40)
        office.ask("", prefix, 1)
        office.step()
        if cold.is_finished:
            break
    assert cold.is_finished


def hinted(driver, run, prompt):
    """Ask one more call of a run that goes on."""
    return driver.submit(prompt, 1, hint=CallHint(run=run, number=driver.serial + 1))


def test_earlier_runs_that_never_end_do_not_starve_a_new_one(monkeypatch):
    monkeypatch.setattr("lmc.runtime.engine.admission.PATIENCE", 200)
    office = Driver(max_running=1, slots=600, max_len=64, check_every=20)
    first = hinted(office, 1, [1, 2, 3])
    office.step()
    assert first.is_finished
    late = None
    for number in range(230):
        hinted(office, 1, [1, 2, 3, number % 50])
        hinted(office, 1, [1, 2, 4, number % 50])
        late = late or hinted(office, 2, [40, 41])
        office.step()
        if late.is_finished:
            break
    assert late.is_finished
    assert number > 150, "it waited for its patience, not for want of others"


def test_what_never_came_in_does_not_leave():
    """A call that is refused, or cancelled before it starts, ends beside others."""
    office = Office(slots=64, max_len=64, budget=16)
    office.ask("a", range(10))
    hint = CallHint(run=99, tenant="a")
    refused = Sequence(99, np.arange(60, dtype=np.int32), max_len=1000, logits_from=59, hint=hint)
    with pytest.raises(EngineError):
        office.scheduler.submit(refused)
    hint = CallHint(run=9, tenant="b")
    early = Sequence(100, np.arange(5, dtype=np.int32), max_len=5, logits_from=4, hint=hint)
    for seq in (refused, early):
        office.scheduler.finish(seq)
        assert seq.is_finished
    assert not office.scheduler.tenants.are_several
    office.run()
    assert len(office.scheduler.tenants) == 0
