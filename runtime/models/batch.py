"""What a forward pass works on: the rows of a batch, and the cache of keys and values."""

from dataclasses import dataclass

import numpy as np
import torch

IntArray = torch.Tensor | np.ndarray
"""An int32 array; numpy arrays are read in place."""


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """Rows to compute: new tokens of some sequences, any number of each. All int32.

    Attributes:
        token_ids: [R].
        positions: [R], ascending within a sequence.
        slots: [R], where each row's key and value go: what the page table says.
        seq_starts: [S + 1], the range of rows of each sequence.
        table_rows: [S], each sequence's row of the page table.
        page_table: [max_seqs, max_len], the slot of each position; owned by the engine.
        logit_rows: [L], rows whose logits are wanted.
    """

    token_ids: IntArray
    positions: IntArray
    slots: IntArray
    seq_starts: IntArray
    table_rows: IntArray
    page_table: IntArray
    logit_rows: IntArray


@dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of all slots: per layer a pair of tensors [slots, kv_heads, head_dim].

    Memory is untouched until a slot is written, so unused slots cost nothing.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]

    @property
    def num_slots(self) -> int:
        """How many tokens fit."""
        return self.keys[0].shape[0]

    @property
    def nbytes_per_token(self) -> int:
        """Memory of one slot over all layers, in bytes."""
        _, num_kv_heads, head_dim = self.keys[0].shape
        num_tensors = len(self.keys) + len(self.values)
        return num_tensors * num_kv_heads * head_dim * self.keys[0].element_size()


def int32_tensor(name: str, array: IntArray, *, num_dims: int = 1) -> torch.Tensor:
    """Return an array as a contiguous tensor, without a copy; check what C++ relies on."""
    tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
    assert tensor.dtype == torch.int32, f"{name} is {tensor.dtype}, not int32"
    assert tensor.dim() == num_dims, f"{name} has {tensor.dim()} dimensions, not {num_dims}"
    assert tensor.is_contiguous(), f"{name} is not contiguous"
    return tensor
