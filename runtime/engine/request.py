"""Request: a submitted call on its way through the engine, and what it may ask of the core."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.errors import Cancelled, EngineError
from lmc.runtime.engine.sequence import Sequence
from lmc.runtime.engine.stats import EngineStats
from lmc.runtime.guess import Guess

LogitRows = NDArray[np.float32]

_log = logging.getLogger(__name__)


class Core(Protocol):
    """What a request may ask of the engine, on the engine's thread."""

    stats: EngineStats

    def add(self, seq: Sequence) -> None:
        """Queue a sequence; raises EngineError when it can never fit."""
        ...

    def end(self, seq: Sequence, *, keep_cache: bool = True) -> None:
        """End a sequence; it owns nothing afterwards."""
        ...

    def end_pinned(self, seq: Sequence) -> int:
        """End a running sequence and pin its tokens; return the pin's number."""
        ...

    def next_serial(self) -> int:
        """Return the next place in the order of arrival."""
        ...

    def forget(self, request: "Request", outcome: object) -> None:
        """Take note that a request has ended, and how."""
        ...


class Request(ABC):
    """Base of the three kinds of calls: owns sequences, ends in exactly one `on_done`.

    `guess` is set where nobody has made the call yet; `namespace` tells with which cached
    tokens the call may share. `gaps` are the seconds between output tokens, in order.
    """

    def __init__(self, on_done: Callable[[Any], None]) -> None:
        self._on_done = on_done
        self.guess: Guess | None = None
        self.namespace = ""
        self.sequences: list[Sequence] = []
        self.is_done = False
        self.submitted_at = time.perf_counter()
        self.started_at: float | None = None
        self.first_token_at: float | None = None
        self.gaps: list[float] = []
        self.ended_at = 0.0
        self._last_token_at = 0.0

    @abstractmethod
    def start(self, core: Core) -> None:
        """Queue the request's sequences, or end at once when there is nothing to compute."""
        ...

    @abstractmethod
    def on_logits(self, core: Core, seq: Sequence, position: int, rows: LogitRows) -> None:
        """Take the logits of `seq` at `position` and following, float32 [n, vocab]."""
        ...

    @abstractmethod
    def on_computed(self, core: Core, seq: Sequence) -> None:
        """Take note that all of `seq` is computed and nothing was added to it."""
        ...

    def mark_started(self, now: float) -> None:
        """Remember when the first step for this request began."""
        if self.started_at is None:
            self.started_at = now

    def note_token(self) -> None:
        """Remember when an output token, or the first row of a score, came."""
        now = time.perf_counter()
        if self.first_token_at is None:
            self.first_token_at = now
        else:
            self.gaps.append(now - self._last_token_at)
        self._last_token_at = now

    def since_submission(self, moment: float | None) -> float:
        """Return the seconds from submission to `moment`; 0 for a moment that never came."""
        return 0.0 if moment is None else moment - self.submitted_at

    def fail(self, core: Core, error: BaseException, *, keep_cache: bool = True) -> None:
        """End the request with an error."""
        if self.is_done:
            return
        if isinstance(error, Cancelled):
            core.stats.cancelled_requests += 1
        else:
            core.stats.failed_requests += 1
        self._close(core, error, keep_cache=keep_cache)

    def cancel(self, core: Core) -> None:
        """End the request because its caller asked for it."""
        self.fail(core, Cancelled("the request was cancelled"))

    def deliver(self, core: Core, result: object) -> None:
        """End the request with its result."""
        core.stats.finished_requests += 1
        self._close(core, result, keep_cache=True)

    def _close(self, core: Core, outcome: object, *, keep_cache: bool) -> None:
        self.is_done = True
        self.ended_at = time.perf_counter()
        for seq in self.sequences:
            core.end(seq, keep_cache=keep_cache)
        core.forget(self, outcome)
        try:
            self._on_done(outcome)
        except Exception:
            _log.exception("an on_done callback raised")


def context_array(context: tuple[int, ...], vocab_size: int) -> NDArray[np.int32]:
    """Return token ids as an array.

    Raises:
        EngineError: an id has no row in the model's embedding.
    """
    wide = np.array(context, dtype=np.int64)
    bad = (wide < 0) | (wide >= vocab_size)
    if bad.any():
        raise EngineError(
            f"token id {int(wide[bad][0])} is outside the model's vocabulary of {vocab_size}",
            hint="the program was lowered for another model; compile it again",
        )
    return wide.astype(np.int32)
