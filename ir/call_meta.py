"""The meta dict of a gen and of a select: what `get_meta_info` gives.

Log-probabilities stand in it twice: as plain numbers, and under the reference frontend's
names as (log-probability, token id, text) triples.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult, TextPiece, TopTokens
from lmc.ir.target import Tokenizer

Triple = tuple[float | None, int, str | None]


def gen_meta(
    call: GenCall, result: GenResult, tokenizer: Tokenizer, *, with_text: bool = True
) -> dict[str, Any]:
    """Return the meta dict of one sample; `with_text` False leaves the triples' text None."""
    meta = {
        "finish_reason": result.finish_reason,
        "matched_stop": result.matched_stop,
        "complete": result.complete,
        "prompt_tokens": len(call.context),
        "completion_tokens": len(result.token_ids),
        "token_ids": list(result.token_ids),
        "logprobs": None if result.logprobs is None else list(result.logprobs),
    }
    if result.logprobs is not None:
        spell = _Speller(tokenizer, with_text)
        meta["output_token_logprobs"] = spell.triples(result.token_ids, result.logprobs)
        meta["output_token_logprobs_length"] = len(result.logprobs)
        known = result.prompt_logprobs or ()
        ids = call.context[len(call.context) - len(known) :]
        meta["input_token_logprobs"] = spell.triples(ids, known)
        if call.params.top_logprobs_num:
            meta["output_top_logprobs"] = spell.rows(result.top_logprobs or ())
            meta["input_top_logprobs"] = spell.rows(result.prompt_top_logprobs or ())
    return meta


class PieceMeta:
    """The meta dicts of the pieces of one sample, as they come.

    Token counts are those so far, the log-probabilities those of the piece's own tokens.
    """

    def __init__(self, call: GenCall, tokenizer: Tokenizer, *, with_text: bool = True) -> None:
        self._call = call
        self._num_tokens = 0
        self._spell = _Speller(tokenizer, with_text)

    def add(self, piece: str) -> TextPiece:
        """Return the next piece with its meta dict; a plain str tells of no tokens."""
        told = piece if isinstance(piece, TextPiece) else TextPiece(piece)
        self._num_tokens += len(told.token_ids)
        meta: dict[str, Any] = {
            "finish_reason": None,
            "prompt_tokens": len(self._call.context),
            "completion_tokens": self._num_tokens,
        }
        if self._call.params.return_logprob:
            meta["output_token_logprobs"] = self._spell.triples(told.token_ids, told.logprobs)
            meta["output_token_logprobs_length"] = self._num_tokens
        told.meta = meta
        return told


def whole_piece(text: str, meta: Any) -> TextPiece:
    """Return the text of a call as one piece; `meta` is its meta dict, or those of n samples."""
    first = meta[0] if isinstance(meta, list) else meta
    piece = TextPiece(text, tuple(first.get("token_ids", ())), tuple(first.get("logprobs") or ()))
    kept = ("prompt_tokens", "completion_tokens", "output_token_logprobs",
            "output_token_logprobs_length")  # fmt: skip
    piece.meta = {"finish_reason": None, **{key: first[key] for key in kept if key in first}}
    return piece


def select_meta(
    choices: Sequence[str],
    scores: Sequence[float],
    calls: Sequence[ScoreCall],
    results: Sequence[ScoreResult],
    tokenizer: Tokenizer,
    *,
    method: str,
) -> dict[str, Any]:
    """Return the meta dict of a select; a single choice has no calls and no logprobs.

    `scores` are what the choices were compared by (token by token: their means).
    """
    logprobs = [list(entry) for entry in results[0].logprobs] if results else [[]]
    means = [_mean(entry) for entry in logprobs]
    spell = _Speller(tokenizer, True)
    meta: dict[str, Any] = {
        "choices": list(choices),
        "scores": list(scores),
        "logprobs": logprobs,
        "finish_reason": "stop",
        "normalized_prompt_logprobs": means,
        "output_token_logprobs": [[] for _ in choices],
        "input_token_logprobs": _options(spell, calls[:1], results[:1]) or [[]],
    }
    if method == "greedy_token_selection":
        columns = zip_longest(*logprobs)
        filled = [[m if x is None else x for x, m in zip(c, means, strict=True)] for c in columns]
        meta["greedy_logprob_matrix"] = [list(row) for row in zip(*filled, strict=True)]
    if method == "unconditional_likelihood_normalized" and len(results) > 1:
        meta["unconditional_token_logprobs"] = _options(spell, calls[1:], results[1:])
        meta["normalized_unconditional_prompt_logprobs"] = list(scores)
    return meta


def _options(
    spell: "_Speller", calls: Sequence[ScoreCall], results: Sequence[ScoreResult]
) -> list[list[Triple]]:
    return [
        spell.triples(ids, logprobs)
        for call, result in zip(calls, results, strict=True)
        for ids, logprobs in zip(call.options, result.logprobs, strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class _Speller:
    """Makes triples; remembers the text of every id."""

    def __init__(self, tokenizer: Tokenizer, with_text: bool) -> None:
        self._tokenizer = tokenizer
        self._with_text = with_text
        self._known: dict[int, str] = {}

    def _text(self, token_id: int) -> str | None:
        """Return an id's text by itself, a control token's spelling, '' where it has none."""
        if not self._with_text:
            return None
        if token_id < 0:
            return ""  # an image
        if token_id not in self._known:
            text = self._tokenizer.control_text(token_id)
            if text is None and token_id < self._tokenizer.vocab_size:
                text = self._tokenizer.decode([token_id])
            self._known[token_id] = text or ""
        return self._known[token_id]

    def triples(self, ids: Sequence[int], logprobs: Sequence[float | None]) -> list[Triple]:
        pairs = zip(ids, logprobs, strict=False)
        return [(logprob, token_id, self._text(token_id)) for token_id, logprob in pairs]

    def rows(self, places: Sequence[TopTokens | None]) -> list[list[Triple] | None]:
        return [
            None if place is None else [(value, id_, self._text(id_)) for id_, value in place]
            for place in places
        ]
