"""The forward pass at its edges: bad input, empty parts, modes of torch, the benchmark."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from model_support import TINY, Paged, all_logits, write_model

from lmc.errors import EngineError
from lmc.kernels.reference import ReferenceKernels
from lmc.runtime.models import CausalModel, ForwardBatch

ROOT = Path(__file__).resolve().parent.parent.parent
IDS = torch.arange(30, dtype=torch.int32)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return CausalModel.load(write_model(tmp_path_factory.mktemp("tiny"), TINY))


def batch_of(**changes):
    """Five rows of one sequence, in numpy arrays."""
    arrays = {
        "token_ids": np.arange(5),
        "positions": np.arange(5),
        "slots": np.arange(5),
        "seq_starts": [0, 5],
        "table_rows": [0],
        "page_table": np.arange(20).reshape(1, 20),
        "logit_rows": [4],
    }
    return ForwardBatch(**{k: np.array(v, dtype=np.int32) for k, v in (arrays | changes).items()})


@pytest.mark.parametrize("kernels", [None, ReferenceKernels()], ids=["cpu", "reference"])
@pytest.mark.parametrize(
    "changes",
    [
        {"token_ids": [0, 1, 131, 2, 3]},
        {"positions": [0, 1, 2, 3, 512]},
        {"slots": [0, 1, 2, 3, 9]},
        {"page_table": np.full((1, 20), 9)},
        {"table_rows": [1]},
        {"positions": [0, 1, 2, 3, 3]},
    ],
)
def test_bad_batches_are_refused(tmp_path, kernels, changes):
    model = CausalModel.load(write_model(tmp_path, TINY), kernels=kernels)
    kv = model.new_kv(9)
    assert model.forward(batch_of(), kv).shape == (1, 131)
    with pytest.raises(EngineError):
        model.forward(batch_of(**changes), kv)


def test_arrays_that_do_not_fit_together_are_a_bug(model):
    kv = model.new_kv(9)
    for changes in ({"slots": np.arange(4)}, {"seq_starts": [0, 4]}, {"table_rows": [0, 0]}):
        with pytest.raises(AssertionError):
            model.forward(batch_of(**changes), kv)


def test_no_logits_wanted(model):
    assert model.forward(batch_of(logit_rows=[]), model.new_kv(9)).shape == (0, 131)


def test_a_batch_without_rows(model):
    empty = batch_of(
        token_ids=[], positions=[], slots=[], seq_starts=[0], table_rows=[], logit_rows=[]
    )
    assert model.forward(empty, model.new_kv(9)).shape == (0, 131)


def test_a_sequence_without_rows_is_left_alone(model):
    kv = model.new_kv(9)
    expected = model.forward(batch_of(), kv)
    batch = batch_of(
        seq_starts=[0, 0, 5],
        table_rows=[1, 0],
        page_table=np.stack([np.arange(20), np.full(20, 7)]),
    )
    assert torch.equal(model.forward(batch, kv), expected)


def test_logits_are_the_callers_own(model):
    kv = model.new_kv(9)
    first = model.forward(batch_of(), kv)
    kept = first.clone()
    model.forward(batch_of(token_ids=[9, 8, 7, 6, 5]), kv)
    assert torch.equal(first, kept)


def test_inference_mode_makes_no_difference(tmp_path):
    for kernels in (None, ReferenceKernels()):
        model = CausalModel.load(write_model(tmp_path, TINY), kernels=kernels)
        with torch.inference_mode():
            inside = all_logits(model, IDS)
        assert torch.equal(all_logits(model, IDS), inside)


def test_reference_kernels_agree_with_the_compiled_ones(tmp_path):
    path = write_model(tmp_path, TINY)
    compiled = all_logits(CausalModel.load(path), IDS)
    plain = all_logits(CausalModel.load(path, kernels=ReferenceKernels()), IDS)
    torch.testing.assert_close(compiled, plain, rtol=0.05, atol=0.05)


def test_a_cache_holds_what_it_says(model):
    kv = model.new_kv(100)
    assert kv.num_slots == 100
    total = sum(t.nbytes for t in (*kv.keys, *kv.values))
    assert kv.nbytes_per_token * 100 == total


def test_old_cache_contents_do_not_matter(model):
    clean = all_logits(model, IDS)
    paged = Paged(model, [30])
    for tensor in (*paged.kv.keys, *paged.kv.values):
        tensor.fill_(torch.nan)
    assert torch.equal(paged.forward([(0, 0, IDS)])[0], clean)


def test_the_benchmark_prints_shares_of_the_bandwidth(tmp_path, monkeypatch, capsys):
    path = write_model(tmp_path, TINY)
    (path / "tokenizer.json").write_text("{}")  # a complete model has one
    options = ["--turns", "1", "--rounds", "1", "--context", "4"]
    monkeypatch.setattr(sys, "argv", ["bench_decode.py", "--model", str(path), *options])
    runpy.run_path(str(ROOT / "benchmarks" / "bench_decode.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "kernels",
        "memory bandwidth",
        "decode, 1 at once",
        "decode, 8 at once",
    ]
    assert all("of the bandwidth" in line for line in lines[2:])
