"""Weights packed for the C++ kernels: dense, or quantized in groups of 32 inputs."""

from dataclasses import dataclass

import torch

from lmc.kernels.arena import WeightArena
from lmc.kernels.interface import LinearPart
from lmc.kernels.library import KernelLibrary
from lmc.kernels.quantized import GGML_NUMBERS, QuantizedWeight

HELD_WEIGHTS = 4 << 20
"""Layers of up to so many weights take some 0.1 ms for a few rows."""

WHOLE, GATE, UP = 0, 1, 2
"""Which outputs of a packed layer the rows of a part are."""


@dataclass(frozen=True, slots=True)
class CpuLinear:
    """A packed weight and its bias in the order of the packed outputs.

    `kind` is ggml's number of a quantized weight, None of a dense one; `int8_activations` says
    that what a quantized one is multiplied with is rounded. `weight_ptr` and `bias_ptr` are the
    addresses, kept because they are asked for often; `is_small` says that a few rows take so
    little time that the interpreter lock is kept.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    num_outputs: int
    num_inputs: int
    is_gated: bool
    is_small: bool
    weight_ptr: int
    bias_ptr: int | None
    kind: int | None
    int8_activations: bool

    @property
    def nbytes(self) -> int:
        """Memory that the packed weight takes, in bytes."""
        return self.weight.nbytes


class Packing:
    """A packed weight that is being filled.

    Args:
        library: the kernels.
        arena: where its memory comes from.
        parts: what will be added, for the shape and the kind; all dense or all of one kind.
        dtype: of dense weights.
        int8_activations: whether what quantized weights are multiplied with is rounded.
    """

    def __init__(
        self,
        library: KernelLibrary,
        arena: WeightArena,
        parts: list[LinearPart],
        dtype: torch.dtype,
        *,
        int8_activations: bool,
    ) -> None:
        kinds = {part.kind for part in parts}
        assert len(kinds) == 1, kinds
        (kind,) = kinds
        self._library = library.free
        self._is_bf16 = dtype == torch.bfloat16
        self._shape = sum(part.weight.shape[0] for part in parts), parts[0].weight.shape[1]
        self._kind = None if kind is None else GGML_NUMBERS[kind]
        self._int8_activations = int8_activations and kind is not None
        if self._kind is None:
            size = self._library.lmc_packed_size(*self._shape, self._is_bf16)
        else:
            size, dtype = self._library.lmc_quantized_size(*self._shape, self._kind), torch.uint8
        self._weight = arena.zeros(size, dtype)
        self._bias = torch.zeros(-(-self._shape[0] // 32) * 32, dtype=torch.float32)
        self._has_bias = False

    def add(self, part: LinearPart, first: int, place: int) -> None:
        """Pack the rows of a part behind `first` other rows that go to the same place."""
        num_rows, num_inputs = part.weight.shape
        assert num_inputs == self._shape[1], (part.weight.shape, self._shape)
        if isinstance(part.weight, QuantizedWeight):
            rows = part.weight.rows.contiguous()
            self._library.lmc_quantized_pack(
                rows.data_ptr(),
                self._kind,
                num_rows,
                num_inputs,
                first,
                place,
                self._weight.data_ptr(),
            )
        else:
            self._add_dense(part.weight, first, place)
        if part.bias is not None:
            self._has_bias = True
            places = [self._library.lmc_output_of(first + row, place) for row in range(num_rows)]
            self._bias[places] = part.bias.float()

    def _add_dense(self, weight: torch.Tensor, first: int, place: int) -> None:
        """Pack rows of floats."""
        if weight.dtype not in (torch.float32, torch.bfloat16):
            weight = weight.float()
        weight = weight.contiguous()
        self._library.lmc_pack(
            weight.data_ptr(),
            weight.dtype == torch.bfloat16,
            weight.shape[0],
            weight.shape[1],
            first,
            place,
            self._weight.data_ptr(),
            self._is_bf16,
        )

    def finish(self, *, is_gated: bool) -> CpuLinear:
        """Return the packed layer."""
        num_outputs, num_inputs = self._shape
        bias = self._bias if self._has_bias else None
        return CpuLinear(
            weight=self._weight,
            bias=bias,
            num_outputs=num_outputs,
            num_inputs=num_inputs,
            is_gated=is_gated,
            is_small=num_outputs * num_inputs <= HELD_WEIGHTS,
            weight_ptr=self._weight.data_ptr(),
            bias_ptr=None if bias is None else bias.data_ptr(),
            kind=self._kind,
            int8_activations=self._int8_activations,
        )
