"""Sampler: from one row of logits to one token, independent of every other row.

Everything is computed over one row alone and in one fixed order (weights in float32, sums in
float64), and randomness is a pure function of (key, position). So a token does not depend on
what else was in the batch.

Order: penalties and biases, then what may not come, then the filters: temperature, `top_k`,
`top_p` over what `top_k` left, `min_p` relative to the most likely token. Equal logits rank by
lower id, in greedy choice too.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.errors import EngineError
from lmc.ir.calls import SamplingParams, TopTokens
from lmc.ir.target import Tokenizer

FloatRow = NDArray[np.float32]
IdArray = NDArray[np.int64]

_LEAST_TEMPERATURE = 1e-30

_BLOCK = 256
"""Entries whose sum or maximum is taken together; searching goes block by block."""


def uniform(key: int, position: int) -> float:
    """Return the random number in [0, 1) of one position: 53 bits of a keyed hash."""
    message = position.to_bytes(8, "big")
    digest = hashlib.blake2b(message, key=(key % 2**64).to_bytes(8, "big"), digest_size=8)
    return (int.from_bytes(digest.digest(), "big") >> 11) * 2.0**-53


def token_logprobs(row: FloatRow, token_ids: Iterable[int]) -> list[float]:
    """Return the log-probabilities of some tokens under a row of logits."""
    peak = row.max()
    total = float(peak) + math.log(np.exp(row - peak).sum(dtype=np.float64))
    return [float(row[token_id]) - total for token_id in token_ids]


def top_tokens(row: FloatRow, count: int) -> TopTokens:
    """Return the `count` likeliest tokens with their log-probabilities, equal ones by id."""
    ids = _most_likely(row, min(count, len(row))).tolist() if count > 0 else []
    return tuple(zip(ids, token_logprobs(row, ids), strict=True))


class Penalties:
    """What a call's own output and its `logit_bias` do to logits.

    The counts are those of the output; nothing else is looked at, so a token does not
    depend on where the context came from or on what ran beside it.
    """

    def __init__(self, params: SamplingParams, logits_len: int) -> None:
        self._params = params
        self._counts: dict[int, int] = {}
        known = [(i, bias) for i, bias in params.logit_bias if i < logits_len]
        self._bias_ids = np.array([i for i, _ in known], dtype=np.int64)
        self._biases = np.array([bias for _, bias in known], dtype=np.float32)
        self._counts_matter = (
            params.repetition_penalty != 1.0
            or params.frequency_penalty != 0.0
            or params.presence_penalty != 0.0
        )

    def count(self, token_id: int) -> None:
        """Take note of an output token."""
        if self._counts_matter:
            self._counts[token_id] = self._counts.get(token_id, 0) + 1

    def uncount(self, token_id: int) -> None:
        """Take an output token back."""
        if self._counts_matter:
            self._counts[token_id] -= 1
            if not self._counts[token_id]:
                del self._counts[token_id]

    def apply(self, row: FloatRow) -> None:
        """Change a row of logits in place."""
        if self._counts:
            ids = np.fromiter(self._counts, dtype=np.int64, count=len(self._counts))
            counts = np.fromiter(self._counts.values(), dtype=np.float32, count=len(ids))
            row[ids] = self._penalised(row[ids], counts)
        if len(self._bias_ids):
            row[self._bias_ids] += self._biases

    def _penalised(self, logits: FloatRow, counts: FloatRow) -> FloatRow:
        params = self._params
        factor = np.float32(params.repetition_penalty)
        logits = np.where(logits > 0, logits / factor, logits * factor)
        logits -= counts * np.float32(params.frequency_penalty)
        return logits - np.float32(params.presence_penalty)


def forbid_unless(row: FloatRow, allowed: NDArray[np.uint8]) -> None:
    """Set the entries of `row` that are not allowed to -inf; `allowed` holds 0 and 1.

    Arithmetic instead of a masked assignment, which is slow where masks look random.
    """
    cap = allowed.astype(np.float32)
    cap -= 0.5
    cap *= np.inf
    np.minimum(row, cap, out=row)


def pick_token(row: FloatRow, params: SamplingParams, *, key: int, position: int) -> int:
    """Choose one token of a row whose forbidden entries are -inf.

    Args:
        row: logits, float32 [vocab].
        params: decode parameters.
        key: the call's random key.
        position: index of the token in the call's output.

    Raises:
        EngineError: every entry is forbidden.
    """
    best = int(row.argmax())
    if row[best] == -np.inf:
        raise EngineError(
            "no token may come next: constraint, stop ids and min_tokens exclude them all",
            hint="loosen the constraint, or check that its characters are in the vocabulary",
        )
    if params.is_greedy:
        return best
    return _draw(row, params, uniform(key, position))


def _draw(row: FloatRow, params: SamplingParams, number: float) -> int:
    """Invert the cumulative distribution of the filtered row at `number`."""
    weights = row - row.max()
    with np.errstate(over="ignore"):  # a temperature near 0 leaves the best tokens only
        weights /= np.float32(max(params.temperature, _LEAST_TEMPERATURE))
    np.exp(weights, out=weights)
    ids = _nucleus(row, weights, params)
    if ids is not None:
        weights = weights[ids]
    if params.min_p > 0.0:
        weights *= weights >= np.float32(params.min_p)  # the most likely token has weight 1
    index = _invert(weights, number)
    return index if ids is None else int(ids[index])


def _invert(weights: FloatRow, number: float) -> int:
    """Return the index where the running sum of `weights` passes the share `number` of it."""
    starts = np.arange(0, len(weights), _BLOCK)
    sums = np.add.reduceat(weights, starts, dtype=np.float64)
    ends = np.cumsum(sums)
    target = number * ends[-1]
    block = min(int(np.searchsorted(ends, target, side="right")), int(np.flatnonzero(sums)[-1]))
    start = int(starts[block])
    inside = weights[start : start + _BLOCK]
    running = np.cumsum(inside, dtype=np.float64)
    rest = target - (ends[block - 1] if block else 0.0)
    index = int(np.searchsorted(running, rest, side="right"))
    return start + min(index, int(np.flatnonzero(inside)[-1]))


def _nucleus(row: FloatRow, weights: FloatRow, params: SamplingParams) -> IdArray | None:
    """Return the ids that `top_k` and `top_p` leave, ascending; None for all of them."""
    has_top_k = 0 < params.top_k < len(row)
    if params.top_p >= 1.0:
        return np.sort(_most_likely(row, params.top_k)) if has_top_k else None
    if has_top_k:
        ids = _most_likely(row, params.top_k)
        total = weights[ids].sum(dtype=np.float64)
    else:
        # All tokens lighter than this together weigh less than what top_p may leave out.
        total = weights.sum(dtype=np.float64)
        light = (1.0 - params.top_p) * total / len(row)
        ids = _by_rank(row, np.flatnonzero(weights >= np.float32(light * 0.999)))
    running = np.cumsum(weights[ids], dtype=np.float64)
    kept = int(np.searchsorted(running, params.top_p * total, side="left")) + 1
    return np.sort(ids[:kept])


def _most_likely(row: FloatRow, count: int) -> IdArray:
    """Return the ids of the `count` highest logits, highest first, equal ones by id.

    The count-th highest of the blocks' maxima bounds the count-th highest logit from below.
    """
    peaks = np.maximum.reduceat(row, np.arange(0, len(row), _BLOCK))
    source = peaks if count <= len(peaks) else row
    border = np.partition(source, len(source) - count)[len(source) - count]
    return _by_rank(row, np.flatnonzero(row >= border))[:count]


def _by_rank(row: FloatRow, ids: IdArray) -> IdArray:
    """Sort ascending ids by logit, highest first, equal ones by id."""
    return ids[np.argsort(-row[ids], kind="stable")]


@dataclass(frozen=True, slots=True)
class BlockedIds:
    """Ids that one generation must not produce.

    `early` holds before `min_tokens` are out, `late` from then on. `ends` are the ids that
    end the generation; `end_controls` those of them that no constraint can spell.
    """

    early: IdArray
    late: IdArray
    ends: frozenset[int]
    end_controls: IdArray


class TokenRules:
    """Which ids of a vocabulary a generation may produce at all.

    Forbidden in every call: ids beyond the tokenizer's vocabulary, and control tokens that
    neither end the generation by themselves nor are listed in its `stop_token_ids`.
    """

    def __init__(self, tokenizer: Tokenizer, logits_len: int) -> None:
        table = tokenizer.token_bytes()
        self._eos = frozenset(tokenizer.eos_ids)
        self._controls = frozenset(i for i, data in enumerate(table) if data is None)
        beyond = range(min(tokenizer.vocab_size, logits_len), logits_len)
        self._silent = self._controls.union(beyond)
        self._logits_len = logits_len
        self._kept: dict[tuple[tuple[int, ...], bool], BlockedIds] = {}

    def blocked(self, params: SamplingParams) -> BlockedIds:
        """Return what `params` forbid (kept for calls without stop ids of their own)."""
        key = (params.stop_token_ids, params.ignore_eos)
        found = self._kept.get(key)
        if found is None:
            found = self._compute(*key)
            if not params.stop_token_ids:
                self._kept[key] = found
        return found

    def _compute(self, stop_ids: tuple[int, ...], ignore_eos: bool) -> BlockedIds:
        stops = {i for i in stop_ids if 0 <= i < self._logits_len}
        ends = stops if ignore_eos else stops | self._eos
        late = self._silent - ends
        if ignore_eos:
            late = late | (self._eos - ends)
        return BlockedIds(
            early=_id_array(late | ends),
            late=_id_array(late),
            ends=frozenset(ends),
            end_controls=_id_array(ends & self._controls),
        )


def _id_array(ids: set[int] | frozenset[int]) -> IdArray:
    return np.array(sorted(ids), dtype=np.int64)
