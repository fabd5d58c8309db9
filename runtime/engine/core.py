"""EngineCore: the engine without its thread: requests, scheduler and model, step by step.

Everything here runs on one thread at a time; tests drive it directly.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping

import numpy as np

from lmc.errors import Cancelled, EngineError
from lmc.runtime.cache.prefix_cache import PrefixCache, SlotArray, TokenArray
from lmc.runtime.engine.drafting import Drafter
from lmc.runtime.engine.generation import count_usage
from lmc.runtime.engine.model_runner import CausalModel, ModelRunner
from lmc.runtime.engine.overlap import Overlap, outcome_of
from lmc.runtime.engine.policy import Policy
from lmc.runtime.engine.request import LogitRows, Request
from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.sequence import Sequence
from lmc.runtime.engine.stats import EngineStats
from lmc.runtime.engine.step_plan import Extend, StepPlan
from lmc.runtime.engine.tiers import TierOptions, Tiers
from lmc.runtime.engine.watch import Watch


def _nothing() -> None:
    """Wake nobody."""


class EngineCore:
    """Runs requests over one model.

    Args:
        model: what computes.
        num_slots: tokens of KV memory.
        token_budget: tokens per step.
        max_running: sequences that run at once.
        policy: what is kept, served and forgotten first.
        page_size: tokens of a page of KV memory.
        max_events: cache events that wait to be taken at the most; 0 makes none.
        is_debug: whether everything is verified after every step.
        overlap: whether the next step is chosen while one is computed.
        drafter: gives draft tokens; without it none are computed.
        tiers: what lies below the pool.
        binding: what the bytes of KV depend on; tells which files of a disk tier may be used.
        wake: called, on another thread, when there is something to do for `step`.
    """

    def __init__(
        self,
        model: CausalModel,
        *,
        num_slots: int,
        token_budget: int,
        max_running: int,
        policy: Policy | None = None,
        page_size: int = 1,
        max_events: int = 0,
        is_debug: bool = False,
        overlap: bool = False,
        drafter: Drafter | None = None,
        tiers: TierOptions | None = None,
        binding: Mapping[str, str] | None = None,
        wake: Callable[[], None] = _nothing,
    ) -> None:
        policy = policy or Policy()
        self.runner = ModelRunner(model, num_slots=num_slots, max_running=max_running)
        self.cache = PrefixCache(
            num_slots,
            is_shared=policy.cache == "radix",
            page_size=page_size,
            max_events=max_events,
            is_debug=is_debug,
        )
        self._is_debug = is_debug
        self.scheduler = Scheduler(
            self.cache,
            self.runner.page_table,
            token_budget=token_budget,
            max_running=max_running,
            policy=policy,
        )
        self.scheduler.drafter = drafter
        self.overlap: Overlap | None = None
        if overlap:
            self.overlap = Overlap(self.runner.forward, self.scheduler, is_debug=is_debug)
        self.tiers: Tiers | None = None
        if tiers is not None:
            self.tiers = Tiers(tiers, self.runner, self.cache, binding=binding or {}, wake=wake)
            self.scheduler.on_kept = self.tiers.store
        self.stats = EngineStats()
        self.watch = Watch()
        self._live: dict[int, Request] = {}
        self._serial = 0

    # -- what requests ask for ---------------------------------------------------------------

    def add(self, seq: Sequence) -> None:
        """Queue a sequence, which may first wait for a part of its prefix to be read.

        Raises:
            EngineError: it can never fit.
        """
        self.scheduler.expect_fit(seq)
        if self.tiers is None or not self.tiers.must_wait(seq):
            self.scheduler.submit(seq)

    def end(self, seq: Sequence, *, keep_cache: bool = True) -> None:
        """End a sequence; it owns nothing afterwards."""
        if self.tiers is None or not self.tiers.end_wait(seq):
            self.scheduler.finish(seq, keep_cache=keep_cache)

    def end_pinned(self, seq: Sequence) -> int:
        """End a running sequence and pin its tokens; return the pin's number."""
        return self.scheduler.finish_pinned(seq)

    def next_serial(self) -> int:
        """Return the next place in the order of arrival."""
        self._serial += 1
        return self._serial

    def forget(self, request: Request, outcome: object) -> None:
        """Take note that a request has ended, and how."""
        self._live.pop(id(request), None)
        self.watch.ended(request, outcome)

    # -- what the engine asks for ------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.scheduler.has_work or (self.tiers is not None and self.tiers.has_ready)

    @property
    def patience(self) -> float | None:
        """Seconds after which `has_work` may have changed by itself; None where it cannot."""
        return None if self.tiers is None else self.tiers.patience

    def close(self) -> None:
        """End what works beside the engine's thread; call `fail_all` before."""
        if self.tiers is not None:
            self.tiers.close()
        if self.overlap is not None:
            self.overlap.close()

    def register(self, request: Request) -> None:
        """Take note of a request that is on its way (its constraint may not be ready)."""
        self._live[id(request)] = request
        self.stats.requests += 1

    def start(self, request: Request) -> None:
        """Start a registered request, unless it ended meanwhile."""
        if not request.is_done:
            self._guarded(request, lambda: request.start(self))

    def read_kv(self, token_ids: TokenArray, start: int, end: int, namespace: str = "") -> bytes:
        """Return the KV of a cached prefix's tokens from `start` to `end`.

        Raises:
            EngineError: a part of them is not cached.
        """
        handle, slots = self.cache.match_and_lock(token_ids, namespace)
        try:
            if self.cache.whole(len(token_ids)) < end:
                raise EngineError(
                    "the last page of a prefix is not whole, so its KV cannot be read",
                    hint="have tokens behind it computed too, up to the end of its page",
                )
            if handle.length < end:
                raise EngineError("a prefix was evicted before its KV was read")
            return self.runner.read_kv(slots[start:end])
        finally:
            self.cache.release(handle)

    def place_kv(
        self, token_ids: TokenArray, start: int, data: memoryview, namespace: str = ""
    ) -> None:
        """Put the KV of a prefix from `start` on into the cache.

        Where that cannot be (the tokens before are not cached, or there is no room) nothing is
        done: the prefix is computed when it is needed.
        """
        handle, slots = self.cache.match_and_lock(token_ids, namespace)
        have = handle.length
        count = self.cache.whole(len(token_ids)) - have
        own = self.cache.alloc(count) if have >= start else None
        if own is not None and count:
            self.runner.write_kv(own, data, have - start)
            row = np.concatenate([slots, own])
            self.cache.wrote(handle, token_ids[: len(row)], row, have)
            handle = self.cache.insert(handle, token_ids[: len(row)], row)
        self.cache.release(handle)

    def fail_all(self, error: BaseException) -> None:
        """End every request with `error`."""
        for request in list(self._live.values()):
            request.fail(self, error)

    def snapshot(self) -> EngineStats:
        """Return a copy of the totals."""
        ledger = self.scheduler.guesses.ledger
        ledger.settle()
        self._settle_guesses()
        return dataclasses.replace(
            self.stats, preemptions=self.scheduler.num_preemptions,
            speculated_tokens=ledger.speculated, wasted_tokens=ledger.wasted,
            **(self.tiers.totals() if self.tiers is not None else {}),
        )  # fmt: skip

    def step(self) -> None:
        """Compute one step and hand its results out."""
        begun = time.perf_counter()
        for seq in self.tiers.take_ready() if self.tiers is not None else ():
            self.scheduler.submit(seq)
        try:
            plan, ready = self._plan()
        except MemoryError as error:
            self._fail_running(error)
            return
        self._settle_guesses()
        for seq in ready:
            self._computed(seq)
        if plan is not None:
            self._run(plan, begun)
        if self._is_debug:
            self.check()
        self.stats.busy_seconds += time.perf_counter() - begun

    def _fail_running(self, error: MemoryError) -> None:
        """End what runs, or if nothing does all there is, since no step could be planned.

        Raises:
            AssertionError, PageOwnershipError: who owns what is no longer certain.
        """
        running = [*self.scheduler.running, *self.scheduler.guesses.running]
        if not running:
            self.fail_all(error)
        for seq in running:
            _owner(seq).fail(self, error, keep_cache=False)
        self.check()

    def check(self) -> None:
        """Verify that every slot has exactly one owner; in debug mode also what it holds.

        Raises:
            AssertionError, PageOwnershipError: one has none, or two.
            ShadowError: one holds other tokens than it is used for.
        """
        rows = self.runner.page_table
        private: list[SlotArray] = []
        for seq in (*self.scheduler.running, *self.scheduler.guesses.running):
            assert seq.handle is not None, "a running sequence has a handle"
            row, length = rows[seq.row], seq.cached_len
            private.append(row[seq.handle.length : seq.alloc_len])
            if self.cache.shadow is not None:
                self.cache.shadow.verify(row[:length], seq.token_ids[:length], seq.namespace)
        self.cache.check(private)
        if self.scheduler.drafter is not None:
            self.scheduler.drafter.check()

    def _settle_guesses(self) -> None:
        """End the guesses that were dropped; count the answers of those that were adopted."""
        guesses = self.scheduler.guesses
        for seq in guesses.take_dropped():
            _owner(seq).fail(self, Cancelled("there is no room for work ahead"))
        for guess in guesses.ledger.take_adopted():
            if guess.usage is not None:
                count_usage(self, guess.usage)

    # -- a step ------------------------------------------------------------------------------

    def _run(self, plan: StepPlan, now: float) -> None:
        for part in plan.extends:
            _owner(part.seq).mark_started(now)
        self.stats.engine_steps += 1
        self.stats.forward_tokens += plan.num_tokens
        logits = self._compute(plan)
        if isinstance(logits, Exception):
            for part in plan.extends:
                _owner(part.seq).fail(self, logits, keep_cache=False)
            return
        self.watch.stepped(plan, now, len(self.scheduler.running), len(self.scheduler.waiting))
        broken = _broken_parts(plan, logits)
        self.scheduler.commit(plan, failed=broken)
        for part in plan.extends:
            if part.seq in broken:
                _owner(part.seq).fail(self, _not_finite(part), keep_cache=False)
            elif part.is_live:
                self._hand_out(part, logits)
        self.scheduler.settle(plan)

    def _plan(self) -> tuple[StepPlan | None, list[Sequence]]:
        """Return the next step, and the sequences that need none."""
        plan = None if self.overlap is None else self.overlap.ahead.take()
        return self.scheduler.plan() if plan is None else (plan, [])

    def _compute(self, plan: StepPlan) -> LogitRows | Exception:
        if self.overlap is None:
            return outcome_of(self.runner.forward, plan)
        return self.overlap.compute(plan)

    def _hand_out(self, part: Extend, logits: LogitRows) -> None:
        """Give a sequence its rows, and tell when it is completely computed."""
        seq, owner = part.seq, _owner(part.seq)
        if part.num_logits:
            rows = logits[part.first_logit : part.first_logit + part.num_logits]
            self._guarded(owner, lambda: owner.on_logits(self, seq, part.logits_start, rows))
        if part.is_live and seq.extend_len == 0:
            self._computed(seq)

    def _computed(self, seq: Sequence) -> None:
        owner = _owner(seq)
        self._guarded(owner, lambda: owner.on_computed(self, seq))

    def _guarded(self, request: Request, action: Callable[[], None]) -> None:
        """Run a request's own code; an exception ends that request only."""
        try:
            action()
        except Exception as error:
            request.fail(self, error)


def _owner(seq: Sequence) -> Request:
    assert isinstance(seq.owner, Request), "every sequence of the engine has a request"
    return seq.owner


def _broken_parts(plan: StepPlan, logits: LogitRows) -> set[Sequence]:
    """Return the sequences that have a row of logits without a finite maximum.

    Draft tokens with such a row are dropped: whether they come is not known.
    """
    is_finite = np.isfinite(logits.max(axis=1, initial=-np.inf))
    broken: set[Sequence] = set()
    if is_finite.all():
        return broken
    for part in plan.extends:
        first_draft = part.first_logit + part.num_logits - part.num_drafts
        if not is_finite[part.first_logit : first_draft].all():
            broken.add(part.seq)
        good = is_finite[first_draft : first_draft + part.num_drafts]
        part.seq.num_drafts = int(np.logical_and.accumulate(good).sum())
    return broken


def _not_finite(part: Extend) -> EngineError:
    return EngineError(
        f"the model gave logits that are not finite near position {part.known_end - 1}",
        hint="the weights may be damaged, or the prompt drives the model out of range",
    )
