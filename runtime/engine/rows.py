"""Rows: the sequences that run, with their rows of the page table and their locked paths."""

import heapq
from bisect import insort

from lmc.runtime.cache.prefix_cache import CacheHandle, PrefixCache
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.guesses import Guesses
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.step_plan import IntArray
from lmc.runtime.engine.tenants import Use, uses_of


class Rows:
    """Who runs, and in which row.

    Args:
        cache: the KV memory.
        page_table: int32 [rows, max_len]; row r holds the slots of one running sequence.
        count: rows that are used, at most those of the page table.
        foresight: told of sequences that no longer run.
        guesses: those of guesses stand there, not in `running`.

    Attributes:
        running: those of calls, in order of arrival.
        free: rows that nobody has, a heap.
    """

    def __init__(
        self,
        cache: PrefixCache,
        page_table: IntArray,
        count: int,
        *,
        foresight: Foresight,
        guesses: Guesses,
    ) -> None:
        self._cache = cache
        self._foresight = foresight
        self._guesses = guesses
        self._uses: dict[str, Use] | None = None
        self.page_table = page_table
        self.count = count
        self.running: list[Sequence] = []
        self.free = list(range(count))

    def uses(self) -> dict[str, Use]:
        """Return what each tenant holds; kept until sequences come, go or grow."""
        if self._uses is None:
            self._uses = uses_of(self.running)
        return self._uses

    def have_grown(self) -> None:
        """Take note that sequences may have more tokens than before."""
        self._uses = None

    def prefilling(self) -> list[Sequence]:
        """Return those whose prefill is not at its end, in order of arrival."""
        return [seq for seq in self.running if seq.cached_len < seq.prefill_len]

    def place(self, seq: Sequence, handle: CacheHandle, slots: IntArray, *, pool_len: int) -> None:
        """Give a sequence that starts a row, with the slots of its cached prefix in it.

        `pool_len` tokens of the prefix were in the pool before it started.
        """
        seq.state = SequenceState.RUNNING
        self._cache.note_start(handle, min(seq.goal_len, seq.logits_from))
        seq.handle, seq.row = handle, heapq.heappop(self.free)
        self.page_table[seq.row, : handle.length] = slots
        seq.cached_len = seq.alloc_len = seq.started_len = handle.length
        seq.prefill_len = seq.goal_len
        if seq.first_cached_len < 0:
            seq.first_cached_len, seq.first_pool_len = handle.length, pool_len

    def enter(self, seq: Sequence) -> None:
        """Count a sequence that has a row among those of calls."""
        insort(self.running, seq, key=lambda other: other.serial)
        self._uses = None

    def withdraw(self, seq: Sequence, *, keep_cache: bool) -> CacheHandle:
        """Take a running sequence's row and own slots back; return its locked path."""
        if keep_cache:
            self.share(seq)
        handle = seq.handle
        assert handle is not None, "a running sequence has a handle"
        own = self.page_table[seq.row, handle.length : seq.alloc_len]
        self._cache.free(own.copy())
        (self._guesses if seq.is_guess else self.running).remove(seq)
        self._uses = None
        self._foresight.stopped(seq, seq.started_len)
        heapq.heappush(self.free, seq.row)
        return handle

    def share(self, seq: Sequence) -> None:
        """Put the computed KV of a running sequence into the tree."""
        assert seq.handle is not None, "a running sequence has a handle"
        row = self.page_table[seq.row]
        seq.handle = self._cache.insert(seq.handle, seq.token_ids[: seq.cached_len], row)
