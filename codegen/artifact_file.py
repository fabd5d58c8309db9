"""The file of an artifact: a header, a payload of named texts, and maybe the KV of prefixes.

    magic (8 bytes) | version (u32) | payload length (u64) | SHA-256 of the payload
    | KV length (u64) | SHA-256 of the KV | payload | KV

The payload is a zip of stored entries with fixed dates in a fixed order, so that the same
contents give the same bytes. Without KV its length and digest are zero.
"""

import hashlib
import io
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

from lmc.errors import ArtifactError

MAGIC = b"\x89LMC\r\n\x1a\n"
"""Begins every artifact; its line ends show whether a file was sent as text."""

FORMAT_VERSION = 2
OLD_VERSIONS = (1,)
"""Versions that were written once and are no longer read."""

HEADER = struct.Struct("<8sIQ32sQ32s")
ENTRIES = (
    "manifest.json",
    "captured.lmir",
    "module.lmir",
    "plan.json",
    "target.json",
    "pass_log.json",
)
MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAX_KV_BYTES = 4 * 1024 * 1024 * 1024
MAX_FILE_BYTES = HEADER.size + len(ENTRIES) * MAX_ENTRY_BYTES + MAX_KV_BYTES

AGAIN = "compile the program again"
_NO_DIGEST = bytes(32)
_PREFIX = struct.Struct("<8sI")


def join_file(contents: Mapping[str, bytes], kv: bytes = b"") -> bytes:
    """Return the bytes of an artifact.

    Args:
        contents: the text of each of `ENTRIES`.
        kv: the KV of its prefixes, or nothing.

    Raises:
        ArtifactError: something is larger than an artifact may hold.
    """
    for name, data in contents.items():
        if len(data) > MAX_ENTRY_BYTES:
            raise ArtifactError(
                f"its {name} would take {len(data):,} bytes, over the limit of {MAX_ENTRY_BYTES:,}",
                hint="pack fewer programs: prog.py:name,name",
            )
    if len(kv) > MAX_KV_BYTES:
        raise ArtifactError(
            f"the KV of its prefixes takes {len(kv):,} bytes, over the limit of {MAX_KV_BYTES:,}",
            hint="compile it without --with-kv, or pack fewer programs",
        )
    payload = _zip(contents)
    kv_digest = hashlib.sha256(kv).digest() if kv else _NO_DIGEST
    header = HEADER.pack(
        MAGIC, FORMAT_VERSION, len(payload), hashlib.sha256(payload).digest(), len(kv), kv_digest
    )
    return header + payload + kv


def split_file(data: bytes | bytearray) -> tuple[dict[str, bytes], memoryview]:
    """Return the entries and the KV of an artifact, after checking all of it.

    Raises:
        ArtifactError: foreign, of another version, damaged, cut off or added to; says which.
    """
    _check_start(data)
    if len(data) < HEADER.size:
        raise ArtifactError("the artifact is cut off in its header", hint=AGAIN)
    _, _, length, digest, kv_length, kv_digest = HEADER.unpack_from(data)
    whole, expected = len(data), HEADER.size + length + kv_length
    if whole != expected:
        what = "is cut off" if whole < expected else "has bytes added to it"
        raise ArtifactError(
            f"the artifact {what}: {whole:,} bytes instead of {expected:,}", hint=AGAIN
        )
    view = memoryview(data)
    payload, kv = view[HEADER.size : HEADER.size + length], view[HEADER.size + length :]
    if hashlib.sha256(payload).digest() != digest:
        raise ArtifactError("the artifact is damaged: its checksum is wrong", hint=AGAIN)
    if (hashlib.sha256(kv).digest() if kv_length else _NO_DIGEST) != kv_digest:
        raise ArtifactError(
            "the artifact is damaged: the checksum of its prefix KV is wrong", hint=AGAIN
        )
    return _unzip(bytes(payload)), kv


def _check_start(data: bytes | bytearray) -> None:
    """Check what the file begins with, and its version."""
    if not data.startswith(MAGIC):
        if data[:4] == MAGIC[:4]:
            raise ArtifactError(
                "the artifact was changed by a transfer as text", hint="copy it as binary"
            )
        raise ArtifactError("not an lmc artifact", hint="make one: lmc compile prog.py")
    if len(data) < _PREFIX.size:
        raise ArtifactError("the artifact is cut off in its header", hint=AGAIN)
    version = _PREFIX.unpack_from(data)[1]
    if version in OLD_VERSIONS:
        raise ArtifactError(
            f"the artifact has format {version}, this lmc reads format {FORMAT_VERSION}",
            hint=f"{AGAIN}, or run it with the lmc that made it",
        )
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"the artifact has format {version}, this lmc reads up to {FORMAT_VERSION}",
            hint="install a newer lmc, or compile the program again with this one",
        )
    if version != FORMAT_VERSION:
        raise ArtifactError(f"the artifact has format {version}, which never was", hint=AGAIN)


def read_file(path: Path) -> bytearray:
    """Return the bytes of an artifact; raises ArtifactError where it cannot be read.

    They are writable because tensors are made on them without a copy.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ArtifactError(f"{path} is over the limit of {MAX_FILE_BYTES:,} bytes")
        data = bytearray(size)
        with path.open("rb", buffering=0) as file:
            return data[: _read_into(file, memoryview(data))]
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror or error}", hint="check the path"
        ) from error


def _read_into(file: io.FileIO, view: memoryview) -> int:
    """Fill a buffer from a file; return how many bytes it gave."""
    done = 0
    while done < len(view) and (count := file.readinto(view[done:])):
        done += count
    return done


def write_file(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; raises ArtifactError where it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ArtifactError(
            f"cannot write {path}: {error.strerror or error}",
            hint="choose another place with -o",
        ) from error


def _zip(contents: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in ENTRIES:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, contents[name])
    return buffer.getvalue()


def _unzip(payload: bytes) -> dict[str, bytes]:
    """Return the entries; refuses what `_zip` does not write, whatever its checksum says."""
    try:
        with zipfile.ZipFile(io.BytesIO(payload)) as archive:
            entries = archive.infolist()
            if [entry.filename for entry in entries] != list(ENTRIES):
                raise ArtifactError("the artifact holds other entries than it should", hint=AGAIN)
            for entry in entries:
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise ArtifactError(f"its {entry.filename} is compressed", hint=AGAIN)
                if entry.file_size > MAX_ENTRY_BYTES:
                    raise ArtifactError(
                        f"its {entry.filename} is over the limit of {MAX_ENTRY_BYTES:,} bytes"
                    )
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, OSError) as error:
        raise ArtifactError(f"the artifact is damaged: {error}", hint=AGAIN) from error
