"""Write the default model for peers that do not read its GGUF file as it is.

    python benchmarks/peers/export_model.py FOLDER          # config, tokenizer, safetensors
    python benchmarks/peers/export_model.py --gguf FOLDER   # bf16.gguf, and the file as stored

Weights are dequantized and rounded to bfloat16, as lmc does it, so that all engines
multiply with the same numbers.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, dequantize
from safetensors.torch import save_file

from lmc.backends import open_target
from lmc.models_store import find_default
from lmc.runtime.models.config import ModelConfig
from lmc.runtime.models.gguf_weights import GgufWeights

STORED = "q4_1.gguf"
BYTES = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def config_json(config: ModelConfig, eos_id: int) -> dict[str, Any]:
    """Return config.json of a Llama model with tied embeddings."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.rms_eps,
        "rope_theta": config.rope_theta,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": eos_id,
        "torch_dtype": "bfloat16",
    }


def export_hf(folder: Path) -> None:
    """Write config.json, tokenizer files and model.safetensors in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = GgufWeights(find_default())
    tensors = {
        name: weights.tensor(name).to(torch.bfloat16).contiguous() for name in weights.names()
    }
    spec = open_target(None).tokenizer.spec  # type: ignore[attr-defined]
    eos_id = spec.eos_ids[0]
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": dict(spec.controls)[eos_id],
        "model_max_length": weights.config.max_positions,
        "chat_template": spec.chat_template,
    }
    # lmc decodes by itself, so its own form of the tokenizer has no decoder.
    model = json.loads(spec.model_json) | {"decoder": BYTES}
    (folder / "tokenizer.json").write_text(json.dumps(model), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = config_json(weights.config, eos_id)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def export_gguf(folder: Path) -> None:
    """Write the same model as a GGUF file in bfloat16, beside a copy of the stored one."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(find_default())
    writer = GGUFWriter(folder / "bf16.gguf", "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        part = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=part)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
            continue
        rounded = torch.from_numpy(np.array(values)).to(torch.bfloat16)
        writer.add_tensor(
            tensor.name,
            rounded.view(torch.uint8).numpy().reshape(rounded.shape[0], -1),
            raw_dtype=GGMLQuantizationType.BF16,
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shutil.copyfile(find_default(), folder / STORED)


def main() -> None:
    """Write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gguf", action="store_true", help="GGUF files for llama.cpp")
    options = parser.parse_args()
    (export_gguf if options.gguf else export_hf)(options.folder)


if __name__ == "__main__":
    main()
