"""Scoring: one ScoreCall in the engine.

The options form a tree of tokens below the context. One sequence runs per option that is not
the beginning of another; each takes the logits of those positions that no sequence before it
takes, and finds the rest in the radix tree (it waits for the sequence that computes it). So
the context and every common beginning of options are computed once. The last token of an
option is never computed: only its probability is needed.
"""

import time
from dataclasses import dataclass

import numpy as np

from lmc.ir.calls import CallUsage, ScoreCall, ScoreResult
from lmc.ir.target import OnScore
from lmc.runtime.engine.request import Core, LogitRows, Request, context_array
from lmc.runtime.engine.sampler import token_logprobs
from lmc.runtime.engine.sequence import Sequence

Option = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A sequence to run: the tokens after the context, and the first row that is its own.

    Row j holds the prediction after j tokens of `tokens`.
    """

    tokens: Option
    first_row: int


def plan_branches(options: tuple[Option, ...]) -> list[Branch]:
    """Return the sequences that cover every prediction needed to score `options`.

    In sorted order, what a sequence shares with any before it, it shares with the last one.
    """
    heads = sorted({option[:-1] for option in options if option})
    branches: list[Branch] = []
    for index, head in enumerate(heads):
        is_beginning = index + 1 < len(heads) and heads[index + 1][: len(head)] == head
        if is_beginning:
            continue
        first_row = _shared_len(branches[-1].tokens, head) + 1 if branches else 0
        branches.append(Branch(head, first_row))
    return branches


def _shared_len(left: Option, right: Option) -> int:
    size = min(len(left), len(right))
    return next((i for i in range(size) if left[i] != right[i]), size)


class Scoring(Request):
    """One ScoreCall.

    Its usage counts the context once and every distinct token of the options that had to go
    through the model once; `cached_tokens` are those of them that were in the radix tree.
    """

    def __init__(
        self, call: ScoreCall, on_done: OnScore, *, vocab_size: int, stand_in_id: int
    ) -> None:
        super().__init__(on_done)
        self.call = call
        self._context = context_array(call.context or (stand_in_id,), vocab_size)
        for option in call.options:
            context_array(option, vocab_size)
        self._branches: dict[int, Branch] = {}
        self._wanted: dict[Option, set[int]] = {}
        self._found: dict[tuple[Option, int], float] = {}
        self._num_open = 0
        self._num_steps = 0
        self._computed_len = self._host_len = self._disk_len = 0
        for option in call.options:
            for index, token_id in enumerate(option):
                self._wanted.setdefault(option[:index], set()).add(token_id)

    def start(self, core: Core) -> None:
        """Queue one sequence per branch."""
        branches = plan_branches(self.call.options)
        self._num_open = len(branches)
        if not branches:
            self._deliver(core)
            return
        for branch in branches:
            seq = self._new_sequence(core, branch)
            self.sequences.append(seq)
            self._branches[seq.serial] = branch
        for seq in self.sequences:
            core.add(seq)

    def on_logits(self, core: Core, seq: Sequence, position: int, rows: LogitRows) -> None:
        """Read off the probabilities of the options' tokens."""
        if self.first_token_at is None:
            self.note_token()
        self._num_steps += 1
        tokens = self._branches[seq.serial].tokens
        for offset, row in enumerate(rows):
            head = tokens[: position + offset - len(self._context) + 1]
            wanted = sorted(self._wanted.get(head, ()))
            for token_id, logprob in zip(wanted, token_logprobs(row, wanted), strict=True):
                self._found[head, token_id] = logprob
        seq.logits_from = position + len(rows)

    def on_computed(self, core: Core, seq: Sequence) -> None:
        """End a branch; the last one ends the call."""
        self._computed_len += seq.total_len - seq.first_cached_len
        host, disk = seq.first_lower_lens(seq.total_len)
        self._host_len += host
        self._disk_len += disk
        core.end(seq)
        self._num_open -= 1
        if self._num_open == 0:
            self._deliver(core)

    def _new_sequence(self, core: Core, branch: Branch) -> Sequence:
        tokens = np.concatenate([self._context, np.array(branch.tokens, dtype=np.int32)])
        return Sequence(
            core.next_serial(),
            tokens,
            max_len=len(tokens),
            logits_from=len(self._context) - 1 + branch.first_row,
            owner=self,
            hint=self.call.hint,
            context_len=len(self._context),
            namespace=self.namespace,
        )

    def _deliver(self, core: Core) -> None:
        usage = self._usage()
        core.stats.prompt_tokens += usage.prompt_tokens
        core.stats.cached_tokens += usage.cached_tokens
        core.stats.cached_host_tokens += usage.cached_host_tokens
        core.stats.cached_disk_tokens += usage.cached_disk_tokens
        core.stats.computed_tokens += usage.computed_tokens
        logprobs = tuple(
            tuple(self._found[option[:i], token_id] for i, token_id in enumerate(option))
            for option in self.call.options
        )
        self.deliver(core, ScoreResult(logprobs=logprobs, usage=usage))

    def _usage(self) -> CallUsage:
        """Return the counts; a context that was evicted half-way counts as computed once."""
        own_rows = sum(
            len(branch.tokens) - max(0, branch.first_row - 1) for branch in self._branches.values()
        )
        prompt_len = len(self._context) + own_rows if self._branches else 0
        cached = max(0, prompt_len - self._computed_len)
        disk = min(cached, self._disk_len)
        return CallUsage(
            prompt_tokens=prompt_len,
            cached_tokens=cached,
            cached_host_tokens=min(cached - disk, self._host_len),
            cached_disk_tokens=disk,
            decode_steps=self._num_steps,
            queue_seconds=self.since_submission(self.started_at),
            first_token_seconds=self.since_submission(self.first_token_at),
            total_seconds=self.since_submission(time.perf_counter()),
        )
