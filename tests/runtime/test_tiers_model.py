"""Tiers below a real pool: what comes back gives the bits that were computed, bfloat16."""

import random

import pytest
from model_support import TINY, real_text_ids, smollm, smollm_path, write_model

from lmc.runtime.engine.engine import Engine
from lmc.runtime.models import CausalModel


def same_calls(fakes, prompts):
    return [
        fakes.gen(
            prompt, max_tokens=6, temperature=(0.0, 1.0)[index % 2], key=index,
            return_logprob=True, top_logprobs_num=2,
        )
        for index, prompt in enumerate(prompts)
    ]  # fmt: skip


def check_restored(fakes, make, calls, *, small_pool, folder):
    """Compare calls on empty caches with those restored from host memory and from disk."""
    with make() as engine:
        cold = []
        for call in calls:
            engine.flush_cache()
            cold += fakes.run_all(engine, [call])
    per_token = engine.kv_bytes_per_token
    options = {"num_slots": small_pool, "host_tier": 4000 * per_token, "disk_tier": folder}
    for turn in ("computed", "from disk"):
        with make(**options) as engine:
            for _ in range(2):
                given = [result for call in calls for result in fakes.run_all(engine, [call])]
                assert given == cold, turn
            assert fakes.run_all(engine, calls) == cold, turn
            stats = engine.stats()
            engine.check()
        assert stats.cached_host_tokens > 0
        assert (stats.disk_loaded_tokens > 0) == (turn == "from disk")
        assert (stats.disk_stored_tokens > 0) == (turn == "computed")
        assert stats.damaged_files == 0


def test_a_tiny_random_llama_restored(fakes, tmp_path):
    model = CausalModel.load(write_model(tmp_path / "model", TINY))
    vocab = fakes.FakeTokenizer().vocab_size
    rng = random.Random(0)
    stems = [rng.choices(range(3, vocab), k=80) for _ in range(3)]
    prompts = [
        (*stem[: 60 + n], *rng.choices(range(3, vocab), k=3)) for n in (0, 9) for stem in stems
    ]

    def make(**options):
        return fakes.make_engine(model, **options)

    check_restored(fakes, make, same_calls(fakes, prompts), small_pool=100, folder=tmp_path / "kv")


@pytest.mark.model
def test_the_real_model_restored(fakes, tmp_path):
    from lmc.codegen.target import load_target

    target = load_target(smollm_path())
    ids = real_text_ids(400).tolist()
    prompts = [
        tuple(ids[start : start + 70 + extra]) for start, extra in ((0, 0), (150, 0), (0, 5))
    ]

    def make(**options):
        return Engine(smollm(), target, **{"num_slots": 1024, **options})

    check_restored(fakes, make, same_calls(fakes, prompts), small_pool=100, folder=tmp_path)
