"""Limits of one compilation: states, memory and time; passing one is a ConstraintError."""

import time
from dataclasses import dataclass, field

from lmc.errors import ConstraintError

MAX_NODES = 100_000
MAX_ITEMS = 10_000_000
_CHECK_EVERY = 64


class WordsTooManyError(ConstraintError):
    """A list of words that needs too many states, however the rest is cut down."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """What one compilation may still use; shared by all of its parts.

    Args:
        max_states: the most automaton states, of characters and of bytes.
        subject: what is compiled, for messages.
        max_seconds: processor time of the calling thread, from the creation of this object
            (not wall time, so that a busy machine refuses nothing that an idle one takes).
    """

    max_states: int
    max_seconds: float
    subject: str = "regex"
    _deadline: float = field(init=False)
    _items: int = 0
    _tick: int = 0

    def __post_init__(self) -> None:
        self._deadline = time.thread_time() + self.max_seconds

    def check_states(self, count: int) -> None:
        """Raise if an automaton of `count` states is too large, or time is up."""
        if count > self.max_states:
            raise ConstraintError(
                f"{self.subject} is too complex: its automaton needs more than "
                f"{self.max_states} states",
                hint="bound repetitions of overlapping parts more tightly, or split the text",
            )
        self.tick()

    def check_words(self, count: int) -> None:
        """Raise if words alone need an automaton of `count` states, and that is too many."""
        if count > self.max_states:
            raise WordsTooManyError(
                f"{self.subject} is too complex: its listed values need more than "
                f"{self.max_states} states",
                hint="list fewer values, or allow them by a pattern",
            )
        self.tick()

    def check_nodes(self, count: int) -> None:
        """Raise if the pattern unrolls to too many nodes."""
        if count > MAX_NODES:
            raise ConstraintError(
                f"{self.subject} is too complex: its repetitions unroll to more than "
                f"{MAX_NODES} parts",
                hint="use smaller repetition counts",
            )
        self.tick()

    def spend(self, items: int) -> None:
        """Count stored set members (this bounds memory); raise past the limit."""
        self._items += items
        if self._items > MAX_ITEMS:
            raise ConstraintError(
                f"{self.subject} is too complex: its automaton is built from more than "
                f"{MAX_ITEMS} parts",
                hint="bound repetitions of overlapping parts more tightly, or split the text",
            )

    def is_exceeded(self, error: ConstraintError) -> bool:
        """Return whether one of these limits was passed, and less of the rest may fit."""
        is_limit = f"{self.subject} is too complex" in error.message
        return is_limit and not isinstance(error, WordsTooManyError)

    def tick(self) -> None:
        """Look at the clock now and then; raise when time is up."""
        self._tick += 1
        if self._tick % _CHECK_EVERY == 0:
            self.check_time()

    def check_time(self) -> None:
        """Raise when time is up."""
        if time.thread_time() > self._deadline:
            raise ConstraintError(
                f"{self.subject} is too complex: not compiled within {self.max_seconds:g} s",
                hint="simplify the pattern, or allow more time",
            )
