"""Weights of a GGUF file, dequantized or as stored, named and ordered as Hugging Face does."""

import re
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmc.errors import ModelError
from lmc.gguf_file import GgufTensor, read_gguf
from lmc.kernels.quantized import GGML_NUMBERS, QuantizedWeight
from lmc.runtime.models.config import config_from_gguf
from lmc.runtime.models.weights import fingerprint_files

ROPE_FACTORS = "rope_freqs.weight"
MAX_JOINED_ROWS = 32
"""Rows of whole blocks that are dequantized as one: the library works on 16 rows at a time, which
leaves most of the time to its bookkeeping where they are short."""

_KINDS = {number: kind for kind, number in GGML_NUMBERS.items()}

_TOP_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GgufWeights:
    """Weights of a Llama GGUF file; tensors are read from the mapped file one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = read_gguf(path)
        self.config = config_from_gguf(self._file.metadata, self._file.tensors, str(path))
        self._data = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        self._tensors = {
            hf_name(name): tensor
            for name, tensor in self._file.tensors.items()
            if name != ROPE_FACTORS
        }

    @property
    def rope_factors(self) -> torch.Tensor | None:
        """Divisors of the rotary frequencies that the file carries, if any."""
        tensor = self._file.tensors.get(ROPE_FACTORS)
        return None if tensor is None else torch.from_numpy(self._dequantize(tensor))

    @property
    def fingerprint(self) -> str:
        """Hex digest over the file."""
        return fingerprint_files([self._path])

    def names(self) -> frozenset[str]:
        """Return the names of all tensors; those without a known meaning keep their own."""
        return frozenset(self._tensors)

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor in float32."""
        return torch.from_numpy(self._in_order(name, self._dequantize(self._find(name))))

    def quantized(self, name: str) -> QuantizedWeight | None:
        """Return a matrix as it is stored if it is quantized in a kind that kernels know."""
        tensor = self._find(name)
        kind = _KINDS.get(tensor.ggml_type)
        if kind is None or len(tensor.shape) != 2:
            return None
        rows = self._raw(tensor).reshape(tensor.shape[0], -1)
        own = np.array(self._in_order(name, rows))  # torch wants memory that it may write
        return QuantizedWeight(kind, torch.from_numpy(own), tensor.shape[1])

    def _find(self, name: str) -> GgufTensor:
        """Return the description of a tensor."""
        if name not in self._tensors:
            raise ModelError(
                f"{self._path} lacks the tensor {name!r}",
                hint="the file may be of another architecture than it says",
            )
        return self._tensors[name]

    def _raw(self, tensor: GgufTensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return a tensor's bytes."""
        return self._data[tensor.offset : tensor.offset + tensor.n_bytes]

    def _in_order(
        self, name: str, rows: np.ndarray[Any, np.dtype[Any]]
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """Bring the rows of a tensor into Hugging Face's order."""
        if ".q_proj." in name:
            return undo_rope_order(rows, self.config.num_heads)
        if ".k_proj." in name:
            return undo_rope_order(rows, self.config.num_kv_heads)
        return rows

    def _dequantize(self, tensor: GgufTensor) -> np.ndarray[Any, np.dtype[np.float32]]:
        """Read a tensor of any storage type as float32."""
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        rows = self._raw(tensor).reshape(*tensor.shape[:-1], -1)
        kind = GGMLQuantizationType(tensor.ggml_type)
        if kind == GGMLQuantizationType.F32:
            return rows.view(np.float32).reshape(tensor.shape).copy()
        if kind == GGMLQuantizationType.F16:
            return rows.view(np.float16).reshape(tensor.shape).astype(np.float32)
        rows = rows.reshape(-1, rows.shape[-1])
        num_joined = gcd(len(rows), MAX_JOINED_ROWS)
        try:
            return dequantize(rows.reshape(-1, num_joined * rows.shape[-1]), kind).reshape(
                tensor.shape
            )
        except NotImplementedError as error:
            raise ModelError(
                f"{self._path}: the tensor {tensor.name!r} is stored as {kind.name}, "
                "which cannot be read",
                hint="use a file with a common type such as F16, Q8_0 or Q4_K_M",
            ) from error


def hf_name(name: str) -> str:
    """Translate llama.cpp's name of a tensor; unknown names stay as they are."""
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name):
        layer, kind, what = match.groups()
        if kind in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[kind]}.{what}"
    if match := re.fullmatch(r"(\w+)\.(weight|bias)", name):
        kind, what = match.groups()
        if kind in _TOP_NAMES:
            return f"{_TOP_NAMES[kind]}.{what}"
    return name


def undo_rope_order(
    values: np.ndarray[Any, np.dtype[Any]], num_heads: int
) -> np.ndarray[Any, np.dtype[Any]]:
    """Bring rows of q or k back into Hugging Face's order.

    llama.cpp rotates neighbouring rows (2i, 2i + 1) of a head, where Hugging Face rotates
    rows (i, i + head_dim / 2); its converter interleaves the halves of each head.
    """
    pairs = values.reshape(num_heads, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)
