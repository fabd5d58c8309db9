"""The smallest deterministic automaton of the same language.

Partition refinement after Hopcroft ("process the smaller half"), in rounds over arrays: a
round looks only at states that lead into a class just split off, and the largest part of a
split class keeps its name. Shortest and longest distance to the end start the partition
off, which leaves little to do for long chains.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, CharDfa

UNBOUNDED = -1


class MatchesNothingError(ConstraintError):
    """A pattern that no text at all matches."""


def minimise(dfa: CharDfa, budget: Budget) -> CharDfa:
    """Return the minimal automaton, states numbered in breadth-first order.

    Raises:
        ConstraintError: the language is empty.
    """
    dfa = _live(dfa)
    shortest, longest = distances(dfa.rows, dfa.accepting)
    keys = np.stack([shortest, longest, dfa.accepting], axis=1).astype(np.int32)
    return _ordered(_merge(dfa, _refine(dfa.rows, _group(keys), budget)))


def distances(
    rows: NDArray[np.int32], accepting: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each state's shortest and longest distance to an end, in letters.

    All states must be live. A longest distance of -1 is without bound. The shortest is -1
    for a state that reaches no end.
    """
    edges = _edges(rows)
    before = _before(edges, len(rows))
    shortest, longest = _shortest(before, accepting), _longest(before, edges, len(rows))
    return np.array(shortest, dtype=np.int64), np.array(longest, dtype=np.int64)


def _before(edges: NDArray[np.int64], count: int) -> list[list[int]]:
    """Return the states that lead into each state."""
    offsets, sources = _adjacency(edges[:, ::-1], count)
    flat = sources.tolist()
    return [flat[begin:end] for begin, end in pairwise(offsets.tolist())]


def _shortest(before: list[list[int]], accepting: NDArray[np.bool_]) -> list[int]:
    """Return the shortest way out of each state, -1 where there is none."""
    queue: list[int] = np.flatnonzero(accepting).tolist()
    shortest = np.where(accepting, 0, -1).tolist()
    for state in queue:
        for source in before[state]:
            if shortest[source] < 0:
                shortest[source] = shortest[state] + 1
                queue.append(source)
    return shortest


def _longest(before: list[list[int]], edges: NDArray[np.int64], count: int) -> list[int]:
    """Return the longest way out of each state; states are peeled off from the end."""
    missing = np.bincount(edges[:, 0], minlength=count).tolist()
    longest = [UNBOUNDED] * count
    queue = [state for state in range(count) if not missing[state]]
    for state in queue:
        longest[state] = max(longest[state], 0)
        for source in before[state]:
            longest[source] = max(longest[source], longest[state] + 1)
            missing[source] -= 1
            if not missing[source]:
                queue.append(source)
    return [UNBOUNDED if left else way for left, way in zip(missing, longest, strict=True)]


def _edges(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the distinct [state, next state] pairs, sorted."""
    source, letter = np.nonzero(rows != DEAD)
    codes = np.unique(source.astype(np.int64) * len(rows) + rows[source, letter])
    return np.stack([codes // max(len(rows), 1), codes % max(len(rows), 1)], axis=1)


def _adjacency(edges: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return compressed rows (offsets, targets) of [source, target] pairs."""
    order = np.argsort(edges[:, 0], kind="stable")
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=count), out=offsets[1:])
    return offsets, edges[order, 1]


def _successors(
    adjacency: tuple[NDArray[np.int64], NDArray[np.int64]], states: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the targets of all edges that leave the given states."""
    offsets, targets = adjacency
    lengths = offsets[states + 1] - offsets[states]
    first = np.repeat(offsets[states] - (np.cumsum(lengths) - lengths), lengths)
    return targets[first + np.arange(len(first))]


def _live(dfa: CharDfa) -> CharDfa:
    """Return the automaton without states from which no end can be reached."""
    before = _before(_edges(dfa.rows), len(dfa.rows))
    alive = np.array(_shortest(before, dfa.accepting)) >= 0
    if not alive[0]:
        raise MatchesNothingError(
            "regex matches no text at all", hint="look for contradicting anchors or look-around"
        )
    numbers = np.full(len(alive) + 1, DEAD, dtype=np.int32)  # the last entry serves DEAD
    numbers[:-1][alive] = np.arange(alive.sum(), dtype=np.int32)
    return CharDfa(numbers[dfa.rows[alive]], dfa.accepting[alive])


def _refine(
    rows: NDArray[np.int32], labels: NDArray[np.int32], budget: Budget
) -> NDArray[np.int32]:
    """Return the coarsest partition below `labels` in which equals lead to equals."""
    reverse = _adjacency(_edges(rows)[:, ::-1], len(rows))
    labels = np.append(labels, DEAD).astype(np.int32)  # the last entry serves DEAD
    touched = np.arange(len(rows))
    is_touched = np.zeros(len(rows), dtype=bool)
    while len(touched):
        budget.check_time()
        keys = np.concatenate([labels[touched, None], labels[rows[touched]]], axis=1)
        changed = _split(labels, touched, _group(keys))
        is_touched[:] = False
        is_touched[_successors(reverse, changed)] = True
        touched = np.flatnonzero(is_touched)  # several times faster than sorting them
    return labels[:-1]


def _split(
    labels: NDArray[np.int32], touched: NDArray[np.int64], groups: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Split classes by the groups of their touched members; return states newly named.

    Members that were not touched still lead where they led and so stay together, apart
    from all groups. Where all members were touched, the largest group keeps the name.
    """
    sizes = np.bincount(labels[:-1])
    counts = np.bincount(groups)
    owner = np.empty(len(counts), dtype=np.int32)
    owner[groups] = labels[touched]
    order = np.lexsort((-counts, owner))
    is_largest = np.empty(len(counts), dtype=bool)
    is_largest[order] = np.diff(owner[order], prepend=DEAD) != 0
    all_touched = np.bincount(owner, weights=counts, minlength=len(sizes)) == sizes
    is_new = ~(is_largest & all_touched[owner])
    names = owner.copy()
    names[is_new] = len(sizes) + np.arange(int(is_new.sum()))
    labels[touched] = names[groups]
    return touched[is_new[groups]]


def _group(keys: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return dense numbers of the distinct rows of `keys`, by first appearance."""
    data = np.ascontiguousarray(keys).tobytes()
    size = keys.shape[1] * keys.itemsize
    seen: dict[bytes, int] = {}
    found = [seen.setdefault(data[at : at + size], len(seen)) for at in range(0, len(data), size)]
    return np.array(found, dtype=np.int32)


def _merge(dfa: CharDfa, labels: NDArray[np.int32]) -> CharDfa:
    """Return the automaton with one state per class; the start is no longer state 0."""
    first = np.unique(labels, return_index=True)[1]
    padded = np.append(labels, DEAD).astype(np.int32)
    rows = padded[dfa.rows[first]]
    start = int(labels[0])
    # Swap the start to the front, so that _ordered finds it there.
    swap = np.arange(len(first) + 1, dtype=np.int32)
    swap[-1] = DEAD
    swap[[0, start]] = swap[[start, 0]]
    order = swap[:-1]
    return CharDfa(swap[rows[order]], dfa.accepting[first][order])


def _ordered(dfa: CharDfa) -> CharDfa:
    """Return the automaton with states numbered breadth first from the start."""
    order, seen = [0], {0}
    for state in order:
        for target in dict.fromkeys(dfa.rows[state].tolist()):
            if target != DEAD and target not in seen:
                seen.add(target)
                order.append(target)
    numbers = np.full(len(dfa.rows) + 1, DEAD, dtype=np.int32)
    numbers[np.array(order)] = np.arange(len(order), dtype=np.int32)
    return CharDfa(numbers[dfa.rows[order]], dfa.accepting[order])
