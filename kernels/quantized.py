"""Quantized weights: groups of 32 inputs that share a scale, as ggml lays them out in files.

The kinds are those that the C++ kernels multiply with (csrc/quantized.h). A group holds, in
this order: its scale d and, in Q4_1 and Q5_1, its least value m, both in half precision; in Q5_0
and Q5_1 a fifth bit of each number, 32 bits; and the numbers q. A weight is d q + m.
"""

from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]

GROUP = 32
"""Inputs that share a scale."""

GGML_NUMBERS: dict[Kind, int] = {"Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8}

_ZEROS: dict[Kind, int] = {"Q4_0": 8, "Q4_1": 0, "Q5_0": 16, "Q5_1": 0, "Q8_0": 0}
"""What is taken from the stored number; those of Q8_0 have a sign."""


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight [n, k] in groups.

    Attributes:
        kind: what a group is.
        rows: uint8 [n, bytes], each row's groups; the last one is filled up with zeros.
        num_inputs: k.
    """

    kind: Kind
    rows: torch.Tensor
    num_inputs: int

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.rows.shape[0], self.num_inputs

    def dequantize(self) -> torch.Tensor:
        """Return the weights, float32 [n, k]."""
        num_groups = -(-self.num_inputs // GROUP)
        groups = self.rows.reshape(self.rows.shape[0], num_groups, -1)
        scale, rest = _half(groups[..., :2]), groups[..., 2:]
        least: torch.Tensor | float = 0.0
        if self.kind in ("Q4_1", "Q5_1"):
            least, rest = _half(rest[..., :2]), rest[..., 2:]
        if self.kind == "Q8_0":
            numbers = rest.contiguous().view(torch.int8).float()
        else:
            fifth = 0
            if self.kind in ("Q5_0", "Q5_1"):
                bits = rest[..., :4].unsqueeze(-1) >> torch.arange(8, dtype=torch.uint8)
                fifth, rest = (bits & 1).flatten(-2) << 4, rest[..., 4:]
            numbers = (torch.cat([rest & 15, rest >> 4], dim=-1) | fifth).float()
        values = scale * (numbers - _ZEROS[self.kind]) + least
        return values.flatten(1)[:, : self.num_inputs]


def quantize(weight: torch.Tensor, kind: Literal["Q4_1", "Q8_0"]) -> QuantizedWeight:
    """Round a weight [n, k] to the nearest that a kind can hold.

    Q8_0 gives a group's largest value 127; Q4_1 spreads 0 to 15 over its range. Numbers are
    chosen for the scale as it is stored.
    """
    num_inputs = weight.shape[1]
    values = torch.nn.functional.pad(weight.float(), (0, -num_inputs % GROUP))
    groups = values.view(weight.shape[0], -1, GROUP)
    if kind == "Q8_0":
        scale = (groups.abs().amax(-1, keepdim=True) / 127).half()
        numbers = _divided(groups, scale).clamp(-127, 127).to(torch.int8)
        parts = [_bytes(scale), numbers.view(torch.uint8)]
    else:
        least = groups.amin(-1, keepdim=True).half()
        scale = ((groups.amax(-1, keepdim=True) - least.float()) / 15).half()
        numbers = _divided(groups - least.float(), scale).clamp(0, 15).to(torch.uint8)
        low, high = numbers.chunk(2, dim=-1)
        parts = [_bytes(scale), _bytes(least), low | high << 4]
    return QuantizedWeight(kind, torch.cat(parts, dim=-1).flatten(1), num_inputs)


def round_to_int8(x: torch.Tensor) -> torch.Tensor:
    """Return rows [R, k] as the kernels see them that round activations: float32.

    Each group of 32 is rounded to integers of a scale that gives its largest value 127.
    """
    groups = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % GROUP)).unflatten(-1, (-1, GROUP))
    largest = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 1e-30, torch.tensor(127.0) / largest, 0.0)
    return ((groups * inverse).round() * (largest / 127)).flatten(-2)[:, : x.shape[1]]


def _divided(values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return values / scale, rounded; 0 where the scale is."""
    return torch.where(scale == 0, 0.0, values / scale.float()).round()


def _half(pair: torch.Tensor) -> torch.Tensor:
    """Read half precision from two bytes each, as float32."""
    return pair.contiguous().view(torch.float16).float()


def _bytes(half: torch.Tensor) -> torch.Tensor:
    """Return the bytes of numbers in half precision."""
    return half.contiguous().view(torch.uint8)
