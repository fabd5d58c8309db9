"""The shape of a Llama model, read from a Hugging Face `config.json` or a GGUF header."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lmc.errors import ModelError

SUPPORTED = "Llama (LlamaForCausalLM; SmolLM2, Llama 2 and 3 and their kind)"


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched for longer contexts.

    Attributes:
        kind: `linear` divides all frequencies by `factor`; `llama3` only the low ones.
        factor: by how much.
        low_freq_factor: llama3: wavelengths above original_max / this are stretched fully.
        high_freq_factor: llama3: wavelengths below original_max / this stay as they are.
        original_max_positions: llama3: the context length before stretching.
    """

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes and constants of a Llama model.

    `num_heads` query heads share `num_kv_heads` key-value heads of `head_dim` each; `hidden`
    and `intermediate` are the widths of the residual stream and of the gated MLP.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int
    vocab_size: int
    max_positions: int
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling | None = None
    rms_eps: float = 1e-6
    tie_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False

    def __post_init__(self) -> None:
        sizes = {
            name: getattr(self, name)
            for name in (
                "num_layers",
                "num_heads",
                "num_kv_heads",
                "head_dim",
                "hidden",
                "intermediate",
                "vocab_size",
                "max_positions",
            )
        }
        for name, size in sizes.items():
            if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
                raise ModelError(f"the model's config has {name} = {size!r}; a positive integer")
        if self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"{self.num_heads} query heads do not divide among {self.num_kv_heads} kv heads"
            )
        if self.head_dim % 2:
            raise ModelError(f"head_dim = {self.head_dim} is odd; rotary embedding needs pairs")


def config_from_directory(directory: Path) -> ModelConfig:
    """Read `config.json` of a model directory.

    Raises:
        ModelError: the file is missing or broken, or the architecture is not supported.
    """
    path = directory / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror}",
            hint="give a directory in Hugging Face format or a .gguf file",
        ) from error
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(raw, dict):
        raise ModelError(f"{path} does not hold a JSON object")
    return config_from_json(raw, str(path))


def config_from_json(raw: Mapping[str, Any], origin: str) -> ModelConfig:
    """Build the config from the contents of a `config.json`; `origin` names it in errors."""
    names = raw.get("architectures") or [raw.get("model_type")]
    if raw.get("model_type") != "llama" or names[0] not in ("LlamaForCausalLM", "llama"):
        raise _unsupported(f"architecture {names[0]!r}", origin)
    if raw.get("hidden_act", "silu") != "silu":
        raise _unsupported(f"activation {raw['hidden_act']!r}", origin)
    if raw.get("quantization_config"):
        raise _unsupported("quantized safetensors weights", origin)
    if raw.get("sliding_window") and raw.get("use_sliding_window", True):
        raise _unsupported("a sliding window of attention", origin)
    hidden, num_heads = _need(raw, "hidden_size", origin), _need(raw, "num_attention_heads", origin)
    theta, scaling = _rope_from_json(raw, origin)
    return ModelConfig(
        num_layers=_need(raw, "num_hidden_layers", origin),
        num_heads=num_heads,
        num_kv_heads=raw.get("num_key_value_heads") or num_heads,
        head_dim=raw.get("head_dim") or hidden // num_heads,
        hidden=hidden,
        intermediate=_need(raw, "intermediate_size", origin),
        vocab_size=_need(raw, "vocab_size", origin),
        max_positions=raw.get("max_position_embeddings", 2048),
        rope_theta=theta,
        rope_scaling=scaling,
        rms_eps=float(raw.get("rms_norm_eps", 1e-6)),
        tie_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bool(raw.get("attention_bias", False)),
        mlp_bias=bool(raw.get("mlp_bias", False)),
    )


def config_from_gguf(
    metadata: Mapping[str, Any], tensor_names: Mapping[str, Any], origin: str
) -> ModelConfig:
    """Build the config from a GGUF header; which tensors exist tells ties and biases."""
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise _unsupported(f"architecture {architecture!r}", origin)
    if metadata.get("llama.expert_count"):
        raise _unsupported("a mixture of experts", origin)
    if metadata.get("llama.attention.sliding_window"):
        raise _unsupported("a sliding window of attention", origin)
    values = {k.removeprefix("llama."): k for k in metadata if k.startswith("llama.")}

    def value(name: str, default: Any = None) -> Any:
        if name in values:
            return metadata[values[name]]
        if default is None:
            raise ModelError(f"{origin} lacks the metadata llama.{name}")
        return default

    hidden, num_heads = value("embedding_length"), value("attention.head_count")
    head_dim = value("attention.key_length", hidden // num_heads)
    if value("attention.value_length", head_dim) != head_dim:
        raise _unsupported("values of another size than keys", origin)
    if value("rope.dimension_count", head_dim) != head_dim:
        raise _unsupported("rotary embedding of a part of the head", origin)
    return ModelConfig(
        num_layers=value("block_count"),
        num_heads=num_heads,
        num_kv_heads=value("attention.head_count_kv", num_heads),
        head_dim=head_dim,
        hidden=hidden,
        intermediate=value("feed_forward_length"),
        vocab_size=_gguf_vocab_size(metadata, tensor_names, origin),
        max_positions=value("context_length"),
        rope_theta=value("rope.freq_base", 10000.0),
        rope_scaling=_gguf_scaling(metadata, origin),
        rms_eps=value("attention.layer_norm_rms_epsilon"),
        tie_embeddings="output.weight" not in tensor_names,
        attention_bias="blk.0.attn_q.bias" in tensor_names,
        mlp_bias="blk.0.ffn_up.bias" in tensor_names,
    )


def _gguf_vocab_size(metadata: Mapping[str, Any], tensors: Mapping[str, Any], origin: str) -> int:
    """Return the number of rows of the embedding."""
    if "token_embd.weight" not in tensors:
        raise ModelError(f"{origin} lacks the tensor token_embd.weight")
    return tensors["token_embd.weight"].shape[0]


def _gguf_scaling(metadata: Mapping[str, Any], origin: str) -> RopeScaling | None:
    """Return the scaling that the metadata name; llama3's comes as a tensor of factors."""
    kind = metadata.get("llama.rope.scaling.type", "none")
    factor = float(metadata.get("llama.rope.scaling.factor", 1.0))
    if kind == "none" or factor == 1.0:
        return None
    if kind != "linear":
        raise _unsupported(f"rope scaling {kind!r}", origin)
    return RopeScaling(kind="linear", factor=factor)


def _rope_from_json(raw: Mapping[str, Any], origin: str) -> tuple[float, RopeScaling | None]:
    """Return theta and scaling; newer configs put both into `rope_parameters`."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = rope.get("rope_theta", raw.get("rope_theta", 10000.0))
    if rope.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0)) != 1.0:
        raise _unsupported("rotary embedding of a part of the head", origin)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return float(theta), None
    if kind == "linear":
        return float(theta), RopeScaling(kind="linear", factor=float(_need(rope, "factor", origin)))
    if kind != "llama3":
        raise _unsupported(f"rope scaling {kind!r}", origin)
    return float(theta), RopeScaling(
        kind="llama3",
        factor=float(_need(rope, "factor", origin)),
        low_freq_factor=float(_need(rope, "low_freq_factor", origin)),
        high_freq_factor=float(_need(rope, "high_freq_factor", origin)),
        original_max_positions=int(_need(rope, "original_max_position_embeddings", origin)),
    )


def _need(raw: Mapping[str, Any], key: str, origin: str) -> Any:
    """Return a value that a config must have."""
    if key not in raw:
        raise ModelError(f"{origin} lacks {key!r}")
    return raw[key]


def _unsupported(what: str, origin: str) -> ModelError:
    """Say what is not supported and what is."""
    return ModelError(
        f"{origin} wants {what}, which is not supported", hint=f"supported: {SUPPORTED}"
    )
