"""The scheduling of guesses: what fills a step when all calls have had their part.

Mixed into the scheduler. A guess computes into free slots of its own: it evicts nothing, and
nothing of it is in the tree before a call has adopted it. When calls need its slots or its
row, it is dropped at once.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.admission import WaitingQueue
from lmc.runtime.engine.ledger import MAX_SAVED, Ledger
from lmc.runtime.engine.sequence import Sequence as Seq
from lmc.runtime.engine.sequence import SequenceState

MAX_REPEATED = 16
"""Tokens that a call is computing and a guess computes as well, rather than wait for them."""


class OpenStep(Protocol):
    """A step while it is being chosen."""

    tokens_left: int

    def take(self, seq: Seq, *, limit: int) -> int:
        """Add as much of `seq` as fits; return the tokens."""
        ...


class Guesses:
    """The sequences of open guesses; `running` ones hold a row and slots.

    Args:
        cache: the KV memory.
        queue: tells who must wait for a prefix that is being computed.
    """

    def __init__(self, cache: PrefixCache, queue: WaitingQueue) -> None:
        self.ledger = Ledger()
        self.waiting: list[Seq] = []
        self.running: list[Seq] = []
        self.dropped: list[Seq] = []
        self._cache = cache
        self._queue = queue

    @property
    def has_work(self) -> bool:
        """Whether some were adopted; for open guesses alone no step is made."""
        return any(_guess_is_adopted(seq) for seq in (*self.waiting, *self.running))

    @property
    def are_open(self) -> bool:
        """Whether there are any."""
        return bool(self.waiting or self.running)

    def add(self, seq: Seq) -> None:
        """Queue the sequence of a guess."""
        assert seq.guess is not None, "a guess has its state"
        seq.is_guess = True
        self.ledger.open(seq.guess)
        self.waiting.append(seq)

    def remove(self, seq: Seq) -> None:
        """Take a sequence out."""
        (self.waiting if seq in self.waiting else self.running).remove(seq)

    def take_adopted(self) -> list[Seq]:
        """Take out and return the sequences that belong to calls now."""
        self.ledger.settle()
        found = [seq for seq in (*self.running, *self.waiting) if _guess_is_adopted(seq)]
        for seq in found:
            self.remove(seq)
            seq.is_guess = False
        return found

    def drop_one(self, release: Callable[[Seq], None]) -> bool:
        """Drop the youngest guess that holds memory; False where there is none."""
        for seq in reversed(self.running):
            assert seq.guess is not None, "a guess has its state"
            if seq.guess.drop():
                release(seq)
                self.dropped.append(seq)
                return True
        return False

    def take_dropped(self) -> list[Seq]:
        """Return the sequences that were dropped since the last time."""
        dropped, self.dropped = self.dropped, []
        return dropped

    def fill(
        self,
        chosen: OpenStep,
        *,
        room: int,
        leaders: Sequence[Seq],
        start: Callable[[Seq, int], bool],
    ) -> int:
        """Give what is left of a step to guesses; return the tokens.

        Args:
            chosen: the step so far.
            room: free slots that no call needs soon.
            leaders: prefills of calls, which guesses of the same prefix wait for, but for a
                few tokens.
            start: starts a waiting sequence within some room, if it can.
        """
        total = 0
        for seq in (*self.running, *self.waiting):
            assert seq.guess is not None, "a guess has its state"
            allowed = self.ledger.allowance(seq.guess)
            within = self._cache.tokens_within(seq.cached_len, room)
            limit = min(chosen.tokens_left, within if allowed is None else min(within, allowed))
            if limit <= 0 or not seq.extend_len or not seq.guess.is_open:
                continue
            if seq.state is SequenceState.WAITING:
                repeated = self._queue.repeated_len(seq, leaders)
                missing = seq.goal_len - self._queue.matched_len(seq)
                if repeated > min(MAX_REPEATED, missing // 2):
                    continue
                # A part of a prefix saves nothing, so it waits until the whole may be in vain.
                if allowed is not None and allowed < min(missing, MAX_SAVED):
                    continue
                if not start(seq, room):
                    continue
                seq.guess.repeated = repeated
                self.waiting.remove(seq)
                self.running.append(seq)
            taken = chosen.take(seq, limit=limit)
            self.ledger.spend(seq.guess, taken)
            room -= self._cache.new_slots(seq.cached_len, seq.cached_len + taken)
            total += taken
        return total


def _guess_is_adopted(seq: Seq) -> bool:
    return seq.guess is not None and seq.guess.is_adopted
