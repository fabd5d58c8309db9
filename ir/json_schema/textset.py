"""Sets of texts, closed under union, intersection and difference.

The values of JSON strings, property names and plain number spellings are all handled as such
sets: a minimal automaton over code points, or a finite list of words while that is enough.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, CharDfa
from lmc.ir.automata.minimise import distances, minimise
from lmc.ir.automata.minterms import SPAN_END
from lmc.ir.automata.words import automaton_of_words

_EDGES = np.array([0, 0xD800, 0xE000], dtype=np.int64)
_LARGE = 64
"""Automata above this size are minimised after every operation."""


@dataclass(frozen=True, slots=True, eq=False)
class TextSet:
    """A set of texts.

    Args:
        starts: first code point of each span of code points, ascending from 0.
        rows: next state by [state, span], DEAD where nothing follows; state 0 is the start.
        accepting: by state.
        words: the members in order of writing, where the set was given as a list.
        is_exact: False for a set that only approximates (from within) what was asked for;
            its complement means nothing.
    """

    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    words: tuple[str, ...] | None = None
    is_exact: bool = True
    _key: list[bytes] = field(default_factory=list, repr=False)
    _steps: dict[tuple[int, str], int] = field(default_factory=dict, repr=False)
    _members: frozenset[str] | None = field(default=None, repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether no text is in the set."""
        return not self.accepting.any()

    @property
    def is_everything(self) -> bool:
        """Whether every text is in the set (minimal automata only)."""
        solid = self.starts != _EDGES[1]
        return len(self.rows) == 1 and bool(self.accepting[0] and (self.rows[0][solid] == 0).all())

    @property
    def key(self) -> bytes:
        """What equal automata have in common."""
        if not self._key:
            parts = (self.starts, self.rows, self.accepting)
            self._key.append(b"|".join(part.tobytes() for part in parts))
        return self._key[0]

    def __contains__(self, text: str) -> bool:
        if self.words is not None:
            if self._members is None:
                object.__setattr__(self, "_members", frozenset(self.words))
            return self._members is not None and text in self._members
        state = 0
        steps = self._steps
        for char in text:
            after = steps.get((state, char))
            if after is None:
                span = int(np.searchsorted(self.starts, ord(char), side="right")) - 1
                after = steps[state, char] = int(self.rows[state, span])
            if after == DEAD:
                return False
            state = after
        return bool(self.accepting[state])

    def spans(self, state: int) -> list[tuple[int, int, int]]:
        """Return (first code point, last code point, next state) of a state's live spans."""
        found: list[tuple[int, int, int]] = []
        row = self.rows[state].tolist()
        starts = [*self.starts.tolist(), SPAN_END]
        for index, target in enumerate(row):
            if target == DEAD:
                continue
            low, high = starts[index], starts[index + 1] - 1
            if found and found[-1][2] == target and found[-1][1] + 1 == low:
                found[-1] = (found[-1][0], high, target)
            else:
                found.append((low, high, target))
        return found


def everything() -> TextSet:
    """Return the set of all texts."""
    rows = np.array([[0, DEAD, 0]], dtype=np.int32)
    return TextSet(_EDGES, rows, np.array([True]))


def nothing() -> TextSet:
    """Return the empty set."""
    rows = np.array([[DEAD, DEAD, DEAD]], dtype=np.int32)
    return TextSet(_EDGES, rows, np.array([False]), words=())


def of_words(words: Iterable[str]) -> TextSet:
    """Return the set of the given texts."""
    unique = tuple(dict.fromkeys(words))
    if not unique:
        return nothing()
    tree, ends = automaton_of_words(sorted([ord(char) for char in word] for word in unique))
    points = sorted({point for children in tree for point in children})
    bounds = np.unique(np.array([0, *points, *(p + 1 for p in points)], dtype=np.int64))
    column = {point: int(np.searchsorted(bounds, point)) for point in points}
    rows = np.full((len(tree), len(bounds)), DEAD, dtype=np.int32)
    for state, children in enumerate(tree):
        for point, target in children.items():
            rows[state, column[point]] = target
    accepting = np.zeros(len(tree), dtype=bool)
    accepting[ends] = True
    return TextSet(bounds, rows, accepting, words=unique)


def of_length(low: int, high: int | None) -> TextSet:
    """Return the texts of `low` to `high` code points; None is without bound."""
    count = (low if high is None else high) + 1
    rows = np.full((count, 3), DEAD, dtype=np.int32)
    rows[:, 0] = np.arange(1, count + 1)
    rows[-1, 0] = DEAD if high is not None else count - 1
    rows[:, 2] = rows[:, 0]
    return TextSet(_EDGES, rows, np.arange(count) >= low)


def explore(
    alphabet: str,
    start: Hashable,
    step: Callable[..., Hashable | None],
    accepts: Callable[..., bool],
    budget: Budget,
) -> TextSet:
    """Return the texts accepted by a machine given as functions of its state.

    `step(state, character)` gives the next state or None.
    """
    chars = sorted(set(alphabet))
    bounds = sorted({0} | {ord(c) for c in chars} | {ord(c) + 1 for c in chars})
    column = {c: bounds.index(ord(c)) for c in chars}
    numbers: dict[Hashable, int] = {start: 0}
    pending = [start]
    rows: list[list[int]] = []
    for state in pending:
        row = [DEAD] * len(bounds)
        for char in chars:
            after = step(state, char)
            if after is not None:
                if after not in numbers:
                    numbers[after] = len(pending)
                    pending.append(after)
                    budget.check_states(len(pending))
                row[column[char]] = numbers[after]
        rows.append(row)
    accepting = np.array([accepts(state) for state in pending])
    made = TextSet(np.array(bounds, dtype=np.int64), np.array(rows, dtype=np.int32), accepting)
    return minimal(made, budget)


def intersect(a: TextSet, b: TextSet, budget: Budget) -> TextSet:
    """Return the texts that are in both sets."""
    for few, other in ((a, b), (b, a)):
        if few.words is not None:
            return of_words(word for word in few.words if word in other)
    if a.is_everything:
        return b
    if b.is_everything:
        return a
    return _product(a, b, np.logical_and, a.is_exact and b.is_exact, budget)


def unite(a: TextSet, b: TextSet, budget: Budget) -> TextSet:
    """Return the texts that are in either set."""
    if a.words is not None and b.words is not None:
        return of_words((*a.words, *b.words))
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    return _product(a, b, np.logical_or, a.is_exact and b.is_exact, budget)


def subtract(a: TextSet, b: TextSet, budget: Budget) -> TextSet:
    """Return the texts of the first set that are not in the second one.

    Raises:
        ConstraintError: the second set is known from within only.
    """
    if not b.is_exact:
        raise ConstraintError(
            "the complement of an approximated set of texts was asked for",
            hint="take 'format' out of 'not', 'if' and the options of 'oneOf'",
        )
    if a.words is not None:
        return of_words(word for word in a.words if word not in b)
    if b.is_empty:
        return a
    return _product(a, b, lambda x, y: x & ~y, a.is_exact, budget)


def minimal(a: TextSet, budget: Budget) -> TextSet:
    """Return the same set by its smallest automaton."""
    columns, letters = np.unique(a.rows, axis=1, return_inverse=True)
    letters = letters.reshape(-1)
    try:
        dfa = minimise(CharDfa(np.ascontiguousarray(columns), a.accepting), budget)
    except ConstraintError:
        budget.check_time()
        return nothing()
    return _compressed(a.starts, dfa.rows[:, letters], dfa.accepting, a.is_exact)


def _compressed(
    starts: NDArray[np.int64],
    rows: NDArray[np.int32],
    accepting: NDArray[np.bool_],
    is_exact: bool,
) -> TextSet:
    """Return the set with neighbouring equal spans joined."""
    is_new = np.append(True, (rows[:, 1:] != rows[:, :-1]).any(axis=0))
    return TextSet(
        starts[is_new], np.ascontiguousarray(rows[:, is_new]), accepting, is_exact=is_exact
    )


def _total(rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the rows with DEAD as one more state, the last."""
    sink = len(rows)
    padded = np.vstack([rows, np.full((1, rows.shape[1]), DEAD, dtype=np.int32)]).astype(np.int64)
    padded[padded == DEAD] = sink
    return padded


def _product(
    a: TextSet,
    b: TextSet,
    keep: Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]],
    is_exact: bool,
    budget: Budget,
) -> TextSet:
    starts = np.unique(np.concatenate([a.starts, b.starts, _EDGES]))
    rows_a, rows_b = _total(a.rows), _total(b.rows)
    span_a = np.searchsorted(a.starts, starts, side="right") - 1
    span_b = np.searchsorted(b.starts, starts, side="right") - 1
    pairs, letters = np.unique(span_a * len(b.starts) + span_b, return_inverse=True)
    rows_a, rows_b = rows_a[:, pairs // len(b.starts)], rows_b[:, pairs % len(b.starts)]
    width = len(rows_b)
    frontier = np.array([0], dtype=np.int64)
    codes: list[NDArray[np.int64]] = [frontier]
    nexts: list[NDArray[np.int64]] = []
    seen = np.array([0], dtype=np.int64)
    while len(frontier):
        after = rows_a[frontier // width] * width + rows_b[frontier % width]
        nexts.append(after)
        found = np.unique(after)
        place = np.searchsorted(seen, found)
        is_new = np.append(seen, -1)[place] != found
        frontier = found[is_new]
        seen = np.insert(seen, place[is_new], frontier)
        codes.append(frontier)
        budget.check_states(len(seen))
    order = np.concatenate(codes)
    by_code = np.argsort(order)
    table = by_code[np.searchsorted(order, np.concatenate(nexts), sorter=by_code)]
    ends_a, ends_b = np.append(a.accepting, False), np.append(b.accepting, False)
    accepting = keep(ends_a[order // width], ends_b[order % width])
    rows = table.astype(np.int32)[:, letters.reshape(-1)]
    # Surrogates have no UTF-8: a complement must not let them in.
    rows[:, (starts >= 0xD800) & (starts < 0xE000)] = DEAD
    return minimal(TextSet(starts, rows, accepting, is_exact=is_exact), budget)


def with_letters(
    starts: NDArray[np.int64],
    letters: NDArray[np.int32],
    rows: NDArray[np.int32],
    accepting: NDArray[np.bool_],
) -> TextSet:
    """Return the set of an automaton over letters; letter -1 leads nowhere."""
    padded = np.hstack([rows, np.full((len(rows), 1), DEAD, dtype=np.int32)])
    return _compressed(starts, padded[:, letters], accepting, True)


def lengths(a: TextSet) -> tuple[int, int | None]:
    """Return the lengths of the shortest and the longest text; None is without bound.

    The automaton is minimal: every state reaches an end.
    """
    if a.is_empty:
        return 0, 0
    shortest, longest = distances(a.rows, a.accepting)
    return int(shortest[0]), None if longest[0] < 0 else int(longest[0])
