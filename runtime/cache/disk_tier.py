"""DiskTier: blocks of KV in a folder, read and written by one thread of its own.

Nothing here waits for the disk but that thread. Writing is a wish: what does not fit the queue
is dropped. Reading takes precedence. What is damaged or foreign is counted, removed and never
used. When a file cannot be written, the tier turns itself off, with one warning.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lmc.runtime.cache.block_file import (
    Block,
    DamagedBlock,
    file_size,
    read_block,
    write_block,
)
from lmc.runtime.cache.disk_folder import DiskFolder

MAX_QUEUED_BYTES = 128 << 20
"""KV that waits to be written; what comes on top of it is dropped."""

MAX_FETCHES = 64
"""Prefixes that wait to be read; for more nothing is read."""

CLOSE_SECONDS = 10.0
"""How long closing waits for what is still to be written."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Fetch:
    """Blocks of a prefix that are being read: `blocks[:len(data)]` have come in the end."""

    blocks: Sequence[Block]
    data: list[memoryview] = field(default_factory=list)


@dataclass(slots=True)
class DiskCounts:
    """What a disk tier has done, in blocks.

    `damaged` were not what their names say; `dropped` found the queue, or memory, full.
    """

    read: int = 0
    written: int = 0
    dropped: int = 0
    damaged: int = 0


class DiskTier:
    """Blocks of KV in a folder.

    Args:
        folder: where they lie.
        namespace: hash of what the bytes depend on; others' files are never used.
        bytes_per_token: size of one token's KV.
        wake: called, on the tier's thread, when a fetch has ended.
    """

    def __init__(
        self,
        folder: DiskFolder,
        *,
        namespace: bytes,
        bytes_per_token: int,
        wake: Callable[[], None],
    ) -> None:
        self.counts = DiskCounts()
        self.folder = folder
        self._namespace = namespace
        self._bytes_per_token = bytes_per_token
        self._wake = wake
        self._changed = threading.Condition()
        self._fetches: deque[Fetch] = deque()
        self._ended: deque[Fetch] = deque()
        self._writes: deque[tuple[Block, bytes | None]] = deque()
        self._queued: set[str] = set()
        self._queued_bytes = 0
        self._is_closing = False
        self._is_busy = False
        self.is_off = False
        self._thread = threading.Thread(target=self._run, name="lmc-disk-tier", daemon=True)
        self._thread.start()

    # -- for the engine's thread -------------------------------------------------------------

    def knows(self, block: Block) -> bool:
        """Whether a block is in the folder, as far as is known, or is about to be."""
        name = block.file_name
        return name in self.folder.names or name in self._queued

    def num_readable(self, blocks: Sequence[Block]) -> int:
        """Return how many of `blocks`, from the first on, are in the folder."""
        names = self.folder.names
        missing = (i for i, block in enumerate(blocks) if block.file_name not in names)
        return next(missing, len(blocks))

    def fetch(self, blocks: Sequence[Block]) -> Fetch | None:
        """Begin to read blocks; None when too much waits already, or the tier is off."""
        with self._changed:
            if self.is_off or self._is_closing or len(self._fetches) >= MAX_FETCHES:
                return None
            made = Fetch(blocks)
            self._fetches.append(made)
            self._changed.notify_all()
            return made

    def take_ended(self) -> list[Fetch]:
        """Return the fetches that have ended since the last time."""
        with self._changed:
            ended = list(self._ended)
            self._ended.clear()
            return ended

    def has_ended(self) -> bool:
        """Whether `take_ended` would return any."""
        return bool(self._ended)

    def store(self, blocks: Sequence[Block], read: Callable[[int], bytes]) -> None:
        """Write the blocks of a prefix that are not there; those that are count as used.

        Args:
            blocks: from the first one on.
            read: returns the KV of a block, by its index.
        """
        if self.is_off:
            return
        jobs: list[tuple[Block, bytes | None]] = []
        for index, block in enumerate(blocks):
            if self.knows(block):
                jobs.append((block, None))
                continue
            data = self._taken(read, index)
            if data is None:
                self.counts.dropped += sum(not self.knows(later) for later in blocks[index:])
                break
            jobs.append((block, data))
        with self._changed:
            self._queued.update(block.file_name for block, data in jobs if data is not None)
            # The first block last, so that it counts as used last.
            self._writes.extend(reversed(jobs))
            self._changed.notify_all()

    def _taken(self, read: Callable[[int], bytes], index: int) -> bytes | None:
        """Return the KV of a block that is to be written; None where there is no room for it."""
        size = file_size(self._bytes_per_token)
        if self._queued_bytes + size > MAX_QUEUED_BYTES:
            return None
        try:
            data = read(index)
        except MemoryError:
            return None
        with self._changed:
            self._queued_bytes += size
        return data

    def wait_idle(self, seconds: float) -> bool:
        """Wait until nothing is left to read or write; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def close(self) -> None:
        """Write what waits, within CLOSE_SECONDS, and stop."""
        self.wait_idle(CLOSE_SECONDS)
        with self._changed:
            self._is_closing = True
            self._writes.clear()
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    # -- the tier's thread -------------------------------------------------------------------

    def _is_idle(self) -> bool:
        return not (self._fetches or self._writes or self._is_busy)

    def _run(self) -> None:
        """Read and write until closed; fetches end whatever happens."""
        try:
            while (job := self._next()) is not None:
                job()
        except Exception:
            _log.exception("the disk tier stopped")
            self._turn_off()

    def _next(self) -> Callable[[], None] | None:
        """Wait for something to do, reading first; None when closing."""
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            while not (self._fetches or self._writes):
                if self._is_closing:
                    return None
                self._changed.wait()
            self._is_busy = True
            if self._fetches:
                fetch = self._fetches.popleft()
                return lambda: self._read(fetch)
            block, data = self._writes.popleft()
            return lambda: self._write(block, data)

    def _read(self, fetch: Fetch) -> None:
        """Read blocks until one is missing or damaged."""
        try:
            for block in fetch.blocks:
                data = self._read_one(block)
                if data is None:
                    break
                fetch.data.append(data)
            for block in reversed(fetch.blocks[: len(fetch.data)]):
                self.folder.touch(block.file_name)
        except OSError as error:
            self._turn_off(error)
        finally:
            with self._changed:
                self.counts.read += len(fetch.data)
                self._ended.append(fetch)
        self._wake()

    def _read_one(self, block: Block) -> memoryview | None:
        """Return a block's KV; None where it is not there, damaged, or there is no memory."""
        try:
            return read_block(self.folder.path, self._namespace, block, self._bytes_per_token)
        except FileNotFoundError:
            self.folder.names.discard(block.file_name)
        except MemoryError:
            _log.info("no memory for a block of the disk tier")
        except (DamagedBlock, OSError) as error:
            _log.info("a block of the disk tier is damaged: %s", error)
            self.counts.damaged += 1
            with suppress(OSError):  # what cannot be removed is forgotten all the same
                self.folder.remove(block.file_name)
        return None

    def _write(self, block: Block, data: bytes | None) -> None:
        """Write a block, or count it as used."""
        name = block.file_name
        try:
            self.folder.look_if_old()
            if data is None or name in self.folder.names:
                self.folder.touch(name)
            else:
                self.folder.make_room()
                write_block(self.folder.path, self._namespace, block, data)
                self.folder.wrote(name)
                self.counts.written += 1
        except MemoryError:
            self.counts.dropped += 1
        except OSError as error:
            self._turn_off(error)
        finally:
            if data is not None:
                with self._changed:
                    self._queued.discard(name)
                    self._queued_bytes -= file_size(self._bytes_per_token)

    def _turn_off(self, error: OSError | None = None) -> None:
        """Read and write nothing more; say so once."""
        with self._changed:
            was_off, self.is_off = self.is_off, True
            self._is_busy = False
            self.folder.names.clear()
            self._queued.clear()
            self._writes.clear()
            self._ended.extend(self._fetches)
            self._fetches.clear()
        if error is not None and not was_off:
            _log.warning(
                "the disk tier is off: %s: %s; calls go on without it",
                self.folder.path, (error.strerror or "").lower(),
            )  # fmt: skip
        self._wake()
