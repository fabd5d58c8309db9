"""The Llama decoder over paged keys and values: one forward pass for mixed batches."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

import torch

from lmc.errors import UsageError
from lmc.kernels import default_kernels
from lmc.kernels.interface import AttentionIndex, Kernels
from lmc.runtime.models.batch import ForwardBatch, KVCache, int32_tensor
from lmc.runtime.models.config import ModelConfig
from lmc.runtime.models.loader import (
    DecoderWeights,
    LayerWeights,
    Progress,
    describe_unknown,
    load_weights,
)
from lmc.runtime.models.precision import Activations, Precision, Weights
from lmc.runtime.models.weights import open_weights

Dtype = Literal["bfloat16", "float32"]

_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_LEAST_ROWS = 16


class CausalModel:
    """A Llama model in memory. One thread at a time may call `forward`.

    Attributes:
        config: its shape.
        kernels: the operators that it runs on; they say whether results are exact.
        dtype: of weights, cache and the activations that enter them.
        weights_fingerprint: hex digest over the files of the weights.
        precision: how weights are kept, and what they are multiplied with.
        warnings: what the user should know: tensors without a meaning, slow kernels.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: DecoderWeights,
        *,
        kernels: Kernels,
        dtype: torch.dtype,
        weights_fingerprint: str,
        precision: Precision,
    ) -> None:
        self.config = config
        self.kernels = kernels
        self.dtype = dtype
        self.weights_fingerprint = weights_fingerprint
        self.precision = precision
        self._weights = weights
        self._workspace = _Workspace.allocate(config, dtype, _LEAST_ROWS)
        unknown = weights.unknown_names
        self.warnings = tuple(
            text
            for text in (describe_unknown(unknown) if unknown else None, kernels.warning)
            if text
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        dtype: Dtype = "bfloat16",
        *,
        weights: Weights = "full",
        activations: Activations = "full",
        kernels: Kernels | None = None,
        progress: Progress | None = None,
    ) -> "CausalModel":
        """Load a model.

        Args:
            path: a directory in Hugging Face format, or a .gguf file.
            dtype: of weights, cache and the activations that enter them.
            weights: how weights are kept; see lmc.runtime.models.precision.
            activations: what quantized weights are multiplied with.
            kernels: the operators; the compiled ones by default.
            progress: called with what is being done and the share done, 0 to 1.

        Raises:
            ModelError: missing, damaged or unsupported.
            UsageError: an unknown dtype or precision.
        """
        if dtype not in _DTYPES:
            raise UsageError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(_DTYPES)}")
        precision = Precision(weights, activations)
        source = open_weights(path)
        if kernels is None:
            if progress is not None:
                progress("preparing kernels", 0.0)
            kernels = default_kernels()
        with ThreadPoolExecutor(1) as beside:  # hashing lets other threads go on
            fingerprint = beside.submit(lambda: source.fingerprint)
            packed = load_weights(source, _DTYPES[dtype], kernels, progress, precision)
        return cls(
            source.config,
            packed,
            kernels=kernels,
            dtype=_DTYPES[dtype],
            weights_fingerprint=fingerprint.result(),
            precision=precision,
        )

    @property
    def kv_fingerprint(self) -> dict[str, str]:
        """What the bytes of the KV depend on beside the tokens, by name."""
        shape = self.config
        return {
            "weights": self.weights_fingerprint,
            "dtype": str(self.dtype).removeprefix("torch."),
            "precision": str(self.precision),
            "kernels": self.kernels.fingerprint,
            "shape": f"{shape.num_layers} x 2 x {shape.num_kv_heads} x {shape.head_dim}",
        }

    def shallow(self, num_layers: int) -> "CausalModel":
        """Return the model of the first layers: the same weights, but room of its own."""
        weights = replace(self._weights, layers=self._weights.layers[:num_layers])
        return CausalModel(
            replace(self.config, num_layers=len(weights.layers)),
            weights,
            kernels=self.kernels,
            dtype=self.dtype,
            weights_fingerprint=self.weights_fingerprint,
            precision=self.precision,
        )

    @property
    def claims_exactness(self) -> bool:
        """Whether its kernels promise that rows are independent, bit for bit."""
        return self.kernels.is_exact

    @property
    def exactness_basis(self) -> dict[str, str]:
        """What that promise depends on, by name."""
        return {
            "torch": torch.__version__,
            "kernels": self.kernels.fingerprint,
            "threads": str(self.kernels.num_threads),
            "dtype": str(self.dtype).removeprefix("torch."),
            "precision": str(self.precision),
            "shape": repr(self.config),
        }

    @property
    def nbytes_per_step(self) -> int:
        """Weight bytes that one decode step reads, whatever the number of rows."""
        packed = [self._weights.head]
        for layer in self._weights.layers:
            packed += [layer.qkv, layer.output, layer.gate_up, layer.down]
        return sum(weight.nbytes for weight in packed)

    def new_kv(self, num_slots: int) -> KVCache:
        """Return a cache for `num_slots` tokens."""
        shape = (num_slots, self.config.num_kv_heads, self.config.head_dim)
        layers = range(self.config.num_layers)
        return KVCache(
            keys=tuple(torch.empty(shape, dtype=self.dtype) for _ in layers),
            values=tuple(torch.empty(shape, dtype=self.dtype) for _ in layers),
        )

    def forward(self, batch: ForwardBatch, kv: KVCache) -> torch.Tensor:
        """Compute a batch, write its keys and values, and return the wanted logits.

        Returns:
            float32 [L, vocab_size], fresh memory.

        Raises:
            EngineError: a token id, position, slot or table row out of range. Rows that were
                in range may have been written.
        """
        token_ids = int32_tensor("token_ids", batch.token_ids)
        slots = int32_tensor("slots", batch.slots)
        index = AttentionIndex(
            positions=int32_tensor("positions", batch.positions),
            seq_starts=int32_tensor("seq_starts", batch.seq_starts),
            table_rows=int32_tensor("table_rows", batch.table_rows),
            page_table=int32_tensor("page_table", batch.page_table, num_dims=2),
        )
        num_rows = token_ids.shape[0]
        _check_lengths(index, slots, num_rows)
        space = self._rows(num_rows)
        self.kernels.embed(self._weights.embedding, token_ids, space.hidden)
        for layer, keys, values in zip(self._weights.layers, kv.keys, kv.values, strict=True):
            self._attention(layer, space, slots, index, (keys, values))
            self._mlp(layer, space)
        return self._logits(space, int32_tensor("logit_rows", batch.logit_rows))

    def _attention(
        self,
        layer: LayerWeights,
        space: "_Workspace",
        slots: torch.Tensor,
        index: AttentionIndex,
        cache: tuple[torch.Tensor, torch.Tensor],
    ) -> None:
        """Add a layer's attention to the residual stream."""
        kernels, (keys, values) = self.kernels, cache
        kernels.rms_norm(space.hidden, layer.attention_norm, self.config.rms_eps, space.normed)
        kernels.linear(space.normed, layer.qkv, space.qkv)
        kernels.rope_write(
            space.qkv, self._weights.rope, index.positions, slots, space.q, keys, values
        )
        kernels.attention(space.q, keys, values, index, space.attended)
        kernels.linear(space.attended_rows, layer.output, space.hidden, accumulate=True)

    def _mlp(self, layer: LayerWeights, space: "_Workspace") -> None:
        """Add a layer's gated MLP to the residual stream."""
        kernels = self.kernels
        kernels.rms_norm(space.hidden, layer.mlp_norm, self.config.rms_eps, space.normed)
        kernels.gated_linear(space.normed, layer.gate_up, space.gated)
        kernels.linear(space.gated, layer.down, space.hidden, accumulate=True)

    def _logits(self, space: "_Workspace", logit_rows: torch.Tensor) -> torch.Tensor:
        """Return the logits of some rows."""
        hidden = space.hidden.index_select(0, logit_rows)
        normed = torch.empty(hidden.shape, dtype=self.dtype)
        logits = torch.empty(hidden.shape[0], self.config.vocab_size)
        self.kernels.rms_norm(hidden, self._weights.norm, self.config.rms_eps, normed)
        self.kernels.linear(normed, self._weights.head, logits)
        return logits

    def _rows(self, num_rows: int) -> "_Workspace":
        """Return room for the activations of `num_rows` rows."""
        if num_rows > self._workspace.hidden.shape[0]:
            room = 1 << (num_rows - 1).bit_length()
            # Tensors made in a caller's inference mode could not be used outside of it.
            with torch.inference_mode(False):
                self._workspace = _Workspace.allocate(self.config, self.dtype, room)
        return self._workspace.first(num_rows)


@dataclass(frozen=True, slots=True)
class _Workspace:
    """Activations of a batch, reused from step to step.

    `hidden` (the residual stream) and `qkv` are float32, the others of the model's dtype.
    `attended_rows` is `attended` with the heads of a row joined.
    """

    hidden: torch.Tensor
    normed: torch.Tensor
    qkv: torch.Tensor
    q: torch.Tensor
    attended: torch.Tensor
    attended_rows: torch.Tensor
    gated: torch.Tensor

    @classmethod
    def allocate(cls, config: ModelConfig, dtype: torch.dtype, num_rows: int) -> "_Workspace":
        """Make room for `num_rows` rows."""
        num_heads, head_dim = config.num_heads, config.head_dim
        qkv_width = (num_heads + 2 * config.num_kv_heads) * head_dim
        attended = torch.empty(num_rows, num_heads, head_dim, dtype=dtype)
        return cls(
            hidden=torch.empty(num_rows, config.hidden),
            normed=torch.empty(num_rows, config.hidden, dtype=dtype),
            qkv=torch.empty(num_rows, qkv_width),
            q=torch.empty(num_rows, num_heads, head_dim, dtype=dtype),
            attended=attended,
            attended_rows=attended.view(num_rows, num_heads * head_dim),
            gated=torch.empty(num_rows, config.intermediate, dtype=dtype),
        )

    def first(self, num_rows: int) -> "_Workspace":
        """Return views of the first rows."""
        return _Workspace(
            hidden=self.hidden[:num_rows],
            normed=self.normed[:num_rows],
            qkv=self.qkv[:num_rows],
            q=self.q[:num_rows],
            attended=self.attended[:num_rows],
            attended_rows=self.attended_rows[:num_rows],
            gated=self.gated[:num_rows],
        )


def _check_lengths(index: AttentionIndex, slots: torch.Tensor, num_rows: int) -> None:
    """Check that the arrays of a batch fit together; what is wrong here is the engine's bug."""
    assert index.positions.shape[0] == num_rows, (index.positions.shape, num_rows)
    assert slots.shape[0] == num_rows, (slots.shape, num_rows)
    num_seqs = index.table_rows.shape[0]
    assert index.seq_starts.shape[0] == num_seqs + 1, (index.seq_starts.shape, num_seqs)
    assert int(index.seq_starts[num_seqs]) == num_rows, (index.seq_starts, num_rows)
