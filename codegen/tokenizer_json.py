"""From Hugging Face files (tokenizer.json and its companions) to a TokenizerSpec.

What the pre-tokenizer and normalizer do is recognised by structure, never by a model's
name; a structure that is not recognised still encodes as the file says, only that no token
of an open text run then counts as stable.
"""

import json
from pathlib import Path
from typing import Any

from lmc.codegen.tokenizer_spec import DummyPrefix, Splitter, TokenizerSpec, canonical_json
from lmc.errors import ModelError

GPT2_TAIL = r"|\s+(?!\S)|\s+"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + GPT2_TAIL

LLAMA3_PATTERN = _WORDS + r"\p{N}{1,3}" + _MARKS
QWEN2_PATTERN = _WORDS + r"\p{N}" + _MARKS

_PATTERN_DIGITS = {LLAMA3_PATTERN: 3, QWEN2_PATTERN: 1}
"""Known split patterns, with the longest run of digits that each keeps together."""

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def split_pattern(pattern: str) -> dict[str, Any]:
    """Return a byte-level pre-tokenizer that cuts by one regular expression."""
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return {"type": "Sequence", "pretokenizers": [split, {**BYTE_LEVEL, "use_regex": False}]}


def digits_pattern() -> dict[str, Any]:
    """Return a byte-level pre-tokenizer that also cuts around each digit."""
    digits = {"type": "Digits", "individual_digits": True}
    return {"type": "Sequence", "pretokenizers": [digits, dict(BYTE_LEVEL)]}


def read_directory(path: Path) -> TokenizerSpec:
    """Read the tokenizer of a directory in Hugging Face format.

    Raises:
        ModelError: a file is missing, damaged or of an unsupported kind.
    """
    if not (path / "tokenizer.json").is_file():
        raise ModelError(
            f"{path} has no tokenizer.json",
            hint="save the model with a fast tokenizer (transformers: "
            "AutoTokenizer.from_pretrained(...).save_pretrained(...))",
        )
    data = read_json(path / "tokenizer.json")
    config = _read_optional(path / "tokenizer_config.json")
    add_missing_tokens(data, config)
    start_ids = _start_ids(data, config)
    controls = control_tokens(data)
    by_text = {text: token_id for token_id, text in controls}
    eos_ids = _eos_ids(path, config, by_text)
    bos = by_text.get(_token_text(config.get("bos_token")) or "")
    return make_spec(
        data,
        source=str(path),
        start_ids=start_ids,
        eos_ids=eos_ids,
        bos_id=start_ids[0] if start_ids else bos,
        chat_template=_chat_template(path, config),
        template_tokens=_template_tokens(config),
    )


def make_spec(
    data: dict[str, Any],
    *,
    source: str,
    start_ids: tuple[int, ...],
    eos_ids: tuple[int, ...],
    bos_id: int | None,
    chat_template: str | None,
    template_tokens: tuple[tuple[str, str], ...],
    unused_ids: tuple[int, ...] = (),
) -> TokenizerSpec:
    """Reduce tokenizer JSON to a spec; `data` is changed in place.

    Raises:
        ModelError: not a BPE tokenizer that can spell every text.
    """
    model = data.get("model") or {}
    if model.get("type", "BPE") != "BPE" or "merges" not in model:
        kind = model.get("type", "unknown")
        raise ModelError(
            f"the tokenizer of {source} is of the kind {kind}; supported: BPE",
            hint="use a model with a byte-level or SentencePiece BPE tokenizer",
        )
    is_metaspace = _uses_metaspace(data)
    _check_alphabet(model, is_metaspace, source)
    dummy_prefix = _take_dummy_prefix(data)
    splitter, digit_group = _recognise(data)
    for key in ("post_processor", "decoder", "truncation", "padding"):
        data[key] = None
    model["dropout"] = None
    empty = bos_id if bos_id is not None else next(iter(eos_ids), 0)
    return TokenizerSpec(
        model_json=canonical_json(data),
        controls=control_tokens(data),
        text_tokens=_text_tokens(data),
        unused_ids=unused_ids,
        start_ids=start_ids,
        eos_ids=tuple(sorted(set(eos_ids))),
        empty_context_id=empty,
        dummy_prefix=dummy_prefix,
        alphabet="metaspace" if is_metaspace else "byte_level",
        splitter=splitter,
        digit_group=digit_group,
        is_nfc=(data.get("normalizer") or {}).get("type") == "NFC",
        chat_template=chat_template,
        template_tokens=template_tokens,
    )


def control_tokens(data: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    """Return (id, spelling) of the added tokens that are marked special."""
    added = data.get("added_tokens") or []
    return tuple(sorted((t["id"], t["content"]) for t in added if t.get("special")))


def _text_tokens(data: dict[str, Any]) -> tuple[tuple[int, str], ...]:
    """Return (id, spelling) of the added tokens that are ordinary text."""
    added = data.get("added_tokens") or []
    return tuple(sorted((t["id"], t["content"]) for t in added if not t.get("special")))


def pre_tokenizers(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pre-tokenizer's steps."""
    return _steps(data.get("pre_tokenizer"), "pretokenizers")


def _normalizers(data: dict[str, Any]) -> list[dict[str, Any]]:
    return _steps(data.get("normalizer"), "normalizers")


def _steps(step: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """Flatten nested sequences of steps."""
    if not step:
        return []
    if step.get("type") != "Sequence":
        return [step]
    return [inner for part in step[key] for inner in _steps(part, key)]


def _uses_metaspace(data: dict[str, Any]) -> bool:
    """Whether blanks are spelled as U+2581 (SentencePiece) rather than byte-level."""
    if any(step["type"] == "ByteLevel" for step in pre_tokenizers(data)):
        return False
    return any(step["type"] == "Metaspace" for step in pre_tokenizers(data)) or any(
        step["type"] == "Replace" and step.get("content") == "\u2581" for step in _normalizers(data)
    )


def _check_alphabet(model: dict[str, Any], is_metaspace: bool, source: str) -> None:
    """Make sure that an unknown character can never become a control id.

    A byte-level vocabulary may lack bytes (SmolLM2 lacks 21): such characters are dropped,
    as the reference does where it has no unknown token.
    """
    if not is_metaspace:
        model["unk_token"] = None
    elif not (
        model.get("byte_fallback") and all(f"<0x{b:02X}>" in model["vocab"] for b in range(256))
    ):
        raise ModelError(
            f"the tokenizer of {source} cannot spell every text (no byte fallback)",
            hint="use a model whose tokenizer is byte-level or has byte fallback",
        )


def _take_dummy_prefix(data: dict[str, Any]) -> DummyPrefix:
    """Take the dummy blank out of the JSON and return which kind it was."""
    found: DummyPrefix = "none"
    for step in pre_tokenizers(data):
        if step["type"] == "ByteLevel" and step.get("add_prefix_space"):
            step["add_prefix_space"] = False
            found = "unless_blank"
        elif step["type"] == "Metaspace":
            scheme = step.get("prepend_scheme") or (
                "always" if step.get("add_prefix_space", True) else "never"
            )
            step.pop("add_prefix_space", None)
            step["prepend_scheme"] = "never"
            found = found if scheme == "never" else "unless_blank"
    kept = [step for step in _normalizers(data) if step["type"] != "Prepend"]
    if len(kept) != len(_normalizers(data)):
        found = "always"
    data["normalizer"] = _sequence(kept)
    return found


def _sequence(steps: list[dict[str, Any]]) -> dict[str, Any] | None:
    if len(steps) < 2:
        return steps[0] if steps else None
    return {"type": "Sequence", "normalizers": steps}


def _recognise(data: dict[str, Any]) -> tuple[Splitter, int]:
    """Return the splitter and its digit group, "unknown" where nothing can be promised."""
    model = data["model"]
    odd = (
        model.get("continuing_subword_prefix")
        or model.get("end_of_word_suffix")
        or any(t.get("lstrip") or t.get("rstrip") or t.get("single_word")
               for t in data.get("added_tokens") or [] if not t.get("special"))
    )  # fmt: skip
    if odd:
        return "unknown", 0
    normalizer = data.get("normalizer")
    kind = (normalizer or {}).get("type")
    match pre_tokenizers(data):
        case [{"type": "ByteLevel", "use_regex": True}] if kind in (None, "NFC"):
            return "regex", 0
        case [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "use_regex": True},
        ] if kind in (None, "NFC"):
            return "regex", 1
        case [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"} as split,
            {"type": "ByteLevel", "use_regex": False},
        ] if kind in (None, "NFC") and pattern in _PATTERN_DIGITS and not split.get("invert"):
            return "regex", _PATTERN_DIGITS[pattern]
        case [{"type": "Metaspace", "replacement": "\u2581"} as step] if kind is None:
            return ("blanks" if step.get("split", True) else "whole"), 0
        case [] if _is_blank_replace(normalizer):
            return "whole", 0
    return "unknown", 0


def _is_blank_replace(normalizer: dict[str, Any] | None) -> bool:
    """Whether the only normalisation is blank to U+2581."""
    return normalizer == {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}


def add_missing_tokens(data: dict[str, Any], config: dict[str, Any]) -> None:
    """Add tokens that only tokenizer_config.json declares."""
    added = data.setdefault("added_tokens", [])
    known = {token["id"] for token in added}
    for key, token in sorted(
        (config.get("added_tokens_decoder") or {}).items(), key=lambda item: int(item[0])
    ):
        if int(key) not in known:
            flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
            entry = {"id": int(key), "content": token["content"]}
            added.append(entry | {flag: bool(token.get(flag)) for flag in flags})
    added.sort(key=lambda token: token["id"])


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ModelError: not readable, or not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot read {path}: {error}", hint="fetch the model's files again"
        ) from error
    if not isinstance(value, dict):
        raise ModelError(
            f"{path} does not hold a JSON object", hint="fetch the model's files again"
        )
    return value


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _token_text(token: Any) -> str | None:
    """Return the text of a token given as text or as an object."""
    return token.get("content") if isinstance(token, dict) else token


def _start_ids(data: dict[str, Any], config: dict[str, Any]) -> tuple[int, ...]:
    """Return the ids that the file puts before a text: by flag, else by post-processor."""
    by_text = {token["content"]: token["id"] for token in data["added_tokens"]}
    bos = _token_text(config.get("bos_token"))
    flag = config.get("add_bos_token")
    if flag is not None:
        return (by_text[bos],) if flag and bos in by_text else ()
    steps = _steps(data.get("post_processor"), "processors")
    for step in (step for step in steps if step["type"] == "TemplateProcessing"):
        start: list[int] = []
        for piece in step["single"]:
            if "SpecialToken" not in piece:
                break
            start += step["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
        return tuple(start)
    return ()


def _eos_ids(path: Path, config: dict[str, Any], by_text: dict[str, int]) -> tuple[int, ...]:
    """Return the end ids: generation_config.json, else config.json, and the eos token."""
    found: set[int] = set()
    for name in ("generation_config.json", "config.json"):
        value = _read_optional(path / name).get("eos_token_id")
        if value is not None:
            found.update(value if isinstance(value, list) else [value])
            break
    eos = _token_text(config.get("eos_token"))
    if eos in by_text:
        found.add(by_text[eos])
    return tuple(sorted(found))


def _chat_template(path: Path, config: dict[str, Any]) -> str | None:
    """Return the chat template's source; of several named ones, the default."""
    if (path / "chat_template.jinja").is_file():
        return (path / "chat_template.jinja").read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        return named.get("default")
    return template


def _template_tokens(config: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    texts = ((name, _token_text(config.get(name))) for name in names)
    return tuple((name, text) for name, text in texts if text is not None)
