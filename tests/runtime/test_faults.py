"""Faults of the model, of memory, of compilers and of callbacks: only those they concern fail.

Afterwards the engine serves again within 5 seconds and every slot has its owner.
"""

import pkgutil
import random
import threading
import time

import numpy as np
import pytest

from lmc.errors import Cancelled, ConstraintError, EngineError
from lmc.ir.calls import Constraint

SERVES_AGAIN = 5.0


def calls_of(fakes, seed, count=12):
    """Return calls of many lengths that share beginnings."""
    draw = random.Random(seed)
    stems = [[draw.randrange(3, 40) for _ in range(60)] for _ in range(3)]
    return [
        fakes.gen(
            [*draw.choice(stems)[: draw.randint(1, 60)], *range(3, 3 + draw.randint(1, 9))],
            max_tokens=draw.randint(1, 20),
            ignore_eos=True,
            key=number,
        )
        for number in range(count)
    ]


def submit_all(fakes, engine, calls):
    """Submit calls so that all come into the same first step; return their waiters."""
    waiters = [fakes.Waiter() for _ in calls]
    with fakes.held(engine):
        for call, waiter in zip(calls, waiters, strict=True):
            engine.submit_gen(call, waiter)
    return waiters


def check_served(fakes, engine, calls, wanted):
    """The engine gives the right answers again, soon, and nothing is held."""
    begun = time.perf_counter()
    fakes.run_all(engine, calls[:1])
    assert time.perf_counter() - begun < SERVES_AGAIN
    again = fakes.run_all(engine, calls)
    assert [result.token_ids for result in again] == wanted
    engine.check()
    engine.flush_cache()
    assert engine._core.cache.available == engine._core.cache.num_slots


def answers(fakes, calls):
    """Return what the calls must give."""
    with fakes.make_engine() as engine:
        return [result.token_ids for result in fakes.run_all(engine, calls)]


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), MemoryError("no room")])
@pytest.mark.parametrize("seed", range(6))
def test_an_exception_in_a_random_pass_fails_that_step_only(fakes, seed, error):
    draw, model = random.Random(seed), fakes.FakeModel()
    calls = calls_of(fakes, seed)
    wanted = answers(fakes, calls)
    at, hit = draw.randrange(18), []

    def fail(batch):
        if len(model.batches) == at + 1:
            hit.append(len(batch.table_rows))
            raise error

    model.before_forward = fail
    options = {"num_slots": draw.choice([250, 4096]), "token_budget": 32, "max_running": 5}
    with fakes.make_engine(model, **options) as engine:
        outcomes = [waiter.outcome() for waiter in submit_all(fakes, engine, calls)]
        failed = [outcome for outcome in outcomes if outcome is error]
        assert len(failed) == sum(hit) > 0
        for outcome, tokens in zip(outcomes, wanted, strict=True):
            assert outcome is error or outcome.token_ids == tokens
        check_served(fakes, engine, calls, wanted)
        assert engine.stats().failed_requests == len(failed)


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_are_no_numbers_fail_their_own_calls(fakes, seed):
    draw, model = random.Random(seed), fakes.FakeModel()
    calls = calls_of(fakes, seed)
    wanted = answers(fakes, calls)
    honest, spoiled = model.logits, []
    at = draw.randrange(12)

    def logits(state):
        values = honest(state)
        if len(model.batches) >= at and len(values) > 1 and not spoiled:
            values[len(values) // 2, 5] = np.nan
            spoiled.append(1)
        return values

    model.logits = logits
    with fakes.make_engine(model, token_budget=32, max_running=5) as engine:
        outcomes = [waiter.outcome() for waiter in submit_all(fakes, engine, calls)]
        failed = [outcome for outcome in outcomes if isinstance(outcome, EngineError)]
        assert len(failed) == len(spoiled) == 1
        assert "not finite" in str(failed[0])
        for outcome, tokens in zip(outcomes, wanted, strict=True):
            assert outcome is failed[0] or outcome.token_ids == tokens
        check_served(fakes, engine, calls, wanted)


def test_no_memory_for_the_tokens_of_a_call_fails_that_call(fakes, monkeypatch):
    calls = [fakes.gen([3 + i] * 9, max_tokens=6, ignore_eos=True) for i in range(4)]
    wanted = answers(fakes, calls)
    with fakes.make_engine() as engine:
        from lmc.runtime.engine.sequence import Sequence

        append = Sequence.append

        def failing(seq, token_id):
            if seq.token_ids[0] == 5 and seq.total_len == 11:
                raise MemoryError("no room for a token")
            append(seq, token_id)

        monkeypatch.setattr(Sequence, "append", failing)
        outcomes = [waiter.outcome() for waiter in submit_all(fakes, engine, calls)]
        monkeypatch.setattr(Sequence, "append", append)
        assert isinstance(outcomes[2], MemoryError)
        assert [outcomes[i].token_ids for i in (0, 1, 3)] == [wanted[i] for i in (0, 1, 3)]
        check_served(fakes, engine, calls, wanted)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_no_memory_for_a_plan_fails_what_runs(fakes, monkeypatch, step):
    from lmc.runtime.engine import scheduler

    calls = calls_of(fakes, 1)
    wanted = answers(fakes, calls)
    lay_out, made = scheduler.lay_out, []

    def failing(*args, **options):
        made.append(1)
        if len(made) == step:
            raise MemoryError("no room for a plan")
        return lay_out(*args, **options)

    monkeypatch.setattr(scheduler, "lay_out", failing)
    with fakes.make_engine(token_budget=32, max_running=3) as engine:
        outcomes = [waiter.outcome() for waiter in submit_all(fakes, engine, calls)]
        failed = [outcome for outcome in outcomes if isinstance(outcome, MemoryError)]
        assert 1 <= len(failed) <= 3
        for outcome, tokens in zip(outcomes, wanted, strict=True):
            assert isinstance(outcome, MemoryError) or outcome.token_ids == tokens
        check_served(fakes, engine, calls, wanted)


def regex(source):
    return Constraint("regex", source)


@pytest.fixture(name="hanging")
def fixture_hanging(monkeypatch):
    """Make constraints that begin with "h" hang until the test is over."""
    go = threading.Event()

    def patch(engine):
        compile_constraint = engine._compile

        def compile_or_hang(constraint):
            if constraint.source.startswith("h"):
                go.wait(60)
            return compile_constraint(constraint)

        monkeypatch.setattr(engine, "_compile", compile_or_hang)

    yield patch
    go.set()


def test_a_constraint_that_hangs_fails_its_own_call_and_others_go_on(fakes, hanging):
    calls = calls_of(fakes, 2, count=3)
    wanted = answers(fakes, calls)
    with fakes.make_engine(constraint_seconds=0.3) as engine:
        hanging(engine)
        waiters = [fakes.Waiter() for _ in range(5)]
        for waiter in waiters:
            engine.submit_gen(fakes.gen([5, 6], constraint=regex("ha|hb")), waiter)
        for waiter in waiters:
            error = waiter.outcome(10)
            assert isinstance(error, ConstraintError)
            assert "not compiled within 0.3 s" in str(error)
        bound = fakes.Waiter()
        engine.submit_gen(fakes.gen([5, 6], constraint=regex("a|b")), bound)
        assert bound.result(SERVES_AGAIN).text in "ab", "others still find a thread"
        check_served(fakes, engine, calls, wanted)
        assert all(len(waiter.outcomes) == 1 for waiter in waiters)


def test_an_engine_closes_while_a_constraint_hangs(fakes, hanging, monkeypatch):
    monkeypatch.setattr("lmc.runtime.engine.engine.CLOSE_SECONDS", 0.2)
    engine, waiter = fakes.make_engine(), fakes.Waiter()
    hanging(engine)
    engine.submit_gen(fakes.gen([5, 6], constraint=regex("ha|hb")), waiter)
    begun = time.perf_counter()
    engine.close()
    assert time.perf_counter() - begun < SERVES_AGAIN
    assert isinstance(waiter.outcome(), Cancelled)


def test_threads_that_hang_are_limited(hanging, fakes, monkeypatch):
    monkeypatch.setattr("lmc.runtime.engine.compile_pool.MAX_HUNG", 2)
    with fakes.make_engine(constraint_seconds=0.1) as engine:
        hanging(engine)
        waiters = [fakes.Waiter() for _ in range(12)]
        for waiter in waiters:
            engine.submit_gen(fakes.gen([5, 6], constraint=regex("ha")), waiter)
        assert all(isinstance(waiter.outcome(10), ConstraintError) for waiter in waiters)
        assert len(engine._pool._workers) <= 5
        assert fakes.run_all(engine, [fakes.gen([5, 6])])


@pytest.mark.parametrize("seed", range(3))
def test_callbacks_that_raise_harm_nobody_else(fakes, seed, caplog):
    draw = random.Random(seed)
    calls = calls_of(fakes, seed)
    wanted = answers(fakes, calls)

    def refuse(_):
        raise ValueError("I do not like it")

    with fakes.make_engine(token_budget=32, max_running=5) as engine:
        waiters = []
        for call in calls:
            waiter, kind = fakes.Waiter(), draw.choice(["good", "text", "done"])
            engine.submit_gen(
                call, refuse if kind == "done" else waiter, refuse if kind == "text" else None
            )
            waiters.append((waiter, kind))
        for (waiter, kind), tokens in zip(waiters, wanted, strict=True):
            if kind == "good":
                assert waiter.result().token_ids == tokens
            elif kind == "text":
                assert isinstance(waiter.outcome(), ValueError) or not tokens
        check_served(fakes, engine, calls, wanted)


# -- tiers: no memory for a copy costs no more than its use --------------------------------------

COPIES = {
    "to host memory": ("lmc.runtime.engine.kv_memory.HostMemory.save", True),
    "from host memory": ("lmc.runtime.engine.kv_memory.HostMemory.load", True),
    "from disk to host memory": ("lmc.runtime.engine.kv_memory.HostMemory.write", True),
    "for the disk": ("lmc.runtime.engine.model_runner.ModelRunner.read_kv", False),
    "of a file that is read": ("lmc.runtime.cache.disk_tier.read_block", False),
    "of a file that is written": ("lmc.runtime.cache.disk_tier.write_block", False),
    "of torch": ("lmc.runtime.engine.kv_memory.tensors", False),
}
"""What copies KV, and whether it fails only when the copy is already made."""


def fail_at(monkeypatch, place, fails):
    """Let a copy fail wherever `fails` says so; return a list with one entry per failure."""
    path, is_half_done = COPIES[place]
    real, failures = pkgutil.resolve_name(path), []

    def failing(*arguments):
        if not fails():
            return real(*arguments)
        failures.append(place)
        if is_half_done:
            real(*arguments)
        if place == "of torch":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        raise MemoryError("no room for a copy")

    monkeypatch.setattr(path, failing)
    return failures


@pytest.mark.parametrize("place", list(COPIES))
def test_no_memory_for_a_copy_of_a_tier_costs_its_use_only(fakes, monkeypatch, tmp_path, place):
    """Calls are answered as without tiers, none waits, and the tiers go on afterwards."""
    monkeypatch.setattr("lmc.runtime.engine.tiers.FETCH_SECONDS", 60)
    calls = calls_of(fakes, 3, count=9)
    wanted = answers(fakes, calls)
    tiers = {"host_tier": 16 * 400, "disk_tier": tmp_path}

    def run(options, fails):
        """Ask twice, one after the other and at once; return the tokens computed one by one."""
        with (
            fakes.make_engine(num_slots=120, **options) as engine,
            pytest.MonkeyPatch.context() as patch,
        ):
            failures = fail_at(patch, place, fails) if options else []
            for call, tokens in zip(calls, wanted, strict=True):
                assert fakes.run_all(engine, [call])[0].token_ids == tokens
            computed = engine.stats().forward_tokens
            assert [result.token_ids for result in fakes.run_all(engine, calls)] == wanted
            if options:
                disk = engine._core.tiers.disk
                assert disk.wait_idle(60)
                assert (disk.is_off, disk._queued, disk._queued_bytes) == (False, set(), 0)
                engine._core.tiers.host.check()
            engine.check()
        return computed, len(failures)

    draw = random.Random(place)
    cold, _ = run({}, None)
    failed = 0
    for share in (0.4, 1.0):  # the second one finds files
        computed, failures = run(tiers, lambda share=share: draw.random() < share)
        assert computed <= cold
        failed += failures
    assert failed > 0
    warm, _ = run(tiers, lambda: False)
    assert warm < cold
