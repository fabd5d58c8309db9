"""Opening: the first calls of runs that start together are handed over together.

A backend begins as soon as it has one call. If the calls of a batch came one by one, it would
compute what came first and forget it before what shares its prefix comes: how much is computed
would depend on how fast a batch is started. So the calls that runs ask while a batch is opened
are held until nothing more can come before an answer, then sent in the order of their tokens,
which is a walk through the trie of their contexts. All methods are called on the loop's thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmc.errors import Cancelled, LmcError
from lmc.ir.target import Ticket

if TYPE_CHECKING:
    from lmc.runtime.executor.loop import Loop

MOST_SECONDS = 0.5
"""How long a call is held at the most: arguments may come slowly, or a run compute for long."""

OnDone = Callable[[Any], None]
Submit = Callable[[OnDone], Ticket]


@dataclass(slots=True, eq=False)
class Held:
    """A call that is held, or was; `cancel` ends it in either state."""

    opening: "Opening"
    context: tuple[int, ...]
    submit: Submit
    on_done: OnDone
    ticket: Ticket | None = None

    def send(self) -> None:
        """Hand the call over."""
        try:
            self.ticket = self.submit(self.on_done)
        except LmcError as error:
            self.on_done(error)

    def cancel(self) -> None:
        """End the call; its `on_done` comes with Cancelled."""
        if self.opening.drop(self):
            self.on_done(Cancelled("the call was cancelled"))
        elif self.ticket is not None:
            self.ticket.cancel()


class Opening:
    """Holds calls while runs are started."""

    def __init__(self, loop: "Loop") -> None:
        self._loop = loop
        self._held: list[Held] = []
        self._is_open = False
        self._is_complete = False

    def begin(self) -> None:
        """Hold calls from now on: runs are about to be started."""
        self._is_open, self._is_complete = True, False

    def complete(self) -> None:
        """Take note that all runs were started."""
        self._is_complete = True

    def holding(self, context: tuple[int, ...], submit: Submit) -> Submit:
        """Return what submits a call now, or holds it, as the time asks for."""
        if not self._is_open:
            return submit

        def hold(on_done: OnDone) -> Held:
            if not self._held:
                self._loop.call_later(MOST_SECONDS, self._send)
            held = Held(self, context, submit, on_done)
            self._held.append(held)
            return held

        return hold

    def drop(self, held: Held) -> bool:
        """Take a call out; False if it is not held any more."""
        if held not in self._held:
            return False
        self._held.remove(held)
        return True

    def idle(self) -> None:
        """Send what is held, once all runs were started: no step is ready on the loop."""
        if self._is_complete and self._held:
            self._is_open = False
            self._send()

    def _send(self) -> None:
        held, self._held = self._held, []
        for each in sorted(held, key=lambda each: each.context):
            each.send()
