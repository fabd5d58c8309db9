"""Quantized weights: read as ggml reads them, right against the reference, exact in every batch."""

import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize as ggml_dequantize
from gguf.quants import quantize as ggml_quantize

from lmc.errors import EngineError
from lmc.kernels.cpu import CpuKernels
from lmc.kernels.interface import LinearPart
from lmc.kernels.quantized import GGML_NUMBERS, QuantizedWeight, quantize, round_to_int8

KINDS = sorted(GGML_NUMBERS)
DTYPES = [torch.float32, torch.bfloat16]
MODES = [pytest.param(False, id="as-they-are"), pytest.param(True, id="int8")]


def random_rows(num_rows, width, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, width, generator=generator).to(dtype)


def ggml_weight(kind, n, k, seed=1):
    """Return a random weight, quantized by ggml's own package."""
    values = random_rows(n, k, seed=seed).numpy() / k**0.5
    rows = ggml_quantize(values, GGMLQuantizationType[kind])
    return QuantizedWeight(kind, torch.from_numpy(rows), k)


def apply_linear(kernels, x, layer, accumulate_on=None):
    out = torch.full((x.shape[0], layer.num_outputs), 7.0)
    if accumulate_on is not None:
        out = accumulate_on.clone()
    kernels.linear(x, layer, out, accumulate=accumulate_on is not None)
    return out


def apply_gated(kernels, x, layer):
    out = torch.empty(x.shape[0], layer.num_outputs // 2, dtype=x.dtype)
    kernels.gated_linear(x, layer, out)
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_groups_mean_what_ggml_says(kind):
    weight = ggml_weight(kind, 7, 96)
    expected = ggml_dequantize(weight.rows.numpy(), GGMLQuantizationType[kind])
    assert np.array_equal(weight.dequantize().numpy(), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(1, 32), (37, 96), (20, 50)])
def test_kernels_dequantize_to_the_same_bits(kernels, kind, dtype, n, k):
    filled = ggml_weight(kind, n, -(-k // 32) * 32)
    weight = QuantizedWeight(kind, filled.rows, k)
    dense = kernels.dequantize(weight, dtype)
    assert dense.dtype == dtype
    assert torch.equal(dense, weight.dequantize().to(dtype))


@pytest.mark.parametrize(("kind", "most"), [("Q8_0", 0.01), ("Q4_1", 0.12)])
@pytest.mark.parametrize("k", [64, 50])
def test_quantizing_is_near_and_stays_where_it_is(kind, most, k):
    weight = random_rows(9, k)
    once = quantize(weight, kind)
    assert once.shape == (9, k)
    error = (once.dequantize() - weight).norm() / weight.norm()
    assert 0 < error < most
    again = quantize(once.dequantize(), kind)
    torch.testing.assert_close(again.dequantize(), once.dequantize(), rtol=2e-3, atol=2e-3)


def test_a_group_of_zeros_stays_zero():
    for kind in ("Q8_0", "Q4_1"):
        assert not quantize(torch.zeros(2, 40), kind).dequantize().any()
    assert not round_to_int8(torch.zeros(2, 40)).any()


@pytest.mark.parametrize("int8_activations", MODES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_linear_agrees_with_the_reference(kernels, reference, kind, dtype, int8_activations):
    bias, x = random_rows(1, 70)[0], random_rows(15, 96, dtype, 2)
    parts = [LinearPart(ggml_weight(kind, 70, 96), bias)]
    results = [
        apply_linear(own, x, own.pack_linear(parts, dtype, int8_activations=int8_activations), base)
        for base in (None, random_rows(15, 70, seed=3))
        for own in (kernels, reference)
    ]
    for actual, expected in zip(results[::2], results[1::2], strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("int8_activations", MODES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_inputs_need_not_fill_their_last_group(kernels, reference, kind, dtype, int8_activations):
    weights = [random_rows(n, 50, seed=n) for n in (37, 5)]
    parts = [LinearPart(quantize(weight, kind)) for weight in weights]
    x = random_rows(4, 50, dtype, 3)
    actual, expected = (
        apply_linear(own, x, own.pack_linear(parts, dtype, int8_activations=int8_activations))
        for own in (kernels, reference)
    )
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("int8_activations", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_gated_linear_agrees_with_the_reference(kernels, reference, kind, int8_activations):
    gate, up = (LinearPart(ggml_weight(kind, 37, 64, seed)) for seed in (1, 2))
    x = random_rows(9, 64, seed=3)
    actual, expected = (
        apply_gated(own, x, own.pack_gated(gate, up, x.dtype, int8_activations=int8_activations))
        for own in (kernels, reference)
    )
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("int8_activations", MODES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0"])
def test_a_row_does_not_depend_on_rows_or_threads(kernels, kind, dtype, int8_activations):
    options = {"dtype": dtype, "int8_activations": int8_activations}
    layer = kernels.pack_linear([LinearPart(ggml_weight(kind, 100, 576))], **options)
    parts = [LinearPart(ggml_weight(kind, 50, 576, seed)) for seed in (2, 3)]
    gated = kernels.pack_gated(*parts, **options)
    x = random_rows(300, 576, dtype, 4)
    alone = torch.cat([apply_linear(kernels, row, layer) for row in x.split(1)])
    alone_gated = torch.cat([apply_gated(kernels, row, gated) for row in x.split(1)])
    for num_threads in (1, 3):
        kernels.set_num_threads(num_threads)
        for num_rows in [*range(2, 20), 100, 300]:
            rows = x[:num_rows]
            assert torch.equal(apply_linear(kernels, rows, layer), alone[:num_rows]), num_rows
            assert torch.equal(apply_gated(kernels, rows, gated), alone_gated[:num_rows]), num_rows
    kernels.set_num_threads(2)


@pytest.mark.parametrize("kind", KINDS)
def test_integers_give_the_same_bits_on_every_processor(kernels, kind):
    # Rows of ones meet all numbers of a group with 127: sums of 16 bits would overflow.
    x = random_rows(5, 576, seed=5)
    x[0] = 1.0
    parts = [LinearPart(ggml_weight(kind, 40, 576))]
    native = CpuKernels()
    results = [
        apply_linear(own, x, own.pack_linear(parts, torch.float32, int8_activations=True))
        for own in (kernels, native)
    ]
    assert torch.equal(*results)


@pytest.mark.parametrize("int8_activations", MODES)
@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_what_is_not_finite_stays_in_its_row(kernels, bad, int8_activations):
    layer = kernels.pack_linear(
        [LinearPart(ggml_weight("Q4_1", 8, 64))], torch.float32, int8_activations=int8_activations
    )
    x = random_rows(3, 64)
    expected = apply_linear(kernels, x, layer)
    x[1, 40] = bad
    out = apply_linear(kernels, x, layer)
    assert torch.equal(out[::2], expected[::2])
    assert not out[1].isfinite().any()


@pytest.mark.parametrize("kind", KINDS)
def test_embed_returns_the_rows_as_stored(kernels, kind):
    weight = ggml_weight(kind, 75, 64)
    packed = kernels.pack_linear([LinearPart(weight)], torch.bfloat16)
    token_ids = torch.tensor([74, 0, 33, 33], dtype=torch.int32)
    out = torch.empty(4, 64)
    kernels.embed(packed, token_ids, out)
    assert torch.equal(out, weight.dequantize()[token_ids.long()])
    with pytest.raises(EngineError, match=r"2 token ids lie outside 0\.\.74"):
        kernels.embed(packed, torch.tensor([75, 3, -1], dtype=torch.int32), out[:3])
