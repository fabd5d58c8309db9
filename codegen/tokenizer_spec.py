"""What a tokenizer is, as plain data: the form that is cached, shipped and fingerprinted.

Both readers (Hugging Face directory, GGUF metadata) end here, so that everything behind
sees one form. The part that the package `tokenizers` executes is its own JSON, reduced to
what turns text into ids: no post-processor (start ids are data here), no decoder (decoding
goes by token bytes), no padding or truncation, no dummy blank before a text.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from lmc.errors import ModelError

FORMAT = 1
"""Raised when the meaning of a stored spec changes; older ones are built again."""

DummyPrefix = Literal["none", "always", "unless_blank"]
Alphabet = Literal["byte_level", "metaspace"]
Splitter = Literal["regex", "blanks", "whole", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """One tokenizer.

    Attributes:
        model_json: JSON for `tokenizers.Tokenizer.from_str`, reduced as the module says.
        controls: (id, spelling) of the control tokens: added tokens marked special, or of
            GGUF type "control". Added tokens that are not special are text.
        text_tokens: (id, spelling) of added tokens that are text (GGUF "user defined").
        unused_ids: ids that stand for nothing.
        start_ids: control ids that open every context.
        eos_ids: control ids that end a generation.
        empty_context_id: id that stands in for an empty context.
        dummy_prefix: whether a blank goes before the text that opens a context: never,
            always, or where the text does not start with a blank.
        alphabet: how token spellings stand for bytes.
        splitter: how text is cut before merging: "regex" (the GPT-2 family of patterns, see
            codegen.tokenizer_stable), "blanks" (before each blank), "whole" (not at all),
            "unknown" (nothing is assumed).
        digit_group: longest run of digits that the splitter keeps together; 0: any.
        is_nfc: whether text is normalised to NFC first.
        chat_template: Jinja source of the chat template, if any.
        template_tokens: names such as `bos_token` that templates use, with their text.
    """

    model_json: str
    controls: tuple[tuple[int, str], ...]
    text_tokens: tuple[tuple[int, str], ...] = ()
    unused_ids: tuple[int, ...] = ()
    start_ids: tuple[int, ...] = ()
    eos_ids: tuple[int, ...] = ()
    empty_context_id: int = 0
    dummy_prefix: DummyPrefix = "none"
    alphabet: Alphabet = "byte_level"
    splitter: Splitter = "unknown"
    digit_group: int = 0
    is_nfc: bool = False
    chat_template: str | None = None
    template_tokens: tuple[tuple[str, str], ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 over everything that decides how text becomes ids and back."""
        facts = self._facts()
        for key in ("chat_template", "template_tokens"):
            del facts[key]
        digest = hashlib.sha256(_compact(facts).encode())
        digest.update(b"\n" + self.model_json.encode())
        return digest.hexdigest()

    def dump(self) -> str:
        """Return the stored form: a line of facts, then the tokenizer's JSON."""
        return f"{_compact(self._facts())}\n{self.model_json}\n"

    @classmethod
    def load(cls, text: str) -> "TokenizerSpec":
        """Read the stored form.

        Raises:
            ModelError: damaged, or of another format.
        """
        head, _, model_json = text.partition("\n")
        try:
            facts: dict[str, Any] = json.loads(head)
            if facts.pop("format") != FORMAT:
                raise ValueError("another format")
            fixed = {key: _freeze(value) for key, value in facts.items()}
            return cls(model_json=model_json.rstrip("\n"), **fixed)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                f"the stored tokenizer is damaged ({error})",
                hint="delete lmc's cache folder; it is built again",
            ) from error

    def _facts(self) -> dict[str, Any]:
        names = [name for name in self.__dataclass_fields__ if name != "model_json"]
        return {"format": FORMAT} | {name: getattr(self, name) for name in names}


def _freeze(value: Any) -> Any:
    """Turn lists into tuples, all the way down."""
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _compact(value: Any) -> str:
    """Return the one JSON text of a value."""
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))


def canonical_json(value: dict[str, Any]) -> str:
    """Return tokenizer JSON in one form whatever order and layout the file had."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
