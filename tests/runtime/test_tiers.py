"""Host memory and disk below a small pool: the same results, and nothing computed twice."""

import errno
import random
import threading
import time

import numpy as np
import pytest

from lmc.errors import Cancelled, UsageError
from lmc.ir.calls import CallHint
from lmc.runtime.cache import disk_tier
from lmc.runtime.cache.block_file import BLOCK_TOKENS
from lmc.runtime.engine import tiers
from lmc.runtime.engine.namespace import InNamespace

PLENTY = 16 * 20_000
"""Bytes of host memory for all that a test computes; a token of the fake model takes 16."""


@pytest.fixture(autouse=True)
def little_host_memory(monkeypatch):
    """Take less host memory than usual where only a disk is asked for: tokens are small here."""
    monkeypatch.setattr(tiers, "DEFAULT_HOST_BYTES", 16 * 20_000)


def branching_calls(fakes, *, seed=0, num_stems=4, per_stem=3, length=80):
    """Calls whose contexts share long beginnings, in an order that goes from stem to stem."""
    rng = random.Random(seed)
    stems = [[rng.randrange(3, 60) for _ in range(length + 40)] for _ in range(num_stems)]
    return [
        fakes.gen(
            (*stem[: length + 7 * turn], *rng.choices(range(3, 60), k=3)),
            max_tokens=8, temperature=(0.0, 0.9)[turn % 2], key=turn, return_logprob=True,
        )
        for turn in range(per_stem)
        for stem in stems
    ]  # fmt: skip


def one_by_one(fakes, engine, calls):
    return [fakes.run_all(engine, [call])[0] for call in calls]


def test_a_small_pool_with_host_memory_computes_nothing_twice(fakes):
    calls = branching_calls(fakes)
    with fakes.make_engine() as engine:
        expected = one_by_one(fakes, engine, calls)
        cold = engine.stats()
    with fakes.make_engine(num_slots=130) as engine:
        assert one_by_one(fakes, engine, calls) == expected
        assert engine.stats().forward_tokens > 2 * cold.forward_tokens
    with fakes.make_engine(num_slots=130, host_tier=PLENTY) as engine:
        given = one_by_one(fakes, engine, calls)
        stats = engine.stats()
        engine.check()
    assert given == expected
    assert stats.forward_tokens == cold.forward_tokens
    assert stats.cached_tokens == cold.cached_tokens
    assert stats.cached_host_tokens > 0.9 * stats.cached_tokens
    assert sum(r.usage.cached_host_tokens for r in given) == stats.cached_host_tokens
    assert stats.host_evicted_tokens == 0
    assert stats.host_stored_tokens <= cold.forward_tokens


def test_preempted_sequences_come_back_from_host_memory(fakes, monkeypatch):
    monkeypatch.setattr("lmc.runtime.engine.room.GROWTH_RESERVE", 0)
    rng = random.Random(3)
    calls = [
        fakes.gen(rng.choices(range(3, 60), k=20), max_tokens=40, return_logprob=True, key=i)
        for i in range(12)
    ]
    with fakes.make_engine() as engine:
        expected = fakes.run_all(engine, calls)
        cold = engine.stats()
    with fakes.make_engine(num_slots=150, host_tier=PLENTY) as engine:
        assert fakes.run_all(engine, calls) == expected
        stats = engine.stats()
        engine.check()
    assert stats.preemptions > 0
    assert stats.host_loaded_tokens > 0
    assert stats.forward_tokens == cold.forward_tokens


@pytest.mark.parametrize("host_tokens", [1, 150, 300])
def test_too_little_host_memory_only_costs_time(fakes, host_tokens):
    calls = branching_calls(fakes, seed=1)
    with fakes.make_engine() as engine:
        expected = fakes.run_all(engine, calls)
    with fakes.make_engine(num_slots=130, host_tier=16 * host_tokens) as engine:
        assert one_by_one(fakes, engine, calls) == expected
        assert fakes.run_all(engine, calls) == expected
        assert engine.stats().host_evicted_tokens > 0
        engine.check()


def test_dead_paths_are_not_kept(fakes):
    def call(number, context):
        hint = CallHint(run=number, program="p", number=1, context="last", result="none")
        made = fakes.gen(context, max_tokens=4)
        return type(made)(made.context, made.params, hint=hint)

    rng = random.Random(4)
    head = rng.choices(range(3, 60), k=60)
    calls = [call(n, (*head, *rng.choices(range(3, 60), k=100))) for n in range(1, 9)]
    with fakes.make_engine(num_slots=200, host_tier=PLENTY) as engine:
        fakes.run_all(engine, [fakes.gen(head, max_tokens=1)])
        for number, each in enumerate(calls, 1):
            fakes.run_all(engine, [each])
            engine.end_run(number)
        assert engine.stats().host_stored_tokens <= 60 + 8
        assert engine.stats().forward_tokens < 59 + 8 * 105


def test_flushing_forgets_host_memory_too(fakes):
    calls = branching_calls(fakes, per_stem=1)
    with fakes.make_engine(num_slots=130, host_tier=PLENTY) as engine:
        one_by_one(fakes, engine, calls)
        engine.flush_cache()
        assert engine._core.tiers.host.match_len(np.array(calls[0].context, np.int32)) == 0
        before = engine.stats()
        one_by_one(fakes, engine, calls[:1])
        assert (engine.stats() - before).cached_tokens == 0
        engine.check()


def test_namespaces_share_nothing_below_the_pool_either(fakes, tmp_path):
    call = branching_calls(fakes)[0]
    options = {"num_slots": 130, "host_tier": PLENTY, "disk_tier": tmp_path, "debug": True}
    with fakes.make_engine(**options) as engine:
        [expected] = fakes.run_all(engine, [call])
    for name, is_known in (("", True), ("a", False), ("a", True), ("\ud800", False)):
        with fakes.make_engine(**options) as engine:
            view = InNamespace(engine, name) if name else engine
            [result] = fakes.run_all(view, [call])
            assert result == expected
            assert (result.usage.cached_disk_tokens > 0) == is_known
            assert (result.usage.cached_tokens > 0) == is_known


# -- disk --------------------------------------------------------------------------------------


def test_a_new_engine_starts_warm_from_disk(fakes, tmp_path):
    calls = branching_calls(fakes)
    options = {"num_slots": 300, "host_tier": PLENTY, "disk_tier": tmp_path}
    runs = []
    for _ in range(2):
        with fakes.make_engine(**options) as engine:
            results = one_by_one(fakes, engine, calls)
            engine.check()
            runs.append((results, engine.stats()))
    (first, cold), (second, warm) = runs
    assert first == second
    assert cold.disk_stored_tokens > 4 * 64
    assert warm.cached_disk_tokens == warm.disk_loaded_tokens > 4 * 64
    assert sum(r.usage.cached_disk_tokens for r in second) == warm.cached_disk_tokens
    assert warm.forward_tokens == cold.forward_tokens - (warm.cached_tokens - cold.cached_tokens)
    for result in second:
        usage = result.usage
        lower = usage.cached_host_tokens + usage.cached_disk_tokens
        assert usage.cached_tokens >= lower
        assert usage.computed_tokens <= BLOCK_TOKENS + 7 * 2 + 4


def test_all_at_once_from_disk(fakes, tmp_path):
    """Calls that wait for the same blocks wait together; scores and prefixes find them too."""
    calls = branching_calls(fakes, seed=5)
    calls += [fakes.score(call.context, [(4, 5), (4, 6, 7)]) for call in calls[:3]]
    results = []
    for _ in range(2):
        with fakes.make_engine(num_slots=1200, disk_tier=tmp_path) as engine:
            results.append(fakes.run_all(engine, calls))
            waiter = fakes.Waiter()
            engine.submit_prefill(calls[0].context, waiter)
            waiter.result().release()
            engine.check()
            stats = engine.stats()
    assert results[0] == results[1]
    assert stats.disk_loaded_tokens > 4 * 64
    assert stats.computed_tokens < 0.3 * stats.prompt_tokens


@pytest.mark.parametrize("change", ["weights", "tokenizer"])
def test_another_model_uses_nothing_of_it(fakes, tmp_path, change):
    call = branching_calls(fakes)[0]
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        fakes.run_all(engine, [call])
    model, tokenizer = fakes.FakeModel(), fakes.FakeTokenizer()
    if change == "weights":
        model.weights_fingerprint = "other"
    else:
        tokenizer.fingerprint = "other"
    engine = fakes.Engine(model, fakes.FakeTarget(tokenizer), num_slots=4096, disk_tier=tmp_path)
    with engine:
        [result] = fakes.run_all(engine, [call])
        assert result.usage.cached_tokens == 0
        assert engine.stats().disk_loaded_tokens == 0
        assert engine.stats().damaged_files == 0


def test_damaged_files_are_computed_instead(fakes, tmp_path):
    calls = branching_calls(fakes, num_stems=6, per_stem=1)
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        expected = one_by_one(fakes, engine, calls)
    paths = sorted(tmp_path.glob("*.kv"))
    rng = random.Random(6)
    for path in rng.sample(paths, 6):
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[: rng.choice([len(data), len(data), 100])])
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        assert one_by_one(fakes, engine, calls) == expected
        stats = engine.stats()
    assert 0 < stats.damaged_files <= 6
    assert stats.disk_loaded_tokens > 0


def test_a_full_disk_ends_no_call(fakes, tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    calls = branching_calls(fakes)
    with fakes.make_engine() as engine:
        expected = one_by_one(fakes, engine, calls)
    monkeypatch.setattr(disk_tier, "write_block", full)
    with fakes.make_engine(num_slots=130, host_tier=PLENTY, disk_tier=tmp_path) as engine:
        assert one_by_one(fakes, engine, calls) == expected
        engine.check()
    assert [r.message for r in caplog.records if "disk tier is off" in r.message] != []
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == 1


def test_a_disk_that_hangs_delays_a_call_no_longer_than_promised(fakes, tmp_path, monkeypatch):
    call = branching_calls(fakes)[0]
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        expected = fakes.run_all(engine, [call])
    go_on = threading.Event()
    monkeypatch.setattr(tiers, "FETCH_SECONDS", 0.1)
    monkeypatch.setattr(disk_tier, "CLOSE_SECONDS", 0.1)
    real = disk_tier.read_block
    monkeypatch.setattr(disk_tier, "read_block", lambda *a: (go_on.wait(60), real(*a))[1])
    begun = time.monotonic()
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        assert fakes.run_all(engine, [call]) == expected
        assert time.monotonic() - begun < 20
        go_on.set()
        engine._core.tiers.disk.wait_idle(60)
        assert fakes.run_all(engine, [call]) == expected
        engine.check()


def test_a_call_cancelled_while_it_waits_for_the_disk_ends_once(fakes, tmp_path, monkeypatch):
    call = branching_calls(fakes)[0]
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        fakes.run_all(engine, [call])
    has_begun, go_on = threading.Event(), threading.Event()
    real = disk_tier.read_block

    def slow(*arguments):
        has_begun.set()
        go_on.wait(60)
        return real(*arguments)

    monkeypatch.setattr(tiers, "FETCH_SECONDS", 60)
    monkeypatch.setattr(disk_tier, "read_block", slow)
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        waiter = fakes.Waiter()
        ticket = engine.submit_gen(call, waiter)
        assert has_begun.wait(30)
        ticket.cancel()
        assert isinstance(waiter.outcome(), Cancelled)
        go_on.set()
        fakes.run_all(engine, [call])
        engine.check()
        assert len(waiter.outcomes) == 1


def test_closing_while_calls_wait_and_blocks_are_written(fakes, tmp_path, monkeypatch):
    calls = branching_calls(fakes, per_stem=1)
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        expected = fakes.run_all(engine, calls[:3])
    real = disk_tier.read_block
    monkeypatch.setattr(disk_tier, "read_block", lambda *a: (time.sleep(0.05), real(*a))[1])
    engine = fakes.make_engine(disk_tier=tmp_path)
    waiters = [fakes.Waiter() for _ in calls]
    for call, waiter in zip(calls, waiters, strict=True):
        engine.submit_gen(call, waiter)
    engine.close()
    assert all(len(waiter.outcomes) == 1 for waiter in waiters)
    assert not [t for t in threading.enumerate() if t.name == "lmc-disk-tier"]
    monkeypatch.setattr(disk_tier, "read_block", real)
    with fakes.make_engine(disk_tier=tmp_path) as engine:
        assert fakes.run_all(engine, calls[:3]) == expected
        assert engine.stats().damaged_files == 0


def test_host_memory_that_cannot_be_had_is_refused(fakes, monkeypatch, tmp_path):
    new_kv, made = fakes.FakeModel.new_kv, []

    def failing(model, num_slots):
        made.append(num_slots)
        if num_slots == 1000:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return new_kv(model, num_slots)

    monkeypatch.setattr(fakes.FakeModel, "new_kv", failing)
    with pytest.raises(UsageError, match=r"no memory for host_tier=16,000"):
        fakes.make_engine(num_slots=130, host_tier=16_000, disk_tier=tmp_path)
    assert 130 in made
    assert not [t for t in threading.enumerate() if t.name.startswith("lmc-disk")]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"host_tier": 0}, "host_tier=0"),
        ({"host_tier": True}, "host_tier=True"),
        ({"host_tier": "1G"}, "host_tier='1G'"),
        ({"host_tier": 15}, "holds nothing"),
        ({"disk_bytes": 10**9}, "disk_bytes needs a folder"),
        ({"disk_tier": 7}, "disk_tier=7"),
        ({"disk_tier": ""}, "disk_tier=''"),
        ({"disk_tier": "/dev/null", "disk_bytes": 10**9}, "/dev/null"),
        ({"disk_tier": "x", "disk_bytes": 3}, "holds nothing"),
        ({"host_tier": 10**6, "cache": "none"}, "cache='radix'"),
    ],
)
def test_wrong_options_are_refused(fakes, tmp_path, monkeypatch, options, what):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        fakes.make_engine(**options)
    assert what in str(caught.value)
    assert not [t for t in threading.enumerate() if t.name.startswith("lmc-disk")]
