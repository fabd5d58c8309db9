"""Guesses: work that is done ahead of a choice, and may turn out to be wanted or not.

A guess is open until it is adopted (its work is a call's own from then on) or dropped. Both are
decided once, by whoever comes first: the executor, which learns what was chosen, or the
backend, which gives guesses up when it needs their room.
"""

import threading
from collections.abc import Callable
from typing import Literal

from lmc.ir.calls import CallUsage

GuessState = Literal["open", "adopted", "dropped"]


class Guess:
    """One piece of work ahead; shared by the executor and the backend, from any thread.

    Attributes:
        is_forced: done whatever it may waste, for tests.
        spent: tokens that the backend has computed for it while it was open.
        repeated: of these, those that a call was computing as well.
        usage: what the answer took, where it came while the guess was open.
        on_adopt: called when it is adopted; set by the backend.
    """

    def __init__(self, *, is_forced: bool = False) -> None:
        self.is_forced = is_forced
        self.spent = 0
        self.repeated = 0
        self.usage: CallUsage | None = None
        self.on_adopt: Callable[[], None] | None = None
        self._state: GuessState = "open"
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether nothing is decided."""
        return self._state == "open"

    @property
    def is_adopted(self) -> bool:
        """Whether a call has taken the work over."""
        return self._state == "adopted"

    @property
    def is_dropped(self) -> bool:
        """Whether nobody wants the work."""
        return self._state == "dropped"

    @property
    def used(self) -> int:
        """Tokens that were not in vain: 0 until it is adopted."""
        return self.spent - min(self.spent, self.repeated) if self.is_adopted else 0

    def adopt(self) -> bool:
        """Take the work over; False if it was dropped before."""
        if not self._decide("adopted"):
            return False
        if self.on_adopt is not None:
            self.on_adopt()
        return True

    def drop(self) -> bool:
        """Give the work up; False if it was adopted before."""
        return self._decide("dropped")

    def _decide(self, state: GuessState) -> bool:
        with self._lock:
            if self._state == "open":
                self._state = state
            return self._state == state
