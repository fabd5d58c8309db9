"""Token targets: what a program is lowered for, one tokenizer and its chat template."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

from lmc.codegen.template import ProbedTemplate, probe_template
from lmc.codegen.tokenizer import FastTokenizer, files_state, load_spec
from lmc.codegen.tokenizer_cache import read_cached, write_cached
from lmc.codegen.tokenizer_spec import TokenizerSpec
from lmc.errors import LowerError
from lmc.ir.cache_folder import cache_folder

_TEMPLATE_FORMAT = 1
_ORACLE_FILE = "oracle_tokenizer.json"


@dataclass(frozen=True, slots=True)
class TokenTarget:
    """A tokenizer and, if the model has one, a template; implements lmc.ir.target.Target.

    Attributes:
        name: the model's name for people.
        tokenizer: text to ids.
        template: the chat template taken apart; None where the model has none. One that
            cannot be taken apart raises LowerError with the reason when a role is used.
        fingerprint: hex digest over tokenizer and template.
        sees: whether the model takes images and videos.
    """

    name: str
    tokenizer: FastTokenizer
    template: ProbedTemplate | None
    fingerprint: str
    sees: bool = False


@dataclass(frozen=True, slots=True)
class _Controls:
    """The control tokens of a spec, as the template probe wants them."""

    start_ids: tuple[int, ...]
    controls: Mapping[str, int]


def load_target(model_path: str | Path) -> TokenTarget:
    """Load the target of a model: a directory in Hugging Face format or a GGUF file.

    Opens no weights and imports no torch; what is slow is kept in lmc's cache folder.

    Raises:
        ModelError: missing, damaged or of an unsupported kind.
    """
    path = Path(model_path)
    return _load_target(path, files_state(path))


@lru_cache(maxsize=4)
def _load_target(path: Path, _state: tuple[object, ...]) -> TokenTarget:
    """Load a target, once for each state of its files: compiling and running both want it."""
    spec = load_spec(path)
    return _assemble(_model_name(path), spec, _cached_template(spec))


@cache
def oracle_target() -> TokenTarget:
    """Return the target of the oracle model, shipped with the package.

    A real merging byte-level tokenizer, SmolLM2's cut to its first merges, with SmolLM2's
    chat template. The file also holds the template taken apart, so that nothing is probed.
    """
    stored = resources.files("lmc.codegen").joinpath("data", _ORACLE_FILE).read_text("utf-8")
    head, _, rest = stored.partition("\n")
    template = ProbedTemplate.from_json(json.loads(head))
    return replace(_assemble("oracle", TokenizerSpec.load(rest), template), sees=True)


def pack_target(spec: TokenizerSpec) -> str:
    """Return a spec with its template taken apart, in the form of the oracle's file."""
    return f"{_probe(spec).canonical()}\n{spec.dump()}"


def _assemble(name: str, spec: TokenizerSpec, template: ProbedTemplate | None) -> TokenTarget:
    tokenizer = FastTokenizer(spec)
    digest = hashlib.sha256(tokenizer.fingerprint.encode())
    digest.update(b"\n" + (template.canonical() if template else "").encode())
    return TokenTarget(name, tokenizer, template, digest.hexdigest())


def _model_name(path: Path) -> str:
    """Return a model's name: a hub id for a snapshot of the hub's cache, else the stem."""
    resolved = path.absolute()
    if resolved.parent.name == "snapshots":
        folder = resolved.parent.parent.name
        if folder.startswith("models--"):
            return folder.removeprefix("models--").replace("--", "/")
    return path.stem if path.suffix == ".gguf" else resolved.name


def _cached_template(spec: TokenizerSpec) -> ProbedTemplate | None:
    """Return the template taken apart, from the cache where it is there."""
    if spec.chat_template is None:
        return None
    facts = [_TEMPLATE_FORMAT, spec.chat_template, spec.template_tokens]
    facts += [spec.controls, spec.start_ids]
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=20).hexdigest()
    path = cache_folder() / "templates" / f"{digest}.json"
    stored = read_cached(path)
    if stored is not None:
        try:
            return ProbedTemplate.from_json(json.loads(stored))
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # written by another version: probe again
    template = _probe(spec)
    if not template.has_date:
        write_cached(path, template.canonical())
    return template


def _probe(spec: TokenizerSpec) -> ProbedTemplate:
    """Take a spec's template apart; one that cannot be is refused at its first use."""
    controls = _Controls(spec.start_ids, {text: i for i, text in spec.controls})
    try:
        return probe_template(
            spec.chat_template or "", controls, variables=dict(spec.template_tokens)
        )
    except LowerError as error:
        return ProbedTemplate.refused(error.message)
