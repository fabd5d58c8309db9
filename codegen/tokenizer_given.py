"""Tokenizers that are given as objects or files, for uses without a model.

An object of the packages `tokenizers` and `transformers` is read by its own JSON, so that it
goes the same way as a model's files.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmc.codegen.tokenizer import FastTokenizer, load_spec
from lmc.codegen.tokenizer_json import make_spec, read_json
from lmc.codegen.tokenizer_spec import TokenizerSpec
from lmc.errors import ModelError, UsageError

END_SPELLINGS = frozenset((
    "</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
    "<|end|>", "<end_of_turn>", "<|end_of_turn|>", "<|return|>", "<|EOT|>", "[EOS]",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
))  # fmt: skip
"""How control tokens that end a text are usually spelled, for files that do not name theirs."""


def tokenizer_of_object(found: Any) -> FastTokenizer | None:
    """Return the tokenizer of an object of `tokenizers` or `transformers`; None for another.

    Raises:
        ModelError: it is not BPE, or has no fast form.
    """
    inner = getattr(found, "backend_tokenizer", found)
    if hasattr(inner, "to_str") and hasattr(inner, "get_vocab"):
        end = getattr(found, "eos_token_id", None)
        ends = [] if end is None else end if isinstance(end, list) else [end]
        return FastTokenizer(_spec_of(json.loads(inner.to_str()), type(found).__name__, ends))
    if hasattr(found, "convert_tokens_to_ids"):
        raise ModelError(
            f"{type(found).__name__} has no fast tokenizer",
            hint="load it with use_fast=True, or give the path of its tokenizer.json",
        )
    return None


def tokenizer_of_file(path: Path) -> FastTokenizer:
    """Return the tokenizer of a tokenizer.json, a folder that holds one, or a GGUF file.

    Raises:
        ModelError: missing, damaged or of an unsupported kind.
    """
    if path.name == "tokenizer.json":
        path = path.parent  # its companions name the end tokens
    if path.suffix == ".json":
        return FastTokenizer(_spec_of(read_json(path), str(path), []))
    spec = load_spec(path)
    return FastTokenizer(spec if spec.eos_ids else replace(spec, eos_ids=_usual_ends(spec)))


def with_ends(tokenizer: FastTokenizer, ids: Iterable[int]) -> FastTokenizer:
    """Return a tokenizer with other end tokens.

    Raises:
        UsageError: there is no such id.
    """
    ends = tuple(sorted(set(ids)))
    wrong = [each for each in ends if not 0 <= each < tokenizer.vocab_size]
    if wrong:
        raise UsageError(
            f"there is no token {wrong[0]}; ids end at {tokenizer.vocab_size - 1}",
            hint="give ids of the tokenizer's own vocabulary",
        )
    return FastTokenizer(replace(tokenizer.spec, eos_ids=ends))


def _spec_of(data: dict[str, Any], source: str, ends: Iterable[int]) -> TokenizerSpec:
    data.setdefault("added_tokens", [])
    spec = make_spec(
        data, source=source, start_ids=(), eos_ids=tuple(ends), bos_id=None,
        chat_template=None, template_tokens=(),
    )  # fmt: skip
    return spec if spec.eos_ids else replace(spec, eos_ids=_usual_ends(spec))


def _usual_ends(spec: TokenizerSpec) -> tuple[int, ...]:
    return tuple(token_id for token_id, text in spec.controls if text in END_SPELLINGS)
