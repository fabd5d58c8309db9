"""From GGUF metadata to a TokenizerSpec.

Token types are llama.cpp's: 1 normal, 2 unknown, 3 control, 4 user defined (text that is
always one token), 5 unused, 6 byte. The pre-tokenizer is named, not described, so each
supported name stands for a structure here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmc.codegen.tokenizer_json import (
    BYTE_LEVEL,
    LLAMA3_PATTERN,
    QWEN2_PATTERN,
    digits_pattern,
    make_spec,
    split_pattern,
)
from lmc.codegen.tokenizer_spec import TokenizerSpec
from lmc.errors import ModelError

_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 2, 3, 4, 5

_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")
_GPT2 = ("gpt-2", "gpt2", "default")
_LLAMA3 = ("llama-bpe", "llama3", "llama-v3")
_QWEN2 = ("qwen2", "deepseek-r1-qwen")


def read_metadata(metadata: Mapping[str, Any], path: Path) -> TokenizerSpec:
    """Build the tokenizer that a GGUF file describes.

    Raises:
        ModelError: no tokenizer in the file, or one of an unsupported kind.
    """
    kind = metadata.get("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise ModelError(
            f"{path} has a tokenizer of the kind {kind!r}; supported: 'gpt2', 'llama'",
            hint="give the model's directory in Hugging Face format instead",
        )
    data = _byte_level(metadata, path) if kind == "gpt2" else _sentencepiece(metadata, path)
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    types = _types(metadata, len(tokens))
    data["added_tokens"] = _added_tokens(tokens, types)
    bos_id = metadata.get("tokenizer.ggml.bos_token_id")
    adds_bos = metadata.get("tokenizer.ggml.add_bos_token", _default_add_bos(metadata))
    eos_keys = [f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom")]
    return make_spec(
        data,
        source=str(path),
        start_ids=(bos_id,) if adds_bos and bos_id is not None else (),
        eos_ids=tuple(metadata[key] for key in eos_keys if key in metadata),
        bos_id=bos_id,
        chat_template=metadata.get("tokenizer.chat_template"),
        template_tokens=_template_tokens(metadata, tokens),
        unused_ids=tuple(i for i, kind in enumerate(types) if kind == _UNUSED),
    )


def _types(metadata: Mapping[str, Any], count: int) -> list[int]:
    types = metadata.get("tokenizer.ggml.token_type")
    return list(types) if types is not None else [1] * count


def _added_tokens(tokens: list[str], types: list[int]) -> list[dict[str, Any]]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": i, "content": tokens[i], **plain, "special": kind != _USER_DEFINED}
        for i, kind in enumerate(types)
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED)
    ]


def _default_add_bos(metadata: Mapping[str, Any]) -> bool:
    """What llama.cpp assumes where the file does not say."""
    is_llama = metadata.get("tokenizer.ggml.model") == "llama"
    return is_llama or metadata.get("tokenizer.ggml.pre") in _LLAMA3


def _template_tokens(metadata: Mapping[str, Any], tokens: list[str]) -> tuple[tuple[str, str], ...]:
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    ids = {new: metadata.get(f"tokenizer.ggml.{old}_token_id") for old, new in names.items()}
    return tuple((f"{name}_token", tokens[i]) for name, i in ids.items() if i is not None)


def _byte_level(metadata: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return tokenizer JSON for a byte-level BPE vocabulary."""
    pre = metadata.get("tokenizer.ggml.pre", "default")
    model = _bpe_model(
        metadata["tokenizer.ggml.tokens"],
        [line.split(" ", 1) for line in metadata["tokenizer.ggml.merges"]],
    )
    model["ignore_merges"] = pre in _LLAMA3
    normalizer = {"type": "NFC"} if pre in _QWEN2 else None
    return {
        "version": "1.0",
        "normalizer": normalizer,
        "pre_tokenizer": _pre_tokenizer(pre, path),
        "model": model,
    }


def _pre_tokenizer(pre: str, path: Path) -> dict[str, Any]:
    if pre in _DIGITS:
        return digits_pattern()
    if pre in _GPT2:
        return dict(BYTE_LEVEL)
    if pre in _LLAMA3:
        return split_pattern(LLAMA3_PATTERN)
    if pre in _QWEN2:
        return split_pattern(QWEN2_PATTERN)
    known = ", ".join((*_DIGITS, *_GPT2, *_LLAMA3, *_QWEN2))
    raise ModelError(
        f"{path} names the pre-tokenizer {pre!r}; supported: {known}",
        hint="give the model's directory in Hugging Face format instead",
    )


def _bpe_model(tokens: list[str], merges: list[list[str]]) -> dict[str, Any]:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": merges,
    }


def _sentencepiece(metadata: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return tokenizer JSON for a SentencePiece BPE vocabulary with byte fallback.

    SentencePiece merges whichever neighbours make the piece of the highest score; as a
    list of merges this is: every split of a piece into two pieces, ordered by the piece's
    score (Kudo and Richardson 2018, section 3.1).
    """
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    scores = metadata.get("tokenizer.ggml.scores")
    if scores is None:
        raise ModelError(
            f"{path} has a SentencePiece tokenizer without scores",
            hint="give the model's directory in Hugging Face format instead",
        )
    types = _types(metadata, len(tokens))
    model = _bpe_model(tokens, _merges_by_score(tokens, list(scores), types))
    model |= {"byte_fallback": True, "fuse_unk": True}
    normalizers: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    ]
    if metadata.get("tokenizer.ggml.add_space_prefix", True):
        normalizers.insert(0, {"type": "Prepend", "prepend": "\u2581"})
    return {
        "version": "1.0",
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "model": model,
    }


def _merges_by_score(tokens: list[str], scores: list[float], types: list[int]) -> list[list[str]]:
    """Return [left, right] pairs, the best-scored piece first."""
    pieces = {token: i for i, token in enumerate(tokens) if types[i] == 1}
    ranked: list[tuple[float, int, int, str, str]] = []
    for piece, i in pieces.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in pieces and right in pieces:
                ranked.append((-scores[i], pieces[left], pieces[right], left, right))
    ranked.sort()
    return [[left, right] for *_, left, right in ranked]
