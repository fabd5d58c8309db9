"""Where a model's weights come from: one interface over directories and GGUF files."""

import hashlib
import json
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from lmc.errors import ModelError
from lmc.kernels.quantized import QuantizedWeight
from lmc.runtime.models.config import ModelConfig, config_from_directory

if TYPE_CHECKING:
    from safetensors import safe_open

WHOLE_HASH_BYTES = 256 << 20
"""Files up to this size are hashed whole; larger ones by samples."""

_SAMPLE_BYTES = 1 << 16
_NUM_SAMPLES = 1024
_IGNORED_SUFFIXES = ("rotary_emb.inv_freq",)


class WeightSource(Protocol):
    """Named tensors of one model, under the names that Hugging Face's Llama gives them."""

    @property
    def config(self) -> ModelConfig:
        """The model's shape."""
        ...

    @property
    def rope_factors(self) -> torch.Tensor | None:
        """Divisors of the rotary frequencies that the file carries, if any."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digest over the files that hold the weights."""
        ...

    def names(self) -> frozenset[str]:
        """Return the names of all tensors."""
        ...

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor as stored, or dequantized to float32.

        Raises:
            ModelError: there is none of that name, or it cannot be read.
        """
        ...

    def quantized(self, name: str) -> QuantizedWeight | None:
        """Return a matrix as it is stored if it is quantized in a kind that kernels know."""
        ...


def open_weights(path: str | os.PathLike[str]) -> WeightSource:
    """Open a GGUF file or a directory in Hugging Face format.

    Raises:
        ModelError: neither, or damaged, or of an unsupported kind.
    """
    place = Path(path)
    if place.is_dir():
        return SafetensorsWeights(place)
    if not place.exists():
        raise ModelError(
            f"no model at {place}",
            hint="give a directory in Hugging Face format or a .gguf file, or run `lmc pull`",
        )
    if place.suffix == ".gguf":
        from lmc.runtime.models.gguf_weights import GgufWeights

        return GgufWeights(place)
    raise ModelError(
        f"{place} is neither a directory nor a .gguf file",
        hint="give a directory in Hugging Face format or a .gguf file",
    )


class SafetensorsWeights:
    """Weights of a directory: one `model.safetensors`, or shards named by an index."""

    rope_factors = None

    def __init__(self, directory: Path) -> None:
        self.config = config_from_directory(directory)
        self._files: dict[str, Path] = {}  # tensor name -> its file
        self._open: dict[Path, safe_open] = {}
        for path in _shards(directory):
            self._files.update(dict.fromkeys(self._handle(path).keys(), path))

    @property
    def fingerprint(self) -> str:
        """Hex digest over the files that hold the weights."""
        return fingerprint_files(sorted(set(self._files.values())))

    def names(self) -> frozenset[str]:
        """Return the names of all tensors that mean something."""
        return frozenset(name for name in self._files if not name.endswith(_IGNORED_SUFFIXES))

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor as stored."""
        if name not in self._files:
            raise ModelError(
                f"the weights lack the tensor {name!r}",
                hint="the directory may be incomplete: download it again",
            )
        return self._handle(self._files[name]).get_tensor(name)

    def quantized(self, name: str) -> None:
        """Return None: these files hold no quantized weights."""

    def _handle(self, path: Path) -> "safe_open":
        """Return the open, memory-mapped file."""
        from safetensors import SafetensorError, safe_open

        if path not in self._open:
            try:
                self._open[path] = safe_open(str(path), framework="pt")
            except (OSError, SafetensorError) as error:
                raise ModelError(f"cannot read {path}: {error}") from error
        return self._open[path]


def _shards(directory: Path) -> list[Path]:
    """Return the safetensors files of a directory."""
    index = directory / "model.safetensors.index.json"
    if index.exists():
        try:
            names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ModelError(f"{index} is damaged: {error}") from error
        shards = [directory / name for name in sorted(set(names))]
    else:
        shards = [directory / "model.safetensors"]
    for path in shards:
        if not path.is_file() or path.parent != directory:
            raise ModelError(
                f"{directory} lacks the weights file {path.name}",
                hint="only safetensors weights are read; pickled .bin files are not",
            )
    return shards


def fingerprint_files(paths: Iterable[Path]) -> str:
    """Hash the contents of files; of large ones 1,024 samples of 64 KiB and the size."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{size}\n".encode())
        if size == 0:
            continue
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if size <= WHOLE_HASH_BYTES:
                digest.update(data)
                continue
            for i in range(_NUM_SAMPLES):
                start = (size - _SAMPLE_BYTES) * i // (_NUM_SAMPLES - 1)
                digest.update(data[start : start + _SAMPLE_BYTES])
    return digest.hexdigest()
