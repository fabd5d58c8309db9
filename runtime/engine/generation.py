"""Generation: one GenCall in the engine, from its first token to its result.

Rules:

- An end id (the tokenizer's eos unless `ignore_eos`, or one of `stop_token_ids`) ends the call
  and is in neither ids nor text. Before `min_tokens` no end id can come and no stop string
  counts; a constraint that allows nothing more ends the call all the same.
- Text that a constraint forces is appended without sampling, in the ids that the tokenizer writes
  for it, and so is a token that is the only one left. A run of such tokens goes through the model
  in one step, with the next one that is sampled behind it; one at the very start joins the
  prefill. Stops and limits hold token by token. With `constraint_mode="mask"` only a token that is
  the only one left is not sampled; the others of a run are drafts (see forced_drafts).
- Under a constraint, end ids that are control tokens may come only where the constraint can
  end, and the call ends by itself, without another step, where it must.
- Penalties and biases come before the masks: no bias brings in what may not come.
- Log-probabilities are those of the model's own distribution, before all of these.
"""

import time
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from lmc.errors import EngineError
from lmc.ir.calls import CallUsage, FinishReason, GenCall, GenResult, TextPiece
from lmc.ir.target import OnGen, OnText, Tokenizer
from lmc.runtime.constraint.matcher import Matcher
from lmc.runtime.engine.chooser import Chooser
from lmc.runtime.engine.logprobs import LogprobRecord
from lmc.runtime.engine.request import Core, LogitRows, Request, context_array
from lmc.runtime.engine.sampler import TokenRules
from lmc.runtime.engine.sequence import Sequence
from lmc.runtime.text_stream import TextStream


class CompiledConstraint(Protocol):
    """A constraint made ready for one vocabulary."""

    @property
    def control_ids(self) -> Mapping[str, int]:
        """The control tokens that may come where the constraint names them."""
        ...

    def matcher(self) -> Matcher:
        """Return a new cursor at the beginning."""
        ...


class Generation(Request):
    """One GenCall.

    Args:
        call: what to generate.
        tokenizer: gives the text of ids, and the id that stands in for an empty context.
        rules: which ids may be produced.
        vocab_size: width of the model's embedding.
        jumps: whether what a constraint decides takes no steps of its own; the results are the
            same.

    Raises:
        EngineError: the context holds an id that the model does not have.
    """

    def __init__(
        self,
        call: GenCall,
        on_done: OnGen,
        on_text: OnText | None,
        *,
        tokenizer: Tokenizer,
        rules: TokenRules,
        vocab_size: int,
        jumps: bool = True,
    ) -> None:
        super().__init__(on_done)
        self.call = call
        self._jumps = jumps
        self._pending: list[int] = []
        self._constraint: CompiledConstraint | None = None
        self._on_text = on_text
        self._tokenizer = tokenizer
        self._stream: TextStream
        self._chooser = Chooser(
            call,
            rules.blocked(call.params),
            logits_len=vocab_size,
            vocab_size=tokenizer.vocab_size,
        )
        self._context = context_array(call.context or (tokenizer.empty_context_id,), vocab_size)
        self._seq: Sequence | None = None
        self._output: list[int] = []
        self._logprobs = LogprobRecord(call.params, len(self._context))
        self._num_told = 0
        self._num_forced = 0
        self._num_steps = 0
        self._reason: FinishReason | None = None
        self._matched_stop: str | int | None = None

    # -- events ----------------------------------------------------------------------------

    def set_constraint(self, constraint: CompiledConstraint) -> None:
        """Take the compiled form of the call's constraint; comes before `start`."""
        self._constraint = constraint
        self._chooser.follow(constraint.matcher(), constraint.control_ids.values())

    def start(self, core: Core) -> None:
        """Append what the constraint forces at once, then queue the context with it.

        Raises:
            ConstraintError: a stop pattern is wrong, unsupported or too costly.
        """
        params, matcher = self.call.params, self._chooser.matcher
        self._stream = TextStream(
            self._tokenizer,
            params.stop,
            min_tokens=params.min_tokens,
            patterns=params.stop_regex,
        )
        if params.max_tokens <= 0:
            self._finish("length")
        elif matcher is not None and matcher.is_terminated():
            self._finish("stop")
        else:
            self._append_forced()
        if self._reason is not None and not self._lacks_logprobs():
            self._deliver(core)
            return
        self._seq = self._new_sequence(core)
        core.add(self._seq)

    def on_logits(self, core: Core, seq: Sequence, position: int, rows: LogitRows) -> None:
        """Take log-probabilities of known tokens, and sample where the tokens end.

        A row behind a draft token counts if that token has come.
        """
        has_sampled = False
        for place, row in enumerate(rows, position):
            if place >= seq.cached_len:
                break
            if place + 1 < seq.total_len:
                self._logprobs.note(row, place + 1, int(seq.token_ids[place + 1]))
            elif self._reason is None:
                has_sampled = True
                self._sample(row)
            elif self._logprobs.wants_next:
                self._logprobs.note_next(row)
        self._num_steps += has_sampled
        if self._reason is not None and not self._lacks_logprobs():
            self._deliver(core)
        else:
            self._set_goal(seq)

    def on_computed(self, core: Core, seq: Sequence) -> None:
        """End the call: the rows that were still missing have come."""
        self._deliver(core)

    # -- tokens ----------------------------------------------------------------------------

    def _sample(self, row: LogitRows) -> None:
        """Choose the next token from a row of logits, which is used up."""
        raw = row.copy() if self._logprobs.is_wanted else row
        token_id = self._take_pending() if self._pending else self._chooser.pick(row)
        if self._chooser.is_end(token_id):
            self._end_by_token(token_id)
            return
        if self._logprobs.is_wanted:
            self._logprobs.note(raw, len(self._context) + len(self._output), token_id)
        self._append(token_id)
        self._append_forced()

    def _append(self, token_id: int) -> None:
        """Add an output token, and end the call if it completes something."""
        self.note_token()
        self._output.append(token_id)
        if self._seq is not None:
            self._seq.append(token_id)
        self._show(self._stream.feed(token_id))
        is_over = self._chooser.accept(token_id)
        if self._stream.is_ended:
            self._finish("stop", self._stream.matched_stop)
        elif is_over:
            self._finish("stop")
        elif len(self._output) >= self.call.params.max_tokens:
            self._finish("length")

    def _append_forced(self) -> None:
        """Append what the constraint decides, up to the next token that must be sampled."""
        while self._reason is None and not self._pending:
            self._pending = self._chooser.decided()
            if not self._pending or not self._jumps:
                return
            while self._pending and self._reason is None:
                self._append(self._take_pending())

    def _take_pending(self) -> int:
        """Return the next of the ids that are decided and not yet appended."""
        self._num_forced += 1
        return self._pending.pop(0)

    def _show(self, piece: str) -> None:
        if not piece or self._on_text is None:
            return
        told, count = self._num_told, self._stream.kept_len
        known = self._logprobs.output(count)
        if known is not None:
            count = len(known)  # those of tokens that a constraint forced come later
        ids = self._stream.token_ids[told:count]
        self._num_told = count
        self._on_text(TextPiece(piece, ids, (known or ())[told:]))

    # -- the end ---------------------------------------------------------------------------

    def _end_by_token(self, token_id: int) -> None:
        is_listed = token_id in self.call.params.stop_token_ids
        self._finish("stop", token_id if is_listed else None)

    def _finish(self, reason: FinishReason, matched_stop: str | int | None = None) -> None:
        self._reason = reason
        self._matched_stop = matched_stop
        self._show(self._stream.finish())

    def _is_complete(self) -> bool:
        """Whether the text is a full match of the constraint that nothing was cut from.

        At the token limit the constraint could have gone on, or the call had ended before.
        """
        matcher = self._chooser.matcher
        if matcher is None or self._constraint is None:
            return True
        if self._reason == "length":
            return False
        if self._stream.kept_len == len(self._output):
            return matcher.can_end()
        cursor = self._constraint.matcher()
        try:
            for token_id in [*self._stream.token_ids, *self._tokenizer.encode(self._stream.tail)]:
                cursor.accept_token(token_id)
        except EngineError:
            return False
        return cursor.can_end()

    def _deliver(self, core: Core) -> None:
        assert self._reason is not None, "only a finished call has a result"
        ids = self._stream.token_ids
        usage = self._usage()
        if self.guess is None or self.guess.is_adopted:
            count_usage(core, usage)
        else:
            self.guess.usage = usage  # counted when a call adopts it
        result = GenResult(
            token_ids=ids,
            text=self._stream.text,
            tail=self._stream.tail,
            finish_reason=self._reason,
            matched_stop=self._matched_stop,
            complete=self._is_complete(),
            logprobs=self._logprobs.output(len(ids)),
            top_logprobs=self._logprobs.output_tops(len(ids)),
            prompt_logprobs=self._logprobs.prompt(),
            prompt_top_logprobs=self._logprobs.prompt_tops(),
            usage=usage,
        )
        self.deliver(core, result)

    def _usage(self) -> CallUsage:
        was_started = self._seq is not None and self._seq.first_cached_len >= 0
        prompt_len = len(self._context) if was_started else 0
        cached_len = min(self._seq.first_cached_len, prompt_len) if self._seq is not None else 0
        lower = self._seq.first_lower_lens(prompt_len) if self._seq is not None else (0, 0)
        return CallUsage(
            prompt_tokens=prompt_len,
            cached_tokens=max(0, cached_len),
            cached_host_tokens=lower[0],
            cached_disk_tokens=lower[1],
            output_tokens=len(self._output),
            forced_tokens=self._num_forced,
            drafted_tokens=0 if self._seq is None else self._seq.drafted,
            accepted_tokens=0 if self._seq is None else self._seq.accepted,
            decode_steps=self._num_steps,
            queue_seconds=self.since_submission(self.started_at),
            first_token_seconds=self.since_submission(self.first_token_at),
            total_seconds=self.since_submission(time.perf_counter()),
            decode_seconds=sum(self.gaps),
            longest_gap_seconds=max(self.gaps, default=0.0),
        )

    # -- sequence --------------------------------------------------------------------------

    def _lacks_logprobs(self) -> bool:
        """Whether a finished call still misses log-probabilities that it returns."""
        return not self._logprobs.is_complete(self._stream.kept_len)

    def _new_sequence(self, core: Core) -> Sequence:
        tokens = np.concatenate([self._context, np.array(self._output, dtype=np.int32)])
        max_len = len(self._context) + max(0, self.call.params.max_tokens - 1)
        seq = Sequence(
            core.next_serial(),
            tokens,
            max_len=max_len,
            logits_from=0,
            owner=self,
            guess=self.guess,
            hint=self.call.hint,
            chooser=self._chooser,
            context_len=len(self._context),
            namespace=self.namespace,
        )
        self.sequences.append(seq)
        self._set_goal(seq)
        return seq

    def _set_goal(self, seq: Sequence) -> None:
        """Say which positions are still to be computed, and whose logits are wanted."""
        if self._reason is not None:
            wants_next = self._logprobs.wants_next
            seq.goal_len = len(self._context) + self._stream.kept_len - (0 if wants_next else 1)
        seq.logits_from = seq.total_len - 1
        if self._logprobs.is_wanted:
            seq.logits_from = self._logprobs.next_position


def count_usage(core: Core, usage: CallUsage) -> None:
    """Add a finished call to the engine's totals."""
    core.stats.prompt_tokens += usage.prompt_tokens
    core.stats.cached_tokens += usage.cached_tokens
    core.stats.cached_host_tokens += usage.cached_host_tokens
    core.stats.cached_disk_tokens += usage.cached_disk_tokens
    core.stats.computed_tokens += usage.computed_tokens
    core.stats.output_tokens += usage.output_tokens
    core.stats.forced_tokens += usage.forced_tokens
    core.stats.drafted_tokens += usage.drafted_tokens
    core.stats.accepted_tokens += usage.accepted_tokens
    core.stats.decode_steps += usage.decode_steps
