"""An oracle whose answers take time, come piece by piece on one thread, and can be cancelled."""

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import Any

from lmc.errors import Cancelled
from lmc.runtime.oracle import Oracle


class Ticket:
    """A call that has not been answered."""

    def __init__(self, on_done: Callable[[Any], None]) -> None:
        self.is_cancelled = False
        self._on_done = on_done
        self._lock = threading.Lock()
        self._is_done = False

    def done(self, result: Any) -> None:
        """Answer, once."""
        with self._lock:
            is_first, self._is_done = not self._is_done, True
        if is_first:
            self._on_done(result)

    def cancel(self) -> None:
        """End the call with Cancelled."""
        self.is_cancelled = True
        self.done(Cancelled("the call was cancelled"))


class SlowOracle(Oracle):
    """Answers after `delay(site)` seconds; `most` is the number of calls that were open at once."""

    def __init__(self, script: Any = None, delay: Callable[[Any], float] | float = 0.0) -> None:
        super().__init__(script)
        self._delay = delay if callable(delay) else lambda call: delay
        self._due: list[tuple[float, int, Ticket, Callable[[], Any]]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self.open: set[Ticket] = set()
        self.most = 0
        self.num_calls = 0
        threading.Thread(target=self._work, name="slow-oracle", daemon=True).start()

    def submit_gen(self, call: Any, on_done: Any, on_text: Any = None) -> Ticket:
        """Answer a generation later; its text comes in pieces of one token before."""
        return self._later(call, on_done, lambda: self._walk(call, on_text).result())

    def submit_score(self, call: Any, on_done: Any) -> Ticket:
        """Answer a scoring later."""
        return self._later(call, on_done, lambda: self.score(call))

    def _later(self, call: Any, on_done: Any, answer: Callable[[], Any]) -> Ticket:
        ticket = Ticket(on_done)
        due = monotonic() + self._delay(call)
        with self._changed:
            self.num_calls += 1
            self.open = {other for other in self.open if not other.is_cancelled} | {ticket}
            self.most = max(self.most, len(self.open))
            heappush(self._due, (due, next(self._numbers), ticket, answer))
            self._changed.notify()
        return ticket

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > monotonic():
                    wait = self._due[0][0] - monotonic() if self._due else None
                    self._changed.wait(wait)
                _, _, ticket, answer = heappop(self._due)
                self.open.discard(ticket)
            if not ticket.is_cancelled:
                ticket.done(_outcome(answer))


def _outcome(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except Exception as error:
        # A script of the test's own may raise anything; the run is told.
        return error
