"""Scheduler: what the next step computes. Pure: no tensors, threads or clock.

Every step carries one token (or one forced run) of every decoding sequence, and fills the
rest of the token budget with chunks of prefills. A chunk goes into the radix tree as soon as
it is computed. What a step computes is chosen in serving.py, who gives way when the pool is full
in room.py; rows.py has who runs, admission.py who waits.

`plan` chooses, `commit` applies the result of the forward pass. Plans remember the epoch of
their sequences: a sequence that ended or was preempted in between is skipped.
"""

from collections.abc import Callable, Collection

from lmc.errors import EngineError
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.engine.admission import WaitingQueue
from lmc.runtime.engine.drafting import Drafter, add_drafts
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.guesses import Guesses
from lmc.runtime.engine.policy import Policy
from lmc.runtime.engine.room import Room
from lmc.runtime.engine.rows import Rows
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.serving import Serving
from lmc.runtime.engine.step_plan import IntArray, OpenStep, StepPlan, lay_out
from lmc.runtime.engine.tenants import Tenants


def _ignore(_node: RadixNode) -> None:
    """Take no note of a path that is kept."""


class Scheduler:
    """Holds waiting and running sequences and plans steps over a prefix cache.

    Args:
        cache: the KV memory.
        page_table: int32 [rows, max_len]; row r holds the slots of one running sequence.
        token_budget: tokens per step (decodes always fit).
        max_running: sequences that run at once, at most the rows of the page table.
        policy: whom to serve and what to forget first.
        on_kept: called with the path that a sequence leaves in the cache when it ends.
    """

    def __init__(
        self,
        cache: PrefixCache,
        page_table: IntArray,
        *,
        token_budget: int = 512,
        max_running: int = 64,
        policy: Policy | None = None,
        on_kept: Callable[[RadixNode], None] = _ignore,
    ) -> None:
        policy = policy or Policy()
        self.cache = cache
        self.on_kept = on_kept
        self.foresight = Foresight(cache, is_on=policy.eviction == "plan")
        self.page_table = page_table
        self.token_budget = token_budget
        self.max_running = min(max_running, page_table.shape[0])
        self.max_logits = max_running + 64
        self.waiting = WaitingQueue(cache, self.foresight, policy.order)
        self.guesses = Guesses(cache, self.waiting)
        self.tenants = Tenants(
            token_budget=token_budget, rows=self.max_running, slots=cache.num_slots
        )
        self.rows = Rows(
            cache, page_table, self.max_running, foresight=self.foresight, guesses=self.guesses
        )
        self.room = Room(
            cache,
            self.rows,
            self.waiting,
            guesses=self.guesses,
            foresight=self.foresight,
            tenants=self.tenants,
        )
        self._serving = Serving(
            cache,
            self.rows,
            self.waiting,
            self.room,
            foresight=self.foresight,
            tenants=self.tenants,
            token_budget=token_budget,
            max_logits=self.max_logits,
        )
        self.drafter: Drafter | None = None
        self.step = 0

    @property
    def running(self) -> list[Sequence]:
        """The sequences of calls that run, in order of arrival."""
        return self.rows.running

    @property
    def num_preemptions(self) -> int:
        """How often a sequence had to give way."""
        return self.room.num_preemptions

    @property
    def max_len(self) -> int:
        """The most tokens that one sequence can hold."""
        return min(self.cache.num_slots, self.page_table.shape[1])

    @property
    def has_work(self) -> bool:
        """Whether any sequence waits or runs."""
        return bool(self.running) or len(self.waiting) > 0 or self.guesses.has_work

    # -- events ----------------------------------------------------------------------------

    def submit(self, seq: Sequence) -> None:
        """Queue a sequence.

        Raises:
            EngineError: it can never fit the pool or the page table.
        """
        self.expect_fit(seq)
        seq.arrival_step = self.step
        self.tenants.enter(seq)
        if seq.guess is not None and seq.guess.is_open:
            self.guesses.add(seq)
            return
        self.foresight.submitted(seq)
        self.waiting.add(seq)

    def expect_fit(self, seq: Sequence) -> None:
        """Refuse a sequence that can never fit the pool or the page table.

        Raises:
            EngineError: it cannot.
        """
        if seq.max_len > self.max_len:
            place = "pool" if self.max_len == self.cache.num_slots else "model's context"
            raise EngineError(
                f"the request may need {seq.max_len} tokens (context and output), "
                f"but the {place} holds {self.max_len}",
                hint="shorten the prompt or lower max_tokens",
            )

    def finish(self, seq: Sequence, *, keep_cache: bool = True) -> None:
        """End a sequence in whatever state; it owns nothing afterwards.

        With `keep_cache` its computed KV stays in the tree until evicted; that of a dropped
        guess never does.
        """
        if seq.state is SequenceState.RUNNING:
            keep_cache = keep_cache and not (seq.guess is not None and seq.guess.is_dropped)
            handle = self.rows.withdraw(seq, keep_cache=keep_cache)
            self.cache.release(handle)
            if keep_cache:
                self.foresight.ended(seq, handle.node, handle.length)
                self.on_kept(handle.node)
        elif seq.state is SequenceState.WAITING:
            (self.guesses if seq.is_guess else self.waiting).remove(seq)
            self.foresight.forget_waiting(seq)
        else:
            return
        self._ended(seq)

    def finish_pinned(self, seq: Sequence) -> int:
        """End a running sequence and pin what it computed; return the pin's number.

        What no single run has asked for is for all runs to come: a constant prefix.
        """
        handle = self.rows.withdraw(seq, keep_cache=True)
        self.foresight.ended(seq, handle.node, handle.length)
        self.on_kept(handle.node)
        pin = self.cache.pin(handle, is_lasting=seq.hint is None)
        self._ended(seq)
        return pin

    def _ended(self, seq: Sequence) -> None:
        seq.reset(SequenceState.FINISHED)
        self.tenants.leave(seq)

    def end_run(self, run: int) -> None:
        """Take note that a run asks nothing more."""
        self.foresight.run_ended(run)

    # -- steps -----------------------------------------------------------------------------

    def plan(self) -> tuple[StepPlan | None, list[Sequence]]:
        """Choose the next step.

        Returns the plan (None when there is nothing to compute) and the sequences that
        turned out to be cached already and need no step.
        """
        self.step += 1
        done = self._take_over()
        while True:
            chosen, ready = self._serving.choose(self.step)
            if chosen.parts or ready or done or not self.running:
                break
            self.room.make()
        self.guesses.ledger.need(chosen.num_tokens)
        if chosen.parts:
            self._add_drafts(chosen)
        if chosen.parts and self.guesses.are_open:
            self.guesses.fill(
                chosen,
                room=self.cache.pool.num_free - self.room.claimed(chosen) - self.room.reserved(),
                leaders=self.rows.prefilling(),
                start=self._serving.start_guess,
            )
        return (self._build(chosen) if chosen.parts else None), [*done, *ready]

    def _add_drafts(self, chosen: OpenStep) -> None:
        """Let decoding sequences go on with draft tokens, where something is left for them."""
        if self.drafter is None:
            return
        add_drafts(
            chosen,
            self.drafter,
            self.cache,
            room=self.token_budget - chosen.num_tokens,
            free_slots=self.cache.pool.num_free - self.room.claimed(chosen),
        )
        for seq in chosen.parts:
            if seq.num_drafts:
                self.tenants.charge(seq.tenant, seq.num_drafts)

    def commit(self, plan: StepPlan, *, failed: Collection[Sequence] = ()) -> None:
        """Apply a computed step; chunks of prefills go into the tree.

        Sequences in `failed` are left as they were before the step, with the slots of the
        step still theirs; `finish` them without keeping their cache.
        """
        for part in plan.extends:
            seq = part.seq
            if not part.is_live or seq in failed:
                continue
            seq.cached_len = part.known_end
            if self.cache.shadow is not None:
                assert seq.handle is not None, "a running sequence has a handle"
                row = self.page_table[seq.row]
                self.cache.wrote(seq.handle, seq.fed_ids(part.end), row, part.start)
            if part.start < seq.prefill_len and not seq.is_guess:
                self.rows.share(seq)

    def settle(self, plan: StepPlan) -> None:
        """Give back the slots of draft tokens that did not come, once all tokens are chosen."""
        if self.drafter is None:
            return
        for part in plan.extends:
            seq = part.seq
            if part.num_drafts and part.is_live:
                kept = seq.cached_len + -seq.cached_len % self.cache.page_size
                self.cache.free(self.page_table[seq.row, kept : seq.alloc_len].copy())
                seq.alloc_len, seq.num_drafts = seq.cached_len, 0
        self.drafter.settle()

    def _take_over(self) -> list[Sequence]:
        """Treat adopted guesses as calls; what they have computed goes into the tree.

        Returns those that are completely computed.
        """
        done: list[Sequence] = []
        for seq in self.guesses.take_adopted():
            if seq.state is SequenceState.WAITING:
                self.waiting.add(seq)
            else:
                self.rows.enter(seq)
                self.rows.share(seq)
                if seq.extend_len == 0:
                    done.append(seq)
        return done

    def _build(self, chosen: OpenStep) -> StepPlan:
        """Give the chosen parts their slots and lay them out as arrays.

        Raises:
            MemoryError: there is none for the arrays; nobody has got a slot then.
        """
        total = self.room.claimed(chosen)
        if total > self.cache.spare:
            self.foresight.settle_ranks()
        slots = self.cache.alloc(total)
        assert slots is not None, f"{total} slots were planned but are not available"
        try:
            return lay_out(chosen.parts, slots, self.page_table, page_size=self.cache.page_size)
        except MemoryError:
            self.cache.free(slots)
            raise
