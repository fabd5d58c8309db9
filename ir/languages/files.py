"""LanguageFiles: compiled languages on disk, for the next process.

A file's name is a hash of the constraint and of all that its compilation depends on: the
compiler's own source, Python's version (patterns are read by its parser) and its Unicode. A
language does not depend on the tokenizer. A file that is damaged, or that belongs to something
else, reads as absent and is written anew. Several processes may share a folder: files come in by
one renaming, and those that were unused for longest go where they take too much room.
"""

import hashlib
import mmap
import os
import sys
import tempfile
import unicodedata
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import lmc.ir
from lmc.errors import ArtifactError
from lmc.ir.cache_folder import cache_folder
from lmc.ir.calls import Constraint
from lmc.ir.languages.compiling import Language, language_from_bytes

MAX_BYTES = 256 * 2**20
"""What the files of a folder may take together."""

_MAGIC = b"LMCLANG1"
_SUFFIX = ".lang"
_UNFINISHED = ".unfinished"
_KEY_BYTES = 32
_FRONT_ENDS = ("automata", "grammar", "json_schema")


class LanguageFiles:
    """A folder of compiled languages; safe between threads and processes.

    What cannot be read or written costs time, never correctness.

    Args:
        folder: where they are; made when it is first written to.
        max_bytes: what they may take together.
    """

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes

    def find(self, constraint: Constraint) -> Language | None:
        """Return the language of a constraint, if it is here and whole."""
        key = _key(constraint)
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            found = _read(mapped, key)
            os.utime(path)  # the time of its last use
        except (OSError, ValueError, ArtifactError):  # ValueError: an empty file
            return None
        return found

    def store(self, constraint: Constraint, data: bytes) -> bool:
        """Keep the bytes of a constraint's language; return whether they could be."""
        key = _key(constraint)
        content = b"".join((_MAGIC, key, data))
        if len(content) > self.max_bytes:
            return False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._make_room(len(content))
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=_UNFINISHED)
        except OSError:
            return False
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, self._path(key))
        except OSError:
            Path(name).unlink(missing_ok=True)
            return False
        return True

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()}{_SUFFIX}"

    def _make_room(self, size: int) -> None:
        """Remove what was unused for longest until some bytes more fit."""
        found: list[tuple[int, int, str]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith((_SUFFIX, _UNFINISHED)):
                    with suppress(FileNotFoundError):  # another process has removed it
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_mtime_ns, status.st_size, entry.path))
        total = size + sum(taken for _, taken, _ in found)
        for _, taken, path in sorted(found):
            if total <= self.max_bytes:
                break
            Path(path).unlink(missing_ok=True)
            total -= taken


def language_files() -> LanguageFiles | None:
    """Return those of lmc's cache folder; None where $LMC_CONSTRAINT_CACHE is "off"."""
    if os.environ.get("LMC_CONSTRAINT_CACHE") == "off":
        return None
    return LanguageFiles(cache_folder() / "constraints")


def _read(mapped: mmap.mmap, key: bytes) -> Language:
    """Return the language of a file, if the file is that of a key.

    Raises:
        ArtifactError: it is not, or is damaged.
    """
    content, head = memoryview(mapped), len(_MAGIC) + _KEY_BYTES
    if bytes(content[:head]) != _MAGIC + key:
        raise ArtifactError("it holds another language", hint="remove it")
    return language_from_bytes(content[head:])


def _key(constraint: Constraint) -> bytes:
    source = constraint.source.encode("utf-8", "surrogatepass")
    kind = f"{_version()} {constraint.kind} ".encode()
    return hashlib.blake2b(kind + source, digest_size=_KEY_BYTES).digest()


@lru_cache(maxsize=1)
def _version() -> str:
    """Return a hash of what compiled languages depend on beside their sources."""
    state = hashlib.blake2b(digest_size=16)
    state.update(f"{sys.version} {unicodedata.unidata_version}".encode())
    root = Path(lmc.ir.__file__).parent
    for name in _FRONT_ENDS:
        for path in sorted((root / name).glob("*.py")):
            state.update(path.name.encode() + path.read_bytes())
    return state.hexdigest()
