"""Scheduler: what the next step computes. Pure: no tensors, threads or clock.

Every step carries one token (or one forced run) of every decoding sequence, and fills the
rest of the token budget with chunks of prefills. A chunk goes into the radix tree as soon as
it is computed. When the pool is full, the youngest running sequence is preempted: its KV goes
to the tree, where eviction may take it, and it starts again later with its output kept. The
oldest running sequence always moves on, so every sequence ends. Where several tenants have
calls, they take turns, and each may have its share of rows and memory (see tenants.py).

`plan` chooses, `commit` applies the result of the forward pass. Plans remember the epoch of
their sequences: a sequence that ended or was preempted in between is skipped.
"""

import heapq
from bisect import insort
from collections.abc import Callable, Collection

from lmc.errors import EngineError
from lmc.runtime.cache.prefix_cache import CacheHandle, PrefixCache
from lmc.runtime.cache.radix_tree import RadixNode
from lmc.runtime.engine.admission import WaitingQueue
from lmc.runtime.engine.drafting import Drafter, add_drafts
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.guesses import Guesses
from lmc.runtime.engine.policy import Policy
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.step_plan import IntArray, OpenStep, StepPlan, lay_out
from lmc.runtime.engine.tenants import Tenants, tokens_of

GROWTH_RESERVE = 32
"""Output tokens per running sequence that admission keeps room for."""

MIN_PREFILL = 16
"""Prefill tokens per step that decodes cannot crowd out (at most a quarter of the budget)."""


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
        self.running: list[Sequence] = []
        self.guesses = Guesses(cache, self.waiting)
        self.tenants = Tenants(
            token_budget=token_budget, rows=self.max_running, slots=cache.num_slots
        )
        self.drafter: Drafter | None = None
        self.num_preemptions = 0
        self.step = 0
        self._free_rows = list(range(self.max_running))

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
            handle = self._withdraw(seq, keep_cache=keep_cache)
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
        handle = self._withdraw(seq, keep_cache=True)
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
            chosen = OpenStep(self.token_budget, self.max_logits)
            self._choose_decodes(chosen)
            if self.tenants.are_several:
                ready = self._take_turns(chosen)
            else:
                ready = self._serve(chosen, self.running, next(iter(self.waiting.tenants), None))
            if chosen.parts or ready or done or not self.running:
                break
            self._make_room()
        self.guesses.ledger.need(chosen.num_tokens)
        if chosen.parts:
            self._add_drafts(chosen)
        if chosen.parts and self.guesses.are_open:
            self.guesses.fill(
                chosen,
                room=self.cache.pool.num_free - self._claimed(chosen) - self._reserved(),
                leaders=[seq for seq in self.running if seq.is_prefilling],
                start=self._start_guess,
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
            free_slots=self.cache.pool.num_free - self._claimed(chosen),
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
            if not part.is_live or part.seq in failed:
                continue
            seq = part.seq
            seq.cached_len = part.known_end
            if self.cache.shadow is not None:
                assert seq.handle is not None, "a running sequence has a handle"
                row = self.page_table[seq.row]
                self.cache.wrote(seq.handle, seq.fed_ids(part.end), row, part.start)
            if part.start < seq.prefill_len and not seq.is_guess:
                self._share(seq)

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

    # -- choosing --------------------------------------------------------------------------

    def _choose_decodes(self, chosen: OpenStep) -> None:
        """Take every decoding sequence; preempt the youngest until all find slots."""
        while True:
            chosen.parts.clear()
            chosen.tokens_left, chosen.logits_left = self.token_budget, self.max_logits
            for seq in self.running:
                if not seq.is_prefilling:
                    chosen.take(seq, limit=max(1, chosen.tokens_left))
            if self._claimed(chosen) <= self.cache.available:
                break
            self._make_room()
        floor = max(1, min(MIN_PREFILL, self.token_budget // 4))
        chosen.tokens_left = max(chosen.tokens_left, floor)

    def _take_turns(self, chosen: OpenStep) -> list[Sequence]:
        """Serve the tenants by their credit; return the sequences that are cached already."""
        ready: list[Sequence] = []
        for seq, length in chosen.parts.items():
            self.tenants.charge(seq.tenant, length)
        wanting = {seq.tenant for seq in self.running if seq.is_prefilling}
        wanting.update(self.waiting.tenants)
        while chosen.tokens_left > 0 and (turn := self.tenants.next_of(wanting)) is not None:
            if self.tenants.credit(turn) <= 0:
                self.tenants.new_round()
                continue
            found, taken = self._serve_turn(chosen, turn)
            ready += found
            if not found and taken <= 0:
                wanting.discard(turn)
        return ready

    def _serve_turn(self, chosen: OpenStep, tenant: str) -> tuple[list[Sequence], int]:
        """Serve one tenant within its credit; return also how many tokens it takes."""
        own = [seq for seq in self.running if seq.tenant == tenant]
        put_off = max(0, chosen.tokens_left - self.tenants.credit(tenant))
        before = _tokens_for(chosen, tenant)
        chosen.tokens_left -= put_off
        ready = self._serve(chosen, own, tenant)
        chosen.tokens_left += put_off
        taken = _tokens_for(chosen, tenant) - before
        self.tenants.charge(tenant, taken)
        return ready, taken

    def _serve(self, chosen: OpenStep, own: list[Sequence], tenant: str | None) -> list[Sequence]:
        """Go on with begun prefills, in order of arrival; then start what waits.

        Returns the sequences that turn out to be completely cached.
        """
        for seq in own:
            if seq.is_prefilling and chosen.tokens_left > 0:
                room = self.cache.available - self._claimed(chosen)
                while room < self.cache.page_size and self._take_memory(seq, 0, chosen):
                    room = self.cache.available - self._claimed(chosen)
                begun = seq.cached_len + chosen.parts.get(seq, 0)
                within = self.cache.tokens_within(begun, room)
                chosen.take(seq, limit=min(chosen.tokens_left, within))
        return [] if tenant is None else self._admit(chosen, tenant)

    def _admit(self, chosen: OpenStep, tenant: str) -> list[Sequence]:
        """Start waiting sequences of a tenant while budget, rows and pool allow.

        Returns those that are completely cached.
        """
        ready: list[Sequence] = []
        if not self._has_place(chosen, tenant) or self.tenants.must_yield(tenant, self.step):
            return ready
        prefilling = [seq for seq in self.running if seq.is_prefilling]
        order = self.waiting.ordered(self.step, tenant)
        for seq in order:
            if not self._has_place(chosen, tenant):
                break
            if self.waiting.must_wait(seq, prefilling):
                continue
            if not self._start(seq, chosen):
                self.tenants.blocked(tenant, self.running, self.step)
                break
            if seq.extend_len == 0:
                ready.append(seq)
            else:
                prefilling.append(seq)
                chosen.take(seq, limit=chosen.tokens_left)
        return ready

    def _has_place(self, chosen: OpenStep, tenant: str) -> bool:
        """Whether a step has something left, and a row is free or can be taken."""
        if chosen.tokens_left <= 0 or chosen.logits_left <= 0:
            return False
        has_row = len(self.running) < self.max_running
        return has_row or self.tenants.row_victim(tenant, self.running, self._age) is not None

    def _start(self, seq: Sequence, chosen: OpenStep) -> bool:
        """Move a sequence from waiting to running if the pool has room for it."""
        handle, slots = self.cache.match_and_lock(seq.token_ids[: seq.logits_from], seq.namespace)
        need = self.cache.new_slots(handle.length, seq.goal_len + _growth(seq))
        while not self._free_rows or not self._has_room(seq, need):
            if not self._drop_guess() and not self._take_from_others(seq, chosen):
                self.cache.release(handle)
                return False
        found = handle.length
        handle, slots = self.cache.load(handle, seq.token_ids[: seq.logits_from], slots)
        self.foresight.started(seq, handle.length)
        self.tenants.started(seq)
        self.waiting.remove(seq)
        self._place(seq, handle, slots, pool_len=found)
        insort(self.running, seq, key=lambda other: other.serial)
        return True

    def _place(self, seq: Sequence, handle: CacheHandle, slots: IntArray, *, pool_len: int) -> None:
        """Give a sequence that starts a row, with the slots of its cached prefix in it.

        `pool_len` tokens of the prefix were in the pool before it started.
        """
        seq.state = SequenceState.RUNNING
        self.cache.note_start(handle, min(seq.goal_len, seq.logits_from))
        seq.handle, seq.row = handle, heapq.heappop(self._free_rows)
        self.page_table[seq.row, : handle.length] = slots
        seq.cached_len = seq.alloc_len = seq.started_len = handle.length
        seq.prefill_len = seq.goal_len
        if seq.first_cached_len < 0:
            seq.first_cached_len, seq.first_pool_len = handle.length, pool_len

    # -- guesses ---------------------------------------------------------------------------

    def _take_over(self) -> list[Sequence]:
        """Treat adopted guesses as calls; what they have computed goes into the tree.

        Returns those that are completely computed.
        """
        done: list[Sequence] = []
        for seq in self.guesses.take_adopted():
            if seq.state is SequenceState.WAITING:
                self.waiting.add(seq)
            else:
                insort(self.running, seq, key=lambda other: other.serial)
                self._share(seq)
                if seq.extend_len == 0:
                    done.append(seq)
        return done

    def _start_guess(self, seq: Sequence, room: int) -> bool:
        """Start the sequence of a guess if there is a row, and room for what it computes."""
        if not self._free_rows:
            return False
        handle, slots = self.cache.match_and_lock(seq.token_ids[: seq.logits_from], seq.namespace)
        if self.cache.new_slots(handle.length, seq.goal_len) > room:
            self.cache.release(handle)
            return False
        self._place(seq, handle, slots, pool_len=handle.length)
        return True

    def _drop_guess(self) -> bool:
        """Drop a guess for its memory and row; False where there is none."""

        def release(seq: Sequence) -> None:
            self.cache.release(self._withdraw(seq, keep_cache=False))
            self._ended(seq)

        return self.guesses.drop_one(release)

    def _has_room(self, seq: Sequence, need: int) -> bool:
        """Whether a sequence that needs so many slots may start.

        Beside others it may take only what no call to come is known to need, and what leaves
        room for earlier runs; within its tenant's share, whatever does not run. Alone it may
        take everything: guesses first, pins at last.
        """
        free = self.cache.spare if self.foresight.is_on else self.cache.available
        if self.running:
            if self.tenants.is_within_share(seq.tenant, _wanted(seq), self.running):
                return self.cache.available - self._reserved() >= need
            most = need + seq.max_len - seq.goal_len - _growth(seq)
            return free - self._reserved() >= self.foresight.claim(seq, need, most)
        while self.cache.available < need:
            if not self._drop_guess() and not self.cache.drop_oldest_pin():
                return False
        return True

    def _reserved(self) -> int:
        """Slots that the running sequences will need soon."""
        slots = self.cache.new_slots
        return sum(slots(seq.cached_len, seq.goal_len + _growth(seq)) for seq in self.running)

    def _claimed(self, chosen: OpenStep) -> int:
        """Slots that the parts of a step must get."""
        if self.cache.page_size == 1:
            return chosen.num_tokens
        slots, parts = self.cache.new_slots, chosen.parts.items()
        return sum(slots(seq.cached_len, seq.cached_len + length) for seq, length in parts)

    def _build(self, chosen: OpenStep) -> StepPlan:
        """Give the chosen parts their slots and lay them out as arrays.

        Raises:
            MemoryError: there is none for the arrays; nobody has got a slot then.
        """
        total = self._claimed(chosen)
        if total > self.cache.spare:
            self.foresight.settle_ranks()
        slots = self.cache.alloc(total)
        assert slots is not None, f"{total} slots were planned but are not available"
        try:
            return lay_out(chosen.parts, slots, self.page_table, page_size=self.cache.page_size)
        except MemoryError:
            self.cache.free(slots)
            raise

    # -- memory ----------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Drop a guess, else preempt the youngest sequence; the last one gets the pins' memory.

        Of several runs the one that began last loses its youngest; of several tenants the one
        that is most beyond its share.
        """
        if self._drop_guess():
            return
        if len(self.running) > 1:
            heavy = self.tenants.memory_victim(self.running, self._age)
            self._preempt(heavy or max(self.running, key=self._age))
        elif not self.cache.drop_oldest_pin():
            raise RuntimeError("a lone sequence does not fit a pool that it was checked against")

    def _age(self, seq: Sequence) -> tuple[int, int]:
        """Return the sort key by which the youngest comes last."""
        return self.foresight.place(seq), seq.serial

    def _take_from_others(self, seq: Sequence, chosen: OpenStep) -> bool:
        """Take a row, or memory, from a tenant beyond its share; False where none is due."""
        if self._free_rows:
            return self._take_memory(seq, _wanted(seq), chosen)
        victim = self.tenants.row_victim(seq.tenant, self.running, self._age)
        if victim is not None:
            self._stop(victim, chosen)
        return victim is not None

    def _take_memory(self, seq: Sequence, need: int, chosen: OpenStep) -> bool:
        """Preempt for a tenant that is within its share with `need` more tokens."""
        if not self.tenants.is_within_share(seq.tenant, need, self.running):
            return False
        victim = self.tenants.memory_victim(self.running, self._age)
        if victim is not None:
            self._stop(victim, chosen)
        return victim is not None

    def _stop(self, seq: Sequence, chosen: OpenStep) -> None:
        """Preempt a sequence that may have a part in the step."""
        self.tenants.charge(seq.tenant, -chosen.drop(seq))
        self._preempt(seq)

    def _preempt(self, seq: Sequence) -> None:
        """Stop a running sequence; it starts again later with its tokens kept."""
        self.cache.release(self._withdraw(seq, keep_cache=True))
        seq.reset(SequenceState.WAITING)
        seq.num_preemptions += 1
        self.num_preemptions += 1
        self.waiting.add_preempted(seq)

    def _withdraw(self, seq: Sequence, *, keep_cache: bool) -> CacheHandle:
        """Take a running sequence's row and own slots back; return its locked path."""
        if keep_cache:
            self._share(seq)
        handle = seq.handle
        assert handle is not None, "a running sequence has a handle"
        own = self.page_table[seq.row, handle.length : seq.alloc_len]
        self.cache.free(own.copy())
        (self.guesses if seq.is_guess else self.running).remove(seq)
        self.foresight.stopped(seq, seq.started_len)
        heapq.heappush(self._free_rows, seq.row)
        return handle

    def _share(self, seq: Sequence) -> None:
        """Put the computed KV of a running sequence into the tree."""
        assert seq.handle is not None, "a running sequence has a handle"
        row = self.page_table[seq.row]
        seq.handle = self.cache.insert(seq.handle, seq.token_ids[: seq.cached_len], row)


def _tokens_for(chosen: OpenStep, tenant: str) -> int:
    return sum(length for seq, length in chosen.parts.items() if seq.tenant == tenant)


def _wanted(seq: Sequence) -> int:
    """Tokens of memory that a sequence will soon hold once it starts."""
    return tokens_of(seq) + _growth(seq)


def _growth(seq: Sequence) -> int:
    """Slots to keep free for the output that a sequence may still make."""
    return min(GROWTH_RESERVE, seq.max_len - seq.goal_len)
