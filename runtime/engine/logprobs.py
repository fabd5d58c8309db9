"""LogprobRecord: the log-probabilities that one generation returns, as their rows come.

The row of logits at position p predicts the token at p + 1. Rows come in order of position:
those inside the context that were asked for, then one per output token. A call that makes no
tokens may ask what would be likeliest to come: the row at the context's last position.
"""

from lmc.ir.calls import SamplingParams, TopTokens
from lmc.runtime.engine.sampler import FloatRow, token_logprobs, top_tokens


class LogprobRecord:
    """Collects values and says which row is needed next.

    Args:
        params: what is asked for.
        context_len: tokens of the context.
    """

    def __init__(self, params: SamplingParams, context_len: int) -> None:
        self._params = params
        self._context_len = context_len
        self.is_wanted = params.return_logprob
        start = params.logprob_start_len if self.is_wanted else -1
        self._wants_prompt = start >= 0
        self._has_first = start == 0 and context_len > 0
        self._first_place = max(1, start) if self._wants_prompt else context_len
        self._prompt: list[float] = []
        self._prompt_tops: list[TopTokens] = []
        self._output: list[float] = []
        self._output_tops: list[TopTokens] = []
        self._wants_next = self.is_wanted and params.max_tokens <= 0 and params.top_logprobs_num > 0

    @property
    def _prompt_len(self) -> int:
        """Entries of the context that need a row."""
        return max(0, self._context_len - self._first_place)

    @property
    def wants_next(self) -> bool:
        """Whether the row after the whole context is wanted, although nothing is sampled."""
        return self._wants_next and not self._output_tops

    @property
    def next_position(self) -> int:
        """The position of the next row that is needed."""
        if len(self._prompt) < self._prompt_len:
            return self._first_place - 1 + len(self._prompt)
        return self._context_len - 1 + len(self._output)

    def is_complete(self, num_output: int) -> bool:
        """Whether all is there that a result with that many output tokens needs."""
        if not self.is_wanted:
            return True
        has_prompt = len(self._prompt) >= self._prompt_len
        return has_prompt and len(self._output) >= num_output and not self.wants_next

    def note(self, row: FloatRow, place: int, token_id: int) -> None:
        """Take the row that predicts the token at `place`; nothing to do where none is wanted."""
        if not self.is_wanted:
            return
        is_prompt = place < self._context_len
        values = self._prompt if is_prompt else self._output
        values += token_logprobs(row, (token_id,))
        self._note_top(row, self._prompt_tops if is_prompt else self._output_tops)

    def note_next(self, row: FloatRow) -> None:
        """Take the row after the whole context."""
        self._note_top(row, self._output_tops)

    def _note_top(self, row: FloatRow, tops: list[TopTokens]) -> None:
        if self._params.top_logprobs_num:
            tops.append(top_tokens(row, self._params.top_logprobs_num))

    def output(self, count: int) -> tuple[float, ...] | None:
        """Return those of the first `count` output tokens; None where not asked for."""
        return tuple(self._output[:count]) if self.is_wanted else None

    def output_tops(self, count: int) -> tuple[TopTokens, ...] | None:
        """Return the likeliest tokens of these places."""
        if not self._params.top_logprobs_num:
            return None
        return tuple(self._output_tops if self._wants_next else self._output_tops[:count])

    def prompt(self) -> tuple[float | None, ...] | None:
        """Return those of the context; nothing predicts its first token."""
        if not self._wants_prompt:
            return None
        return (None, *self._prompt) if self._has_first else tuple(self._prompt)

    def prompt_tops(self) -> tuple[TopTokens | None, ...] | None:
        """Return the likeliest tokens of the context's places."""
        if not (self._wants_prompt and self._params.top_logprobs_num):
            return None
        return (None, *self._prompt_tops) if self._has_first else tuple(self._prompt_tops)
