"""Whole-model logits are the same bits in every chunking, batch, order and thread count."""

import pytest
import torch
from model_support import TINY, WITH_BIASES, Paged, real_text_ids, smollm, write_model

from lmc.runtime.models import CausalModel

MIXED = [
    (13, [200]),
    (1, [1, 40, 5]),
    (1, []),
    (40, [60, 77]),
    (2, [3]),
    (64, [1]),
]
"""Steps of a schedule: rows of our sequence, and rows of others in the same step."""

QUANTIZED = [("int8", "full"), ("int8", "int8"), ("int4", "full"), ("int4", "int8")]
"""Weights and activations."""


def random_ids(model, count, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, model.config.vocab_size, (count,), generator=generator).int()


def in_chunks(model, token_ids, chunk):
    paged = Paged(model, [len(token_ids)])
    starts = range(0, len(token_ids), chunk)
    return torch.cat([paged.forward([(0, i, token_ids[i : i + chunk])])[0] for i in starts])


def in_mixed_steps(model, token_ids):
    """Run the sequence by MIXED, between others that extend and decode."""
    others = [random_ids(model, 200, seed) for seed in (1, 2, 3)]
    paged = Paged(model, [200, 200, 200, len(token_ids)])
    done, logits, step = 0, [], 0
    while done < len(token_ids):
        own, rows = MIXED[step % len(MIXED)]
        spans = [(row, 0, others[row][:count]) for row, count in enumerate(rows)]
        place = step % (len(spans) + 1)
        spans.insert(place, (3, done, token_ids[done : done + own]))
        logits.append(paged.forward(spans)[place])
        done, step = done + own, step + 1
    return torch.cat(logits)


def check_all_ways(model, token_ids, chunks):
    """Compare forward passes by chunks: sizes for each number of threads, also mixed steps."""
    whole = in_chunks(model, token_ids, len(token_ids))
    assert whole.isfinite().all()
    before = model.kernels.num_threads
    for num_threads, sizes in chunks.items():
        model.kernels.set_num_threads(num_threads)
        for chunk in sizes:
            assert torch.equal(in_chunks(model, token_ids, chunk), whole), (num_threads, chunk)
        assert torch.equal(in_mixed_steps(model, token_ids), whole), num_threads
    model.kernels.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("config", [TINY, WITH_BIASES], ids=["plain", "biases"])
def test_tiny_models_are_exact(tmp_path, config, dtype):
    model = CausalModel.load(write_model(tmp_path, config), dtype)
    check_all_ways(model, random_ids(model, 200, 0), dict.fromkeys((1, 3), (1, 7, 16, 64)))


@pytest.mark.parametrize("precision", QUANTIZED, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_quantized_tiny_models_are_exact(tmp_path, precision, dtype):
    weights, activations = precision
    path = write_model(tmp_path, WITH_BIASES)
    model = CausalModel.load(path, dtype, weights=weights, activations=activations)
    check_all_ways(model, random_ids(model, 200, 0), {1: (1, 16), 3: (7, 64)})


@pytest.mark.model
def test_the_real_model_is_exact_as_stored():
    model = smollm(weights="stored", activations="int8")
    check_all_ways(model, real_text_ids(100), {1: (16,), 3: (7,)})


@pytest.mark.model
def test_the_real_model_is_exact():
    check_all_ways(smollm(), real_text_ids(200), {1: (16, 64), 3: (7,)})
    token_ids = real_text_ids(70)
    whole = in_chunks(smollm(), token_ids, 70)
    assert torch.equal(in_chunks(smollm(), token_ids, 1), whole)


@pytest.mark.model
def test_a_prefix_can_be_shared_by_several_sequences():
    model, token_ids = smollm(), real_text_ids(150)
    whole = in_chunks(model, token_ids, 150)
    paged = Paged(model, [150, 150, 150])
    paged.forward([(0, 0, token_ids[:100])])
    paged.page_table[1:, :100] = paged.page_table[0, :100]
    for row, logits in enumerate(
        paged.forward([(row, 100, token_ids[100 : 120 + row]) for row in range(3)])
    ):
        assert torch.equal(logits, whole[100 : 120 + row])
