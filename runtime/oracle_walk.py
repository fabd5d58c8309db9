"""Walking an answer's ids under a call's parameters: stops, limits and the constraint."""

from collections.abc import Sequence

from lmc.errors import EngineError, UsageError
from lmc.ir.calls import CallUsage, FinishReason, GenCall, GenResult, TextPiece
from lmc.ir.target import OnText, Tokenizer
from lmc.runtime.constraint import Compiled, Matcher
from lmc.runtime.oracle_logprobs import invented_logprobs
from lmc.runtime.oracle_text import Draw
from lmc.runtime.text_stream import TextStream


class Walk:
    """One generation of the oracle.

    Args:
        tokenizer: gives the text of ids.
        call: what was asked.
        constraint: the call's constraint, compiled.
        draw: log-probabilities come from it.
        on_text: gets the text piece by piece.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        call: GenCall,
        constraint: Compiled | None,
        draw: Draw,
        on_text: OnText | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._call = call
        self._constraint = constraint
        self._matcher: Matcher | None = None if constraint is None else constraint.matcher()
        self._draw = draw
        self._on_text = on_text
        self._output: list[int] = []
        self._logprobs: list[float] = []
        self._num_told = 0
        params = call.params
        self._stream = TextStream(
            tokenizer, params.stop, min_tokens=params.min_tokens, patterns=params.stop_regex
        )
        self._reason: FinishReason = "stop"
        self._matched_stop: str | int | None = None

    def follow(self, ids: Sequence[int], *, is_scripted: bool = False) -> None:
        """Give out ids until the call ends.

        Raises:
            UsageError: a scripted answer that the constraint does not allow.
        """
        limit = self._call.params.max_tokens
        for token_id in ids[:limit]:
            if self._is_last(token_id, ids, is_scripted):
                break
        else:
            if len(self._output) >= limit:
                self._reason = "length"
        self._check_end(ids, is_scripted)
        self._show(self._stream.finish())

    def _is_last(self, token_id: int, ids: Sequence[int], is_scripted: bool) -> bool:
        """Give out one id; return whether the call ends with it (or, at an end id, before)."""
        params, matcher = self._call.params, self._matcher
        if token_id in params.stop_token_ids and len(self._output) >= params.min_tokens:
            self._matched_stop = token_id
            return True
        if matcher is not None:
            self._accept(matcher, token_id, ids, is_scripted)
        self._output.append(token_id)
        self._show(self._stream.feed(token_id))
        self._matched_stop = self._stream.matched_stop
        return self._stream.is_ended or (matcher is not None and matcher.is_terminated())

    def _accept(
        self, matcher: Matcher, token_id: int, ids: Sequence[int], is_scripted: bool
    ) -> None:
        try:
            matcher.accept_token(token_id)
        except EngineError:
            assert is_scripted, "what the oracle draws is a match"
            raise self._no_match(ids) from None

    def _check_end(self, ids: Sequence[int], is_scripted: bool) -> None:
        """Refuse a scripted answer that ends before the constraint is met."""
        was_cut = self._reason == "length" or self._matched_stop is not None
        if is_scripted and not was_cut and len(self._output) < len(ids):
            raise self._no_match(ids)
        if is_scripted and not was_cut and self._matcher and not self._matcher.can_end():
            raise self._no_match(ids)

    def _no_match(self, ids: Sequence[int]) -> UsageError:
        name = self._call.site.rpartition("@")[0]
        assert self._call.constraint is not None, "the caller looked"
        kind, source = self._call.constraint.kind.replace("_", " "), self._call.constraint.source
        return UsageError(
            f"the script answers {self._tokenizer.decode(ids)!r} to '{name}', "
            f"which does not match its {kind} {source!r:.300}",
            hint=f"script a text that the {kind} allows as a whole",
        )

    def _show(self, piece: str) -> None:
        if not piece or self._on_text is None:
            return
        told, self._num_told = self._num_told, self._stream.kept_len
        ids, logprobs = self._stream.token_ids[told:], self._drawn_logprobs(self._num_told)[told:]
        self._on_text(TextPiece(piece, ids, logprobs if self._call.params.return_logprob else ()))

    def _drawn_logprobs(self, count: int) -> tuple[float, ...]:
        """Return invented log-probabilities of the first ids."""
        while len(self._logprobs) < count:
            self._logprobs.append(-0.01 - 3.0 * self._draw.share())
        return tuple(self._logprobs[:count])

    def result(self) -> GenResult:
        """Return what the generation gave."""
        stream, params = self._stream, self._call.params
        ids = stream.token_ids
        logprobs = self._drawn_logprobs(len(ids))
        known = invented_logprobs(self._tokenizer, self._call, ids, logprobs)
        usage = CallUsage(
            prompt_tokens=len(self._call.context),
            output_tokens=len(self._output),
            decode_steps=len(self._output),
        )
        return GenResult(
            token_ids=ids,
            text=stream.text,
            tail=stream.tail,
            finish_reason=self._reason,
            matched_stop=self._matched_stop,
            complete=self._is_complete(),
            logprobs=logprobs if params.return_logprob else None,
            top_logprobs=known.tops,
            prompt_logprobs=known.prompt,
            prompt_top_logprobs=known.prompt_tops,
            usage=usage,
        )

    def _is_complete(self) -> bool:
        """Whether the kept text is a full match of the constraint that nothing was cut from."""
        if self._constraint is None or self._matcher is None:
            return True
        if self._reason == "length":
            return False
        if self._stream.kept_len == len(self._output):
            return self._matcher.can_end()
        return self._constraint.matches(self._stream.text.encode())
