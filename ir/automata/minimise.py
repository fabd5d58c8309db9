"""The smallest deterministic automaton of the same language.

Moore's partition refinement in numpy: classes are split by a hash of what each letter leads
to, until nothing splits; then the partition is checked for real, so that a hash collision
can only cost another round. Shortest and longest distance to the end start the partition
off, which leaves little to do for long chains.
"""

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, CharDfa

_MAX_WORK = 400_000_000
"""Table entries read before refinement is given up and the automaton kept as it is."""

_UNBOUNDED = -1


def minimise(dfa: CharDfa, budget: Budget) -> CharDfa:
    """Return the minimal automaton, states numbered in breadth-first order.

    Raises:
        ConstraintError: the language is empty.
    """
    dfa = _live(dfa)
    shortest, longest = distances(dfa.rows, dfa.accepting)
    labels = _number(np.stack([shortest, longest, dfa.accepting], axis=1))
    return _ordered(_merge(dfa, _refine(dfa.rows, labels, budget)))


def distances(
    rows: NDArray[np.int32], accepting: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each state's shortest and longest distance to an end, in letters.

    All states must be live. A longest distance of -1 is without bound. The shortest is -1
    for a state that reaches no end.
    """
    edges = _edges(rows)
    reverse = _adjacency(edges[:, ::-1], len(rows))
    shortest = np.full(len(rows), -1, dtype=np.int64)
    wave = np.flatnonzero(accepting)
    distance = 0
    while len(wave):
        shortest[wave] = distance
        distance += 1
        before = np.unique(_successors(reverse, wave))
        wave = before[shortest[before] < 0]
    return shortest, _longest(edges, reverse, len(rows))


def _longest(
    edges: NDArray[np.int64],
    reverse: tuple[NDArray[np.int64], NDArray[np.int64]],
    count: int,
) -> NDArray[np.int64]:
    """Return the longest way out of each state; states are peeled off from the end."""
    missing = np.bincount(edges[:, 0], minlength=count)
    longest = np.full(count, _UNBOUNDED, dtype=np.int64)
    wave = np.flatnonzero(missing == 0)
    distance = 0
    while len(wave):
        longest[wave] = distance
        distance += 1
        before = _successors(reverse, wave)
        np.subtract.at(missing, before, 1)
        touched = np.unique(before)
        wave = touched[missing[touched] == 0]
    return longest


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
    reverse = _adjacency(_edges(dfa.rows)[:, ::-1], len(dfa.rows))
    alive = dfa.accepting.copy()
    wave = np.flatnonzero(alive)
    while len(wave):
        before = np.unique(_successors(reverse, wave))
        wave = before[~alive[before]]
        alive[wave] = True
    if not len(alive) or not alive[0]:
        raise ConstraintError(
            "regex matches no text at all", hint="look for contradicting anchors or look-around"
        )
    numbers = np.full(len(alive) + 1, DEAD, dtype=np.int32)  # the last entry serves DEAD
    numbers[:-1][alive] = np.arange(alive.sum(), dtype=np.int32)
    return CharDfa(numbers[dfa.rows[alive]], dfa.accepting[alive])


def _refine(
    rows: NDArray[np.int32], labels: NDArray[np.int64], budget: Budget
) -> NDArray[np.int64]:
    """Return the coarsest stable partition below `labels` (or none at all: see _MAX_WORK)."""
    random = np.random.Generator(np.random.PCG64(len(rows)))
    work = 0
    while True:
        weights = random.integers(1, 2**63, size=rows.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
        while True:
            budget.check_time()
            work += rows.size
            if work > _MAX_WORK:
                return np.arange(len(rows))
            finer = _number(_signatures(rows, labels, weights)[:, None])
            if finer.max() == labels.max():
                break
            labels = finer
        if _is_stable(rows, labels):
            return labels


def _signatures(
    rows: NDArray[np.int32], labels: NDArray[np.int64], weights: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return a hash of each state's class and the classes that its letters lead to."""
    padded = np.append(labels + 1, 0).astype(np.uint64)
    # Mixing the class numbers first keeps small integers from cancelling out.
    mixed = (padded + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    total = mixed[:-1] * weights[-1]
    for letter in range(rows.shape[1]):
        total = total + mixed[rows[:, letter]] * weights[letter]
    return total


def _is_stable(rows: NDArray[np.int32], labels: NDArray[np.int64]) -> bool:
    """Return whether states of one class lead to the same classes."""
    padded = np.append(labels, DEAD)
    targets = padded[rows]
    first = np.unique(labels, return_index=True)[1]
    return bool((targets == targets[first[labels]]).all())


def _number(keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return dense numbers of the distinct rows of `keys`."""
    labels = np.zeros(len(keys), dtype=np.int64)
    for column in keys.T:
        _, inverse = np.unique(column, return_inverse=True)
        joined = labels * (int(inverse.max(initial=0)) + 1) + inverse.reshape(-1)
        labels = np.unique(joined, return_inverse=True)[1].reshape(-1)
    return labels


def _merge(dfa: CharDfa, labels: NDArray[np.int64]) -> CharDfa:
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
