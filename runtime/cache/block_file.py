"""Files of KV: one block of a prefix each.

    magic (8) | namespace (32) | parent (32) | token ids (i32 each) | KV | sha256 of all before

A block is BLOCK_TOKENS tokens of a prefix, and its key is the hash of its parent's key and its
tokens; the first block's parent is made of the namespace, the hash of all that the bytes of KV
depend on, and of whom the prefix belongs to. So a key stands for a model and for all tokens
down to the block's end, and whoever looks for a file knows every byte of it but the KV: nothing
that is read is parsed, only compared.
"""

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TokenArray = NDArray[np.int32]

BLOCK_TOKENS = 32
"""Tokens of a block: what ends within one is computed."""

MAGIC = b"lmc-kv 1"
SUFFIX = ".kv"
_DIGEST_SIZE = 32


class DamagedBlock(Exception):
    """A file that does not hold what its name says."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a prefix: the key of what comes before, its tokens, its own key."""

    parent: bytes
    tokens: bytes
    key: bytes

    @property
    def file_name(self) -> str:
        """Name of the file that holds the block's KV."""
        return self.key.hex() + SUFFIX


def namespace_of(binding: Mapping[str, str]) -> bytes:
    """Return the hash of what the bytes of KV depend on, 32 bytes."""
    return hashlib.sha256(json.dumps(dict(binding), sort_keys=True).encode()).digest()


def root_of(namespace: bytes, name: str) -> bytes:
    """Return what stands for the parent of the first blocks of one of a model's namespaces."""
    return hashlib.sha256(namespace + name.encode("utf-8", "surrogatepass")).digest()


def blocks_of(root: bytes, token_ids: TokenArray) -> list[Block]:
    """Return the whole blocks of a prefix, the first one first."""
    blocks: list[Block] = []
    parent = root
    for end in range(BLOCK_TOKENS, len(token_ids) + 1, BLOCK_TOKENS):
        tokens = token_ids[end - BLOCK_TOKENS : end].astype("<i4").tobytes()
        key = hashlib.sha256(parent + tokens).digest()
        blocks.append(Block(parent, tokens, key))
        parent = key
    return blocks


def file_size(bytes_per_token: int) -> int:
    """Return how many bytes a block's file has."""
    return len(MAGIC) + 3 * _DIGEST_SIZE + BLOCK_TOKENS * (4 + bytes_per_token)


def write_block(folder: Path, namespace: bytes, block: Block, data: bytes) -> None:
    """Write a block's file: whole under its name, or not at all.

    Raises:
        OSError: it cannot be written.
    """
    header = _header(namespace, block)
    digest = hashlib.sha256(header)
    digest.update(data)
    path = folder / block.file_name
    made = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines((header, data, digest.digest()))
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def read_block(folder: Path, namespace: bytes, block: Block, bytes_per_token: int) -> memoryview:
    """Return a block's KV.

    Raises:
        DamagedBlock: the file holds something else.
        FileNotFoundError: there is none.
        OSError: it cannot be read.
    """
    size = file_size(bytes_per_token)
    # A name that is no plain file must neither be followed nor block.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(folder / block.file_name, flags)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size:
            raise DamagedBlock(f"{found.st_size:,} bytes instead of {size:,}")
        view, filled = memoryview(bytearray(size)), 0
        while filled < size and (count := os.readv(file, [view[filled:]])):
            filled += count
    finally:
        os.close(file)
    header = _header(namespace, block)
    if filled < size or view[: len(header)] != header:
        raise DamagedBlock("a block of something else")
    if hashlib.sha256(view[:-_DIGEST_SIZE]).digest() != view[-_DIGEST_SIZE:]:
        raise DamagedBlock("the checksum does not fit")
    return view[len(header) : -_DIGEST_SIZE]


def _header(namespace: bytes, block: Block) -> bytes:
    return b"".join((MAGIC, namespace, block.parent, block.tokens))
