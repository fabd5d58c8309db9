"""Our forward pass agrees with transformers' own for the same weights."""

import pytest
import torch
from model_support import (
    TINY,
    WITH_BIASES,
    WITH_LLAMA3_SCALING,
    all_logits,
    real_text_ids,
    smollm,
    smollm_path,
    transformers_logits,
    transformers_model,
    write_model,
)

from lmc.kernels.reference import ReferenceKernels
from lmc.runtime.models import CausalModel

CONFIGS = {"plain": TINY, "biases, tied, linear": WITH_BIASES, "llama3": WITH_LLAMA3_SCALING}


@pytest.mark.parametrize("kernels", [None, ReferenceKernels()], ids=["cpu", "reference"])
@pytest.mark.parametrize("name", CONFIGS)
def test_tiny_models_agree_in_float32(tmp_path, name, kernels):
    path = write_model(tmp_path, CONFIGS[name])
    token_ids = torch.randint(0, 131, (150,), generator=torch.Generator().manual_seed(1)).int()
    ours = all_logits(CausalModel.load(path, "float32", kernels=kernels), token_ids)
    theirs = transformers_logits(transformers_model(path, torch.float32), token_ids)
    assert theirs.std() > 0.1
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_tiny_model_in_bfloat16_is_near_float32(tmp_path):
    path = write_model(tmp_path, TINY)
    token_ids = torch.randint(0, 131, (150,), generator=torch.Generator().manual_seed(1)).int()
    ours = all_logits(CausalModel.load(path), token_ids)
    theirs = transformers_logits(transformers_model(path, torch.float32), token_ids)
    assert (ours - theirs).abs().max() < 0.1 * theirs.std()


@pytest.mark.model
def test_the_real_model_agrees_in_float32():
    token_ids = real_text_ids(200)
    ours = torch.log_softmax(all_logits(smollm("float32"), token_ids), dim=-1)
    theirs = transformers_logits(transformers_model(smollm_path(), torch.float32), token_ids)
    difference = (ours - torch.log_softmax(theirs, dim=-1)).abs().max()
    assert difference < 1e-3, f"log-probabilities differ by {difference}"


def shares_of_argmax(exact, rough_model, pieces):
    """How often transformers' and our bfloat16 have float32's likeliest token."""
    theirs = torch.cat([transformers_logits(rough_model, ids).argmax(-1) for ids in pieces])
    ours = torch.cat([all_logits(smollm(), ids).argmax(-1) for ids in pieces])
    return [(rough == exact).float().mean().item() for rough in (theirs, ours)]


@pytest.mark.model
def test_bfloat16_agrees_with_float32_on_some_text():
    pieces = real_text_ids(400).split(400)
    exact = torch.cat([all_logits(smollm("float32"), ids).argmax(-1) for ids in pieces])
    rough_model = transformers_model(smollm_path(), torch.bfloat16)
    theirs, ours = shares_of_argmax(exact, rough_model, pieces)
    assert theirs > 0.9, f"transformers' own bfloat16 agrees on {theirs:.2%} only"
    assert ours >= theirs - 0.01, f"ours {ours:.2%}, transformers {theirs:.2%}"


@pytest.mark.model
@pytest.mark.long
def test_bfloat16_agrees_with_float32_as_well_as_transformers_does():
    pieces = real_text_ids(2000).split(500)
    exact_model = transformers_model(smollm_path(), torch.float32)
    exact = torch.cat([transformers_logits(exact_model, ids).argmax(-1) for ids in pieces])
    theirs, ours = shares_of_argmax(exact, exact_model.to(torch.bfloat16), pieces)
    assert theirs > 0.9, f"transformers' own bfloat16 agrees on {theirs:.2%} only"
    assert ours >= theirs - 0.01, f"ours {ours:.2%}, transformers {theirs:.2%}"
