"""Prefix KV in an engine: read from one, put into another, bit for bit as if computed there."""

import threading
import warnings

import pytest
from model_support import TINY, write_model

import lmc
from lmc.codegen.prefix_kv import unpack_kv
from lmc.codegen.target import load_target
from lmc.errors import ArtifactError, EngineError, PrefixKvWarning, UsageError
from lmc.models_store import find_model
from lmc.prefix_kv import compute_prefixes, constant_prefixes
from lmc.runtime.engine.engine import Engine
from lmc.runtime.models.decoder import CausalModel
from lmc.runtime.oracle import Oracle

RULES = " ".join(f"Rule {i}: be {'kind' if i % 2 else 'brief'} about item {i}." for i in range(40))


@lmc.function
def ruled(s, question: str):
    s += lmc.system(RULES)
    s += lmc.user(question)
    s += lmc.assistant(lmc.gen("answer", max_tokens=6, return_logprob=True, top_logprobs_num=3))
    return s["answer"]


@lmc.function
def chosen(s):
    s += RULES + " So it is"
    s += lmc.select("side", choices=[" kind", " brief"])
    return s["side"]


pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny random model with SmolLM2's vocabulary, and another one of the same shape."""
    target = load_target(find_model(None))
    config = TINY | {"vocab_size": target.tokenizer.vocab_size, "max_position_embeddings": 2048}
    folder = tmp_path_factory.mktemp("models")
    paths = [write_model(folder / str(seed), config, seed=seed) for seed in (0, 1)]
    return target, paths


def engine(model, number=0, dtype="float32", weights="full", **options):
    target, paths = model
    loaded = CausalModel.load(paths[number], dtype, weights=weights)
    return Engine(loaded, target, num_slots=4096, **options)


@pytest.fixture(scope="module")
def artifact(model, tmp_path_factory):
    """An artifact of both programs with KV, and the engine that computed it."""
    path = tmp_path_factory.mktemp("artifact") / "ruled.lmc"
    with engine(model) as backend:
        compiled = lmc.compile([ruled, chosen], target=backend.target)
        compiled.save(path, kv_backend=backend)
        assert backend.flush_cache() > 300, "nothing stays pinned"
    return path


def observed(result):
    records = [(r.call, r.result.token_ids, r.result.meta) if hasattr(r.result, "meta") else r.call
               for r in result.calls]  # fmt: skip
    return (
        result.value,
        result.text(),
        repr(result.get_meta_info(next(iter(dict(result))))),
        records,
    )


def test_loaded_prefixes_give_the_same_bits_without_computing(model, artifact):
    loaded = lmc.load(artifact)
    for name, arguments in (("ruled", {"question": "Why?"}), ("chosen", {})):
        for temperature in (0, 1.0):
            runs = []
            for program in (loaded.programs[name], {"ruled": ruled, "chosen": chosen}[name]):
                with engine(model) as backend:
                    result = program.run(
                        **arguments, backend=backend, seed=5, temperature=temperature
                    )
                    backend.check()
                    runs.append((observed(result), result.usage, backend.stats()))
            (given, usage, stats), (expected, computed, cold) = runs
            assert given == expected
            assert usage.prologue_tokens == 0 < 300 < computed.prologue_tokens
            assert stats.forward_tokens == cold.forward_tokens - computed.prologue_tokens


def test_what_is_loaded_is_what_is_computed(model, artifact):
    made = unpack_kv(lmc.load(artifact)._artifact.kv)
    assert len(made.prefixes) == 2
    with engine(model, token_budget=37) as backend:
        plan = lmc.compile([ruled, chosen], target=backend.target).plan
        assert sorted(constant_prefixes(plan)) == sorted(p.token_ids for p in made.prefixes)
        again = unpack_kv(memoryview(compute_prefixes(plan, backend)))
    assert again.binding == made.binding
    for one, other in zip(made.prefixes, again.prefixes, strict=True):
        assert one.token_ids == other.token_ids
        assert bytes(one.data) == bytes(other.data), "whatever the chunks were"


def test_kv_is_read_from_pages_of_any_size_and_put_into_any(model, artifact, tmp_path):
    loaded = lmc.load(artifact)
    with engine(model, page_size=16) as backend:
        plan = lmc.compile([ruled, chosen], target=backend.target).plan
        assert any(len(ids) % 16 for ids in constant_prefixes(plan))
        assert compute_prefixes(plan, backend) == bytes(loaded._artifact.kv)
        backend.flush_cache()
        result = loaded.run(question="Why?", backend=backend, seed=5)
        backend.check()
    with engine(model) as backend:
        assert observed(result) == observed(ruled.run(question="Why?", backend=backend, seed=5))
    assert result.usage.prologue_tokens < 16


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"number": 1}, "other weights"),
        ({"dtype": "bfloat16"}, "another dtype"),
        ({"weights": "int8"}, "weights or activations of another precision"),
    ],
)
def test_kv_of_another_model_is_refused_and_computed(model, artifact, other, what):
    loaded = lmc.load(artifact)
    with engine(model, **other) as backend:
        with pytest.warns(PrefixKvWarning, match=f"was made for {what} than .* computed instead"):
            result = loaded.run(question="Why?", backend=backend, seed=5)
        assert result.usage.prologue_tokens > 300
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            loaded.run(question="Why not?", backend=backend, seed=5)  # told once
    with engine(model, **other) as backend:
        expected = ruled.run(question="Why?", backend=backend, seed=5)
    assert observed(result) == observed(expected)


@pytest.mark.parametrize("name", ["tokenizer", "template", "kernels", "lmc"])
def test_whatever_the_bytes_depend_on_is_compared(model, artifact, name, monkeypatch):
    loaded = lmc.load(artifact)
    with engine(model) as backend:
        if name == "lmc":
            monkeypatch.setattr("lmc.prefix_kv.__version__", "0.0.1")
        else:
            binding = backend.kv_binding | {name: "another"}
            monkeypatch.setattr(Engine, "kv_binding", binding)
        reason = loaded.kv_refusal(backend)
    assert reason is not None
    assert "computed instead" in reason
    assert "\n" not in reason


def test_the_oracle_keeps_no_kv(artifact, tmp_path):
    loaded = lmc.load(artifact)
    with pytest.warns(PrefixKvWarning, match="oracle keeps no KV"):
        assert loaded.run(question="Why?", backend=Oracle(), seed=1).value is not None
    with pytest.raises(UsageError, match="keeps no KV"):
        ruled.compile("oracle").save(tmp_path / "x.lmc", kv_backend=Oracle())


def test_a_pool_without_room_computes(model, artifact):
    """Where the prefixes do not fit together, what is needed is computed, and right."""
    target, paths = model
    loaded = lmc.load(artifact)
    results = []
    for program in (loaded, ruled):
        small = Engine(CausalModel.load(paths[0], "float32"), target, num_slots=620)
        with small as backend:
            results.append(program.run(question="Why?", backend=backend, seed=5))
            backend.check()
    assert observed(results[0]) == observed(results[1])


def test_kv_of_another_size_is_refused(model):
    with engine(model) as backend:
        with pytest.raises(EngineError, match="has 3 bytes"):
            backend.submit_loaded((1, 2), 0, memoryview(b"abc"), print)
        with pytest.raises(EngineError, match="evicted"):
            backend.read_kv((1, 2, 3), 0)


def test_kv_behind_tokens_that_are_not_there_is_left_alone(model):
    with engine(model) as backend:
        size = backend.kv_bytes_per_token
        answers, is_done = [], threading.Event()
        backend.submit_loaded(
            (5, 6, 7), 2, memoryview(bytes(size)),
            lambda result: (answers.append(result), is_done.set()),
        )  # fmt: skip
        assert is_done.wait(30)
        assert answers[0].computed_tokens == 3
        backend.check()


def test_a_damaged_section_is_refused(artifact, tmp_path):
    data = bytearray(artifact.read_bytes())
    data[-1] ^= 1
    (tmp_path / "damaged.lmc").write_bytes(data)
    with pytest.raises(ArtifactError, match="checksum of its prefix KV"):
        lmc.load(tmp_path / "damaged.lmc")
