"""How token spellings stand for bytes.

Byte-level vocabularies (GPT-2) write each byte as one printable character: printable
Latin-1 characters stand for themselves, the other 68 bytes for U+0100 onwards in order.
SentencePiece vocabularies write a blank as U+2581 and single bytes as <0xNN>.
"""

import re
from collections.abc import Iterable
from functools import cache

from lmc.codegen.tokenizer_spec import TokenizerSpec

_NO_BYTE = 0xFFFD
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


@cache
def byte_alphabet() -> str:
    """Return the character of each byte, in the order of the bytes."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return "".join(chr(b if b in printable else next(spare)) for b in range(256))


def spell_bytes(text: str) -> str:
    """Write text in the byte-level alphabet."""
    return text.encode().decode("latin-1").translate(_from_latin1())


def bytes_of_spelling(spelled: str) -> bytes:
    """Return the bytes that a spelling in the byte-level alphabet stands for.

    Raises:
        UnicodeEncodeError: a character outside the alphabet.
    """
    return spelled.translate(_to_latin1()).encode("latin-1")


@cache
def _from_latin1() -> dict[int, int]:
    return {byte: ord(char) for byte, char in enumerate(byte_alphabet())}


@cache
def _to_latin1() -> dict[int, int]:
    """Characters of Latin-1 outside the alphabet become one that Latin-1 does not have."""
    alphabet = {ord(char): byte for byte, char in enumerate(byte_alphabet())}
    return dict.fromkeys(range(256), _NO_BYTE) | alphabet


def bytes_of_tokens(spec: TokenizerSpec, vocab: Iterable[tuple[str, int]]) -> list[bytes | None]:
    """Return the bytes of each id; None for control tokens and ids without meaning.

    The list ends at the highest id with a meaning (control tokens have one).
    """
    silent = {*spec.unused_ids, *(token_id for token_id, _ in spec.controls)}
    whole = dict(spec.text_tokens)
    table: dict[int, bytes | None] = {token_id: None for token_id, _ in spec.controls}
    table |= {i: _plain(text, spec) for i, text in whole.items()}
    convert = _byte_level if spec.alphabet == "byte_level" else _sentencepiece
    for token, token_id in vocab:
        if token_id not in silent and token_id not in whole:
            table[token_id] = convert(token)
    return [table.get(token_id) for token_id in range(max(table, default=-1) + 1)]


def _plain(text: str, spec: TokenizerSpec) -> bytes:
    """Return the bytes of an added token, whose spelling is the text itself."""
    return (text.replace("\u2581", " ") if spec.alphabet == "metaspace" else text).encode()


def _byte_level(token: str) -> bytes | None:
    """Undo the byte-level alphabet; None for a spelling outside it."""
    try:
        return bytes_of_spelling(token)
    except UnicodeEncodeError:
        return None


def _sentencepiece(token: str) -> bytes:
    """Undo SentencePiece's spelling."""
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes([int(match[1], 16)])
    return token.replace("\u2581", " ").encode()
