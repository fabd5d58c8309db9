"""EngineThread: the inbox of an engine, and the thread that empties it and runs the steps.

Whatever touches the core is posted here and runs between two steps; only this thread runs it.
"""

import atexit
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from lmc.errors import Cancelled, EngineError
from lmc.runtime.cache.events import CacheEvent, CacheStats
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.request import Request
from lmc.runtime.engine.self_check import check_exactness
from lmc.runtime.engine.stats import EngineStats
from lmc.runtime.engine.watch import gauges_of
from lmc.runtime.exactness import Exactness

RUN_SECONDS = 0.05
"""How long the next call of a run is waited for, where other calls would take its memory."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class CallTicket:
    """A submitted call; `cancel` may come at any time, from any thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """Ask to end the call; its `on_done` still comes, with Cancelled."""
        self._cancel()


class EngineThread:
    """Base of the engine: a core, its inbox and its thread.

    Args:
        core: what serves the requests; belongs to the thread from `_start_thread` on.
        threads: threads of the forward pass; None for whatever torch is set to.
    """

    def __init__(self, core: EngineCore, threads: int | None) -> None:
        self._core = core
        self._threads = threads
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._is_closing = False
        self._has_stopped = False
        self._waiting_since: float | None = None
        self._exactness: Future[Exactness] = Future()
        self._thread = threading.Thread(target=self._run, name="lmc-engine", daemon=True)
        self._at_exit = _close_at_exit(self)

    def _start_thread(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End every call with Cancelled and stop; no thread is left. May be called again."""
        self._ask_to_stop()
        self._join()

    def _ask_to_stop(self) -> None:
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()

    def _join(self) -> bool:
        """Wait until the thread has ended; False when it is the one that asks."""
        if threading.current_thread() is self._thread:
            return False
        self._thread.join()
        atexit.unregister(self._at_exit)
        return True

    # -- questions --------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """What the check at the start has found; waits for it."""
        return self._exactness.result()

    def stats(self) -> EngineStats:
        """Return the totals since the start; waits for the step that is running."""
        stats = self._ask(self._core.snapshot)
        stats.exactness = self.exactness
        return stats

    def metrics_text(self) -> str:
        """Return totals, gauges and histograms in Prometheus' text format."""
        return self._ask(self._metrics_text)

    def cache_stats(self) -> CacheStats:
        """Return what the prefix cache holds and has done; waits for the step that is running."""
        return self._ask(self._core.cache.stats)

    def take_cache_events(self) -> list[CacheEvent]:
        """Return what has changed in the prefix cache since the last time, oldest first.

        Nothing but with the option `cache_events`.
        """
        events = self._core.cache.events
        return [] if events is None else self._ask(events.take)

    def flush_cache(self) -> int:
        """Forget every cached prefix that is neither in use nor pinned; return its tokens."""
        return self._ask(self._core.cache.flush)

    def check(self) -> None:
        """Verify that every slot of the KV memory has exactly one owner.

        With the option `debug` also that it holds the tokens it is used for.
        """
        self._ask(self._core.check)

    def _metrics_text(self) -> str:
        core = self._core
        stats = core.snapshot()
        return core.watch.metrics.text(stats, gauges_of(core, self.exactness))

    # -- inbox -------------------------------------------------------------------------------

    def _post(self, action: Callable[[], None]) -> bool:
        """Have the engine's thread run `action` before its next step; False when it is gone."""
        with self._wake:
            if self._has_stopped:
                return False
            self._inbox.append(action)
            self._wake.notify_all()
            return True

    def _ask(self, action: Callable[[], T]) -> T:
        """Run `action` on the engine's thread and return its result."""
        if threading.current_thread() is self._thread:
            return action()
        answer: Future[T] = Future()
        if not self._post(lambda: _settle(answer, action)):
            return action()
        return answer.result()

    def _submit(self, request: Request, *, is_ready: bool = True) -> CallTicket:
        """Register a request, and start it if nothing has to be prepared."""
        core = self._core

        def begin() -> None:
            core.register(request)
            if is_ready:
                core.start(request)

        if not self._post(begin):
            request.fail(core, closed_error())
        return CallTicket(lambda: self._discard(lambda: request.cancel(core)))

    def _refuse(self, on_done: Callable[[EngineError], None], error: EngineError) -> CallTicket:
        """End a call that cannot be taken."""
        if not self._post(lambda: _call_back(on_done, error)):
            _call_back(on_done, error)
        return CallTicket(lambda: None)

    def _discard(self, action: Callable[[], None]) -> None:
        """Post an action that no longer matters once the engine is gone."""
        self._post(action)

    def _wake_up(self) -> None:
        """Have the thread look again whether there is something to do."""
        self._post(_nothing)

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        """Serve until closed; whatever happens, every request is ended."""
        reason: BaseException = Cancelled("the engine was closed")
        try:
            self._set_threads()
            self._exactness.set_result(check_exactness(self._core.runner.model))
            self._core.scheduler.room.may_wait = True
            while self._take_in():
                self._core.step()
                self._await_runs()
        except BaseException as error:
            _log.exception("the engine stopped")
            reason = EngineError(f"the engine stopped: {error}")
            reason.__cause__ = error
        finally:
            self._stop(reason)

    def _take_in(self) -> bool:
        """Run what came in; wait while there is nothing to do. False when closing."""
        while True:
            with self._wake:
                while not (self._inbox or self._is_closing or self._core.has_work):
                    self._wake.wait(self._core.patience)
                if self._is_closing:
                    return False
                actions = list(self._inbox)
                self._inbox.clear()
            for action in actions:
                action()
            if self._core.has_work:
                return True

    def _await_runs(self) -> None:
        """Where a step started nothing because calls are due, wait for what comes next."""
        scheduler = self._core.scheduler
        if not scheduler.room.is_waiting:
            self._waiting_since = None
            return
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        left = self._waiting_since + RUN_SECONDS - now
        with self._wake:
            if self._wake.wait_for(lambda: self._inbox or self._is_closing, max(0.0, left)):
                return
        scheduler.foresight.await_no_longer()

    def _stop(self, reason: BaseException) -> None:
        """Take nothing more in, run what is in the inbox, end every request."""
        with self._wake:
            self._has_stopped = True
            if not self._exactness.done():
                self._exactness.set_result(Exactness(detail="the engine stopped before its check"))
            actions = list(self._inbox)
            self._inbox.clear()
        for action in actions:
            action()
        self._core.fail_all(reason)
        self._core.close()

    def _set_threads(self) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)


def _close_at_exit(engine: EngineThread) -> Callable[[], None]:
    """Close an engine that is still open when the interpreter ends."""
    ref = weakref.ref(engine)

    def close() -> None:
        alive = ref()
        if alive is not None:
            alive.close()

    atexit.register(close)
    return close


def _nothing() -> None:
    """What is posted to wake the thread."""


def _settle(answer: Future[T], action: Callable[[], T]) -> None:
    try:
        answer.set_result(action())
    except Exception as error:
        answer.set_exception(error)


def _call_back(on_done: Callable[[EngineError], None], error: EngineError) -> None:
    try:
        on_done(error)
    except Exception:
        _log.exception("an on_done callback raised")


def closed_error() -> EngineError:
    """Return what ends a call that comes too late."""
    return EngineError("the engine is closed", hint="make a new one")
