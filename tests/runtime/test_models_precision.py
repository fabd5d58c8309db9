"""Weights that are kept as they are stored, or quantized when they are loaded."""

import pytest
import torch
from gguf_support import tiny_gguf
from model_support import IN_GROUPS, all_logits, write_model

import lmc
from lmc.backends import open_backend
from lmc.errors import UsageError
from lmc.kernels.reference import ReferenceKernels
from lmc.runtime.models import CausalModel

TOKEN_IDS = torch.arange(40, dtype=torch.int32)


def quantized_gguf(path, kinds):
    """Write a random model; `kinds` maps what stands before `.weight` in a name to a type."""
    writer = tiny_gguf(IN_GROUPS)
    parts = {name: name.removesuffix(".weight").rpartition(".")[2] for name in writer.tensors}
    writer.kinds = {name: kinds[part] for name, part in parts.items() if part in kinds}
    path.write_bytes(writer.build())
    return path


MATRICES = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "token_embd",
    "output",
]


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_stored_weights_are_those_that_are_read(tmp_path, kind):
    path = quantized_gguf(tmp_path / "a.gguf", dict.fromkeys(MATRICES, kind))
    full, kept = (CausalModel.load(path, "float32", weights=w) for w in ("full", "stored"))
    torch.testing.assert_close(
        all_logits(kept, TOKEN_IDS), all_logits(full, TOKEN_IDS), rtol=1e-4, atol=1e-4
    )
    assert kept.nbytes_per_step < 0.4 * full.nbytes_per_step
    assert kept.kv_fingerprint != full.kv_fingerprint


def test_a_layer_of_several_kinds_is_kept_in_full(tmp_path):
    kinds = dict.fromkeys(MATRICES, "Q4_1") | {"attn_v": "Q8_0", "ffn_down": "F16"}
    path = quantized_gguf(tmp_path / "a.gguf", kinds)
    full, kept = (CausalModel.load(path, "float32", weights=w) for w in ("full", "stored"))
    torch.testing.assert_close(
        all_logits(kept, TOKEN_IDS), all_logits(full, TOKEN_IDS), rtol=1e-4, atol=1e-4
    )
    layer, whole = kept._weights.layers[0], full._weights.layers[0]
    assert layer.qkv.nbytes == whole.qkv.nbytes
    assert layer.down.nbytes == whole.down.nbytes
    assert layer.gate_up.nbytes < whole.gate_up.nbytes / 4


@pytest.mark.parametrize("activations", ["full", "int8"])
@pytest.mark.parametrize(("weights", "most"), [("int8", 0.06), ("int4", 0.6)])
def test_quantizing_at_load_stays_near(tmp_path, weights, most, activations):
    path = write_model(tmp_path, IN_GROUPS)
    options = {"weights": weights, "activations": activations}
    logits = all_logits(CausalModel.load(path, "float32", **options), TOKEN_IDS)
    full = all_logits(CausalModel.load(path, "float32"), TOKEN_IDS)
    error = (logits - full).norm() / full.norm()
    assert 0 < error < most
    plain = CausalModel.load(path, "float32", kernels=ReferenceKernels(), **options)
    difference = (all_logits(plain, TOKEN_IDS) - logits).norm() / full.norm()
    assert difference < error / 3, "what the reference says of the same precision"


def test_tensors_without_groups_are_kept_in_full(tmp_path):
    path = write_model(tmp_path, IN_GROUPS)
    stored, full = (CausalModel.load(path, weights=w) for w in ("stored", "full"))
    assert torch.equal(all_logits(stored, TOKEN_IDS), all_logits(full, TOKEN_IDS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "int2"}, "unknown weights 'int2'"),
        ({"weights": "int8", "activations": "fp8"}, "unknown activations 'fp8'"),
        ({"activations": "int8"}, "activations in int8 meet quantized weights only"),
    ],
)
def test_wrong_precisions_are_refused(tmp_path, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        CausalModel.load(tmp_path, **options)
    assert caught.value.hint


@lmc.function
def capital(s):
    s += "The capital of France is" + lmc.gen("city", max_tokens=4, temperature=0)


@pytest.mark.model
def test_an_engine_is_opened_for_each_precision():
    precision = {"weights": "stored", "activations": "int8"}
    backend = open_backend(**precision)
    assert open_backend(**precision) is backend
    result = capital.run(backend=backend)
    assert "Paris" in result["city"]
    assert result.exactness.state == "checked"
    assert open_backend(weights="stored") is not backend
    assert open_backend() is not backend
