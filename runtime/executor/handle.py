"""RunHandle: a run in progress, to be read, streamed, awaited or cancelled."""

import contextlib
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from lmc.ir.calls import TextPiece
from lmc.runtime.executor.feed import Feed
from lmc.runtime.executor.session import Job
from lmc.runtime.result import CallRecord, Key, R, Readings, RunResult, RunState, RunUsage, named

if TYPE_CHECKING:
    import asyncio


class RunHandle(Readings[R]):
    """A run in progress. Reading a value waits for the end and raises what the run failed with.

    As a context manager it cancels the run on the way out, if it has not ended.
    """

    def __init__(self, job: Job, feed: Feed) -> None:
        self._job = job
        self._feed = feed
        job.when_ended(feed.end)

    @property
    def state(self) -> RunState:
        """The final state of the program."""
        return self.result().state

    @property
    def value(self) -> R:  # type: ignore[override]
        """What the program returned."""
        return self.result().value

    @property
    def calls(self) -> list[CallRecord]:
        """The model calls that the result needed, in program order."""
        return self.result().calls

    @property
    def usage(self) -> RunUsage:
        """What all calls took."""
        return self.result().usage

    def __repr__(self) -> str:
        return f"<run {'ended' if self.is_done else 'in progress'}>"

    def __enter__(self) -> "RunHandle[R]":
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    @property
    def is_done(self) -> bool:
        """Whether the run has ended, by success or failure."""
        return self._job.is_ended

    def result(self, timeout: float | None = None) -> RunResult[R]:
        """Wait for the end and return the result.

        Args:
            timeout: seconds to wait; the run itself goes on when they are over.

        Raises:
            TimeoutError: the run has not ended within `timeout` seconds.
            RunError: the program failed.
            Cancelled: the run was cancelled.
        """
        if not self._job.await_end(timeout):
            raise TimeoutError(f"the run has not ended within {timeout:g} s")
        return self._job.wait()

    def cancel(self) -> None:
        """Cancel the run; reading it raises Cancelled. Does nothing once it has ended."""
        self._job.cancel()

    def sync(self) -> None:
        """Wait for the end; failures are left to `error` and to reading."""
        self._job.await_end()

    def error(self) -> BaseException | None:
        """Wait for the end and return what the run failed with, None if it did not."""
        self.sync()
        outcome = self._job.outcome
        return outcome if isinstance(outcome, BaseException) else None

    # -- streams ---------------------------------------------------------------------------

    def text_iter(self, var_name: Key | None = None) -> Iterator[str]:
        """Yield the text as it comes, in pieces that join to it.

        Args:
            var_name: yield the text of this variable only: that of the first generation or
                choice with this name; where there is none, the variable's value in the end.

        Raises:
            RunError: the program failed; raised after the pieces that came before.
        """
        seen, is_over = 0, False
        name = None if var_name is None else named(var_name)
        while not is_over:
            try:
                pieces, is_over = self._feed.wait(name, seen)
            except KeyboardInterrupt:
                self.cancel()
                raise
            seen += len(pieces)
            yield from pieces
        yield from self._rest(name, seen)

    async def text_async_iter(
        self, var_name: Key | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """Yield the text as `text_iter` does, for asyncio.

        Args:
            var_name: yield the text of this variable only.
            return_meta_data: yield pairs (piece, meta) for a variable: token counts so far,
                and log-probabilities of the piece's tokens; `get_meta_info` has the whole.
        """
        import asyncio

        seen, is_over = 0, False
        name = None if var_name is None else named(var_name)
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        leave = self._feed.subscribe(lambda: _tell(loop, changed))
        with_meta = return_meta_data and name is not None
        try:
            while not is_over:
                changed.clear()
                pieces, is_over = self._feed.look(name, seen)
                seen += len(pieces)
                for piece in pieces:
                    yield (str(piece), _meta_of(piece)) if with_meta else piece
                if not is_over:
                    await changed.wait()
        finally:
            leave()
        for piece in self._rest(name, seen):
            yield (piece, {}) if with_meta else piece

    def _rest(self, var_name: str | None, seen: int) -> list[str]:
        """Return what no piece told; raises what the run failed with, if it has ended so."""
        if var_name is not None and self._feed.meta(var_name) is not None:
            return []
        result = self.result()
        if seen or (var_name is not None and self._feed.has(var_name)):
            return []
        text = result.text() if var_name is None else str(result[var_name])
        return [text] if text else []

    def __await__(self) -> Generator[Any, None, RunResult[R]]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> RunResult[R]:
        """Wait without blocking the event loop; a cancelled task cancels the run."""
        import asyncio

        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        self._job.when_ended(lambda: _tell(loop, ended))
        try:
            await ended.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.result()


def _meta_of(piece: str) -> dict[str, Any]:
    return dict(piece.meta) if isinstance(piece, TextPiece) else {}


def _tell(loop: "asyncio.AbstractEventLoop", event: "asyncio.Event") -> None:
    """Set an event of an event loop from another thread; one that has closed needs no news."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)
