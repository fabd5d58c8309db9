"""Models in memory: shape, weights, forward pass."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmc.runtime.models.batch import ForwardBatch, KVCache
    from lmc.runtime.models.config import ModelConfig
    from lmc.runtime.models.decoder import CausalModel

__all__ = ["CausalModel", "ForwardBatch", "KVCache", "ModelConfig"]

_HOMES = {
    "CausalModel": "lmc.runtime.models.decoder",
    "ForwardBatch": "lmc.runtime.models.batch",
    "KVCache": "lmc.runtime.models.batch",
    "ModelConfig": "lmc.runtime.models.config",
}


def __getattr__(name: str) -> Any:
    """Load torch only when a model is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
