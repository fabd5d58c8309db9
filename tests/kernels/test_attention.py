"""Paged attention: right against the reference, exact over batches, chunks and threads."""

import pytest
import torch

from lmc.errors import EngineError
from lmc.kernels.interface import AttentionIndex

DTYPES = [torch.float32, torch.bfloat16]
SHAPES = [(9, 3, 64), (4, 4, 80), (8, 1, 96), (14, 2, 128), (3, 1, 16), (2, 2, 20), (32, 8, 32)]


class Cache:
    """Random keys and values of some sequences, in scattered slots."""

    def __init__(self, lengths, num_kv_heads, head_dim, dtype):
        generator = torch.Generator().manual_seed(5)
        num_slots = sum(lengths) + 3
        shape = (num_slots, num_kv_heads, head_dim)
        self.keys = torch.randn(shape, generator=generator).to(dtype)
        self.values = torch.randn(shape, generator=generator).to(dtype)
        order = torch.randperm(num_slots, generator=generator, dtype=torch.int32)
        self.page_table = torch.zeros(len(lengths), max(lengths), dtype=torch.int32)
        used = 0
        for row, length in enumerate(lengths):
            self.page_table[row, :length] = order[used : used + length]
            used += length


def index_of(cache, spans):
    """Rows of a batch: spans are (table row, first position, end position)."""
    positions = [torch.arange(begin, end, dtype=torch.int32) for _, begin, end in spans]
    starts = torch.tensor([0, *(len(p) for p in positions)]).cumsum(0).int()
    table_rows = torch.tensor([row for row, _, _ in spans], dtype=torch.int32)
    return AttentionIndex(torch.cat(positions), starts, table_rows, cache.page_table)


def attend(kernels, q, cache, index):
    out = torch.full_like(q, 7.0)
    kernels.attention(q, cache.keys, cache.values, index, out)
    return out


def random_q(num_rows, num_heads, head_dim, dtype):
    generator = torch.Generator().manual_seed(6)
    return torch.randn(num_rows, num_heads, head_dim, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_mixed_batches_agree_with_the_reference(kernels, reference, dtype, shape):
    num_heads, num_kv_heads, head_dim = shape
    cache = Cache([200, 64, 65, 1, 130], num_kv_heads, head_dim, dtype)
    index = index_of(cache, [(0, 150, 200), (1, 63, 64), (2, 0, 65), (3, 0, 1), (4, 127, 130)])
    q = random_q(120, num_heads, head_dim, dtype)
    actual = attend(kernels, q, cache, index).float()
    expected = attend(reference, q, cache, index).float()
    tolerance = 2e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(9, 3, 64), (6, 2, 20)], ids=str)
def test_chunks_batches_and_threads_give_the_same_bits(kernels, dtype, shape):
    num_heads, num_kv_heads, head_dim = shape
    cache = Cache([300, 90, 10], num_kv_heads, head_dim, dtype)
    q = random_q(300, num_heads, head_dim, dtype)
    whole = attend(kernels, q, cache, index_of(cache, [(0, 0, 300)]))
    others = random_q(95, num_heads, head_dim, dtype)
    for num_threads in (1, 2, 8):
        kernels.set_num_threads(num_threads)
        for chunk in (1, 7, 16, 64, 150):
            for begin in range(0, 300, chunk):
                end = min(300, begin + chunk)
                alone = attend(kernels, q[begin:end], cache, index_of(cache, [(0, begin, end)]))
                assert torch.equal(alone, whole[begin:end]), (num_threads, chunk, begin)
        mixed = torch.cat([others[:90], q[130:190], others[90:]])
        index = index_of(cache, [(1, 0, 90), (0, 130, 190), (2, 5, 10)])
        assert torch.equal(attend(kernels, mixed, cache, index)[90:150], whole[130:190])
    kernels.set_num_threads(2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_long_sequence_split_over_threads_gives_the_same_bits(kernels, reference, dtype):
    cache = Cache([3000], 1, 32, dtype)
    q = random_q(2, 3, 32, dtype)
    index = index_of(cache, [(0, 2998, 3000)])
    last = index_of(cache, [(0, 2999, 3000)])
    kernels.set_num_threads(1)
    together = attend(kernels, q, cache, index)
    for num_threads in (2, 3, 16):
        kernels.set_num_threads(num_threads)
        assert torch.equal(attend(kernels, q[1:], cache, last), together[1:]), num_threads
    kernels.set_num_threads(2)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-2
    expected = attend(reference, q, cache, index).float()
    torch.testing.assert_close(together.float(), expected, rtol=tolerance, atol=tolerance)


def test_large_scores_do_not_overflow(kernels, reference):
    cache = Cache([70], 1, 16, torch.float32)
    cache.keys *= 1000
    q = random_q(70, 1, 16, torch.float32) * 100
    index = index_of(cache, [(0, 0, 70)])
    expected = attend(reference, q, cache, index)
    torch.testing.assert_close(attend(kernels, q, cache, index), expected, rtol=1e-3, atol=1e-3)


def test_unwritten_slots_behind_a_sequence_are_not_read(kernels):
    cache = Cache([40], 1, 16, torch.float32)
    cache.keys[cache.page_table[0, 20:].long()] = torch.nan
    cache.values[cache.page_table[0, 20:].long()] = torch.nan
    out = attend(kernels, random_q(20, 2, 16, torch.float32), cache, index_of(cache, [(0, 0, 20)]))
    assert not out.isnan().any()


def test_bad_indices_are_refused(kernels, reference):
    cache = Cache([70], 1, 16, torch.float32)
    good = index_of(cache, [(0, 60, 64)])
    q = random_q(4, 1, 16, torch.float32)
    wrong_table = cache.page_table.clone()
    wrong_table[0, 3] = cache.keys.shape[0]
    bad = [
        AttentionIndex(good.positions.flip(0), good.seq_starts, good.table_rows, cache.page_table),
        AttentionIndex(good.positions + 7, good.seq_starts, good.table_rows, cache.page_table),
        AttentionIndex(good.positions, good.seq_starts, good.table_rows + 1, cache.page_table),
        AttentionIndex(good.positions, good.seq_starts, good.table_rows, wrong_table),
    ]
    for implementation in (kernels, reference):
        for index in bad:
            with pytest.raises(EngineError):
                attend(implementation, q, cache, index)
