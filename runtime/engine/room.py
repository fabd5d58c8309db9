"""Room: whether there is memory and a row for a sequence, and who gives way for it.

When the pool is full, guesses go first; then the youngest running sequence is preempted: its
KV goes to the tree, where eviction may take it, and it starts again later with its output kept.
The oldest running sequence always moves on, so every sequence ends.
"""

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.engine.admission import WaitingQueue
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.guesses import Guesses
from lmc.runtime.engine.rows import Rows
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.step_plan import OpenStep
from lmc.runtime.engine.tenants import Tenants, tokens_of

GROWTH_RESERVE = 32
"""Output tokens per running sequence that admission keeps room for."""


class Room:
    """Weighs what sequences need against what is there; preempts.

    Args:
        cache: the KV memory.
        rows: who runs.
        waiting: where those that are preempted go.
        guesses: what goes before any call has to give way.
        foresight: tells what calls to come will need.
        tenants: tell who is beyond its share.

    Attributes:
        num_preemptions: how often a sequence was preempted.
        may_wait: whether a step may start nothing, to wait for what runs that have begun ask.
        is_waiting: whether the last step that was chosen does so.
    """

    def __init__(
        self,
        cache: PrefixCache,
        rows: Rows,
        waiting: WaitingQueue,
        *,
        guesses: Guesses,
        foresight: Foresight,
        tenants: Tenants,
    ) -> None:
        self._cache = cache
        self._rows = rows
        self._waiting = waiting
        self._guesses = guesses
        self._foresight = foresight
        self._tenants = tenants
        self.num_preemptions = 0
        self.may_wait = False
        self.is_waiting = False

    # -- what there is -----------------------------------------------------------------------

    def claimed(self, chosen: OpenStep) -> int:
        """Return the slots that the parts of a step must get."""
        if self._cache.page_size == 1:
            return chosen.num_tokens
        slots, parts = self._cache.new_slots, chosen.parts.items()
        return sum(slots(seq.cached_len, seq.cached_len + length) for seq, length in parts)

    def reserved(self) -> int:
        """Return the slots that the running sequences will need soon."""
        running = self._rows.running
        if self._cache.page_size == 1:
            return sum([seq.goal_len - seq.cached_len + growth(seq) for seq in running])
        slots = self._cache.new_slots
        return sum(slots(seq.cached_len, seq.goal_len + growth(seq)) for seq in running)

    def is_enough(self, seq: Sequence, need: int) -> bool:
        """Whether a sequence that needs so many slots may start.

        Beside others it may take only what no call to come is known to need, and what leaves
        room for earlier runs; within its tenant's share, whatever does not run. Alone it may
        take everything: guesses first, pins at last.
        """
        if self._rows.running:
            if self._is_within_share(seq, _wanted(seq)):
                return self._cache.available - self.reserved() >= need
            return self._is_enough_beside(seq, need, 0)
        while self._cache.available < need:
            if not self.drop_guess() and not self._cache.drop_oldest_pin():
                return False
        return True

    def _is_enough_beside(self, seq: Sequence, need: int, locked: int) -> bool:
        """Whether what is left, less `locked`, is enough for a sequence and for earlier runs."""
        free = self._cache.spare if self._foresight.is_on else self._cache.available
        most = need + seq.max_len - seq.goal_len - growth(seq)
        claim = self._foresight.claim(seq, need, most)
        return free - locked - self.reserved() >= claim

    def is_hopeless(self, seq: Sequence, need: int, node: RadixNode) -> bool:
        """Whether `is_enough` is false even once the path to `node` is locked for `seq`.

        A cheap look, as nothing is locked for it; false where others may have to give way.
        """
        running, cache = self._rows.running, self._cache
        if not running or not self._rows.free or self._guesses.running:
            return False
        if self._is_within_share(seq, _wanted(seq)):
            left = cache.available - cache.tree.unlocked_len(node) - self.reserved()
            return left < need and self._memory_victim() is None
        # The whole path is held for it, so that a lock makes no difference to what is spare.
        locked = 0 if self._foresight.is_on else cache.tree.unlocked_len(node)
        return not self._is_enough_beside(seq, need, locked)

    def is_early(self, seq: Sequence) -> bool:
        """Whether a sequence that would run alone takes what a run needs whose call is due.

        What asks for a run's calls may be a moment late. Were the next run begun at once, it
        would cost the earlier ones their memory.
        """
        if not self.may_wait or self._rows.running:
            return False
        if not self._foresight.awaited(self._foresight.place(seq)):
            return False
        need = self._cache.new_slots(self._waiting.matched_len(seq), seq.goal_len + growth(seq))
        if self._is_enough_beside(seq, need, 0):
            return False
        self.is_waiting = True
        return True

    def has_row(self, tenant: str) -> bool:
        """Whether a row is free, or a tenant may take one."""
        # Rows that open guesses have are given up.
        return len(self._rows.running) < self._rows.count or self._row_victim(tenant) is not None

    # -- who gives way -----------------------------------------------------------------------

    def make(self) -> None:
        """Drop a guess, else preempt the youngest sequence; the last one gets the pins' memory.

        Of several runs the one that began last loses its youngest; of several tenants the one
        that is most beyond its share.
        """
        if self.drop_guess():
            return
        running = self._rows.running
        if len(running) > 1:
            self.preempt(self._memory_victim() or max(running, key=self._age))
        elif not self._cache.drop_oldest_pin():
            raise RuntimeError("a lone sequence does not fit a pool that it was checked against")

    def take_from_others(self, seq: Sequence, chosen: OpenStep) -> bool:
        """Take a row, or memory, from a tenant beyond its share; False where none is due."""
        if self._rows.free:
            return self.take_memory(seq, _wanted(seq), chosen)
        victim = self._row_victim(seq.tenant)
        if victim is not None:
            self._stop(victim, chosen)
        return victim is not None

    def take_memory(self, seq: Sequence, need: int, chosen: OpenStep) -> bool:
        """Preempt for a tenant that is within its share with `need` more tokens."""
        if not self._is_within_share(seq, need):
            return False
        victim = self._memory_victim()
        if victim is not None:
            self._stop(victim, chosen)
        return victim is not None

    def drop_guess(self) -> bool:
        """Drop a guess for its memory and row; False where there is none."""

        def release(seq: Sequence) -> None:
            self._cache.release(self._rows.withdraw(seq, keep_cache=False))
            seq.reset(SequenceState.FINISHED)
            self._tenants.leave(seq)

        return self._guesses.drop_one(release)

    def preempt(self, seq: Sequence) -> None:
        """Stop a running sequence; it starts again later with its tokens kept."""
        self._cache.release(self._rows.withdraw(seq, keep_cache=True))
        seq.reset(SequenceState.WAITING)
        seq.num_preemptions += 1
        self.num_preemptions += 1
        self._waiting.add_preempted(seq)

    def _stop(self, seq: Sequence, chosen: OpenStep) -> None:
        """Preempt a sequence that may have a part in the step."""
        self._tenants.charge(seq.tenant, -chosen.drop(seq))
        self.preempt(seq)

    def _is_within_share(self, seq: Sequence, need: int) -> bool:
        """Whether a tenant, of several, stays within its share of memory with so much more."""
        tenants = self._tenants
        return tenants.are_several and tenants.is_within_share(seq.tenant, need, self._rows.uses())

    def _row_victim(self, tenant: str) -> Sequence | None:
        """Return whose row a tenant may take."""
        if not self._tenants.are_several:
            return None
        rows = self._rows
        return self._tenants.row_victim(tenant, rows.running, rows.uses(), self._age)

    def _memory_victim(self) -> Sequence | None:
        """Return who must give memory to a tenant that is within its share."""
        if not self._tenants.are_several:
            return None
        return self._tenants.memory_victim(self._rows.running, self._rows.uses(), self._age)

    def _age(self, seq: Sequence) -> tuple[int, int]:
        """Return the sort key by which the youngest comes last."""
        return self._foresight.place(seq), seq.serial


def growth(seq: Sequence) -> int:
    """Return the slots to keep free for the output that a sequence may still make."""
    left = seq.max_len - seq.goal_len
    return left if left < GROWTH_RESERVE else GROWTH_RESERVE


def _wanted(seq: Sequence) -> int:
    """Tokens of memory that a sequence will soon hold once it starts."""
    return tokens_of(seq) + growth(seq)
