"""Artifacts: a compiled program in one file, `prog.lmc`.

    magic (8 bytes) | version (u32) | payload length (u64) | SHA-256 of the payload | payload

The payload is a zip of stored entries with fixed dates in a fixed order, so that the same
program gives the same bytes: manifest.json, module.lmir, plan.json, target.json and
pass_log.json. All of it is text that is parsed; nothing in it is executed or unpickled.
"""

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmc.codegen.plan import PLAN_VERSION, Plan, PlanFunction
from lmc.codegen.plan_json import decode_attr, encode_attr, plan_from_json, plan_to_json
from lmc.errors import ArtifactError, LmcError
from lmc.ir.core import Module
from lmc.ir.printer import print_module
from lmc.ir.target import Target

MAGIC = b"\x89LMC\r\n\x1a\n"
"""Begins every artifact; its line ends show whether a file was sent as text."""

FORMAT_VERSION = 1
HEADER = struct.Struct("<8sIQ32s")
ENTRIES = ("manifest.json", "module.lmir", "plan.json", "target.json", "pass_log.json")
MAX_ENTRY_BYTES = 64 * 1024 * 1024
MAX_FILE_BYTES = len(ENTRIES) * MAX_ENTRY_BYTES
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A loaded artifact.

    Attributes:
        manifest: what the artifact says about itself: `name`, `entry`, `model`, `lmc_version`,
            `programs` (with parameters and doc), `host_imports`, `passes`.
        module_text: the IR after all passes.
        plan: what the executor runs.
        target: what the plan was made for: name, fingerprints, template pieces.
        pass_log: one record per pass.
    """

    manifest: dict[str, Any]
    module_text: str
    plan: Plan
    target: dict[str, Any]
    pass_log: list[Any]

    @property
    def entry(self) -> PlanFunction:
        """The program that is meant when none is named."""
        return self.plan.functions[self.manifest["entry"]]

    @property
    def doc(self) -> str:
        """The docstring of the entry."""
        return str(self.entry.attributes.get("doc") or "")

    @property
    def host_imports(self) -> list[str]:
        """Host functions that must be importable, as 'module:qualname'."""
        return list(self.manifest["host_imports"])

    def module(self) -> Module:
        """Parse the IR, to lower it again for another target."""
        from lmc.ir.parser import parse_module

        return parse_module(self.module_text)


def pack_artifact(
    *,
    module: Module,
    plan: Plan,
    target: Target,
    entry: str,
    pass_log: Sequence[Any] = (),
    lmc_version: str = "",
) -> bytes:
    """Return the bytes of an artifact.

    Args:
        module: the IR after all passes.
        plan: what it was lowered to.
        target: what it was lowered for.
        entry: the program that is meant when none is named.
        pass_log: a record per pass: a dict of plain data, or an object with `as_data()`.
        lmc_version: the version of lmc that compiled it.
    """
    log = [item.as_data() if hasattr(item, "as_data") else item for item in pass_log]
    contents = {
        "manifest.json": _json(_manifest(plan, target, entry, log, lmc_version)),
        "module.lmir": print_module(module).encode(),
        "plan.json": _json(plan_to_json(plan)),
        "target.json": _json(_target_data(target)),
        "pass_log.json": _json([encode_attr(item) for item in log]),
    }
    payload = _zip(contents)
    digest = hashlib.sha256(payload).digest()
    return HEADER.pack(MAGIC, FORMAT_VERSION, len(payload), digest) + payload


def save_artifact(
    path: str | Path,
    *,
    module: Module,
    plan: Plan,
    target: Target,
    entry: str,
    pass_log: Sequence[Any] = (),
    lmc_version: str = "",
) -> None:
    """Write an artifact; the file appears whole or not at all. Arguments as `pack_artifact`.

    Raises:
        ArtifactError: the file cannot be written.
    """
    data = pack_artifact(
        module=module, plan=plan, target=target, entry=entry, pass_log=pass_log,
        lmc_version=lmc_version,
    )  # fmt: skip
    path = Path(path)
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


def load_artifact(path: str | Path) -> Artifact:
    """Read an artifact.

    Raises:
        ArtifactError: missing, foreign, damaged, cut off, or written by a newer lmc; says which.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ArtifactError(f"{path} is over the limit of {MAX_FILE_BYTES:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"cannot read {path}: {error.strerror or error}", hint="check the path"
        ) from error
    try:
        return unpack_artifact(data)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error.message}", hint=error.hint) from error


def unpack_artifact(data: bytes) -> Artifact:
    """Return the artifact that some bytes hold; raises ArtifactError as `load_artifact` does."""
    contents = _unzip(_payload(data))
    loaded = {name: _from_json(name, contents[name]) for name in ENTRIES if name[-5:] == ".json"}
    plan = plan_from_json(loaded["plan.json"])
    manifest, target = loaded["manifest.json"], loaded["target.json"]
    try:
        manifest["programs"] = [decode_attr(item) for item in manifest["programs"]]
        is_whole = manifest["entry"] in plan.functions and isinstance(target["fingerprint"], str)
        pass_log = [decode_attr(item) for item in loaded["pass_log.json"]]
        module_text = contents["module.lmir"].decode()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the artifact is damaged: {error!r}", hint=_AGAIN) from error
    if not is_whole:
        raise ArtifactError("the artifact is damaged: its entry is missing", hint=_AGAIN)
    return Artifact(manifest, module_text, plan, target, pass_log)


_AGAIN = "compile the program again"


def _payload(data: bytes) -> bytes:
    """Check the header and return the payload."""
    if not data.startswith(MAGIC):
        if data[:4] == MAGIC[:4]:
            raise ArtifactError(
                "the artifact was changed by a transfer as text", hint="copy it as binary"
            )
        raise ArtifactError("not an lmc artifact", hint="make one: lmc compile prog.py")
    if len(data) < HEADER.size:
        raise ArtifactError("the artifact is cut off in its header", hint=_AGAIN)
    _, version, length, digest = HEADER.unpack_from(data)
    payload = data[HEADER.size :]
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"the artifact has format {version}, this lmc reads up to {FORMAT_VERSION}",
            hint="install a newer lmc, or compile the program again with this one",
        )
    if version < 1:
        raise ArtifactError(f"the artifact has format {version}, which never was", hint=_AGAIN)
    if len(payload) != length:
        what = "is cut off" if len(payload) < length else "has bytes added to it"
        raise ArtifactError(
            f"the artifact {what}: {len(payload):,} bytes instead of {length:,}", hint=_AGAIN
        )
    if hashlib.sha256(payload).digest() != digest:
        raise ArtifactError("the artifact is damaged: its checksum is wrong", hint=_AGAIN)
    return payload


def _zip(contents: dict[str, bytes]) -> bytes:
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
                raise ArtifactError("the artifact holds other entries than it should", hint=_AGAIN)
            for entry in entries:
                if entry.compress_type != zipfile.ZIP_STORED:
                    raise ArtifactError(f"its {entry.filename} is compressed", hint=_AGAIN)
                if entry.file_size > MAX_ENTRY_BYTES:
                    raise ArtifactError(
                        f"its {entry.filename} is over the limit of {MAX_ENTRY_BYTES:,} bytes"
                    )
            return {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, OSError) as error:
        raise ArtifactError(f"the artifact is damaged: {error}", hint=_AGAIN) from error


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _from_json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the artifact's {name} is damaged: {error}", hint=_AGAIN) from error


def _manifest(
    plan: Plan, target: Target, entry: str, log: Sequence[Any], lmc_version: str
) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "plan_version": PLAN_VERSION,
        "lmc_version": lmc_version,
        "name": encode_attr(plan.name),
        "entry": entry,
        "model": target.name,
        "programs": [encode_attr(_program(plan.functions[name])) for name in plan.entries],
        "host_imports": [*plan.callees(), *plan.classes()],
        "passes": [{"name": item["name"], "level": item["level"]} for item in log],
    }


def _program(function: PlanFunction) -> dict[str, Any]:
    params = [
        {
            "name": param.name,
            "annotation": param.annotation,
            "has_default": param.has_default,
            "default": param.default,
            "keyword_only": param.keyword_only,
        }
        for param in function.params
    ]
    return {"name": function.name, "doc": function.attributes.get("doc"), "params": params}


def _target_data(target: Target) -> dict[str, Any]:
    tokenizer = target.tokenizer
    return {
        "name": target.name,
        "fingerprint": target.fingerprint,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "vocab_size": tokenizer.vocab_size,
        "start_ids": list(tokenizer.start_ids),
        "empty_context_id": tokenizer.empty_context_id,
        "eos_ids": sorted(tokenizer.eos_ids),
        "template": None if target.template is None else _template_data(target),
    }


def _template_data(target: Target) -> dict[str, Any]:
    """Return what the template puts around turns; what it refuses is left out."""
    assert target.template is not None, "the caller looked"
    pieces: dict[str, Any] = {}
    for role in ROLES:
        try:
            pieces[role] = {
                "first_begin": list(target.template.begin(role, is_first=True)),
                "begin": list(target.template.begin(role, is_first=False)),
                "end": list(target.template.end(role)),
            }
        except LmcError as error:
            pieces[role] = {"refused": error.message}
    return pieces
