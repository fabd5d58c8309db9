"""The classes of characters that a pattern cannot tell apart.

A pattern's sets cut the code points into pieces; pieces that lie in the same sets behave
alike, and the automaton needs one letter for all of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.charset import ANY, CharSet

SPAN_END = 0x110000


@dataclass(frozen=True, slots=True)
class Minterms:
    """The partition of the code points into letters.

    Args:
        starts: first code point of each span, ascending, the first one 0; a span ends where
            the next one starts, the last one at `SPAN_END`.
        letters: letter of each span; -1 for characters in no set (and for surrogates).
        count: number of letters, numbered by their lowest code point.
        members: for each of the sets given, the letters that make it up.
    """

    starts: NDArray[np.int64]
    letters: NDArray[np.int32]
    count: int
    members: tuple[tuple[int, ...], ...]


def partition(sets: list[CharSet]) -> Minterms:
    """Return the letters of the given sets."""
    bounds = {0}
    for chars in (*sets, ANY):
        for low, high in chars:
            bounds.update((low, high + 1))
    bounds.discard(SPAN_END)
    starts = np.array(sorted(bounds), dtype=np.int64)
    inside = np.zeros((len(sets), len(starts)), dtype=bool)
    for row, chars in zip(inside, sets, strict=True):
        _mark(row, starts, chars)
    letters, count = _number(inside)
    members = tuple(tuple(np.unique(letters[row]).tolist()) for row in inside)
    return Minterms(starts, letters, count, members)


def _mark(row: NDArray[np.bool_], starts: NDArray[np.int64], chars: CharSet) -> None:
    """Set the spans of `row` that lie inside `chars`."""
    if not chars:
        return
    ranges = np.array(chars, dtype=np.int64)
    steps = np.zeros(len(starts) + 1, dtype=np.int32)
    np.add.at(steps, np.searchsorted(starts, ranges[:, 0]), 1)
    np.add.at(steps, np.searchsorted(starts, ranges[:, 1] + 1), -1)
    row[:] = np.cumsum(steps)[:-1] > 0


def _number(inside: NDArray[np.bool_]) -> tuple[NDArray[np.int32], int]:
    """Return the letter of each span, numbered by first appearance, and their number."""
    labels = np.zeros(inside.shape[1], dtype=np.int64)
    for row in inside:
        labels = np.unique(labels * 2 + row, return_inverse=True)[1].reshape(-1)
    used = inside.any(axis=0)
    letters = np.full(len(labels), -1, dtype=np.int32)
    kinds, first, inverse = np.unique(labels[used], return_index=True, return_inverse=True)
    rank = np.empty(len(kinds), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(kinds), dtype=np.int32)
    letters[used] = rank[inverse.reshape(-1)] if len(kinds) else 0
    return letters, len(kinds)
