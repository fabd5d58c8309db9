"""Serving: what a step computes: decodes, then prefills that have begun, then what waits.

Where several tenants have calls, they take turns, and each may have its share of rows and
memory (see tenants.py).
"""

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.admission import WaitingQueue
from lmc.runtime.engine.foresight import Foresight
from lmc.runtime.engine.room import Room, growth
from lmc.runtime.engine.rows import Rows
from lmc.runtime.engine.sequence import Sequence
from lmc.runtime.engine.step_plan import OpenStep
from lmc.runtime.engine.tenants import Tenants

MIN_PREFILL = 16
"""Prefill tokens per step that decodes cannot crowd out (at most a quarter of the budget)."""


class Serving:
    """Fills steps with the parts of running and waiting sequences.

    Args:
        cache: the KV memory.
        rows: who runs.
        waiting: who waits, and in which order.
        room: whether there is memory and a row.
        foresight: knows what is cached of those that wait.
        tenants: whose turn it is.
        token_budget: tokens per step (decodes always fit).
        max_logits: rows of logits per step.
    """

    def __init__(
        self,
        cache: PrefixCache,
        rows: Rows,
        waiting: WaitingQueue,
        room: Room,
        *,
        foresight: Foresight,
        tenants: Tenants,
        token_budget: int,
        max_logits: int,
    ) -> None:
        self._cache = cache
        self._rows = rows
        self._waiting = waiting
        self._room = room
        self._foresight = foresight
        self._tenants = tenants
        self._token_budget = token_budget
        self._max_logits = max_logits

    def choose(self, step: int) -> tuple[OpenStep, list[Sequence]]:
        """Choose a step; return also the sequences that are completely cached already."""
        self._rows.have_grown()
        self._room.is_waiting = False
        chosen = self._choose_decodes()
        if self._tenants.are_several:
            return chosen, self._take_turns(chosen, step)
        alone = next(iter(self._waiting.tenants), None)
        return chosen, self._serve(chosen, self._rows.prefilling(), alone, step)

    def _choose_decodes(self) -> OpenStep:
        """Take every decoding sequence; preempt the youngest until all find slots."""
        while True:
            chosen = OpenStep(self._token_budget, self._max_logits)
            chosen.take_decodes(self._rows.running)
            if self._room.claimed(chosen) <= self._cache.available:
                break
            self._room.make()
        floor = max(1, min(MIN_PREFILL, self._token_budget // 4))
        chosen.tokens_left = max(chosen.tokens_left, floor)
        return chosen

    # -- turns -------------------------------------------------------------------------------

    def _take_turns(self, chosen: OpenStep, step: int) -> list[Sequence]:
        """Serve the tenants by their credit; return the sequences that are cached already."""
        ready: list[Sequence] = []
        for tenant, tokens in chosen.by_tenant().items():
            self._tenants.charge(tenant, tokens)
        wanting = {seq.tenant for seq in self._rows.prefilling()}
        wanting.update(self._waiting.tenants)
        while chosen.tokens_left > 0 and (turn := self._tenants.next_of(wanting)) is not None:
            if self._tenants.credit(turn) <= 0:
                self._tenants.new_round()
                continue
            found, taken = self._serve_turn(chosen, turn, step)
            ready += found
            if not found and taken <= 0:
                wanting.discard(turn)
        return ready

    def _serve_turn(self, chosen: OpenStep, tenant: str, step: int) -> tuple[list[Sequence], int]:
        """Serve one tenant within its credit; return also how many tokens it takes."""
        own = [seq for seq in self._rows.prefilling() if seq.tenant == tenant]
        put_off = max(0, chosen.tokens_left - self._tenants.credit(tenant))
        before = chosen.by_tenant().get(tenant, 0)
        chosen.tokens_left -= put_off
        ready = self._serve(chosen, own, tenant, step)
        chosen.tokens_left += put_off
        taken = chosen.by_tenant().get(tenant, 0) - before
        self._tenants.charge(tenant, taken)
        return ready, taken

    # -- one tenant --------------------------------------------------------------------------

    def _serve(
        self, chosen: OpenStep, begun: list[Sequence], tenant: str | None, step: int
    ) -> list[Sequence]:
        """Go on with begun prefills, in order of arrival; then start what waits.

        Returns the sequences that turn out to be completely cached.
        """
        for seq in begun:
            if seq.is_prefilling and chosen.tokens_left > 0:  # it may have given way meanwhile
                self._go_on(seq, chosen)
        return [] if tenant is None else self._admit(chosen, tenant, step)

    def _go_on(self, seq: Sequence, chosen: OpenStep) -> None:
        """Take as much of a prefill as there is memory for."""
        room = self._cache.available - self._room.claimed(chosen)
        while room < self._cache.page_size and self._room.take_memory(seq, 0, chosen):
            room = self._cache.available - self._room.claimed(chosen)
        begun = seq.cached_len + chosen.parts.get(seq, 0)
        within = self._cache.tokens_within(begun, room)
        chosen.take(seq, limit=min(chosen.tokens_left, within))

    def _admit(self, chosen: OpenStep, tenant: str, step: int) -> list[Sequence]:
        """Start waiting sequences of a tenant while budget, rows and pool allow.

        Returns those that are completely cached.
        """
        ready: list[Sequence] = []
        if not self._has_place(chosen, tenant) or self._tenants.must_yield(tenant, step):
            return ready
        prefilling = self._rows.prefilling()
        for seq in self._waiting.ordered(step, tenant):
            if not self._has_place(chosen, tenant):
                break
            if self._waiting.must_wait(seq, prefilling):
                continue
            if not self._start(seq, chosen):
                self._tenants.blocked(tenant, self._rows.uses(), step)
                break
            if seq.extend_len == 0:
                ready.append(seq)
            else:
                prefilling.append(seq)
                chosen.take(seq, limit=chosen.tokens_left)
        return ready

    def _has_place(self, chosen: OpenStep, tenant: str) -> bool:
        """Whether a step has something left, and a row is free or can be taken."""
        return chosen.tokens_left > 0 and chosen.logits_left > 0 and self._room.has_row(tenant)

    # -- starting ----------------------------------------------------------------------------

    def _start(self, seq: Sequence, chosen: OpenStep) -> bool:
        """Move a sequence from waiting to running if the pool has room for it."""
        if self._room.is_early(seq):
            return False
        tokens = seq.token_ids[: seq.logits_from]
        known = self._foresight.found(seq) or self._cache.tree.find(tokens, seq.namespace)
        node, found = known
        need = self._cache.new_slots(found, seq.goal_len + growth(seq))
        if self._room.is_hopeless(seq, need, node):
            self._cache.tree.touch(node)
            return False
        handle = self._cache.lock(node, found, seq.namespace)
        while not self._rows.free or not self._room.is_enough(seq, need):
            if not self._room.drop_guess() and not self._room.take_from_others(seq, chosen):
                self._cache.release(handle)
                return False
        handle, slots = self._cache.load(handle, tokens, self._cache.slots_of(handle, tokens))
        self._foresight.started(seq, handle.length)
        self._tenants.started(seq)
        self._waiting.remove(seq)
        self._rows.place(seq, handle, slots, pool_len=found)
        self._rows.enter(seq)
        return True

    def start_guess(self, seq: Sequence, room: int) -> bool:
        """Start the sequence of a guess if there is a row, and room for what it computes."""
        if not self._rows.free:
            return False
        handle, slots = self._cache.match_and_lock(seq.token_ids[: seq.logits_from], seq.namespace)
        if self._cache.new_slots(handle.length, seq.goal_len) > room:
            self._cache.release(handle)
            return False
        self._rows.place(seq, handle, slots, pool_len=handle.length)
        return True
