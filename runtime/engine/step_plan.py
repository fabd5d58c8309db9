"""StepPlan: one forward pass, as parts of sequences and as flat arrays."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.engine.sequence import Sequence, SequenceState

IntArray = NDArray[np.int32]


@dataclass(slots=True, eq=False)
class Extend:
    """One sequence's part of a step: `length` tokens from position `start`; never changed.

    Its logits are rows `first_logit` and following of the step's logits: those of the
    positions `logits_start` to `start + length`. The last `num_drafts` tokens are drafts.
    """

    seq: Sequence
    epoch: int
    start: int
    length: int
    logits_start: int
    first_logit: int
    num_drafts: int

    @property
    def end(self) -> int:
        """The position after the last token."""
        return self.start + self.length

    @property
    def known_end(self) -> int:
        """The position after the last token that is no draft."""
        return self.end - self.num_drafts

    @property
    def num_logits(self) -> int:
        """How many rows of logits belong to it."""
        return self.end - self.logits_start

    @property
    def is_live(self) -> bool:
        """Whether the sequence still is in the run that this part was planned for."""
        return self.seq.epoch == self.epoch and self.seq.state is SequenceState.RUNNING


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """One forward pass: its parts, and the same as flat int32 arrays.

    For R tokens of S sequences: `token_ids`, `positions`, `slots` are [R]; `seq_starts` is
    [S + 1]; `table_rows` is [S]; `logit_rows` names the tokens whose logits are wanted.
    """

    extends: list[Extend]
    token_ids: IntArray
    positions: IntArray
    slots: IntArray
    seq_starts: IntArray
    table_rows: IntArray
    logit_rows: IntArray

    @property
    def num_tokens(self) -> int:
        """Tokens computed by the pass."""
        return len(self.token_ids)


@dataclass(slots=True)
class OpenStep:
    """A step while it is being chosen: parts, and what is left of its limits.

    `parts` holds the number of tokens that each sequence computes, `num_tokens` their sum.
    """

    tokens_left: int
    logits_left: int
    parts: dict[Sequence, int] = field(default_factory=dict[Sequence, int])
    num_tokens: int = 0

    def take_decodes(self, running: list[Sequence]) -> None:
        """Add what is known of every sequence that decodes; the step's tokens may go negative."""
        for seq in running:
            if seq.cached_len >= seq.prefill_len:
                self.take(seq, limit=self.tokens_left if self.tokens_left > 1 else 1)

    def take(self, seq: Sequence, *, limit: int) -> int:
        """Add as much of `seq` as fits `limit` tokens and the step's rows of logits.

        Returns how many tokens that are.
        """
        done = self.parts.get(seq, 0)
        begun = seq.cached_len + done
        length = seq.goal_len - begun
        if length > limit:
            length = limit
        free_rows = seq.logits_from - begun
        if free_rows < 0:
            free_rows = 0
        if length > free_rows + self.logits_left:
            length = free_rows + self.logits_left
        if length <= 0:
            return 0
        self.parts[seq] = done + length
        self.num_tokens += length
        self.tokens_left -= length
        if length > free_rows:
            self.logits_left -= length - free_rows
        return length

    def by_tenant(self) -> dict[str, int]:
        """Return the tokens of each tenant's parts."""
        tokens: dict[str, int] = {}
        for seq, length in self.parts.items():
            tokens[seq.tenant] = tokens.get(seq.tenant, 0) + length
        return tokens

    def drop(self, seq: Sequence) -> int:
        """Take a sequence out again; return how many tokens it had."""
        length = self.parts.pop(seq, 0)
        self.num_tokens -= length
        self.tokens_left += length
        self.logits_left += max(0, length - max(0, seq.logits_from - seq.cached_len))
        return length

    def add_drafts(self, seq: Sequence, token_ids: list[int]) -> None:
        """Let a sequence's part go on with draft tokens; they fit the step's limits."""
        seq.propose(token_ids)
        self.parts[seq] += len(token_ids)
        self.num_tokens += len(token_ids)
        self.tokens_left -= len(token_ids)
        self.logits_left -= len(token_ids)


def lay_out(
    parts: dict[Sequence, int],
    new_slots: IntArray,
    page_table: IntArray,
    *,
    page_size: int = 1,
) -> StepPlan:
    """Return the plan of chosen parts.

    Writes `new_slots`, int32 [those of all pages that the parts begin], into the page table.
    """
    extends, rows, starts, token_ids, logit_rows = _gather(parts)
    lengths = np.fromiter(parts.values(), dtype=np.int32, count=len(parts))
    seq_starts = np.zeros(len(parts) + 1, dtype=np.int32)
    lengths.cumsum(out=seq_starts[1:])
    table_rows = np.array(rows, dtype=np.int32)
    firsts = np.array(starts, dtype=np.int32)
    if len(token_ids) == len(parts):  # one token each
        positions, token_rows = firsts, table_rows
    else:
        positions = (firsts - seq_starts[:-1]).repeat(lengths)
        positions += np.arange(len(token_ids), dtype=np.int32)
        token_rows = table_rows.repeat(lengths)
    slots = give_slots(extends, token_rows, positions, new_slots, page_table, page_size=page_size)
    wanted = np.array(logit_rows, dtype=np.int32)
    plan = StepPlan(extends, token_ids, positions, slots, seq_starts, table_rows, wanted)
    for part in extends:
        part.seq.alloc_len = part.start + part.length  # last: a failure leaves the caller its slots
    return plan


def _gather(
    parts: dict[Sequence, int],
) -> tuple[list[Extend], list[int], list[int], IntArray, list[int]]:
    """Return the parts of a plan, their rows of the page table, first positions and tokens.

    Then the places, among all tokens, of those whose logits are wanted.
    """
    token_ids = np.empty(sum(parts.values()), dtype=np.int32)
    extends: list[Extend] = []
    rows: list[int] = []
    starts: list[int] = []
    logit_rows: list[int] = []
    base = 0
    for seq, length in parts.items():
        start = seq.cached_len
        end = start + length
        rows.append(seq.row)
        starts.append(start)
        first_logit = len(logit_rows)
        if length == 1 and seq.logits_from <= start:  # what most sequences of most steps do
            logits_start = start
            token_ids[base] = seq.fed_id(start)
            logit_rows.append(base)
        else:
            logits_start = min(max(start, seq.logits_from), end)
            token_ids[base : base + length] = seq.fed_ids(end)[start:]
            logit_rows.extend(range(base + logits_start - start, base + length))
        extends.append(
            Extend(seq, seq.epoch, start, length, logits_start, first_logit, seq.num_drafts)
        )
        base += length
    return extends, rows, starts, token_ids, logit_rows


def give_slots(
    extends: list[Extend],
    token_rows: IntArray,
    positions: IntArray,
    new_slots: IntArray,
    page_table: IntArray,
    *,
    page_size: int,
) -> IntArray:
    """Write the slots of all pages that parts begin into the page table.

    Args:
        extends: the parts.
        token_rows, positions: where each of their R tokens stands in the page table, [R].
        new_slots: the slots.
        page_table: what is written to.
        page_size: slots of a page.

    Returns:
        the slots of the tokens, [R].
    """
    if page_size == 1:
        page_table[token_rows, positions] = new_slots
        return new_slots
    _place_pages(extends, new_slots, page_table, page_size)
    return page_table[token_rows, positions]


def _place_pages(
    extends: list[Extend], new_slots: IntArray, page_table: IntArray, page_size: int
) -> None:
    """Write the pages that parts begin into their rows, whole: the end of a row may cut one."""
    taken = 0
    for part in extends:
        first, last = (at + -at % page_size for at in (part.start, part.end))
        row = page_table[part.seq.row, first:last]
        row[:] = new_slots[taken : taken + len(row)]
        taken += last - first
