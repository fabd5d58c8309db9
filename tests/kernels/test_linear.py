"""Linear layers: right against the reference, and exact whatever the rows beside a row."""

import pytest
import torch

from lmc.errors import EngineError
from lmc.kernels.interface import LinearPart

SHAPES = [(960, 576), (576, 1536), (37, 50), (70, 33), (1, 1), (131, 72), (32, 2)]
DTYPES = [torch.float32, torch.bfloat16]


def random_rows(num_rows, width, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, width, generator=generator).to(dtype)


def apply_linear(kernels, x, layer, accumulate_on=None, dtype=torch.float32):
    out = torch.full((x.shape[0], layer.num_outputs), 7.0, dtype=dtype)
    if accumulate_on is not None:
        out = accumulate_on.clone()
    kernels.linear(x, layer, out, accumulate=accumulate_on is not None)
    return out


def apply_gated(kernels, x, layer):
    out = torch.empty(x.shape[0], layer.num_outputs // 2, dtype=x.dtype)
    kernels.gated_linear(x, layer, out)
    return out


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_linear_agrees_with_the_reference(kernels, reference, dtype, shape):
    n, k = shape
    weight, bias = random_rows(n, k, torch.float32, 1) / k**0.5, random_rows(1, n, torch.float32)[0]
    x = random_rows(27, k, dtype, 2)
    parts = [LinearPart(weight, bias)]
    expected = apply_linear(reference, x, reference.pack_linear(parts, dtype))
    layer = kernels.pack_linear(parts, dtype)
    torch.testing.assert_close(apply_linear(kernels, x, layer), expected, rtol=1e-5, atol=1e-5)
    base = random_rows(27, n, torch.float32, 3)
    added = apply_linear(kernels, x, layer, accumulate_on=base)
    torch.testing.assert_close(added, base + expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_weights_of_any_stored_type_are_packed(kernels, reference, source):
    weight, x = random_rows(40, 24, source), random_rows(3, 24, torch.bfloat16)
    parts = [LinearPart(weight)]
    expected = apply_linear(reference, x, reference.pack_linear(parts, torch.bfloat16))
    actual = apply_linear(kernels, x, kernels.pack_linear(parts, torch.bfloat16))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parts_are_joined_in_order(kernels, reference, dtype):
    parts = [
        LinearPart(random_rows(18, 20, torch.float32, 1), random_rows(1, 18, torch.float32)[0]),
        LinearPart(random_rows(6, 20, torch.float32, 2)),
        LinearPart(random_rows(41, 20, torch.float32, 3), random_rows(1, 41, torch.float32)[0]),
    ]
    x = random_rows(5, 20, dtype, 4)
    expected = apply_linear(reference, x, reference.pack_linear(parts, dtype))
    actual = apply_linear(kernels, x, kernels.pack_linear(parts, dtype))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1536, 576), (16, 8), (100, 72), (37, 33), (1, 4)], ids=str)
def test_gated_linear_agrees_with_the_reference(kernels, reference, dtype, shape):
    n, k = shape
    gate = LinearPart(random_rows(n, k, torch.float32, 1) / k**0.5)
    up = LinearPart(random_rows(n, k, torch.float32, 2) / k**0.5, random_rows(1, n, dtype)[0])
    x = random_rows(14, k, dtype, 3)
    expected = apply_gated(reference, x, reference.pack_gated(gate, up, dtype))
    actual = apply_gated(kernels, x, kernels.pack_gated(gate, up, dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("extreme", [-200.0, -88.0, 88.0, 200.0])
def test_the_gate_saturates_without_overflow(kernels, extreme):
    gate, up = LinearPart(torch.full((16, 1), extreme)), LinearPart(torch.ones(16, 1))
    layer = kernels.pack_gated(gate, up, torch.float32)
    actual = apply_gated(kernels, torch.ones(1, 1), layer)
    expected = torch.full((1, 16), max(extreme, 0.0))
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(100, 576), (64, 33)], ids=str)
def test_a_row_does_not_depend_on_rows_or_threads(kernels, dtype, shape):
    n, k = shape
    layer = kernels.pack_linear([LinearPart(random_rows(n, k, torch.float32, 1))], dtype)
    gated = kernels.pack_gated(
        LinearPart(random_rows(n, k, torch.float32, 2)),
        LinearPart(random_rows(n, k, torch.float32, 3)),
        dtype,
    )
    x = random_rows(400, k, dtype, 4)
    alone = torch.cat([apply_linear(kernels, row, layer) for row in x.split(1)])
    alone_gated = torch.cat([apply_gated(kernels, row, gated) for row in x.split(1)])
    for num_threads in (1, 3):
        kernels.set_num_threads(num_threads)
        for num_rows in [*range(2, 31), 100, 400]:
            rows = x[:num_rows]
            assert torch.equal(apply_linear(kernels, rows, layer), alone[:num_rows]), num_rows
            assert torch.equal(apply_gated(kernels, rows, gated), alone_gated[:num_rows]), num_rows
    kernels.set_num_threads(2)


def test_an_infinite_neighbour_row_stays_alone(kernels):
    # 33 inputs end in the middle of a pair: the next row must not leak into it.
    layer = kernels.pack_linear([LinearPart(torch.ones(8, 33))], torch.bfloat16)
    x = torch.ones(3, 33, dtype=torch.bfloat16)
    x[1] = torch.inf
    out = apply_linear(kernels, x, layer)
    assert torch.equal(out[0], torch.full((8,), 33.0))
    assert torch.equal(out[2], torch.full((8,), 33.0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_embed_returns_the_rows_as_stored(kernels, dtype):
    table = random_rows(75, 26, torch.float32)
    packed = kernels.pack_linear([LinearPart(table)], dtype)
    token_ids = torch.tensor([74, 0, 33, 33], dtype=torch.int32)
    out = torch.empty(4, 26)
    kernels.embed(packed, token_ids, out)
    assert torch.equal(out, table.to(dtype).float()[token_ids.long()])


def test_embed_refuses_ids_outside_the_table(kernels, reference):
    for implementation in (kernels, reference):
        packed = implementation.pack_linear([LinearPart(torch.ones(8, 4))], torch.float32)
        ids = torch.tensor([8, 3, -1], dtype=torch.int32)
        with pytest.raises(EngineError, match=r"2 token ids lie outside 0\.\.7"):
            implementation.embed(packed, ids, torch.empty(3, 4))
