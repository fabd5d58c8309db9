"""Reading models: config, safetensors, GGUF, and what is refused."""

import json
import struct

import numpy as np
import pytest
import torch
from gguf_support import GgufWriter, tiny_gguf
from model_support import (
    LLAMA3_SCALING,
    TINY,
    WITH_BIASES,
    all_logits,
    random_tensors,
    smollm,
    smollm_path,
    write_model,
)
from safetensors.torch import save_file

from lmc.errors import ModelError, UsageError
from lmc.gguf_file import read_gguf
from lmc.runtime.models import CausalModel
from lmc.runtime.models.config import RopeScaling, config_from_gguf, config_from_json
from lmc.runtime.models.gguf_weights import hf_name, undo_rope_order
from lmc.runtime.models.rope import inverse_frequencies
from lmc.runtime.models.weights import fingerprint_files, open_weights

TOKEN_IDS = torch.arange(40, dtype=torch.int32)


def test_config_of_a_directory(tmp_path):
    config = open_weights(write_model(tmp_path, TINY | {"rope_scaling": LLAMA3_SCALING})).config
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (6, 2, 20)
    assert (config.hidden, config.intermediate, config.vocab_size) == (72, 100, 131)
    assert config.rope_theta == 5000.0
    assert config.rope_scaling == RopeScaling("llama3", 8.0, 1.0, 4.0, 64)
    assert not config.tie_embeddings
    assert not config.attention_bias


def test_head_dim_and_kv_heads_have_defaults():
    raw = {k: v for k, v in TINY.items() if k not in ("head_dim", "num_key_value_heads")}
    config = config_from_json(raw, "here")
    assert (config.head_dim, config.num_kv_heads) == (12, 6)


def test_new_style_rope_parameters():
    raw = {k: v for k, v in TINY.items() if k != "rope_theta"}
    raw["rope_parameters"] = {"rope_type": "linear", "factor": 4.0, "rope_theta": 77.0}
    config = config_from_json(raw, "here")
    assert (config.rope_theta, config.rope_scaling) == (77.0, RopeScaling("linear", 4.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "'GPT2LMHeadModel'"),
        ({"hidden_act": "gelu"}, "activation 'gelu'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope scaling 'yarn'"),
        ({"partial_rotary_factor": 0.5}, "a part of the head"),
        ({"quantization_config": {"bits": 4}}, "quantized safetensors"),
        ({"sliding_window": 8}, "a sliding window of attention"),
        ({"num_attention_heads": 5}, "5 query heads"),
        ({"head_dim": 21}, "head_dim = 21 is odd"),
        ({"vocab_size": 0}, "vocab_size = 0"),
        ({"hidden_size": "72"}, "hidden = '72'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "lacks 'factor'"),
    ],
)
def test_unsupported_configs_are_refused(tmp_path, change, message):
    (tmp_path / "config.json").write_text(json.dumps(TINY | change))
    with pytest.raises(ModelError, match=message) as caught:
        open_weights(tmp_path)
    if "wants" in caught.value.message:
        assert "LlamaForCausalLM" in caught.value.hint


@pytest.mark.parametrize("text", ["{", "[]", '{"model_type": "llama"}'])
def test_broken_config_files_are_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError, match=r"config\.json"):
        open_weights(tmp_path)


def test_missing_models_are_refused(tmp_path):
    with pytest.raises(ModelError, match="no model at"):
        open_weights(tmp_path / "nothing")
    with pytest.raises(ModelError, match=r"cannot read .*config\.json"):
        open_weights(tmp_path)
    (tmp_path / "model.bin").write_text("")
    with pytest.raises(ModelError, match=r"neither a directory nor a \.gguf"):
        open_weights(tmp_path / "model.bin")
    with pytest.raises(UsageError, match="unknown dtype 'int3'"):
        CausalModel.load(tmp_path, "int3")


def test_shards_are_the_same_model(tmp_path):
    one = CausalModel.load(write_model(tmp_path / "one", TINY))
    three = CausalModel.load(write_model(tmp_path / "three", TINY, num_shards=3))
    assert torch.equal(all_logits(one, TOKEN_IDS), all_logits(three, TOKEN_IDS))


def test_a_missing_shard_is_named(tmp_path):
    path = write_model(tmp_path, TINY, num_shards=2)
    (path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match="model-00002-of-00002"):
        CausalModel.load(path)


def test_an_index_cannot_lead_out_of_the_directory(tmp_path):
    write_model(tmp_path / "other", TINY)
    path = write_model(tmp_path / "model", TINY, num_shards=2)
    index = path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other/model.safetensors"}}))
    with pytest.raises(ModelError, match="lacks the weights file"):
        CausalModel.load(path)


def test_damaged_safetensors_are_refused(tmp_path):
    path = write_model(tmp_path, TINY)
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match="cannot read"):
        CausalModel.load(path)


def test_a_missing_tensor_and_a_wrong_shape_are_named(tmp_path):
    path = write_model(tmp_path, TINY)
    tensors = random_tensors(TINY)
    name = "model.layers.1.mlp.up_proj.weight"
    save_file({k: v for k, v in tensors.items() if k != name}, path / "model.safetensors")
    with pytest.raises(ModelError, match=name):
        CausalModel.load(path)
    save_file(tensors | {name: torch.ones(100, 71)}, path / "model.safetensors")
    with pytest.raises(ModelError, match=r"shape \(100, 71\), the config wants \(100, 72\)"):
        CausalModel.load(path)


def test_unknown_tensors_are_listed(tmp_path):
    path = write_model(tmp_path, TINY)
    extra = {f"model.layers.{i}.extra.weight": torch.ones(1) for i in range(7)}
    save_file(random_tensors(TINY) | extra, path / "model.safetensors")
    (warning,) = CausalModel.load(path).warnings
    assert "7 tensors" in warning
    assert "model.layers.0.extra.weight" in warning
    assert "and 2 more" in warning


def test_the_fingerprint_follows_the_weights(tmp_path):
    first = CausalModel.load(write_model(tmp_path / "a", TINY)).weights_fingerprint
    same = CausalModel.load(write_model(tmp_path / "b", TINY)).weights_fingerprint
    other = CausalModel.load(write_model(tmp_path / "c", TINY, seed=1)).weights_fingerprint
    assert first == same
    assert first != other


def test_large_files_are_fingerprinted_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr("lmc.runtime.models.weights.WHOLE_HASH_BYTES", 1000)
    path = tmp_path / "weights"
    path.write_bytes(bytes(5_000_000))
    first = fingerprint_files([path])
    data = bytearray(5_000_000)
    data[2_500_000:2_600_000] = b"x" * 100_000
    path.write_bytes(data)
    assert fingerprint_files([path]) != first


def test_progress_is_reported(tmp_path):
    calls = []
    CausalModel.load(
        write_model(tmp_path, TINY), progress=lambda what, share: calls.append((what, share))
    )
    assert {what for what, _ in calls} == {"preparing kernels", "loading weights"}
    shares = [share for what, share in calls if what == "loading weights"]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_linear_scaling_divides_all_frequencies(tmp_path):
    plain = config_from_json(TINY, "here")
    scaled = config_from_json(WITH_BIASES | {"head_dim": 20}, "here")
    torch.testing.assert_close(inverse_frequencies(scaled) * 2, inverse_frequencies(plain))


def test_frequency_factors_of_a_file_divide():
    plain = config_from_json(TINY, "here")
    factors = torch.linspace(1, 8, 10)
    actual = inverse_frequencies(plain, factors) * factors
    torch.testing.assert_close(actual, inverse_frequencies(plain))


def test_rope_order_is_undone():
    # llama.cpp's converter: split each head into halves and interleave them.
    rows = np.arange(2 * 6 * 3, dtype=np.float32).reshape(12, 3)
    permuted = rows.reshape(2, 2, 3, 3).swapaxes(1, 2).reshape(12, 3)
    assert not np.array_equal(permuted, rows)
    assert np.array_equal(undo_rope_order(np.ascontiguousarray(permuted), 2), rows)
    bias = rows[:, 0].copy()
    permuted = bias.reshape(2, 2, 3).swapaxes(1, 2).reshape(12)
    assert np.array_equal(undo_rope_order(permuted, 2), bias)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
        ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
        ("blk.3.attn_output.bias", "model.layers.3.self_attn.o_proj.bias"),
        ("output.weight", "lm_head.weight"),
        ("blk.3.ssm_in.weight", "blk.3.ssm_in.weight"),
    ],
)
def test_names_of_gguf_tensors(ours, theirs):
    assert hf_name(ours) == theirs


def test_a_gguf_file_is_the_same_model_as_its_directory(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf().build())
    ours = all_logits(CausalModel.load(path), TOKEN_IDS)
    theirs = all_logits(CausalModel.load(write_model(tmp_path / "dir", TINY)), TOKEN_IDS)
    assert torch.equal(ours, theirs)


def test_rope_factors_of_a_gguf_file_are_used(tmp_path):
    writer = tiny_gguf()
    writer.tensors["rope_freqs.weight"] = np.full(10, 2.0, dtype=np.float32)
    path = tmp_path / "tiny.gguf"
    path.write_bytes(writer.build())
    scaled = TINY | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    model = CausalModel.load(path)
    theirs = all_logits(CausalModel.load(write_model(tmp_path / "dir", scaled)), TOKEN_IDS)
    assert torch.equal(all_logits(model, TOKEN_IDS), theirs)
    assert model.warnings == ()


def test_a_sliding_window_of_a_gguf_file_is_refused(tmp_path):
    writer = tiny_gguf()
    writer.add("llama.attention.sliding_window", 4, (8).to_bytes(4, "little"))
    path = tmp_path / "window.gguf"
    path.write_bytes(writer.build())
    with pytest.raises(ModelError, match="a sliding window of attention"):
        open_weights(path)


def test_other_architectures_of_gguf_files_are_refused(tmp_path):
    writer = GgufWriter()
    writer.add("general.architecture", 8, writer.string("mamba"))
    path = tmp_path / "other.gguf"
    path.write_bytes(writer.build())
    with pytest.raises(ModelError, match="architecture 'mamba'"):
        open_weights(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda data: data[:30], "truncated"),
        (lambda data: b"", "not a GGUF file"),
        (lambda data: b"PK\x03\x04" + data[4:], "not a GGUF file"),
        (lambda data: data[:4] + struct.pack("<I", 1) + data[8:], "version 1"),
        (lambda data: data[:4] + struct.pack(">I", 3) + data[8:], "big-endian"),
        (lambda data: data.replace(b"llama.block_count\x04", b"llama.block_count\x63"), "type 99"),
        (lambda data: data.replace(b"blk.1.attn_q", b"blk.0.attn_q"), "occurs twice"),
        (lambda data: data[:8] + struct.pack("<Q", 2**60) + data[16:], "truncated|damaged"),
    ],
)
def test_damaged_gguf_files_are_refused(tmp_path, change, message):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(change(tiny_gguf().build()))
    with pytest.raises(ModelError, match=message):
        read_gguf(path)


def test_every_cut_of_a_gguf_header_is_refused(tmp_path):
    data = tiny_gguf().build()
    path = tmp_path / "cut.gguf"
    for length in range(0, 3000, 7):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError):
            read_gguf(path)


def test_metadata_of_all_types(tmp_path):
    writer = GgufWriter()
    writer.add("text", 8, writer.string("grüße"))
    writer.add("flag", 7, b"\x01")
    writer.add("small", 1, struct.pack("<b", -5))
    writer.add("wide", 11, struct.pack("<q", -(2**40)))
    writer.add("real", 12, struct.pack("<d", 0.1))
    strings = writer.string("a") + writer.string("") + writer.string("ß")
    writer.add("strings", 9, struct.pack("<IQ", 8, 3) + strings)
    writer.add("numbers", 9, struct.pack("<IQ3i", 5, 3, 1, -2, 3))
    writer.add("last", 4, struct.pack("<I", 7))
    path = tmp_path / "some.gguf"
    path.write_bytes(writer.build())
    assert dict(read_gguf(path).metadata) == {
        "text": "grüße",
        "flag": True,
        "small": -5,
        "wide": -(2**40),
        "real": 0.1,
        "strings": ["a", "", "ß"],
        "numbers": [1, -2, 3],
        "last": 7,
    }


def test_block_sizes_are_those_of_the_gguf_package():
    from gguf.constants import GGML_QUANT_SIZES

    from lmc.gguf_file import BLOCK_SIZES

    theirs = {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}
    assert {kind: theirs[kind] for kind in BLOCK_SIZES} == BLOCK_SIZES


@pytest.mark.model
def test_the_real_file_opens_fast_and_is_complete():
    file = read_gguf(smollm_path())
    config = config_from_gguf(file.metadata, file.tensors, "here")
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert config.tie_embeddings
    assert len(file.metadata["tokenizer.ggml.tokens"]) == config.vocab_size == 49152
    assert smollm().warnings == ()
    assert smollm().new_kv(10).nbytes_per_token == 30 * 2 * 3 * 64 * 2
