"""Angles of rotary position embedding (Su et al. 2021), as Llama models use it."""

import math

import torch

from lmc.kernels.interface import RopeTable
from lmc.runtime.models.config import ModelConfig, RopeScaling


def inverse_frequencies(config: ModelConfig, factors: torch.Tensor | None = None) -> torch.Tensor:
    """Return the angle per position of each pair, float32 [head_dim / 2].

    Args:
        config: gives base and scaling.
        factors: divisors that a GGUF file carries as `rope_freqs.weight`.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / (config.rope_theta**exponents)
    if factors is not None:
        return frequencies / factors.float()
    if config.rope_scaling is None:
        return frequencies
    if config.rope_scaling.kind == "linear":
        return frequencies / config.rope_scaling.factor
    return _llama3(frequencies, config.rope_scaling)


def _llama3(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Stretch long wavelengths, keep short ones, interpolate between (Llama 3.1)."""
    wavelengths = 2 * math.pi / frequencies
    low = scaling.original_max_positions / scaling.low_freq_factor
    high = scaling.original_max_positions / scaling.high_freq_factor
    ratio = scaling.original_max_positions / wavelengths
    smooth = (ratio - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    between = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies
    stretched = torch.where(wavelengths > low, frequencies / scaling.factor, between)
    return torch.where(wavelengths < high, frequencies, stretched)


def rope_table(frequencies: torch.Tensor, num_positions: int) -> RopeTable:
    """Return cosine and sine of the angles of positions 0..num_positions-1.

    Angles are float32 products, as models were trained with. Their cosines are rounded from
    float64: torch's float32 ones depend on where its vectors happen to end.
    """
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), frequencies).double()
    return RopeTable(cosine=angles.cos().float(), sine=angles.sin().float())
