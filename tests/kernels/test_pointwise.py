"""Norm, rotary embedding and the write of keys and values."""

import pytest
import torch

from lmc.errors import EngineError
from lmc.kernels.interface import RopeTable

DTYPES = [torch.float32, torch.bfloat16]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [576, 72, 5, 130])
def test_rms_norm_agrees_with_the_reference(kernels, reference, dtype, width):
    x, weight = normal(40, width) * 30, normal(width, seed=1)
    outs = [torch.empty(40, width, dtype=dtype) for _ in range(2)]
    kernels.rms_norm(x, weight, 1e-5, outs[0])
    reference.rms_norm(x, weight, 1e-5, outs[1])
    tolerance = 2e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(outs[0], outs[1], rtol=tolerance, atol=tolerance)


def test_rms_norm_rows_do_not_depend_on_each_other(kernels):
    x, weight = normal(200, 130), normal(130, seed=1)
    whole, alone = torch.empty(200, 130), torch.empty(200, 130)
    kernels.rms_norm(x, weight, 1e-5, whole)
    for row in range(200):
        kernels.rms_norm(x[row : row + 1], weight, 1e-5, alone[row : row + 1])
    assert torch.equal(whole, alone)


class Rope:
    """Inputs of `rope_write` for 3 query heads and 2 kv heads."""

    def __init__(self, dtype, num_rows=30, head_dim=20):
        self.qkv = normal(num_rows, 7 * head_dim)
        angles = normal(50, head_dim // 2, seed=2)
        self.table = RopeTable(angles.cos(), angles.sin())
        generator = torch.Generator().manual_seed(3)
        self.positions = torch.randint(0, 50, (num_rows,), generator=generator, dtype=torch.int32)
        self.slots = torch.randperm(40, generator=generator, dtype=torch.int32)[:num_rows]
        self.q = torch.zeros(num_rows, 3, head_dim, dtype=dtype)
        self.keys = torch.zeros(40, 2, head_dim, dtype=dtype)
        self.values = torch.zeros(40, 2, head_dim, dtype=dtype)

    def run(self, kernels):
        kernels.rope_write(
            self.qkv, self.table, self.positions, self.slots, self.q, self.keys, self.values
        )
        return self.q, self.keys, self.values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rope_write_agrees_with_the_reference(kernels, reference, dtype):
    tolerance = 1e-6 if dtype == torch.float32 else 1e-2
    for actual, expected in zip(Rope(dtype).run(kernels), Rope(dtype).run(reference), strict=True):
        assert expected.abs().max() > 0
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_rope_write_touches_only_its_slots(kernels):
    rope = Rope(torch.float32)
    rope.keys.fill_(5.0)
    rope.run(kernels)
    untouched = sorted(set(range(40)) - set(rope.slots.tolist()))
    assert len(untouched) == 10
    assert torch.equal(rope.keys[untouched], torch.full((10, 2, 20), 5.0))


def test_positions_and_slots_out_of_range_are_refused(kernels, reference):
    for implementation in (kernels, reference):
        for name, value in (("positions", 50), ("positions", -1), ("slots", 40), ("slots", -1)):
            rope = Rope(torch.float32)
            getattr(rope, name)[3] = value
            with pytest.raises(EngineError, match="1 "):
                rope.run(implementation)
