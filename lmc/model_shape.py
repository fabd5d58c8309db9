"""Facts of a model that its header tells, without loading any weights."""

from pathlib import Path

from lmc.gguf_file import read_gguf
from lmc.models_store import find_model

DTYPE_BYTES = {"bfloat16": 2, "float32": 4}


def kv_bytes_per_token(model: str | None, dtype: str) -> int | None:
    """Return the bytes of one token's keys and values, over all layers; None for the oracle.

    Raises:
        ModelError: there is no such model, or its header cannot be read.
    """
    from lmc.runtime.models.config import config_from_directory, config_from_gguf

    if model == "oracle":
        return None
    path = Path(find_model(model))
    if path.suffix == ".gguf":
        file = read_gguf(path)
        config = config_from_gguf(file.metadata, file.tensors, str(path))
    else:
        config = config_from_directory(path)
    values = config.num_layers * config.num_kv_heads * config.head_dim
    return 2 * values * DTYPE_BYTES[dtype]
