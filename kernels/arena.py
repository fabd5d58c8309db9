"""Memory for packed weights on large pages.

Decoding reads every weight once per step, front to back. On pages of 4 KiB the processor
spends much of that time on address translation and its prefetcher stops at each page, so
weights lie in large chunks that the kernel is asked to back with huge pages.
"""

import mmap

import torch

CHUNK_BYTES = 64 << 20
HUGE_PAGE_BYTES = 2 << 20
LINE_BYTES = 64


class WeightArena:
    """Hands out tensors that lie behind one another in large chunks; nothing is given back.

    A chunk lives as long as a tensor in it. Memory that is never handed out is never touched.
    """

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def zeros(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a zeroed tensor of `count` elements that starts at a cache line."""
        num_bytes = count * dtype.itemsize
        if self._used + num_bytes > self._chunk.shape[0]:
            self._chunk = _new_chunk(max(CHUNK_BYTES, num_bytes))
            self._used = 0
        start = self._used
        self._used += -(-num_bytes // LINE_BYTES) * LINE_BYTES
        return self._chunk[start : start + num_bytes].view(dtype)


def _new_chunk(num_bytes: int) -> torch.Tensor:
    """Map zeroed memory that starts at a huge page's border."""
    size = num_bytes + HUGE_PAGE_BYTES
    if hasattr(mmap, "MAP_ANONYMOUS"):  # shared memory, the default, gets no huge pages
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        mapped = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            mapped.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel without huge pages: slower, not wrong
    whole = torch.frombuffer(mapped, dtype=torch.uint8)
    skip = -whole.data_ptr() % HUGE_PAGE_BYTES
    return whole[skip : skip + num_bytes]
