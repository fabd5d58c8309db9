"""ModelDrafts: draft tokens from a second, smaller model of the same tokenizer.

Each decoding sequence has a *shadow*: the same tokens in the draft model's own KV memory, which
is a prefix cache like the engine's. A shadow computes what its sequence has got since the last
time, at most a step's budget of tokens, then goes on alone: the draft model's logits are put
through the call's own rules and its key, so a model that thinks alike draws the same tokens.

A shadow needs nothing of its sequence but the tokens. When the sequence ends or is preempted,
its shadow's KV goes to the draft model's tree. Where there is no memory, nothing is drafted.
"""

import heapq
import logging
import math
from dataclasses import dataclass, field

import numpy as np

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.cache.radix_node import common_len
from lmc.runtime.engine.drafting import least_chance, most_drafts
from lmc.runtime.engine.model_runner import CausalModel, ModelRunner
from lmc.runtime.engine.request import LogitRows
from lmc.runtime.engine.sequence import Sequence, SequenceState
from lmc.runtime.engine.step_plan import IntArray, lay_out

_FIRST_RATE = 0.8
_WEIGHT = 1 / 16
_PAUSE = 16
"""Steps between tries where drafts are hardly ever accepted."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Shadow:
    """A sequence's tokens in the draft model's memory.

    Attributes:
        seq: the engine's sequence.
        copy: the same tokens, then those that were drafted.
        known_len: tokens of `copy` that are the sequence's.
        rate: share of draft tokens that are accepted: a moving average.
        waited: steps in which nothing was tried.
        asked: draft tokens of the last step.
        accepted: the sequence's count of accepted tokens before it.
    """

    seq: Sequence
    copy: Sequence
    known_len: int = 0
    rate: float = _FIRST_RATE
    waited: int = 0
    asked: int = 0
    accepted: int = 0

    def learn(self) -> None:
        """Take note of how many of the last draft tokens were accepted."""
        hits = self.seq.accepted - self.accepted
        for is_right in [1.0] * hits + [0.0] * (hits < self.asked):
            self.rate += (is_right - self.rate) * _WEIGHT
        self.asked = 0

    def most(self, limit: int, least: float) -> int:
        """Return how many tokens to draft: while all of them are likely to be accepted."""
        rate = min(max(self.rate, 0.01), 0.999)
        likely = int(math.log(least) / math.log(rate))
        if likely == 0:
            self.waited += 1
            likely = 1 if self.waited % _PAUSE == 0 else 0
        return max(0, min(limit, likely))


@dataclass(slots=True, eq=False)
class _Line:
    """What is drafted for one sequence in this step."""

    shadow: _Shadow
    limit: int
    token_ids: list[int] = field(default_factory=list)


class ModelDrafts:
    """See the module's text.

    Args:
        model: the draft model.
        limit: the most draft tokens per sequence and step.
        num_slots: tokens of its KV memory.
        token_budget: tokens per step that bring shadows up to date.
        max_running: sequences that run at once.
    """

    def __init__(
        self,
        model: CausalModel,
        *,
        limit: int,
        num_slots: int,
        token_budget: int,
        max_running: int,
    ) -> None:
        self.cache = PrefixCache(num_slots)
        self._runner = ModelRunner(model, num_slots=num_slots, max_running=max_running)
        self._vocab_size = model.config.vocab_size
        self._limit = limit
        self._token_budget = token_budget
        self._free_rows = list(range(max_running))
        self._shadows: dict[Sequence, _Shadow] = {}
        self._has_failed = False

    # -- what the scheduler asks -------------------------------------------------------------

    def propose(self, seqs: list[Sequence], room: int) -> list[list[int]]:
        """See Drafter. If the draft model fails, nothing is drafted any more."""
        self.settle()
        lines = self._open_lines(seqs, room)
        try:
            self._draft([line for line in lines.values() if line.limit > 0])
        except Exception:
            _log.exception("the draft model failed; there are no more drafts")
            self._has_failed = True
            for seq in list(self._shadows):
                self._drop(seq, keep_cache=False)
            return [[] for _ in seqs]
        return [lines[seq].token_ids if seq in lines else [] for seq in seqs]

    def may_draft(self, seqs: list[Sequence]) -> bool:
        """See Drafter."""
        return bool(seqs)

    def settle(self) -> None:
        """See Drafter."""
        for seq in [s for s in self._shadows if s.state is not SequenceState.RUNNING]:
            self._drop(seq, keep_cache=True)

    def check(self) -> None:
        """Verify that every slot of the draft model has exactly one owner.

        Raises:
            AssertionError, PageOwnershipError: one has none, or two.
        """
        self.cache.check(self._own(shadow.copy) for shadow in self._shadows.values())

    # -- drafting ----------------------------------------------------------------------------

    def _open_lines(self, seqs: list[Sequence], room: int) -> dict[Sequence, _Line]:
        """Bring the shadows' tokens up to date and say how much to draft for each."""
        lines: dict[Sequence, _Line] = {}
        if self._has_failed:
            return lines
        least, share = least_chance(len(seqs)), max(1, room // len(seqs))
        for seq in seqs:
            shadow = self._shadows.get(seq) or self._new_shadow(seq)
            if shadow is None:
                continue
            shadow.learn()
            limit = shadow.most(most_drafts(seq, self._limit, min(share, room)), least)
            if limit > 0:
                self._catch_up(shadow)
            room -= limit
            lines[seq] = _Line(shadow, limit)
        return lines

    def _draft(self, lines: list[_Line]) -> None:
        """Draft for some sequences at once, one token of each per pass after the first."""
        begun = lines
        budget = self._token_budget
        try:
            while lines:
                parts = self._parts(lines, budget)
                logits = self._forward(parts)
                copies = dict(zip(parts, logits, strict=True))
                lines = [line for line in lines if self._go_on(line, copies)]
        finally:
            for line in begun:
                assert line.shadow.seq.chooser is not None
                line.shadow.seq.chooser.take_back(line.token_ids)
                line.shadow.asked, line.shadow.accepted = (
                    len(line.token_ids),
                    line.shadow.seq.accepted,
                )

    def _parts(self, lines: list[_Line], budget: int) -> dict[Sequence, int]:
        """Choose what the next pass computes, within the budget and the memory."""
        room = min(budget, self.cache.available)
        parts: dict[Sequence, int] = {}
        for line in lines:
            copy = line.shadow.copy
            length = min(copy.extend_len, room)
            if length > 0:
                parts[copy] = length
                room -= length
        return parts

    def _forward(self, parts: dict[Sequence, int]) -> list[LogitRows | None]:
        """Compute parts; return the last row of logits of those that are complete."""
        if not parts:
            return []
        slots = self.cache.alloc(sum(parts.values()))
        assert slots is not None, "parts are chosen by what is available"
        plan = lay_out(parts, slots, self._runner.page_table)
        logits = self._runner.forward(plan)
        for part in plan.extends:
            part.seq.cached_len = part.end
        return [logits[p.first_logit] if p.num_logits else None for p in plan.extends]

    def _go_on(self, line: _Line, rows: dict[Sequence, LogitRows | None]) -> bool:
        """Draft a token from a line's row, if it has one; return whether another may follow."""
        shadow, row = line.shadow, rows.get(line.shadow.copy)
        chooser = shadow.seq.chooser
        assert chooser is not None, "only sequences with a chooser are drafted for"
        if row is None:
            return False
        token_id = chooser.draft(_of_width(row, chooser.logits_len))
        if token_id is None or token_id >= self._vocab_size:
            return False
        if chooser.accept(token_id):
            chooser.take_back([token_id])  # the constraint ends here: nothing can follow it
            return False
        line.token_ids.append(token_id)
        if len(line.token_ids) == line.limit:
            return False
        shadow.copy.append(token_id)
        shadow.copy.logits_from = shadow.copy.total_len - 1
        return True

    # -- shadows -----------------------------------------------------------------------------

    def _new_shadow(self, seq: Sequence) -> _Shadow | None:
        """Make a sequence's shadow, if the draft model can hold all that it may come to."""
        token_ids = seq.token_ids
        if seq.max_len > self._runner.max_len or int(token_ids.max()) >= self._vocab_size:
            return None
        end = len(token_ids) - 1
        handle, slots = self.cache.match_and_lock(token_ids[:end], seq.namespace)
        copy = Sequence(seq.serial, token_ids, max_len=seq.max_len, logits_from=end)
        copy.handle, copy.row = handle, heapq.heappop(self._free_rows)
        copy.cached_len = copy.alloc_len = handle.length
        self._runner.page_table[copy.row, : handle.length] = slots
        shadow = self._shadows[seq] = _Shadow(seq, copy, len(token_ids), accepted=seq.accepted)
        return shadow

    def _catch_up(self, shadow: _Shadow) -> None:
        """Give a shadow its sequence's tokens; the KV of drafts that came is kept."""
        seq, copy = shadow.seq, shadow.copy
        have, start = copy.cached_len, min(shadow.known_len, copy.cached_len)
        same = start + common_len(copy.token_ids[start:have], seq.token_ids[start:-1])
        self.cache.free(self._runner.page_table[copy.row, same : copy.alloc_len].copy())
        copy.alloc_len = same
        copy.rewind(same)
        for token_id in seq.token_ids[same:].tolist():
            copy.append(token_id)
        copy.logits_from = copy.total_len - 1
        shadow.known_len = copy.total_len

    def _drop(self, seq: Sequence, *, keep_cache: bool) -> None:
        """Forget a shadow; what its sequence had goes to the tree."""
        shadow = self._shadows.pop(seq)
        copy, handle = shadow.copy, shadow.copy.handle
        assert handle is not None, "a shadow has a handle"
        row = self._runner.page_table[copy.row]
        if keep_cache:
            length = max(handle.length, min(copy.cached_len, shadow.known_len))
            handle = copy.handle = self.cache.insert(handle, copy.token_ids[:length], row)
        self.cache.free(self._own(copy))
        self.cache.release(handle)
        heapq.heappush(self._free_rows, copy.row)

    def _own(self, copy: Sequence) -> IntArray:
        """Return the slots that a shadow holds beside its path in the tree."""
        assert copy.handle is not None, "a shadow has a handle"
        return self._runner.page_table[copy.row, copy.handle.length : copy.alloc_len].copy()


def _of_width(row: LogitRows, width: int) -> LogitRows:
    """Return a row of logits with so many entries; those that it lacks cannot come."""
    if len(row) >= width:
        return row[:width]
    return np.concatenate([row, np.full(width - len(row), -np.inf, dtype=np.float32)])
