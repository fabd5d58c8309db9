"""Tokenizers of every supported structure, made from the oracle's vocabulary, and texts."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lmc.codegen.target import oracle_target
from lmc.codegen.tokenizer import FastTokenizer
from lmc.codegen.tokenizer_bytes import byte_alphabet
from lmc.codegen.tokenizer_gguf import read_metadata
from lmc.codegen.tokenizer_json import (
    BYTE_LEVEL,
    LLAMA3_PATTERN,
    QWEN2_PATTERN,
    digits_pattern,
    make_spec,
    split_pattern,
)

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def variant(*, replace: bool = False, **changes: Any) -> FastTokenizer:
    """Return the oracle's tokenizer with parts of its JSON changed.

    `replace` says that the model and the added tokens given take the oracle's place.
    """
    data = json.loads(oracle_target().tokenizer.spec.model_json)
    if replace:
        data |= {"model": {}, "added_tokens": []}
    data["model"] |= changes.pop("model", {})
    data["added_tokens"] += changes.pop("added_tokens", [])
    spec = make_spec(
        data | changes,
        source="a variant",
        start_ids=(),
        eos_ids=(2,),
        bos_id=1,
        chat_template=None,
        template_tokens=(),
    )
    return FastTokenizer(spec)


def text_token(token_id: int, content: str) -> dict[str, Any]:
    """Return an added token that is text."""
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": token_id, "content": content} | dict.fromkeys(flags, False)


@cache
def sentencepiece_metadata() -> dict[str, Any]:
    """Return GGUF metadata of a small SentencePiece vocabulary with byte fallback.

    Pieces are the oracle's tokens that are plain text, scored by their order.
    """
    table = oracle_target().tokenizer.token_bytes()
    words = [token.decode("utf-8", "replace") for token in table if token]
    pieces = [word.replace(" ", "\u2581") for word in words if "\ufffd" not in word]
    pieces += ["\u2581\u2581", "\u2581\u2581\u2581\u2581", "你", "好", "你好"]
    control = ["<unk>", "<s>", "</s>"]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    unique = list(dict.fromkeys([*control, *fallback, *pieces]))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": unique,
        "tokenizer.ggml.scores": [-float(i) for i in range(len(unique))],
        "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * (len(unique) - 259),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def _metaspace() -> FastTokenizer:
    spec = read_metadata(sentencepiece_metadata(), Path("small.gguf"))
    data = json.loads(spec.model_json)
    data["normalizer"] = None
    data["pre_tokenizer"] = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "first",
        "split": True,
    }
    made = make_spec(
        data,
        source="a variant",
        start_ids=(1,),
        eos_ids=(2,),
        bos_id=1,
        chat_template=None,
        template_tokens=(),
    )
    return FastTokenizer(made)


@cache
def tokenizers() -> dict[str, FastTokenizer]:
    """Return one tokenizer of each structure whose stable part is analysed."""
    size = oracle_target().tokenizer.vocab_size
    contents = ("<think>", "<think>\n\n", "the ")
    added = [text_token(size + i, content) for i, content in enumerate(contents)]
    return {
        "smollm": oracle_target().tokenizer,
        "gpt2": variant(pre_tokenizer=dict(BYTE_LEVEL)),
        "llama3": variant(
            pre_tokenizer=split_pattern(LLAMA3_PATTERN), model={"ignore_merges": True}
        ),
        "qwen2": variant(pre_tokenizer=split_pattern(QWEN2_PATTERN), normalizer={"type": "NFC"}),
        "added": variant(pre_tokenizer=digits_pattern(), added_tokens=added),
        "prefixed": variant(pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}),
        "sentencepiece": FastTokenizer(read_metadata(sentencepiece_metadata(), Path("small.gguf"))),
        "metaspace": _metaspace(),
    }


__all__ = ("byte_alphabet", "split_pattern")

NAMES = (
    "smollm", "gpt2", "llama3", "qwen2", "added", "prefixed", "sentencepiece", "metaspace"
)  # fmt: skip

ATOMS = (
    "a", "The", " the", " ", "  ", "\n", "\r\n", "\t", "'", "'s", "'r", "'re", "'\u017f", "e",
    "l", "S", "1", "12", "345", "\u00b2", "\u0663", "\u00e9", "e\u0301", "\u0301", "\u0323",
    "\u0338", "=", "<", "<think>", "<thi", "nk>", "\n\n", "<|im_end|>", "<|im_", "start|>", "!",
    "!!", "?", "你好", "世界", "ไทย", "한국", "\u1100\u1161\u11a8", "\uac00", "\u11a8", "हिन्दी",
    "😀", "\u200b", "\x04", "\x1c", "\x85", "\xa0", "\u2003", "\u3000", "\u2581", "-", "--",
    "ing", " un", "believ", "able", "\ufffd", "\u09c7", "\u09be", "</s>", "<unk>", "<0x0A>",
)  # fmt: skip
"""Pieces of text whose neighbourhood matters to some splitter, normalizer or vocabulary."""


def sample_texts() -> list[str]:
    """Return real text in seven languages and strings that are known to break things."""
    if not DATA.is_dir():
        pytest.skip(f"the shared data is not at {DATA}")
    texts: list[str] = json.loads((DATA / "strings" / "blns.json").read_text("utf-8"))
    for name in ("en", "zh", "ar_ru_hi_th_first8articles"):
        data = json.loads((DATA / "xquad" / f"xquad.{name}.json").read_text("utf-8"))
        parts = data.values() if "data" not in data else [data]
        for part in parts:
            rows = part["data"] if isinstance(part, dict) else part
            texts += [p["context"] for row in rows for p in row["paragraphs"]]
    return texts
