"""DiskFolder: the files of a disk tier: how much they may take, and which go first.

Several processes may use one folder: each looks at it again from time to time, and what it
does not find there is not there. Files that were used least recently go first. A file's time
of change is that of its last use; of the blocks of one prefix the first counts as used last, so
that a prefix loses its end before its beginning. Files with other names are left alone.
"""

import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from lmc.errors import UsageError

WRITES_BETWEEN_LOOKS = 32
"""Files that a process writes before it counts again what others have written."""

SECONDS_BETWEEN_LOOKS = 5.0
"""Seconds after which a process looks again for what others have written."""

STALE_SECONDS = 600.0
"""Age from which a file that was never finished is that of a process that is gone."""

_NAME = re.compile(r"[0-9a-f]{64}\.kv")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.kv\.[0-9]+\.[0-9a-f]{8}\.tmp")


class DiskFolder:
    """A folder of block files, within a bound in bytes; made if it is missing.

    Args:
        path: the folder.
        max_bytes: what its files may take. Several processes may exceed it together by what
            each writes between two looks.
        file_size: bytes of one file.

    Attributes:
        names: files that were there at the last look, and those written since.
        evicted: files that were removed for want of room.

    Raises:
        UsageError: it cannot be made, read or written, or not even one file fits.
    """

    def __init__(self, path: Path, *, max_bytes: int, file_size: int) -> None:
        if max_bytes < file_size:
            raise UsageError(
                f"disk_bytes={max_bytes:,} holds nothing: one block of this model "
                f"takes {file_size:,} bytes",
                hint="give disk_bytes of a few gigabytes, or no disk_tier",
            )
        self.path = path
        self.names: set[str] = set()
        self.evicted = 0
        self._max_bytes = max_bytes
        self._file_size = file_size
        self._total = 0
        self._num_written = 0
        self._looked_at = 0.0
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.look()
        except OSError as error:
            raise UsageError(
                f"disk_tier={str(path)!r} cannot be used: {(error.strerror or '').lower()}",
                hint="give a folder that can be written",
            ) from error
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(
                f"disk_tier={str(path)!r} cannot be used: it may not be read and written",
                hint="give a folder that can be written",
            )

    def look(self) -> list[tuple[int, str, int]]:
        """Count what is there; return (time of use in ns, name, bytes) of every finished file.

        Raises:
            OSError: the folder cannot be read.
        """
        found: list[tuple[int, str, int]] = []
        unfinished = 0
        with os.scandir(self.path) as entries:
            for entry in entries:
                is_finished = _NAME.fullmatch(entry.name) is not None
                if not is_finished and _UNFINISHED.fullmatch(entry.name) is None:
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                if is_finished:
                    found.append((status.st_mtime_ns, entry.name, status.st_size))
                elif time.time() - status.st_mtime > STALE_SECONDS:
                    self.remove(entry.name)
                else:
                    unfinished += status.st_size
        self.names = {name for _, name, _ in found}
        self._total = unfinished + sum(size for _, _, size in found)
        self._num_written = 0
        self._looked_at = time.monotonic()
        return found

    def look_if_old(self) -> None:
        """Look again if the last time is long ago."""
        if time.monotonic() - self._looked_at > SECONDS_BETWEEN_LOOKS:
            self.look()

    def make_room(self) -> None:
        """Remove what was unused for longest until one more file fits.

        Raises:
            OSError: the folder cannot be read, or a file not be removed.
        """
        limit = self._max_bytes - self._file_size
        if self._total <= limit and self._num_written < WRITES_BETWEEN_LOOKS:
            return
        found = sorted(self.look(), reverse=True)
        while self._total > limit and found:
            _, name, size = found.pop()
            self.remove(name)
            self._total -= size
            self.evicted += 1

    def wrote(self, name: str) -> None:
        """Take note of a file that was just written."""
        self.names.add(name)
        self._total += self._file_size
        self._num_written += 1

    def touch(self, name: str) -> None:
        """Count a file as just used; one that is gone is forgotten."""
        now = time.time_ns()
        try:
            os.utime(self.path / name, ns=(now, now))
        except FileNotFoundError:
            self.names.discard(name)

    def remove(self, name: str) -> None:
        """Remove a file, if it is still there.

        Raises:
            OSError: it is there and cannot be removed.
        """
        self.names.discard(name)
        with suppress(FileNotFoundError):
            os.unlink(self.path / name)
