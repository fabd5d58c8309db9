"""Read a model's tensors and pack them for the kernels."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch

from lmc.errors import ModelError
from lmc.kernels.interface import Kernels, LinearPart, PackedLinear, RopeTable
from lmc.kernels.quantized import QuantizedWeight, quantize
from lmc.runtime.models.config import ModelConfig
from lmc.runtime.models.precision import Precision
from lmc.runtime.models.rope import inverse_frequencies, rope_table
from lmc.runtime.models.weights import WeightSource

Progress = Callable[[str, float], None]
"""Called with what is being done and the share done, 0 to 1."""

MAX_LISTED = 5

Tensor = TypeVar("Tensor", torch.Tensor, QuantizedWeight)


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The weights of one decoder layer; norms are float32."""

    attention_norm: torch.Tensor
    qkv: PackedLinear
    output: PackedLinear
    mlp_norm: torch.Tensor
    gate_up: PackedLinear
    down: PackedLinear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The weights of a decoder; `embedding` and `head` are the same object where tied."""

    embedding: PackedLinear
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: PackedLinear
    rope: RopeTable
    unknown_names: tuple[str, ...]


def load_weights(
    source: WeightSource,
    dtype: torch.dtype,
    kernels: Kernels,
    progress: Progress | None,
    precision: Precision,
) -> DecoderWeights:
    """Pack all weights of a model.

    Raises:
        ModelError: a tensor is missing or has another shape than the config says.
    """
    reader = _Reader(source, dtype, kernels, precision)
    config = source.config
    layers: list[LayerWeights] = []
    num_steps = config.num_layers + 1
    embedding = reader.matrix("model.embed_tokens", config.vocab_size, config.hidden)
    for number in range(config.num_layers):
        if progress is not None:
            progress("loading weights", (number + 1) / num_steps)
        layers.append(reader.layer(f"model.layers.{number}"))
    head = embedding
    if not config.tie_embeddings:
        head = reader.matrix("lm_head", config.vocab_size, config.hidden)
    norm = reader.vector("model.norm.weight", config.hidden)
    frequencies = inverse_frequencies(config, source.rope_factors)
    if progress is not None:
        progress("loading weights", 1.0)
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layers),
        norm=norm,
        head=head,
        rope=rope_table(frequencies, config.max_positions),
        unknown_names=reader.unknown_names(),
    )


def describe_unknown(names: tuple[str, ...]) -> str:
    """Say which tensors of a file were not used."""
    listed = ", ".join(names[:MAX_LISTED])
    rest = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"{len(names)} tensors of the model have no known meaning and are not used: " + (
        listed + rest
    )


class _Reader:
    """Takes tensors from a source, checks their shapes and packs them."""

    def __init__(
        self, source: WeightSource, dtype: torch.dtype, kernels: Kernels, precision: Precision
    ) -> None:
        self._source = source
        self._precision = precision
        self._int8_activations = precision.activations == "int8"
        self._config: ModelConfig = source.config
        self._dtype = dtype
        self._kernels = kernels
        self._used: set[str] = set()

    def layer(self, prefix: str) -> LayerWeights:
        """Read and pack one decoder layer."""
        config = self._config
        hidden, intermediate = config.hidden, config.intermediate
        q_width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        parts = [
            self.part(f"{attention}.{name}_proj", width, hidden, config.attention_bias)
            for name, width in (("q", q_width), ("k", kv_width), ("v", kv_width))
        ]
        output = self.part(f"{attention}.o_proj", hidden, q_width, config.attention_bias)
        gate = self.part(f"{mlp}.gate_proj", intermediate, hidden, config.mlp_bias)
        up = self.part(f"{mlp}.up_proj", intermediate, hidden, config.mlp_bias)
        down = self.part(f"{mlp}.down_proj", hidden, intermediate, config.mlp_bias)
        return LayerWeights(
            attention_norm=self.vector(f"{prefix}.input_layernorm.weight", hidden),
            qkv=self._pack(parts),
            output=self._pack([output]),
            mlp_norm=self.vector(f"{prefix}.post_attention_layernorm.weight", hidden),
            gate_up=self._pack_gated(gate, up),
            down=self._pack([down]),
        )

    def matrix(self, name: str, num_outputs: int, num_inputs: int) -> PackedLinear:
        """Read and pack an embedding or a head; the least that these are rounded to is int8."""
        weight = self._weight(f"{name}.weight", (num_outputs, num_inputs), least="Q8_0")
        return self._pack([LinearPart(weight)])

    def part(self, name: str, num_outputs: int, num_inputs: int, has_bias: bool) -> LinearPart:
        """Read a weight [n, k] and its bias, if the model has biases there."""
        weight = self._weight(f"{name}.weight", (num_outputs, num_inputs))
        bias = self.vector(f"{name}.bias", num_outputs) if has_bias else None
        return LinearPart(weight, bias)

    def _weight(
        self, name: str, shape: tuple[int, int], least: Literal["Q4_1", "Q8_0"] = "Q4_1"
    ) -> torch.Tensor | QuantizedWeight:
        """Read a weight as the precision wants it."""
        weights = self._precision.weights
        stored = self._source.quantized(name)
        if stored is None:
            weight = self._read(name, shape)
        elif weights == "stored":
            return self._checked(name, stored, shape)
        else:
            dtype = self._dtype if weights == "full" else torch.float32
            weight = self._kernels.dequantize(self._checked(name, stored, shape), dtype)
        if weights in ("full", "stored"):
            return weight
        return quantize(weight, "Q8_0" if weights == "int8" else least)

    def _pack(self, parts: list[LinearPart]) -> PackedLinear:
        return self._kernels.pack_linear(
            _of_one_kind(parts), self._dtype, int8_activations=self._int8_activations
        )

    def _pack_gated(self, gate: LinearPart, up: LinearPart) -> PackedLinear:
        return self._kernels.pack_gated(
            *_of_one_kind([gate, up]), self._dtype, int8_activations=self._int8_activations
        )

    def vector(self, name: str, size: int) -> torch.Tensor:
        """Read a float32 vector, rounded to the model's dtype as a checkpoint would hold it."""
        return self._read(name, (size,)).to(self._dtype).float()

    def unknown_names(self) -> tuple[str, ...]:
        """Return the tensors that nothing has asked for."""
        names = self._source.names() - self._used
        if self._config.tie_embeddings:
            names -= {"lm_head.weight"}
        return tuple(sorted(names, key=_natural_order))

    def _read(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """Read a tensor and check its shape."""
        return self._checked(name, self._source.tensor(name), shape)

    def _checked(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Note that a tensor was read and check its shape."""
        self._used.add(name)
        if tuple(tensor.shape) != shape:
            raise ModelError(
                f"the tensor {name!r} has shape {tuple(tensor.shape)}, the config wants {shape}",
                hint="config and weights do not belong together: download the model again",
            )
        return tensor


def _of_one_kind(parts: list[LinearPart]) -> list[LinearPart]:
    """Return parts that can be packed as one layer: dense ones where their kinds differ."""
    if len({part.kind for part in parts}) == 1:
        return parts
    return [
        LinearPart(
            part.weight.dequantize() if isinstance(part.weight, QuantizedWeight) else part.weight,
            part.bias,
        )
        for part in parts
    ]


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort layer 2 before layer 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
