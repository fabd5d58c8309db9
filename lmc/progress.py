"""Progress of anything that takes over a second, on stderr."""

import sys
import time
from types import TracebackType

QUIET_SECONDS = 1.0


class Progress:
    """Shows what is being done and how far; stays silent for the first second.

    On a terminal one line is updated in place; elsewhere each task prints one line.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = ""
        self._width = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def __call__(self, what: str, done: float, total: float | None = 1.0) -> None:
        """Tell that `done` of `total` of `what` is done; a total of None is not known."""
        if time.monotonic() - self._started < QUIET_SECONDS:
            return
        if sys.stderr.isatty():
            line = f"{what} {done / total:4.0%}" if total else f"{what} {done:,.0f}"
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = max(self._width, len(line))
        elif what != self._shown:
            self._shown = what
            sys.stderr.write(f"{what} ...\n")
