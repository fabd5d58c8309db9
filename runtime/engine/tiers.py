"""Tiers: what lies below the pool of KV, and what goes up and down between them.

    pool  <->  host memory  <->  disk

What the pool evicts goes to host memory, unless nothing will need it; what a starting sequence
finds there is copied back before it is computed. The prefixes of sequences that end are written
to disk, in whole blocks; a sequence that arrives and whose prefix goes on there waits, for a
while, until its blocks were read into host memory. Everything here runs on the engine's thread,
and none of it waits for the disk.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmc.errors import UsageError
from lmc.runtime.cache.block_file import BLOCK_TOKENS, blocks_of, file_size, namespace_of, root_of
from lmc.runtime.cache.disk_folder import DiskFolder
from lmc.runtime.cache.disk_tier import DiskTier, Fetch
from lmc.runtime.cache.host_tier import HostTier
from lmc.runtime.cache.prefix_cache import PrefixCache, TokenArray
from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.engine.kv_memory import HostMemory
from lmc.runtime.engine.model_runner import ModelRunner
from lmc.runtime.engine.sequence import Sequence, SequenceState

DEFAULT_HOST_BYTES = 256 << 20
"""Host memory on the way from and to the disk, where none is asked for."""

MAX_HOST_TOKENS = 1 << 20
"""The most tokens in host memory: who owns them is kept in ten bytes a token."""

DEFAULT_DISK_BYTES = 4 << 30

FETCH_SECONDS = 2.0
"""How long a sequence waits for the disk before it computes its prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """What lies below the pool: bytes of host memory, and a folder of so many bytes, or none."""

    host_bytes: int
    folder: Path | None = None
    disk_bytes: int = DEFAULT_DISK_BYTES


def tier_options(
    host_tier: int | None, disk_tier: str | Path | None, disk_bytes: int | None
) -> TierOptions | None:
    """Return what an engine's options ask for; None where there are no tiers.

    Raises:
        UsageError: a wrong type or number, or a size without a folder.
    """
    for name, value in (("host_tier", host_tier), ("disk_bytes", disk_bytes)):
        if value is not None and (type(value) is not int or value < 1):
            raise UsageError(f"{name}={value!r} is no number of bytes", hint="as in 2 * 1024**3")
    if disk_tier is None:
        if disk_bytes is not None:
            raise UsageError("disk_bytes needs a folder", hint="give disk_tier=FOLDER too")
        return None if host_tier is None else TierOptions(host_bytes=host_tier)
    if not isinstance(disk_tier, (str, Path)) or not str(disk_tier):  # type: ignore[redundant-expr]
        raise UsageError(f"disk_tier={disk_tier!r} is no folder", hint="give its path")
    return TierOptions(
        host_bytes=host_tier or DEFAULT_HOST_BYTES,
        folder=Path(disk_tier).expanduser(),
        disk_bytes=disk_bytes or DEFAULT_DISK_BYTES,
    )


@dataclass(slots=True, eq=False)
class _Wait:
    """Sequences that wait for a part of their prefix: tokens from `start` on."""

    token_ids: TokenArray
    start: int
    namespace: str
    key: bytes
    deadline: float
    seqs: list[Sequence] = field(default_factory=list)


class Tiers:
    """Host memory and disk below a cache.

    Args:
        options: their sizes.
        runner: the model and its pool.
        cache: what is kept of the pool.
        binding: what the bytes of KV depend on.
        wake: called, on another thread, when something was read.

    Raises:
        UsageError: nothing fits the sizes, or the folder cannot be used.
    """

    def __init__(
        self,
        options: TierOptions,
        runner: ModelRunner,
        cache: PrefixCache,
        *,
        binding: Mapping[str, str],
        wake: Callable[[], None],
    ) -> None:
        if not cache.is_shared:
            raise UsageError("host_tier and disk_tier need cache='radix'", hint="leave cache out")
        per_token = runner.kv_bytes_per_token
        num_slots = min(options.host_bytes // per_token, MAX_HOST_TOKENS)
        if num_slots < cache.page_size:
            raise UsageError(
                f"host_tier={options.host_bytes:,} holds nothing: one page takes "
                f"{cache.page_size * per_token:,} bytes",
                hint="give a few hundred megabytes",
            )
        folder = None
        if options.folder is not None:
            folder = DiskFolder(
                options.folder, max_bytes=options.disk_bytes, file_size=file_size(per_token)
            )
        self._runner = runner
        self._cache = cache
        self._namespace = namespace_of(binding)
        self._waits: dict[Fetch, _Wait] = {}
        self._by_key: dict[bytes, _Wait] = {}
        self._waiting: set[Sequence] = set()
        self.disk_tokens = 0
        try:
            memory = HostMemory(runner, num_slots)
        except MemoryError as error:
            raise UsageError(
                f"there is no memory for host_tier={options.host_bytes:,}",
                hint="give less",
            ) from error
        self.host = HostTier(num_slots, memory, page_size=cache.page_size)
        self.disk: DiskTier | None = None
        cache.set_lower(self.host)
        if folder is not None:
            self.disk = DiskTier(
                folder, namespace=self._namespace, bytes_per_token=per_token, wake=wake
            )

    # -- from disk ---------------------------------------------------------------------------

    def must_wait(self, seq: Sequence) -> bool:
        """Whether a sequence that arrives waits for its prefix; `take_ready` gives it then."""
        if self.disk is None or seq.guess is not None:
            return False
        try:
            return self._waits_for(seq, self.disk)
        except MemoryError:
            return False  # it is computed

    def _waits_for(self, seq: Sequence, disk: DiskTier) -> bool:
        """Begin to read, or wait for, what the disk has more of a prefix; False for nothing."""
        ids, name = seq.token_ids[: seq.logits_from], seq.namespace
        blocks = blocks_of(self._root(name), ids)
        have = max(self._cache.match_len(ids, name), self.host.match_len(ids, name))
        first = have // BLOCK_TOKENS
        wanted = blocks[first : first + disk.num_readable(blocks[first:])]
        if not wanted:
            return False
        wait = self._by_key.get(wanted[-1].key)
        if wait is None:
            end = (first + len(wanted)) * BLOCK_TOKENS
            wait = _Wait(
                ids[:end].copy(), first * BLOCK_TOKENS, name, wanted[-1].key,
                time.monotonic() + FETCH_SECONDS,
            )  # fmt: skip
            fetch = disk.fetch(wanted)
            if fetch is None:
                return False
            self._waits[fetch] = self._by_key[wait.key] = wait
        wait.seqs.append(seq)
        self._waiting.add(seq)
        return True

    @property
    def has_ready(self) -> bool:
        """Whether `take_ready` has something to do."""
        if self.disk is None or not self._waits:
            return False
        return self.disk.has_ended() or self.patience == 0

    @property
    def patience(self) -> float | None:
        """Seconds until a sequence has waited long enough; None when none waits."""
        if not self._waits:
            return None
        first = min(wait.deadline for wait in self._waits.values())
        return max(0.0, first - time.monotonic())

    def end_wait(self, seq: Sequence) -> bool:
        """End a sequence if it still waits here; return whether it did."""
        if seq not in self._waiting:
            return False
        self._waiting.discard(seq)
        seq.reset(SequenceState.FINISHED)
        return True

    def take_ready(self) -> list[Sequence]:
        """Return the sequences that need not wait any longer and were not ended meanwhile."""
        if self.disk is None:
            return []
        ready: list[Sequence] = []
        for fetch in self.disk.take_ended():
            wait = self._pop(fetch)
            if wait is not None:
                # Without memory for the copy what was read is computed.
                with suppress(MemoryError):
                    self._place(wait, fetch)
                ready += wait.seqs
        now = time.monotonic()
        for fetch in [each for each, wait in self._waits.items() if wait.deadline <= now]:
            wait = self._pop(fetch)
            ready += wait.seqs if wait is not None else []
        left = [seq for seq in ready if seq in self._waiting]
        self._waiting.difference_update(left)
        return left

    def _pop(self, fetch: Fetch) -> _Wait | None:
        wait = self._waits.pop(fetch, None)
        if wait is not None:
            del self._by_key[wait.key]
        return wait

    def _place(self, wait: _Wait, fetch: Fetch) -> None:
        """Put what was read into host memory, behind what the pool has of the prefix."""
        ids, name = wait.token_ids[: wait.start + len(fetch.data) * BLOCK_TOKENS], wait.namespace
        if self.host.match_len(ids, name) < wait.start:
            handle, slots = self._cache.match_and_lock(ids, name)
            try:
                self.host.keep(ids[: handle.length], slots, name)
            finally:
                self._cache.release(handle)
        new = self.host.put(ids, wait.start, fetch.data, name)
        self.disk_tokens += new
        end = self.host.match_len(ids, name)
        for seq in wait.seqs:
            seq.disk_start, seq.disk_end = end - new, end

    # -- to disk -----------------------------------------------------------------------------

    def store(self, node: RadixNode) -> None:
        """Have the path to a node written, without what nothing will need.

        Where there is no memory for that it is not written.
        """
        if self.disk is not None:
            with suppress(MemoryError):
                self._store(node, self.disk)

    def _store(self, node: RadixNode, disk: DiskTier) -> None:
        while node.is_dead and node.parent is not None:
            node = node.parent
        tree = self._cache.tree
        blocks = blocks_of(self._root(node.namespace), tree.path_tokens(node))
        if not blocks:
            return
        slots = tree.path_slots(node)

        def read(index: int) -> bytes:
            start = index * BLOCK_TOKENS
            return self._runner.read_kv(slots[start : start + BLOCK_TOKENS])

        disk.store(blocks, read)

    def _root(self, name: str) -> bytes:
        """Return what the first block's key depends on beside its tokens."""
        return root_of(self._namespace, name)

    # -- more --------------------------------------------------------------------------------

    def totals(self) -> dict[str, Any]:
        """Return the totals, by their names in EngineStats."""
        made = {
            "host_stored_tokens": self.host.stored,
            "host_loaded_tokens": self.host.loaded,
            "host_evicted_tokens": self.host.evicted,
        }
        if self.disk is not None:
            counts = self.disk.counts
            made |= {
                "disk_stored_tokens": counts.written * BLOCK_TOKENS,
                "disk_loaded_tokens": self.disk_tokens,
                "disk_dropped_tokens": counts.dropped * BLOCK_TOKENS,
                "disk_evicted_files": self.disk.folder.evicted,
                "damaged_files": counts.damaged,
            }
        return made

    def close(self) -> None:
        """Write what waits to be written, and end the disk's thread."""
        if self.disk is not None:
            self.disk.close()
