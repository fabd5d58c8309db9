"""The loop: one thread that fires what is ready, fed by any thread through an inbox."""

import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from lmc.runtime.executor.opening import Opening
from lmc.runtime.executor.slots import Ready

FIRES_PER_LOOK = 128
"""Ready entries fired between two looks into the inbox, so that a cancel is seen at once."""

MAX_HOST_THREADS = 32


class Loop:
    """Runs callables one at a time on its own thread.

    `ready` and timers belong to the loop's thread; other threads use `post`. `on_idle` is
    called when nothing is ready and nothing is in the inbox; `on_crash` gets what a callable
    raised.
    """

    def __init__(
        self, on_idle: Callable[[], None], on_crash: Callable[[BaseException], None]
    ) -> None:
        self.ready: Ready = deque()
        self.host = HostPool()
        self.opening = Opening(self)
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_numbers = itertools.count()
        self._on_idle = on_idle
        self._on_crash = on_crash
        self._thread = threading.Thread(target=self._work, name="lmc-executor", daemon=True)

    def start(self) -> "Loop":
        """Start the thread."""
        self._thread.start()
        return self

    def post(self, function: Callable[[], None]) -> None:
        """Have a function called on the loop's thread; from any thread."""
        self._inbox.put(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Have a function called after some time, unless the loop has stopped by then."""
        due = time.monotonic() + seconds
        heappush(self._timers, (due, next(self._timer_numbers), function))

    def stop(self) -> None:
        """End the thread once what was posted before is done; waits for it."""
        self._inbox.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.host.stop()

    def _work(self) -> None:
        is_over = False
        while not is_over:
            try:
                is_over = self._turn()
            except Exception as error:
                # A bug of the executor or of a backend: the runs end, the thread lives on.
                self._on_crash(error)

    def _turn(self) -> bool:
        """Fire some of what is ready, then take one entry of the inbox; True ends the loop."""
        ready, inbox = self.ready, self._inbox
        if self._timers:
            self._fire_timers()
        for _ in range(FIRES_PER_LOOK):
            if not ready:
                break
            ready.popleft()()
        try:
            function = inbox.get_nowait()
        except queue.Empty:
            if ready:
                return False
            self._on_idle()
            if ready:
                return False
            function = self._await_entry()
        if function is None:
            return True
        function()
        return False

    def _fire_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            self.ready.append(heappop(self._timers)[2])

    def _await_entry(self) -> Callable[[], None] | None:
        """Wait for the inbox, or until the next timer is due."""
        if not self._timers:
            return self._inbox.get()
        try:
            return self._inbox.get(timeout=max(0.0, self._timers[0][0] - time.monotonic()))
        except queue.Empty:
            return self._fire_timers


class HostPool:
    """Daemon threads for host functions: made when all others are busy, up to a limit.

    Daemons, because a user's function that blocks must not keep the process from ending.
    """

    def __init__(self, max_threads: int = MAX_HOST_THREADS) -> None:
        self._max_threads = max_threads
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._num_threads = 0
        self._num_waiting = 0

    def submit(self, function: Callable[[], None]) -> None:
        """Run a function, which must not raise, on a thread of the pool."""
        with self._lock:
            self._num_waiting += 1
            is_full = self._num_threads >= self._max_threads
            if self._num_waiting > self._num_threads and not is_full:
                self._num_threads += 1
                threading.Thread(target=self._serve, name="lmc-host", daemon=True).start()
        self._work.put(function)

    def stop(self) -> None:
        """Let idle threads end; busy ones end after their function."""
        for _ in range(self._num_threads):
            self._work.put(None)

    def _serve(self) -> None:
        while (function := self._work.get()) is not None:
            function()
            with self._lock:
                self._num_waiting -= 1
