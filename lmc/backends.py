"""Opening what answers a program's calls: an engine on a model, or the oracle."""

import atexit
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

from lmc.errors import ModelError, UsageError
from lmc.interrupts import interrupts_held_back
from lmc.ir.target import Backend, Target
from lmc.models_store import find_model

Progress = Callable[[str, float], None]
Dtype = Literal["bfloat16", "float32"]
Weights = Literal["full", "stored", "int8", "int4"]
Activations = Literal["full", "int8"]

_open: dict[tuple[str, ...], Any] = {}
_default: Backend | str | None = None


def open_target(model: str | None) -> Target:
    """Return what programs are compiled for, without loading any weights.

    Raises:
        ModelError: there is no such model, or its files cannot be read.
    """
    from lmc.codegen.target import load_target, oracle_target

    # Type checkers do not see that cached properties fit a protocol's properties.
    return cast(Target, oracle_target() if model == "oracle" else load_target(find_model(model)))


def open_backend(
    model: str | Path | None = None,
    *,
    dtype: Dtype = "bfloat16",
    weights: Weights = "full",
    activations: Activations = "full",
    progress: Progress | None = None,
    draft_model: str | Path | None = None,
    **engine_options: Any,
) -> Backend:
    """Open a model for running: a path, a hub id, None for the default, or "oracle".

    An engine is opened once per model, dtype and precision and kept until the process ends.

    Args:
        model: directory in Hugging Face format, GGUF file, or name; None takes SmolLM2-135M.
        dtype: "bfloat16" or "float32", the type of weights and KV.
        weights: "full" in that type; "stored" quantized as a GGUF file has them; "int8" or "int4"
            quantized when they are loaded.
        activations: "full", or "int8": rounded before they are multiplied with quantized weights.
        progress: gets (what, share done from 0 to 1) while weights load.
        draft_model: a smaller model of the same tokenizer, which drafts tokens.
        engine_options: further options of lmc.runtime.engine.Engine, such as
            `host_tier=BYTES`, `disk_tier=FOLDER` and `disk_bytes=BYTES` for KV below the pool.

    Raises:
        ModelError: there is no such model, or its files cannot be read; or the draft model has
            another tokenizer.
        UsageError: options of an engine for the oracle, or that the engine refuses; int8
            activations for weights that are not quantized.
    """
    if model == "oracle":
        from lmc.runtime.oracle import Oracle

        _expect_no_engine_options(engine_options, draft_model)
        return Oracle()
    path = find_model(None if model is None else str(model))
    key = (str(path), dtype, weights, activations)
    load = partial(
        load_model, dtype=dtype, weights=weights, activations=activations, progress=progress
    )
    if draft_model is not None:
        draft_path = find_model(str(draft_model))
        _check_same_tokens(path, draft_path)
        engine_options["draft_model"] = load(draft_path).model
    if engine_options or key not in _open:
        engine: Any = load(path).open_engine(**engine_options)
        atexit.register(engine.close)
        if engine_options:
            return engine
        _open[key] = engine
    return _open[key]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, on which engines are opened; one of them may work at a time."""

    model: Any
    target: Target

    def open_engine(self, **options: Any) -> Backend:
        """Open an engine; options as lmc.runtime.engine.engine.Engine takes them."""
        from lmc.runtime.engine.engine import Engine

        return Engine(self.model, self.target, **options)


def load_model(
    model: str | Path | None,
    *,
    dtype: Dtype = "bfloat16",
    weights: Weights = "full",
    activations: Activations = "full",
    progress: Progress | None = None,
) -> LoadedModel:
    """Load a model's weights; arguments as of open_backend, but the oracle has none.

    Raises:
        ModelError: there is no such model, or its files cannot be read.
    """
    with interrupts_held_back():
        from lmc.codegen.target import load_target
        from lmc.runtime.models.decoder import CausalModel

    path = find_model(None if model is None else str(model))
    target = cast(Target, load_target(path))
    loaded = CausalModel.load(
        path, dtype, weights=weights, activations=activations, progress=progress
    )
    return LoadedModel(loaded, target)


def _expect_no_engine_options(options: dict[str, Any], draft_model: object) -> None:
    """Refuse options of an engine for a backend that has none."""
    names = [*(["draft_model"] if draft_model is not None else []), *options]
    if names:
        raise UsageError(
            f"the oracle has no engine, so it takes no {' and no '.join(names)}",
            hint="leave such options out, or open a model",
        )


def _check_same_tokens(path: Path, draft_path: Path) -> None:
    """Refuse a draft model whose token ids stand for other texts."""
    known, others = (open_target(str(p)).tokenizer.token_bytes() for p in (path, draft_path))
    if list(known) != list(others):
        raise ModelError(
            f"the draft model {draft_path} has another tokenizer than the model",
            hint="take a smaller model of the same family",
        )


def set_default_backend(backend: Backend | str | None) -> None:
    """Set what programs run on when no backend is named: a backend, a model, or None."""
    global _default
    _default = backend


def default_backend() -> Backend:
    """Return the backend that programs run on when none is named; opens it if need be."""
    return resolve_backend(None)


def resolve_backend(backend: Backend | str | Path | None) -> Backend:
    """Return a backend from a backend, a model's name or path, or None for the default."""
    chosen = _default if backend is None else backend
    if chosen is None or isinstance(chosen, (str, Path)):
        return open_backend(chosen)
    if not hasattr(chosen, "submit_gen"):
        raise UsageError(
            f"backend={chosen!r} is no backend",
            hint='give a model\'s path or name, "oracle", lmc.Oracle(...), or None',
        )
    return chosen
