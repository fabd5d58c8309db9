"""Foresight: what the engine knows of the calls to come, and what it keeps for them.

Calls come with hints (lmc.ir.calls.CallHint): which run asks, and whether its program goes on
from the call's context or result. From these and from the calls that wait the prefix cache
learns what will be needed (holds), what will not (dead paths), and in which order. Runs have a
place: the order in which they began. A run that began earlier goes first and keeps its memory
longest, so that programs come to their end instead of all being half done.

Only the order of work and of eviction depends on this; wrong hints cost time.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from lmc.ir.calls import CallHint
from lmc.runtime.cache.holds import LATEST, Hold
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.engine.sequence import Sequence


@dataclass(slots=True, eq=False)
class RunRecord:
    """What is known of one run.

    Attributes:
        program: name of its program.
        place: when it began, counted in runs; None before its first sequence starts.
        shared_len: leading tokens that its first sequence found in the cache.
        added: tokens that its calls have added so far.
        asked: tokens that its running sequences may add at the most.
        lengths: tokens of the path that each numbered call left.
        holds: what is kept for later calls, by the number of the call that they continue.
        is_late: whether its next call was waited for in vain.
    """

    program: str
    place: int | None = None
    shared_len: int = 0
    added: int = 0
    asked: int = 0
    lengths: dict[int, int] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)
    is_late: bool = False


class Foresight:
    """Keeps holds in a cache for waiting calls and for runs that go on.

    Args:
        cache: where paths are held.
        is_on: without it nothing is held and every call stands for itself.
    """

    def __init__(self, cache: PrefixCache, *, is_on: bool) -> None:
        self._cache = cache
        self.is_on = is_on and cache.is_shared
        self._runs: dict[int, RunRecord] = {}
        self._begun: dict[int, RunRecord] = {}
        self._sizes: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._rests: tuple[list[int], list[int]] | None = None
        self._waiting: dict[Sequence, Hold] = {}
        self._holders: dict[Hold, Sequence] = {}
        self._by_run: dict[int, dict[Sequence, None]] = {}
        self._stale: dict[Sequence, None] = {}
        self._changed: dict[Sequence, None] = {}
        self._orders: dict[str, list[Sequence]] = {}
        self._are_settled = True
        self._num_begun = 0
        if self.is_on:
            cache.tree.listeners.append(self)

    # -- order -----------------------------------------------------------------------------

    def place(self, seq: Sequence) -> int:
        """Return when the run of a sequence began; LATEST for one that has not."""
        record = self._record(seq)
        return LATEST if record is None or record.place is None else record.place

    def claim(self, seq: Sequence, need: int, most: int) -> int:
        """Return how many free tokens there must be for a sequence to start.

        As many as the runs that began before its run may still add, and its own run: so all
        of these can come to their end.

        Args:
            seq: the sequence.
            need: tokens that it needs soon.
            most: tokens that it can need at the most.
        """
        record = self._record(seq)
        if record is None:
            return need
        if self._rests is None:
            self._rests = self._sum_rests()
        places, sums = self._rests
        earlier = sums[bisect_left(places, LATEST if record.place is None else record.place)]
        if record.program not in self._sizes:
            need = max(need, most)
        return earlier + max(need, self._rest(record))

    def _sum_rests(self) -> tuple[list[int], list[int]]:
        """Return when each run has begun, and what those before it and after the last may add.

        Kept until a sequence starts or stops: one that waits for memory asks in every step.
        """
        places: list[int] = []
        sums = [0]
        for run in self._begun.values():  # in the order in which they began
            assert run.place is not None, "it has begun"
            places.append(run.place)
            sums.append(sums[-1] + self._rest(run))
        return places, sums

    def _rest(self, record: RunRecord) -> int:
        """Return how many tokens a run may still add.

        As many as the largest run of its program that has ended. Before one has, each may
        come to twice what any has now, or to what its calls ask for; but no run counts for
        more than half the pool.
        """
        known = self._sizes.get(record.program)
        if known is None:
            known = max(2 * self._largest.get(record.program, 0), record.added + record.asked)
        return max(0, min(known, self._cache.num_slots // 2) - record.added)

    # -- events ----------------------------------------------------------------------------

    def submitted(self, seq: Sequence) -> None:
        """Take note of a new sequence."""
        hint = seq.hint
        if not self.is_on or hint is None:
            return
        if hint.run not in self._runs:
            self._runs[hint.run] = RunRecord(hint.program)
        self._runs[hint.run].is_late = False

    def started(self, seq: Sequence, cached_len: int) -> None:
        """Take note that a sequence starts: what it needs is locked now."""
        self.forget_waiting(seq)
        record = self._record(seq)
        if record is None:
            return
        record.asked += seq.max_len - cached_len
        self._rests = None
        if record.place is None and seq.hint is not None:
            self._begun[seq.hint.run] = record
            self._num_begun += 1
            record.place, record.shared_len = self._num_begun, cached_len
            self._run_moved(seq.hint.run)

    def stopped(self, seq: Sequence, cached_len: int) -> None:
        """Take note that a sequence no longer runs, which had started with so much cached."""
        record = self._record(seq)
        if record is not None:
            record.asked -= seq.max_len - cached_len
            self._rests = None

    def ended(self, seq: Sequence, node: RadixNode, length: int) -> None:
        """Take note that a sequence has ended and left `length` tokens down to `node`."""
        record, hint = self._record(seq), seq.hint
        if record is None or hint is None:
            return
        base = record.lengths.get(hint.before, seq.first_cached_len)
        record.added += max(0, length - max(base, record.shared_len))
        self._largest[record.program] = max(record.added, self._largest.get(record.program, 0))
        self._rests = None
        if hint.number:
            record.lengths[hint.number] = length
        if hint.context == "last":
            self._release(record, hint.before)
        if hint.result == "more":
            self._keep(record, hint, node)
        elif hint.context == "more":
            context = seq.token_ids[: seq.context_len]
            self._keep(record, hint, self._cache.find(context, seq.namespace))
        if hint.result == "none":
            keep = record.shared_len if hint.context == "last" else seq.context_len
            self._cache.mark_dead(node, length, keep)

    def run_ended(self, run: int) -> None:
        """Take note that a run asks nothing more: what it alone kept is dead."""
        record = self._runs.pop(run, None)
        if record is None:
            return
        if record.place is not None:
            del self._begun[run]
            self._rests = None
            self._largest.pop(record.program, None)  # from now on its size is known
            self._sizes[record.program] = max(self._sizes.get(record.program, 0), record.added)
        for number in list(record.holds):
            self._release(record, number)
        self._run_moved(run)

    def awaited(self, place: int = LATEST) -> list[RunRecord]:
        """Return the runs that began before a place and go on, and of which no call is here.

        Those that were waited for in vain are left out until they ask something.
        """
        return [
            record
            for run, record in self._runs.items()
            if record.holds and not record.is_late and run not in self._by_run
            if record.place is not None and record.place < place
        ]

    def await_no_longer(self) -> None:
        """Take note that the runs that are awaited have not asked anything for too long."""
        for record in self.awaited():
            record.is_late = True

    # -- holds -----------------------------------------------------------------------------

    def hold_waiting(self, seq: Sequence, *, is_next: bool = False) -> None:
        """Hold what a waiting sequence finds in the cache, and note how much that is.

        Until it has a place in the order it counts as one that starts last, behind those that
        came before, or with `is_next` as one that starts first.
        """
        if not self.is_on:
            return
        tokens = seq.token_ids[: seq.logits_from]
        node, seq.matched_len = self._cache.tree.find(tokens, seq.namespace)
        rank = self.place(seq), 0 if is_next else LATEST + seq.serial
        hold = self._waiting[seq] = self._cache.tree.hold(node, rank, seq.next_unmatched)
        self._holders[hold] = seq
        self._are_settled = False
        if seq.hint is not None:
            self._by_run.setdefault(seq.hint.run, {})[seq] = None

    def watch(self, seq: Sequence) -> None:
        """Have `take_changed` tell also when less of a waiting sequence is cached than before."""
        hold = self._waiting.get(seq)
        if hold is not None:
            hold.group.watched[hold] = None

    def forget_waiting(self, seq: Sequence) -> None:
        """Give back what is held for a waiting sequence."""
        hold = self._waiting.pop(seq, None)
        if hold is None:
            return
        del self._holders[hold]
        self._stale.pop(seq, None)
        self._changed.pop(seq, None)
        self._cache.tree.unhold(hold)
        if seq.hint is not None:
            alike = self._by_run[seq.hint.run]
            del alike[seq]
            if not alike:
                del self._by_run[seq.hint.run]

    def knows_match(self, seq: Sequence) -> bool:
        """Whether `seq.matched_len` is right: brought up to date where something is held."""
        hold = self._waiting.get(seq)
        if hold is None:
            return False
        if seq in self._stale:
            self._refresh(seq)
        else:
            seq.matched_len = hold.node.end
        return True

    def found(self, seq: Sequence) -> tuple[RadixNode, int] | None:
        """Return the node that ends what is cached of a sequence, and how much that is.

        None for one that nothing is held for: that has to be looked up.
        """
        return (self._waiting[seq].node, seq.matched_len) if self.knows_match(seq) else None

    def take_changed(self) -> list[Sequence]:
        """Return the watched sequences whose match, and those whose run's place, has changed."""
        for seq in list(self._stale):
            self._refresh(seq)
        changed = list(self._changed)
        self._changed.clear()
        for seq in changed:
            hold = self._waiting[seq]
            self._cache.tree.rerank(hold, (self.place(seq), *hold.rank[1:]))
        return changed

    def set_order(self, tenant: str, order: list[Sequence]) -> None:
        """Take note of the order in which a tenant's waiting sequences should start."""
        if order != self._orders.get(tenant):
            self._are_settled = False
        self._orders[tenant] = order
        if not order:
            del self._orders[tenant]

    def settle_ranks(self) -> None:
        """Rank what is held by the order of those who wait; comes before it is evicted."""
        if self._are_settled:
            return
        self._are_settled = True
        waiting, rerank = self._waiting, self._cache.tree.rerank
        for order in self._orders.values():
            for index, seq in enumerate(order):
                hold = waiting.get(seq)
                if hold is not None and hold.rank[1] != index:
                    rerank(hold, (hold.rank[0], index))

    def _refresh(self, seq: Sequence) -> None:
        """Look again for what a sequence finds in the cache, since that may have changed."""
        del self._stale[seq]
        self._changed[seq] = None
        tokens = seq.token_ids[: seq.logits_from]
        seq.matched_len = self._cache.tree.follow(self._waiting[seq], tokens, seq.namespace)

    def _run_moved(self, run: int) -> None:
        self._changed.update(self._by_run.get(run, {}))

    # -- what the tree tells ---------------------------------------------------------------

    def stored(self, leaf: RadixNode) -> None:
        """Take note of a new leaf: what ended at its parent may go on there."""
        assert leaf.parent is not None, "a leaf has a parent"
        group = leaf.parent.groups.get(int(leaf.key[0]))
        for hold in group.holds if group is not None else ():
            seq = self._holders.get(hold)
            if seq is not None:
                self._stale[seq] = None

    def dropping(self, leaf: RadixNode, keep: int) -> None:
        """Take note that a leaf is cut: what ended there ends earlier."""
        for group in leaf.groups.values():
            self._stale.update((self._holders[hold], None) for hold in group.watched)

    def _keep(self, record: RunRecord, hint: CallHint, node: RadixNode) -> None:
        if record.place is None:
            return  # the run had ended, and came again, while this call was running
        known = record.holds.pop(hint.number, None)
        if known is not None:
            self._cache.tree.unhold(known)
        record.holds[hint.number] = self._cache.tree.hold(node, (record.place, -1))

    def _release(self, record: RunRecord, number: int) -> None:
        """Give a hold back, and mark what the run alone had of its path as dead."""
        hold = record.holds.pop(number, None)
        if hold is None:
            return
        node, length = hold.node, hold.node.end
        self._cache.tree.unhold(hold)
        self._cache.mark_dead(node, length, record.shared_len)

    def _record(self, seq: Sequence) -> RunRecord | None:
        return self._runs.get(seq.hint.run) if seq.hint is not None else None
