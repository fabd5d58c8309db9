"""Sampler: from one row of logits to one token, independent of every other row.

All arithmetic runs over one row alone, in float64 and in one order, and randomness is a pure
function of (key, position). So a token does not depend on what else was in the batch.

Order of the filters: temperature, `top_k`, `top_p` over what `top_k` left, `min_p` relative to
the most likely token. Equal logits rank by lower id, in greedy choice too.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.errors import EngineError
from lmc.ir.calls import SamplingParams
from lmc.ir.target import Tokenizer

FloatRow = NDArray[np.float32]
DoubleRow = NDArray[np.float64]
IdArray = NDArray[np.int64]

_TOP_P_HEAD = 256
"""How many of the most likely tokens `top_p` sorts at first."""


def uniform(key: int, position: int) -> float:
    """Return the random number in [0, 1) of one position: 53 bits of a keyed hash."""
    message = position.to_bytes(8, "big")
    digest = hashlib.blake2b(message, key=(key % 2**64).to_bytes(8, "big"), digest_size=8)
    return (int.from_bytes(digest.digest(), "big") >> 11) * 2.0**-53


def log_softmax(row: FloatRow) -> DoubleRow:
    """Return the log-probabilities of a row of logits, in float64."""
    wide = row.astype(np.float64)
    wide -= wide.max()
    return wide - np.log(np.exp(wide).sum())


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
    weights = row.astype(np.float64)
    weights -= weights.max()
    weights /= params.temperature
    np.exp(weights, out=weights)
    ids = _nucleus(row, weights, params)
    if ids is not None:
        weights = weights[ids]
    if params.min_p > 0.0:
        weights[weights < params.min_p * weights.max()] = 0.0
    cumulative = np.cumsum(weights)
    index = int(np.searchsorted(cumulative, number * cumulative[-1], side="right"))
    index = min(index, int(np.flatnonzero(weights)[-1]))
    return index if ids is None else int(ids[index])


def _nucleus(row: FloatRow, weights: DoubleRow, params: SamplingParams) -> IdArray | None:
    """Return the ids that `top_k` and `top_p` leave, ascending; None for all of them."""
    size = len(row)
    limit = params.top_k if 0 < params.top_k < size else size
    if params.top_p >= 1.0:
        return None if limit == size else np.sort(_most_likely(row, limit))
    total = weights.sum() if limit == size else weights[_most_likely(row, limit)].sum()
    count = min(limit, _TOP_P_HEAD)
    while True:
        ids = _most_likely(row, count)
        cumulative = np.cumsum(weights[ids])
        if cumulative[-1] >= params.top_p * total or count == limit:
            break
        count = min(limit, count * 8)
    kept = int(np.searchsorted(cumulative, params.top_p * total, side="left")) + 1
    return np.sort(ids[:kept])


def _most_likely(row: FloatRow, count: int) -> IdArray:
    """Return the ids of the `count` highest logits, highest first, equal ones by id."""
    size = len(row)
    if count >= size:
        return np.argsort(-row, kind="stable")
    border = np.partition(row, size - count)[size - count]
    above = np.flatnonzero(row > border)
    level = np.flatnonzero(row == border)[: count - len(above)]
    ids = np.concatenate([above, level])
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
