"""The operators that a model and a sampler are made of.

All activations are row-major torch tensors on the CPU; R is the number of rows in a batch.
The residual stream, log-probabilities and logits are float32; what enters a linear layer or
the key-value cache has the model's dtype (bfloat16 or float32).

An implementation whose `is_exact` is true promises that a row of every result depends on that
row's inputs alone, bit for bit: not on the rows beside it, nor on R, nor on the threads.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

from lmc.kernels.quantized import Kind, QuantizedWeight


class PackedLinear(Protocol):
    """A weight matrix in the layout of one implementation."""

    @property
    def num_outputs(self) -> int:
        """Rows of the weight; of a gated pair, of both halves together."""
        ...

    @property
    def num_inputs(self) -> int:
        """Columns of the weight."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory that the packed weight takes, in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class LinearPart:
    """Some outputs of a linear layer: rows of weight [n, k], and their bias [n]."""

    weight: torch.Tensor | QuantizedWeight
    bias: torch.Tensor | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind of a quantized weight; None of a dense one."""
        return self.weight.kind if isinstance(self.weight, QuantizedWeight) else None


@dataclass(frozen=True, slots=True)
class RopeTable:
    """Cosine and sine of each position's angles, float32 [num_positions, head_dim / 2]."""

    cosine: torch.Tensor
    sine: torch.Tensor


@dataclass(frozen=True, slots=True)
class AttentionIndex:
    """Which cached positions each row of a batch sees; all int32.

    Row r of sequence s sees positions 0..positions[r] of the sequence; the key and value of
    position p lie in slot page_table[table_rows[s], p]. Positions ascend within a sequence.

    Attributes:
        positions: [R].
        seq_starts: [S + 1], the range of rows of each sequence.
        table_rows: [S], each sequence's row of the page table.
        page_table: [num_table_rows, max_len].
    """

    positions: torch.Tensor
    seq_starts: torch.Tensor
    table_rows: torch.Tensor
    page_table: torch.Tensor


class Kernels(Protocol):
    """One implementation of the operators."""

    @property
    def name(self) -> str:
        """Name for people, with the code path taken."""
        ...

    @property
    def fingerprint(self) -> str:
        """A text that differs where results may differ: code, compiler, instructions."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether rows are independent of one another bit for bit."""
        ...

    @property
    def warning(self) -> str | None:
        """What the user should know about this implementation, if anything."""
        ...

    @property
    def num_threads(self) -> int:
        """How many threads the operators use."""
        ...

    def set_num_threads(self, count: int) -> None:
        """Set how many threads the operators use; results do not depend on it."""
        ...

    def dequantize(self, weight: QuantizedWeight, dtype: torch.dtype) -> torch.Tensor:
        """Return a quantized weight as a dense one [n, k], rounded to `dtype`."""
        ...

    def pack_linear(
        self, parts: list[LinearPart], dtype: torch.dtype, *, int8_activations: bool = False
    ) -> PackedLinear:
        """Pack the outputs of several weights, one after another, as one layer.

        Args:
            parts: all dense, or all quantized in one kind; these are kept as they are.
            dtype: of dense weights.
            int8_activations: round what quantized weights are multiplied with to int8, each
                row's groups of 32 on their own.
        """
        ...

    def pack_gated(
        self,
        gate: LinearPart,
        up: LinearPart,
        dtype: torch.dtype,
        *,
        int8_activations: bool = False,
    ) -> PackedLinear:
        """Pack the two halves of a gated MLP for `gated_linear`; the rest as of pack_linear."""
        ...

    def embed(self, table: PackedLinear, token_ids: torch.Tensor, out: torch.Tensor) -> None:
        """Write rows `token_ids` [R] of a packed table to `out` [R, k], float32.

        Raises:
            EngineError: an id outside the table.
        """
        ...

    def linear(
        self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor, *, accumulate: bool = False
    ) -> None:
        """Write (or add, to a float32 `out`) x W^T + bias to `out` [R, n]."""
        ...

    def gated_linear(self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor) -> None:
        """Write silu(x G^T) * (x U^T) to `out` [R, n / 2] of the model's dtype."""
        ...

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor
    ) -> None:
        """Write x / sqrt(mean(x^2) + eps) * weight to `out`; `x` and `weight` are float32."""
        ...

    def rope_write(
        self,
        qkv: torch.Tensor,
        rope: RopeTable,
        positions: torch.Tensor,
        slots: torch.Tensor,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Rotate queries and keys, and write keys and values into their slots.

        Args:
            qkv: [R, (heads + 2 kv_heads) * head_dim], float32.
            rope: the angles.
            positions: int32 [R].
            slots: int32 [R], where each row's key and value go.
            q: out, [R, heads, head_dim].
            keys: [num_slots, kv_heads, head_dim], written at `slots`.
            values: the same.

        Raises:
            EngineError: a position or slot out of range.
        """
        ...

    def attention(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        index: AttentionIndex,
        out: torch.Tensor,
    ) -> None:
        """Causal attention of each row over its sequence's cached positions.

        `q` and `out` are [R, heads, head_dim]; scores are scaled by 1 / sqrt(head_dim).

        Raises:
            EngineError: positions that do not ascend, a table row or slot out of range.
        """
        ...

    def argmax(self, logits: torch.Tensor, bitmask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the index of each row's largest logit, int32 [R]; the lowest wins a tie.

        `bitmask` is int32 [R, >= vocab / 32]: bit t % 32 of word t / 32 allows token t. A row
        that allows nothing gives -1.
        """
        ...

    def log_sum_exp(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return log(sum(exp(logits * scale))) over each row's allowed tokens, float64 [R].

        `scales` is float32 [R], usually 1 / temperature.
        """
        ...

    def log_softmax(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return each row's log-probabilities, float32 [R, vocab]; -inf where not allowed."""
        ...
