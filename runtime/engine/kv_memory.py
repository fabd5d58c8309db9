"""Moving KV: out of a cache as bytes, back into one, and from one cache to another.

Bytes of n slots are [layers, keys and values, n, heads, head dim] in the cache's own type.
All of it raises MemoryError where there is none, whoever was asked for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    from lmc.runtime.engine.model_runner import ModelRunner

SlotArray = NDArray[np.int32]


@contextmanager
def memory_errors() -> Iterator[None]:
    """Raise MemoryError where torch finds no memory, which it tells by a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if "DefaultCPUAllocator" not in text and "out of memory" not in text:
            raise
        raise MemoryError(text) from error


@memory_errors()
def read_kv(kv: Any, slots: SlotArray) -> bytes:
    """Return the KV of some slots."""
    import torch

    index = torch.from_numpy(slots).long()
    return b"".join(
        tensor.index_select(0, index).view(torch.uint8).numpy().tobytes() for tensor in tensors(kv)
    )


@memory_errors()
def write_kv(kv: Any, slots: SlotArray, data: memoryview, first: int) -> None:
    """Write bytes that `read_kv` gave into slots.

    Args:
        kv: the cache.
        slots: as many as there are tokens to write.
        data: the bytes of at least `first` + len(slots) tokens.
        first: tokens of `data` to leave out at its beginning.
    """
    import torch

    if data.readonly:
        data = memoryview(bytearray(data))
    rows = torch.frombuffer(data, dtype=torch.uint8).view(len(list(tensors(kv))), -1)
    index = torch.from_numpy(slots).long()
    for part, tensor in zip(rows, tensors(kv), strict=True):
        tokens = part.view(tensor.dtype).view(-1, *tensor.shape[1:])
        tensor.index_copy_(0, index, tokens[first : first + len(slots)])


@memory_errors()
def copy_kv(source: Any, from_slots: SlotArray, target: Any, to_slots: SlotArray) -> None:
    """Copy tokens from one cache to another of the same model."""
    import torch

    from_index, to_index = (torch.from_numpy(slots).long() for slots in (from_slots, to_slots))
    for taken, given in zip(tensors(source), tensors(target), strict=True):
        given.index_copy_(0, to_index, taken.index_select(0, from_index))


def tensors(kv: Any) -> "Iterator[torch.Tensor]":
    """Yield a cache's tensors, [slots, heads, head dim] each, layer by layer."""
    for keys, values in zip(kv.keys, kv.values, strict=True):
        yield keys
        yield values


class HostMemory:
    """KV in host memory beside a runner's pool; moves between the two.

    Args:
        runner: whose pool it lies below.
        num_slots: tokens that it holds; memory is taken as they are written.
    """

    def __init__(self, runner: "ModelRunner", num_slots: int) -> None:
        self._pool = runner.kv
        with memory_errors():
            self._host = runner.model.new_kv(num_slots)

    def save(self, pool_slots: SlotArray, host_slots: SlotArray) -> None:
        """Copy tokens of the pool to host memory."""
        copy_kv(self._pool, pool_slots, self._host, host_slots)

    def load(self, host_slots: SlotArray, pool_slots: SlotArray) -> None:
        """Copy tokens of host memory to the pool."""
        copy_kv(self._host, host_slots, self._pool, pool_slots)

    def write(self, host_slots: SlotArray, data: memoryview, first: int) -> None:
        """Put bytes of KV, without their first tokens, into host memory."""
        write_kv(self._host, host_slots, data, first)
