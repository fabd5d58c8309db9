"""Writing GGUF files for tests."""

import struct

from gguf.constants import GGMLQuantizationType
from gguf.quants import quantize
from model_support import TINY, random_tensors

from lmc.runtime.models.gguf_weights import hf_name


class GgufWriter:
    """Writes GGUF files, as llama.cpp would for a Llama.

    `kinds` names the storage type of tensors that are not F32.
    """

    def __init__(self):
        self.values = b""
        self.num_values = 0
        self.tensors = {}
        self.kinds = {}

    def string(self, text):
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def add(self, key, kind, packed):
        self.values += self.string(key) + struct.pack("<I", kind) + packed
        self.num_values += 1

    def build(self, version=3):
        head = b"GGUF" + struct.pack("<IQQ", version, len(self.tensors), self.num_values)
        head += self.values
        offset, data = 0, b""
        for name, array in self.tensors.items():
            shape = array.shape[::-1]
            head += self.string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            kind = GGMLQuantizationType[self.kinds.get(name, "F32")]
            head += struct.pack("<IQ", kind, offset)
            raw = quantize(array.astype("<f4"), kind).tobytes()
            data += raw + bytes(-len(raw) % 32)
            offset = len(data)
        return head + bytes(-len(head) % 32) + data


def tiny_gguf(config=TINY, seed=0):
    """The same random model as `write_model` writes, in llama.cpp's names and row order."""
    writer = GgufWriter()
    writer.add("general.architecture", 8, writer.string("llama"))
    numbers = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "rope.dimension_count": config["head_dim"],
    }
    for key, number in numbers.items():
        writer.add(f"llama.{key}", 4, struct.pack("<I", number))
    writer.add("llama.rope.freq_base", 6, struct.pack("<f", config["rope_theta"]))
    eps = struct.pack("<f", config["rms_norm_eps"])
    writer.add("llama.attention.layer_norm_rms_epsilon", 6, eps)
    theirs = random_tensors(config, seed)
    layers = range(config["num_hidden_layers"])
    kinds = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split()
    names = [f"blk.{layer}.{kind}.weight" for layer in layers for kind in kinds]
    for name in ["token_embd.weight", "output_norm.weight", "output.weight", *names]:
        array = theirs[hf_name(name)].numpy()
        if ".attn_q." in name or ".attn_k." in name:
            halves = array.reshape(-1, 2, config["head_dim"] // 2, config["hidden_size"])
            array = halves.swapaxes(1, 2).reshape(array.shape)
        writer.tensors[name] = array
    return writer
