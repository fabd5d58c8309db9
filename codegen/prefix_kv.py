"""The KV of constant prefixes, as a part of an artifact: bytes, and what they depend on.

    length of the header (u32) | header, JSON | data

The header has `binding` (what the bytes depend on, texts by name), `bytes_per_token` and
`prefixes`, a list of {"token_ids", "start"}. The data is, prefix after prefix, the KV of its
tokens from `start` on, in the form of the engine that made it; those before stand with an
earlier prefix. Nothing here knows what the bytes mean.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lmc.errors import ArtifactError
from lmc.ir.token_trie import common_len

MAX_PREFIXES = 32
"""Prefixes that are kept, the longest ones: as many as a backend keeps pinned."""

_LENGTH = struct.Struct("<I")
_DAMAGED = "compile the program again with --with-kv"

TokenIds = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KvPrefix:
    """A prefix, and the KV of its tokens from `start` on."""

    token_ids: TokenIds
    start: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class PrefixKv:
    """The prefixes of an artifact and what their KV depends on."""

    binding: dict[str, str]
    prefixes: tuple[KvPrefix, ...]

    def difference(self, binding: Mapping[str, str]) -> str | None:
        """Return the name of the first thing that is not as it was; None where all is."""
        for name in {**self.binding, **binding}:
            if self.binding.get(name) != binding.get(name):
                return name
        return None


def pack_kv(
    prefixes: Iterable[TokenIds],
    binding: Mapping[str, str],
    bytes_per_token: int,
    read: Callable[[TokenIds, int], bytes],
) -> bytes:
    """Return the bytes of some prefixes.

    Args:
        prefixes: their token ids.
        binding: what the bytes depend on.
        bytes_per_token: size of one token's KV.
        read: returns the KV of the tokens from a place on.
    """
    wanted = sorted({ids for ids in prefixes if ids}, key=lambda ids: (-len(ids), ids))
    made: list[tuple[TokenIds, int, bytes]] = []
    for ids in wanted[:MAX_PREFIXES]:
        start = max((common_len(ids, other) for other, _, _ in made), default=0)
        made.append((ids, start, read(ids, start)))
    header = {
        "binding": dict(binding),
        "bytes_per_token": bytes_per_token,
        "prefixes": [{"token_ids": list(ids), "start": start} for ids, start, _ in made],
    }
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(data for _, _, data in made)])


def unpack_kv(view: memoryview) -> PrefixKv:
    """Undo `pack_kv`; the data stays where it is.

    Raises:
        ArtifactError: the bytes are not what `pack_kv` writes.
    """
    try:
        (length,) = _LENGTH.unpack_from(view)
        header = json.loads(bytes(view[_LENGTH.size : _LENGTH.size + length]))
        binding = {str(name): str(value) for name, value in header["binding"].items()}
        size = header["bytes_per_token"]
        position = _LENGTH.size + length
        prefixes: list[KvPrefix] = []
        for item in header["prefixes"]:
            ids, start = tuple(item["token_ids"]), item["start"]
            if not all(type(token) is int and token >= 0 for token in (*ids, start, size)):
                raise TypeError("a token id, place or size is no number")
            if start > max((common_len(ids, other.token_ids) for other in prefixes), default=0):
                raise ValueError("a prefix goes on from tokens that are not there")
            end = position + (len(ids) - start) * size
            prefixes.append(KvPrefix(ids, start, view[position:end]))
            position = end
    except (LookupError, TypeError, ValueError, AttributeError, struct.error, RecursionError) as e:
        raise ArtifactError(f"the prefix KV is damaged: {e!r}", hint=_DAMAGED) from e
    if position != len(view):
        raise ArtifactError(
            f"the prefix KV is damaged: {len(view):,} bytes instead of {position:,}", hint=_DAMAGED
        )
    return PrefixKv(binding, tuple(prefixes))
