"""Progress of anything that takes over a second, on stderr."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType

QUIET_SECONDS = 1.0
REDRAW_SECONDS = 0.5


class Progress:
    """Shows what is being done and how far; stays silent for the first second.

    On a terminal one line is updated in place; elsewhere each task prints one line.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = ""
        self._width = 0
        self._lock = threading.Lock()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def __call__(self, what: str, done: float, total: float | None = 1.0) -> None:
        """Tell that `done` of `total` of `what` is done; a total of None is not known."""
        self.show(what, f"{done / total:4.0%}" if total else f"{done:,.0f}")

    def clear(self) -> None:
        """Take the line away, so that something else can be printed."""
        with self._lock:
            if self._width:
                sys.stderr.write("\r" + " " * self._width + "\r")
                sys.stderr.flush()
                self._width = 0

    @contextmanager
    def running(self, what: str, total: int | None = None) -> Generator["Running"]:
        """Show for how long a task has been running, and how many of `total` parts are done."""
        task = Running(self, what, total)
        task.start()
        try:
            yield task
        finally:
            task.stop()
            self.clear()

    def show(self, what: str, how_far: str) -> None:
        """Show how far something is, once the first second is over."""
        if time.monotonic() - self._started < QUIET_SECONDS:
            return
        with self._lock:
            if sys.stderr.isatty():
                line = f"{what} {how_far}"
                sys.stderr.write("\r" + line.ljust(self._width))
                sys.stderr.flush()
                self._width = max(self._width, len(line))
            elif what != self._shown:
                self._shown = what
                sys.stderr.write(f"{what} ...\n")
                sys.stderr.flush()


class Running:
    """A task that is shown again and again until it ends, by a thread of its own."""

    def __init__(self, progress: Progress, what: str, total: int | None) -> None:
        self.num_done = 0
        self._progress = progress
        self._what = what
        self._total = total
        self._started = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="lmc-progress", daemon=True)

    def start(self) -> None:
        """Begin to show the task."""
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is shown afterwards."""
        self._over.set()
        self._thread.join()

    def _redraw(self) -> None:
        pause = QUIET_SECONDS
        while not self._over.wait(pause):
            pause = REDRAW_SECONDS
            seconds = f"{time.monotonic() - self._started:.0f} s"
            parts = f"{self.num_done} of {self._total}, " if self._total is not None else ""
            self._progress.show(self._what, parts + seconds)
