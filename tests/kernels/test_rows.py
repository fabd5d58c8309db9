"""Argmax, log-sum-exp and log-softmax over rows of logits."""

import math

import pytest
import torch

WIDTHS = [1, 5, 31, 32, 33, 1000, 49152]


def logits_of(num_rows, width, seed=0):
    return 8 * torch.randn(num_rows, width, generator=torch.Generator().manual_seed(seed))


def mask_of(num_rows, width, seed=1):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(-(2**31), 2**31, (num_rows, -(-width // 32)), generator=generator)
    return words.int()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("is_masked", [False, True])
def test_rows_agree_with_the_reference(kernels, reference, width, is_masked):
    logits = logits_of(6, width)
    mask = mask_of(6, width) if is_masked else None
    scales = torch.tensor([1.0, 0.5, 2.0, 10.0, 0.01, 1.0])
    assert torch.equal(kernels.argmax(logits, mask), reference.argmax(logits, mask))
    for name in ("log_sum_exp", "log_softmax"):
        for factors in (None, scales):
            actual = getattr(kernels, name)(logits, mask, factors)
            expected = getattr(reference, name)(logits, mask, factors)
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, rtol=1e-6, atol=2e-5)


def test_the_lowest_index_wins_a_tie(kernels):
    logits = torch.zeros(3, 100)
    logits[1, [70, 20, 90]] = 4.0
    logits[2] = -math.inf
    logits[2, 99] = -1e30
    assert kernels.argmax(logits).tolist() == [0, 20, 99]


def test_a_row_that_allows_nothing(kernels, reference):
    mask = torch.zeros(2, 4, dtype=torch.int32)
    mask[1, 3] = 1 << 3
    for implementation in (kernels, reference):
        assert implementation.argmax(torch.zeros(2, 100), mask).tolist() == [-1, 99]
        sums = implementation.log_sum_exp(torch.zeros(2, 100), mask)
        assert sums.tolist() == [-math.inf, 0.0]


def test_bits_beyond_the_vocabulary_are_ignored(kernels):
    mask = torch.full((1, 4), -1, dtype=torch.int32)
    assert kernels.argmax(torch.full((1, 97), -3.0), mask).tolist() == [0]
    torch.testing.assert_close(
        kernels.log_sum_exp(torch.zeros(1, 97), mask)[0].item(), math.log(97), rtol=1e-6, atol=0
    )


def test_rows_do_not_depend_on_each_other(kernels):
    logits, mask = logits_of(9, 3001), mask_of(9, 3001)
    scales = torch.linspace(0.3, 3.0, 9)
    for name in ("log_sum_exp", "log_softmax"):
        whole = getattr(kernels, name)(logits, mask, scales)
        for row in range(9):
            part = slice(row, row + 1)
            alone = getattr(kernels, name)(logits[part], mask[part], scales[part])
            assert torch.equal(alone, whole[part])
