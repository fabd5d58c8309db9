"""Log-probabilities that the oracle makes up: hashes of the ids up to each place."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.ir.calls import GenCall, TopTokens
from lmc.ir.target import Tokenizer
from lmc.runtime.oracle_text import Draw


@dataclass(frozen=True, slots=True)
class Invented:
    """What a GenResult says of places beyond its own tokens; None where not asked for."""

    tops: tuple[TopTokens, ...] | None = None
    prompt: tuple[float | None, ...] | None = None
    prompt_tops: tuple[TopTokens | None, ...] | None = None


def invented_logprobs(
    tokenizer: Tokenizer, call: GenCall, ids: Sequence[int], logprobs: Sequence[float]
) -> Invented:
    """Return the likeliest tokens of every place, and values for the prompt's tokens.

    A place's own token stands among its likeliest, which are the same whatever else is
    asked of the call.
    """
    params, context = call.params, call.context
    if not params.return_logprob:
        return Invented()
    count = params.top_logprobs_num
    tops: list[TopTokens] = []
    for index, (token_id, logprob) in enumerate(zip(ids, logprobs, strict=True)):
        tops.append(_top(tokenizer, (*context, *ids[:index]), count, (token_id, logprob)))
    if params.max_tokens == 0:
        tops.append(_top(tokenizer, context, count, None))
    start = params.logprob_start_len
    if start < 0:
        return Invented(tops=tuple(tops) if count else None)
    prompt: list[float | None] = []
    prompt_tops: list[TopTokens | None] = []
    for place in range(start, len(context)):
        value = -0.01 - 8.0 * Draw(0, ("prompt", context[: place + 1])).share()
        prompt.append(value if place else None)
        own = (context[place], value)
        prompt_tops.append(_top(tokenizer, context[:place], count, own) if place else None)
    return Invented(
        tops=tuple(tops) if count else None,
        prompt=tuple(prompt),
        prompt_tops=tuple(prompt_tops) if count else None,
    )


def _top(
    tokenizer: Tokenizer, before: Sequence[int], count: int, own: tuple[int, float] | None
) -> TopTokens:
    """Return `count` different tokens with falling values; `own` is the first of them."""
    draw = Draw(0, ("top", tuple(before)))
    found = dict([own]) if own is not None else {}
    logprob = -0.01 if own is None else own[1]
    while len(found) < min(count, tokenizer.vocab_size):
        logprob -= draw.share()
        found.setdefault(draw.below(tokenizer.vocab_size), logprob)
    return tuple(found.items())[:count]
