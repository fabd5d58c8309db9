"""Text to token ids and back: the Tokenizer protocol of ir over the package `tokenizers`.

User text never becomes a control id: control tokens are the added tokens that the model's
files mark as special (Hugging Face) or as of type control or unknown (GGUF), and encoding
takes their spellings as plain text. Added tokens that are *not* special (`<tool_call>`,
runs of blanks) are text: they encode to their own id, as the model saw it in training.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lmc.codegen.respelling import growth_of
from lmc.codegen.tokenizer_bytes import bytes_of_tokens
from lmc.codegen.tokenizer_cache import read_cached, write_cached
from lmc.codegen.tokenizer_forced import ForcedIds
from lmc.codegen.tokenizer_spec import FORMAT, TokenizerSpec
from lmc.codegen.tokenizer_stable import StableBorder
from lmc.errors import ModelError, UsageError
from lmc.ir.cache_folder import cache_folder

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as RustTokenizer

_DIRECTORY_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "config.json",
    "chat_template.jinja",
)
_GGUF_HEAD = 32 << 20
"""Bytes of a GGUF file that its cache key covers; a header is a tenth of this."""


class FastTokenizer:
    """A tokenizer that a TokenizerSpec describes; safe to share between threads."""

    def __init__(self, spec: TokenizerSpec) -> None:
        from tokenizers import Tokenizer

        self.spec = spec
        try:
            self._rust: RustTokenizer = Tokenizer.from_str(spec.model_json)
        except Exception as error:  # the package raises bare Exception
            raise ModelError(
                f"the tokenizer cannot be built: {error}",
                hint="fetch the model's files again, or upgrade the package `tokenizers`",
            ) from error
        self._rust.encode_special_tokens = True
        for token_id, text in (*spec.controls, *spec.text_tokens):
            if self._rust.token_to_id(text) != token_id:
                raise ModelError(
                    f"the tokenizer gives {text!r} the id {self._rust.token_to_id(text)}, "
                    f"but its files say {token_id}",
                    hint="fetch the model's files again, or upgrade the package `tokenizers`",
                )
        self._control_ids = {text: token_id for token_id, text in spec.controls}
        self._control_texts = dict(spec.controls)

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that decides how text becomes ids."""
        return self.spec.fingerprint

    @cached_property
    def vocab_size(self) -> int:
        """One more than the highest id with a meaning."""
        return len(self._table)

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Control ids that open every context."""
        return self.spec.start_ids

    @property
    def empty_context_id(self) -> int:
        """The id that stands in for a context without any token: BOS, else an end id."""
        return self.spec.empty_context_id

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a generation."""
        return frozenset(self.spec.eos_ids)

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        """Encode one text run; control tokens spelled in the text stay plain text.

        Characters whose bytes the vocabulary lacks are dropped, as the reference does
        (SmolLM2: a few C0 controls and planes 4 to 15 of Unicode).

        Args:
            text: the whole run.
            first: whether the run opens the context, where a dummy blank applies.

        Raises:
            UsageError: the text holds a lone surrogate, which no encoding can spell.
        """
        return self._encoding(self._with_prefix(text, first)).ids

    def stable_len(self, text: str, *, first: bool = False) -> int:
        """Return how many leading ids of `encode(text)` no continuation can change.

        Decided by the structure of the tokenizer (codegen.tokenizer_stable); for one whose
        structure is not recognised this is 0, which is always right.
        """
        prefixed = self._with_prefix(text, first)
        return self._border.stable_len(prefixed, self._encoding)

    def cut(self, text: str) -> int:
        """Return the last place at which text is cut whatever stands around it, else 0."""
        return self._forced.cut(text)

    def forced_ids(
        self, text: str, written: list[int], crosses: Callable[[bytes], bool] | None
    ) -> list[int] | None:
        """Return the ids that certainly follow `written`, which spell the start of `text`.

        See the protocol in lmc.ir.target.
        """
        return self._forced.after(text, written, crosses, self._encoding)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids; broken bytes become U+FFFD; control ids give ''."""
        table = self._table
        size = len(table)
        parts = [table[i] or b"" for i in token_ids if 0 <= i < size]
        return b"".join(parts).decode("utf-8", "replace")

    def token_bytes(self) -> Sequence[bytes | None]:
        """Return the bytes of every id below `vocab_size`.

        None for control tokens and for ids that stand for nothing.
        """
        return self._table

    @cached_property
    def growth(self) -> int:
        """How many tokens each generated token can become at the most, its text encoded anew.

        Looking at the whole vocabulary takes seconds; the number is kept in lmc's cache folder.
        """
        stored = cache_folder() / "tokenizers" / f"{self.fingerprint}.growth"
        text = read_cached(stored)
        if text is not None and text.isdecimal():
            return int(text)
        growth = growth_of(self)
        write_cached(stored, str(growth))
        return growth

    def control_id(self, token: str) -> int | None:
        """Return the id of a control token by its spelling."""
        return self._control_ids.get(token)

    def control_text(self, token_id: int) -> str | None:
        """Return the spelling of a control token."""
        return self._control_texts.get(token_id)

    @cached_property
    def _table(self) -> list[bytes | None]:
        vocab = self._rust.get_vocab(with_added_tokens=False)
        return bytes_of_tokens(self.spec, vocab.items())

    @cached_property
    def _border(self) -> StableBorder:
        return StableBorder(self._rust, self.spec)

    @cached_property
    def _forced(self) -> ForcedIds:
        return ForcedIds(self._border, self.spec, self._table)

    def _with_prefix(self, text: str, first: bool) -> str:
        """Put the dummy blank before the text that opens a context, where there is one."""
        if not first or not text or self.spec.dummy_prefix == "none":
            return text
        blanks = " \u2581" if self.spec.alphabet == "metaspace" else " "
        if self.spec.dummy_prefix == "unless_blank" and text[0] in blanks:
            return text
        return " " + text

    def _encoding(self, text: str) -> "Encoding":
        try:
            return self._rust.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as error:
            bad = next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)
            if bad is None:
                raise
            raise UsageError(
                f"the text holds a lone surrogate ({text[bad]!r}) at position {bad}",
                hint="decode bytes with errors='replace' before they reach a prompt",
            ) from error


def load_tokenizer(path: str | Path) -> FastTokenizer:
    """Load the tokenizer of a model: a directory in Hugging Face format or a GGUF file.

    What was read once is kept in lmc's cache folder, under a digest of the files' content.

    Raises:
        ModelError: missing, damaged or of an unsupported kind.
    """
    return FastTokenizer(load_spec(path))


def load_spec(path: str | Path) -> TokenizerSpec:
    """Return the tokenizer's spec from the cache, or read it from the model's files.

    Raises:
        ModelError: missing, damaged or of an unsupported kind.
    """
    source = Path(path)
    stored = cache_folder() / "tokenizers" / f"{_digest(source)}.json"
    text = read_cached(stored)
    if text is not None:
        try:
            return TokenizerSpec.load(text)
        except ModelError:
            pass  # written by another version of lmc: read the model's files again
    spec = _read_spec(source)
    write_cached(stored, spec.dump())
    return spec


def files_state(path: Path) -> tuple[object, ...]:
    """Return what changes when the files that decide the spec are written anew."""
    names = _DIRECTORY_FILES if path.is_dir() else ("",)
    files = [(path / name, name) for name in names if (path / name).is_file()]
    stats = [(name, file.stat()) for file, name in files]
    return tuple((name, s.st_mtime_ns, s.st_size, s.st_ino) for name, s in stats)


def _read_spec(path: Path) -> TokenizerSpec:
    if path.is_dir():
        from lmc.codegen.tokenizer_json import read_directory

        return read_directory(path)
    from lmc.codegen.tokenizer_gguf import read_metadata
    from lmc.gguf_file import read_gguf

    return read_metadata(read_gguf(path).metadata, path)


def _digest(path: Path) -> str:
    """Return a digest of the files that decide the spec."""
    digest = hashlib.blake2b(f"lmc tokenizer {FORMAT}\n".encode(), digest_size=20)
    try:
        if path.is_dir():
            for name in _DIRECTORY_FILES:
                if (path / name).is_file():
                    content = (path / name).read_bytes()
                    digest.update(f"{name} {len(content)}\n".encode() + content)
        else:
            with path.open("rb") as file:
                digest.update(f"gguf {path.stat().st_size}\n".encode())
                digest.update(file.read(_GGUF_HEAD))
    except OSError as error:
        raise ModelError(
            f"cannot read the model at {path}: {error.strerror}",
            hint="check the path, or run `lmc pull` to fetch the default model",
        ) from error
    return digest.hexdigest()
