"""PlanAhead: the next step is chosen while this one is computed.

It is chosen on the assumption that every running sequence gets one token, and that nothing
else happens. Nothing is touched for it: an assumed step has neither tokens nor slots. When the
results of this step and the events behind it are applied, `take` compares the assumption with
what has become of it. Parts whose sequences have ended, or were stopped, are void: they carry
the epoch of their sequence, which is over. What is left gets its tokens and its slots if it is
what the scheduler would choose now; if it is not, there is no step, and the scheduler chooses.
So schedules, and with them results and statistics, are those of a run that plans in order.

Steps with a part of a prompt, with draft tokens or with guesses, and those of several tenants,
are not assumed: most of them take so long that choosing them is nothing beside it.
"""

import dataclasses
from dataclasses import dataclass

import numpy as np

from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.step_plan import Extend, IntArray, StepPlan, give_slots

LEAST_ROWS = 2
"""Sequences of a step from which on the next one is chosen ahead: a lone one takes no time."""


@dataclass(frozen=True, slots=True)
class AssumedStep:
    """One token of each of n sequences: their parts, and what a StepPlan has of them."""

    parts: list[Extend]
    positions: IntArray
    seq_starts: IntArray
    table_rows: IntArray
    logit_rows: IntArray


class PlanAhead:
    """See the module's text.

    Args:
        scheduler: whose steps are chosen; belongs to the same thread.

    Attributes:
        num_assumed: steps that were chosen ahead.
        num_taken: of these, those that came.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._assumed: AssumedStep | None = None
        self.num_assumed = self.num_taken = 0

    def is_of_use(self, plan: StepPlan) -> bool:
        """Whether the step after `plan` can be chosen while `plan` is computed."""
        return len(plan.extends) >= LEAST_ROWS and self._is_plain()

    def assume(self, plan: StepPlan) -> None:
        """Choose the step after `plan`, which is being computed."""
        ends = {part.seq: part for part in plan.extends if part.is_live}
        parts: list[Extend] = []
        for seq in self._scheduler.running:
            part = ends.get(seq)
            if part is None or part.end < max(seq.goal_len, seq.prefill_len):
                return  # a part of a prompt, or of a forced run, comes next
            if seq.chooser is not None and seq.total_len < seq.max_len:
                parts.append(Extend(seq, seq.epoch, part.end, 1, part.end, len(parts), 0))
        if parts and self._admits_nothing(len(parts)):
            self._assumed = _lay_out(parts)
            self.num_assumed += 1

    def take(self) -> StepPlan | None:
        """Return the step that was assumed, if it is what the scheduler would choose now.

        Raises:
            MemoryError: there is none for the arrays; nobody has got a slot then.
        """
        assumed, self._assumed = self._assumed, None
        if assumed is None or not self._is_plain():
            return None
        parts = [part for part in assumed.parts if part.is_live]
        running = self._scheduler.running
        if not parts or len(parts) < len(running) or not self._admits_nothing(len(running)):
            return None
        if not all(_is_as_assumed(part) for part in parts):
            return None
        if len(parts) < len(assumed.parts):
            numbered = enumerate(parts)
            assumed = _lay_out([dataclasses.replace(p, first_logit=i) for i, p in numbered])
        return self._complete(assumed)

    def _is_plain(self) -> bool:
        """Whether nothing but calls of one tenant is to be considered."""
        scheduler = self._scheduler
        return (
            (scheduler.drafter is None or not scheduler.drafter.may_draft(scheduler.running))
            and not scheduler.guesses.are_open
            and not scheduler.tenants.are_several
        )

    def _admits_nothing(self, num_running: int) -> bool:
        """Whether no sequence starts beside so many: none waits, or there is no row."""
        scheduler = self._scheduler
        return num_running >= scheduler.max_running or not len(scheduler.waiting)

    def _complete(self, assumed: AssumedStep) -> StepPlan | None:
        """Do what the scheduler does when it has chosen; None where memory must be made first."""
        scheduler, cache, parts = self._scheduler, self._scheduler.cache, assumed.parts
        need = len(parts)
        if cache.page_size > 1:
            need = sum(cache.new_slots(part.start, part.end) for part in parts)
        if need > cache.available:
            return None
        scheduler.step += 1
        scheduler.guesses.ledger.settle()
        scheduler.guesses.ledger.need(len(parts))
        if need > cache.spare:
            scheduler.foresight.settle_ranks()
        new_slots = cache.alloc(need)
        assert new_slots is not None, f"{need} slots are available"
        try:
            token_ids = np.array([part.seq.fed_id(part.start) for part in parts], dtype=np.int32)
            slots = give_slots(
                parts, assumed.table_rows, assumed.positions, new_slots, scheduler.page_table,
                page_size=cache.page_size,
            )  # fmt: skip
            plan = StepPlan(
                parts, token_ids, assumed.positions, slots,
                assumed.seq_starts, assumed.table_rows, assumed.logit_rows,
            )  # fmt: skip
        except MemoryError:
            cache.free(new_slots)
            raise
        for part in parts:
            part.seq.alloc_len = part.end
        self.num_taken += 1
        return plan


def _lay_out(parts: list[Extend]) -> AssumedStep:
    count = len(parts)
    rows = np.arange(count + 1, dtype=np.int32)
    return AssumedStep(
        parts,
        positions=np.array([part.start for part in parts], dtype=np.int32),
        seq_starts=rows,
        table_rows=np.array([part.seq.row for part in parts], dtype=np.int32),
        logit_rows=rows[:count],
    )


def _is_as_assumed(part: Extend) -> bool:
    """Whether a sequence has got one token, and wants the logits behind it."""
    seq, start = part.seq, part.start
    return (
        seq.cached_len == start
        and seq.goal_len == seq.total_len == start + 1
        and seq.logits_from <= start
    )
