"""Read the header of a GGUF file: metadata and the table of tensors, nothing else.

The format is llama.cpp's (`ggml/docs/gguf.md`): magic, version, counts, typed key-value
pairs, tensor descriptions, then aligned tensor data. Opening walks the header once and
remembers where each value lies; arrays (vocabularies of 100,000 strings) are decoded when
they are asked for. Tensor data stay on disk.
"""

import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lmc.errors import ModelError

MAGIC = b"GGUF"
SUPPORTED_VERSIONS = (2, 3)
MAX_DIMENSIONS = 8

_STRING = 8
_ARRAY = 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}

# ggml type -> (elements in a block, bytes of a block), as in ggml's type table.
BLOCK_SIZES: dict[int, tuple[int, int]] = {
    0: (1, 4),  # F32
    1: (1, 2),  # F16
    2: (32, 18),  # Q4_0
    3: (32, 20),  # Q4_1
    6: (32, 22),  # Q5_0
    7: (32, 24),  # Q5_1
    8: (32, 34),  # Q8_0
    9: (32, 40),  # Q8_1
    10: (256, 84),  # Q2_K
    11: (256, 110),  # Q3_K
    12: (256, 144),  # Q4_K
    13: (256, 176),  # Q5_K
    14: (256, 210),  # Q6_K
    15: (256, 292),  # Q8_K
    16: (256, 66),  # IQ2_XXS
    17: (256, 74),  # IQ2_XS
    18: (256, 98),  # IQ3_XXS
    19: (256, 50),  # IQ1_S
    20: (32, 18),  # IQ4_NL
    21: (256, 110),  # IQ3_S
    22: (256, 82),  # IQ2_S
    23: (256, 136),  # IQ4_XS
    24: (1, 1),  # I8
    25: (1, 2),  # I16
    26: (1, 4),  # I32
    27: (1, 8),  # I64
    28: (1, 8),  # F64
    29: (256, 56),  # IQ1_M
    30: (1, 2),  # BF16
    34: (256, 54),  # TQ1_0
    35: (256, 66),  # TQ2_0
    39: (32, 17),  # MXFP4
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies in the file.

    Attributes:
        name: llama.cpp's name, like `blk.0.attn_q.weight`.
        shape: sizes in torch's order (rows first).
        ggml_type: number of ggml's storage type.
        offset: absolute position of the data in the file, bytes.
        n_bytes: size of the data in bytes.
    """

    name: str
    shape: tuple[int, ...]
    ggml_type: int
    offset: int
    n_bytes: int


class GgufMetadata(Mapping[str, Any]):
    """Metadata of a file; a value is decoded when it is read, and then kept."""

    def __init__(self, reader: "_Reader", places: dict[str, tuple[int, int]]) -> None:
        self._reader = reader
        self._places = places
        self._values: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._values:
            kind, position = self._places[key]
            self._values[key] = self._reader.value(kind, position)
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of a GGUF file.

    Attributes:
        metadata: key to value: numbers, booleans, str, and lists of these.
        tensors: tensor name to its description.
        path: the file.
    """

    metadata: Mapping[str, Any]
    tensors: Mapping[str, GgufTensor]
    path: str


def read_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Open a GGUF file and read its header.

    Raises:
        ModelError: no such file, not a GGUF file, unsupported version or type, truncated.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    except OSError as error:
        raise ModelError(
            f"cannot open the model file {name}: {error.strerror}",
            hint="check the path, or run `lmc pull` to fetch the default model",
        ) from error
    return _read_header(_Reader(data, name))


def _read_header(reader: "_Reader") -> GgufFile:
    """Read magic, version, metadata and tensor table."""
    if len(reader.data) < 4 or reader.data[:4] != MAGIC:
        raise ModelError(
            f"{reader.name} is not a GGUF file: it starts with {bytes(reader.data[:4])!r}, "
            f"not {MAGIC!r}",
            hint="give a .gguf file or a directory in Hugging Face format",
        )
    (version,), position = reader.unpack("I", 4)
    if version not in SUPPORTED_VERSIONS:
        raise ModelError(
            f"{reader.name} has GGUF version {_describe_version(version)}; "
            f"supported: {', '.join(map(str, SUPPORTED_VERSIONS))}",
            hint="convert the model again with a current llama.cpp, little-endian",
        )
    (num_tensors, num_values), position = reader.unpack("QQ", position)
    places, position = _scan_metadata(reader, num_values, position)
    metadata = GgufMetadata(reader, places)
    tensors = _read_tensors(reader, num_tensors, position, metadata)
    return GgufFile(metadata=metadata, tensors=tensors, path=reader.name)


def _describe_version(version: int) -> str:
    """Name a version number; a byte-swapped one is called big-endian."""
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    return f"{swapped} in big-endian order" if swapped in SUPPORTED_VERSIONS else str(version)


def _scan_metadata(
    reader: "_Reader", count: int, position: int
) -> tuple[dict[str, tuple[int, int]], int]:
    """Return the type and place of each value, and where the metadata ends."""
    places: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        key, position = reader.string(position)
        (kind,), position = reader.unpack("I", position)
        if key in places:
            raise ModelError(f"{reader.name} is damaged: the key {key!r} occurs twice")
        places[key] = (kind, position)
        position = reader.skip(kind, position)
    return places, position


def _read_tensors(
    reader: "_Reader", count: int, position: int, metadata: Mapping[str, Any]
) -> dict[str, GgufTensor]:
    """Read the tensor table and check that every tensor lies inside the file."""
    entries: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(count):
        name, position = reader.string(position)
        (num_dims,), position = reader.unpack("I", position)
        if num_dims > MAX_DIMENSIONS:
            raise ModelError(f"{reader.name} is damaged: {name!r} has {num_dims} dimensions")
        sizes, position = reader.unpack(f"{num_dims}Q", position)
        (ggml_type, offset), position = reader.unpack("IQ", position)
        entries.append((name, tuple(reversed(sizes)), ggml_type, offset))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0:
        raise ModelError(f"{reader.name} is damaged: its alignment is {alignment!r}")
    start = -(-position // alignment) * alignment
    tensors: dict[str, GgufTensor] = {}
    for name, shape, ggml_type, offset in entries:
        if name in tensors:
            raise ModelError(f"{reader.name} is damaged: the tensor {name!r} occurs twice")
        n_bytes = _tensor_bytes(reader.name, name, shape, ggml_type)
        reader.require(start + offset + n_bytes)
        tensors[name] = GgufTensor(name, shape, ggml_type, start + offset, n_bytes)
    return tensors


def _tensor_bytes(path: str, name: str, shape: tuple[int, ...], ggml_type: int) -> int:
    """Return the stored size of a tensor."""
    if ggml_type not in BLOCK_SIZES:
        raise ModelError(
            f"{path}: the tensor {name!r} has the unknown storage type {ggml_type}",
            hint="use a file with a common type such as F16, Q8_0 or Q4_K_M",
        )
    elements, n_bytes = BLOCK_SIZES[ggml_type]
    if shape and shape[-1] % elements:
        raise ModelError(
            f"{path} is damaged: rows of {name!r} have {shape[-1]} elements, "
            f"no multiple of {elements}"
        )
    return prod(shape) // elements * n_bytes


class _Reader:
    """Typed reads from the mapped file, each checked against its end."""

    def __init__(self, data: "mmap.mmap | bytes", name: str) -> None:
        self.data = data
        self.name = name
        self._size = len(data)

    def require(self, end: int) -> None:
        """Raise ModelError unless the file reaches up to `end`."""
        if end > self._size:
            raise ModelError(
                f"{self.name} is truncated: {self._size} bytes, at least {end} expected",
                hint="download the file again",
            )

    def unpack(self, layout: str, position: int) -> tuple[tuple[Any, ...], int]:
        """Read little-endian numbers; return them and the position behind them."""
        packed = struct.Struct("<" + layout)
        end = position + packed.size
        self.require(end)
        return packed.unpack_from(self.data, position), end

    def string(self, position: int) -> tuple[str, int]:
        """Read a string; bytes that are no UTF-8 become lone surrogates."""
        (length,), position = self.unpack("Q", position)
        end = position + length
        self.require(end)
        return self.data[position:end].decode("utf-8", "surrogateescape"), end

    def skip(self, kind: int, position: int) -> int:
        """Return the position behind a value."""
        if kind == _STRING:
            (length,), position = self.unpack("Q", position)
            end = position + length
        elif kind == _ARRAY:
            (item_kind, count), position = self.unpack("IQ", position)
            end = self._skip_items(item_kind, count, position)
        else:
            end = position + struct.calcsize("<" + self._scalar(kind))
        self.require(end)
        return end

    def _skip_items(self, kind: int, count: int, position: int) -> int:
        """Return the position behind the items of an array."""
        if kind == _STRING:
            return self._skip_strings(count, position)
        return position + count * struct.calcsize("<" + self._scalar(kind))

    def _skip_strings(self, count: int, position: int) -> int:
        """Return the position behind `count` strings (a plain loop: this is the hot one)."""
        data, read_length = self.data, struct.Struct("<Q").unpack_from
        try:
            for _ in range(count):
                position += 8 + read_length(data, position)[0]
        except (struct.error, OverflowError):
            self.require(position + 8)
            raise
        return position

    def value(self, kind: int, position: int) -> Any:
        """Decode the value at a position that `skip` has passed before."""
        if kind == _STRING:
            return self.string(position)[0]
        if kind != _ARRAY:
            return self.unpack(self._scalar(kind), position)[0][0]
        (item_kind, count), position = self.unpack("IQ", position)
        if item_kind == _STRING:
            return self._strings(count, position)
        return list(self.unpack(f"{count}{self._scalar(item_kind)}", position)[0])

    def _strings(self, count: int, position: int) -> list[str]:
        """Decode an array of strings."""
        data, read_length = self.data, struct.Struct("<Q").unpack_from
        texts: list[str] = []
        for _ in range(count):
            start = position + 8
            position = start + read_length(data, position)[0]
            texts.append(data[start:position].decode("utf-8", "surrogateescape"))
        return texts

    def _scalar(self, kind: int) -> str:
        """Return the struct code of a scalar type (arrays of arrays have none)."""
        if kind not in _SCALARS:
            raise ModelError(f"{self.name} is damaged: unexpected metadata type {kind}")
        return _SCALARS[kind]
