"""Artifacts: compiled programs in one file, `prog.lmc` (its form: artifact_file.py).

The entries are manifest.json, captured.lmir (the IR before all passes), module.lmir (the IR
after them), plan.json, target.json and pass_log.json. All of it is text that is parsed; nothing
in it is executed or unpickled.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmc.codegen.artifact_file import (
    AGAIN,
    FORMAT_VERSION,
    join_file,
    read_file,
    split_file,
    write_file,
)
from lmc.codegen.plan import PLAN_VERSION, Plan, PlanFunction
from lmc.codegen.plan_json import decode_attr, encode_attr, plan_from_json, plan_to_json
from lmc.codegen.prefix_kv import unpack_kv
from lmc.codegen.requirements import HostParams, host_from_json, host_to_json
from lmc.codegen.shared_values import join_shared, split_shared
from lmc.errors import ArtifactError, LmcError
from lmc.ir.core import Module
from lmc.ir.printer import print_module
from lmc.ir.target import Target

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A loaded artifact.

    Attributes:
        manifest: what the artifact says about itself: `name`, `entry`, `model`, `lmc_version`,
            `programs` (with parameters and doc), `host_imports`, `hosts`, `passes`, `pipeline`.
        captured_text: the IR before all passes.
        module_text: the IR after all passes.
        plan: what the executor runs.
        target: what the plan was made for: name, fingerprints, template pieces.
        pass_log: one record per pass.
        hosts: the host functions that are called, with the parameters that they had.
        kv: the KV of constant prefixes (lmc.codegen.prefix_kv); empty where there is none.
    """

    manifest: dict[str, Any]
    captured_text: str
    module_text: str
    plan: Plan
    target: dict[str, Any]
    pass_log: list[Any]
    hosts: dict[str, HostParams | None]
    kv: memoryview

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

    @property
    def pipeline(self) -> str:
        """The passes that were run, as pipeline text."""
        return str(self.manifest["pipeline"])

    def module(self) -> Module:
        """Parse the IR after all passes."""
        return _parsed(self.module_text, "module.lmir")

    def captured(self) -> Module:
        """Parse the IR before all passes, to run passes on it again."""
        return _parsed(self.captured_text, "captured.lmir")


def _parsed(text: str, name: str) -> Module:
    """Return the module of an artifact's IR text; raises ArtifactError where it is none."""
    from lmc.ir.parser import parse_module
    from lmc.ir.verifier import verify

    try:
        module = parse_module(text, name)
        verify(module)
    except LmcError as error:
        raise ArtifactError(f"the artifact is damaged: {error}", hint=AGAIN) from error
    return module


def pack_artifact(
    *,
    captured: Module,
    module: Module,
    plan: Plan,
    target: Target,
    entry: str,
    pass_log: Sequence[Any] = (),
    hosts: Mapping[str, HostParams | None] | None = None,
    lmc_version: str = "",
    pipeline: str = "",
    kv: bytes = b"",
) -> bytes:
    """Return the bytes of an artifact.

    Args:
        captured: the IR before all passes.
        module: the IR after all passes.
        plan: what it was lowered to.
        target: what it was lowered for.
        entry: the program that is meant when none is named.
        pass_log: a record per pass: a dict of plain data, or an object with `as_data()`.
        hosts: the parameters of the host functions (lmc.codegen.requirements.host_params).
        lmc_version: the version of lmc that compiled it.
        pipeline: the passes that were run, as pipeline text.
        kv: the KV of constant prefixes (lmc.codegen.prefix_kv).

    Raises:
        ArtifactError: something is larger than an artifact may hold.
    """
    log = [item.as_data() if hasattr(item, "as_data") else item for item in pass_log]
    manifest = _manifest(plan, target.name, entry, log, hosts or {}, lmc_version, pipeline)
    contents = {
        "manifest.json": _json(manifest),
        "captured.lmir": _ir_text(captured),
        "module.lmir": _ir_text(module),
        "plan.json": _json(split_shared(plan_to_json(plan))),
        "target.json": _json(_target_data(target)),
        "pass_log.json": _json([encode_attr(item) for item in log]),
    }
    return join_file(contents, kv)


def save_artifact(path: str | Path, **contents: Any) -> None:
    """Write an artifact; the file appears whole or not at all. Arguments as `pack_artifact`.

    Raises:
        ArtifactError: it is too large, or the file cannot be written.
    """
    write_file(Path(path), pack_artifact(**contents))


def load_artifact(path: str | Path) -> Artifact:
    """Read an artifact.

    Raises:
        ArtifactError: missing, foreign, damaged, cut off, or of another version; says which.
    """
    data = read_file(Path(path))
    try:
        return unpack_artifact(data)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error.message}", hint=error.hint) from error


def unpack_artifact(data: bytes | bytearray) -> Artifact:
    """Return the artifact that some bytes hold; raises ArtifactError as `load_artifact` does."""
    contents, kv = split_file(data)
    loaded = {
        name: _from_json(name, content)
        for name, content in contents.items()
        if name[-5:] == ".json"
    }
    manifest, target = loaded["manifest.json"], loaded["target.json"]
    try:
        plan = plan_from_json(join_shared(loaded["plan.json"]))
        made = Artifact(
            manifest=manifest,
            captured_text=contents["captured.lmir"].decode(),
            module_text=contents["module.lmir"].decode(),
            plan=plan,
            target=target,
            pass_log=[decode_attr(item) for item in loaded["pass_log.json"]],
            hosts=host_from_json(manifest["hosts"]),
            kv=kv,
        )
        _check_records(made)
        _check_token_ids(made)
        manifest["programs"] = [decode_attr(item) for item in manifest["programs"]]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(f"the artifact is damaged: {error!r}", hint=AGAIN) from error
    return made


def _check_records(made: Artifact) -> None:
    """Check that what an artifact tells of itself fits its plan.

    Raises:
        ValueError, TypeError, LookupError: it does not.
    """
    manifest, target = made.manifest, made.target
    words = [manifest[name] for name in ("model", "lmc_version", "pipeline", "entry")]
    words += [target["name"], target["fingerprint"]]
    if not all(isinstance(word, str) for word in words):
        raise TypeError("a word of its manifest or target is no text")
    if manifest["entry"] not in made.plan.entries:
        raise ValueError("its entry is none of its programs")
    if target["fingerprint"] != made.plan.target_fingerprint:
        raise ValueError("its target is not that of its plan")
    for record in made.pass_log:
        _check_record(record)
    expected = _manifest(
        made.plan, target["name"], manifest["entry"], made.pass_log, made.hosts,
        manifest["lmc_version"], manifest["pipeline"],
    )  # fmt: skip
    different = [
        name for name in {**expected, **manifest} if expected.get(name) != manifest.get(name)
    ]
    if different or len(expected) != len(manifest):
        raise ValueError(f"its manifest does not fit its plan: {', '.join(different)}")


def _check_token_ids(made: Artifact) -> None:
    """Check that the ids of prologues are the tokenizer's, and prefix KV is that of prologues.

    Raises:
        ArtifactError: the KV is damaged.
        ValueError, TypeError, LookupError: something does not fit.
    """
    limit = made.target["vocab_size"]
    found: set[Any] = {
        step.attributes.get("token_ids", ())
        for step in made.plan.steps()
        if step.op == "lm.prologue"
    }
    if any(token >= limit for ids in found for token in ids):
        raise ValueError(f"a token id of a prologue is none of the {limit} of its target")
    if made.kv and any(prefix.token_ids not in found for prefix in unpack_kv(made.kv).prefixes):
        raise ValueError("its prefix KV is that of another program")


def _check_record(record: dict[str, Any]) -> None:
    """Check the record of a pass; raises as `_check_records` does."""
    texts = [record["name"], record["level"]]
    for remark in record["remarks"]:
        texts += [remark["message"], remark["at"] or ""]
        if not isinstance(remark["fired"], bool):
            raise TypeError("a remark of its pass log is not whole")
    if not all(isinstance(text, str) for text in texts) or not isinstance(record["options"], dict):
        raise TypeError("a record of its pass log is not whole")
    if record["name"] == "profile" and not isinstance(record["options"]["runs"], int):
        raise TypeError("the record of its profile is not whole")


def _ir_text(module: Module) -> bytes:
    """Return the IR without the digests of bytecode, which differ between Python's versions."""
    guards: Any = module.attributes.get("guards")
    if guards:
        kept = {name: digest for name, digest in guards.items() if not name.endswith("()")}
        attributes = module.attributes | {"guards": kept}
        module = Module(module.name, module.functions, module.entries, attributes)
    return print_module(module).encode()


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _from_json(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the artifact's {name} is damaged: {error}", hint=AGAIN) from error


def _manifest(
    plan: Plan,
    model: str,
    entry: str,
    log: Sequence[Any],
    hosts: Mapping[str, HostParams | None],
    lmc_version: str,
    pipeline: str,
) -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "plan_version": PLAN_VERSION,
        "lmc_version": lmc_version,
        "name": encode_attr(plan.name),
        "entry": entry,
        "model": model,
        "programs": [encode_attr(_program(plan.functions[name])) for name in plan.entries],
        "host_imports": [*plan.callees(), *plan.classes()],
        "hosts": host_to_json(hosts),
        "passes": [{"name": item["name"], "level": item["level"]} for item in log],
        "pipeline": pipeline,
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
