"""The smallest automaton of a list of words, built as they come.

J. Daciuk, S. Mihov, B. Watson, R. Watson, "Incremental construction of minimal acyclic
finite-state automata", Computational Linguistics 26(1), 2000, the algorithm for sorted words:
behind the letters that a word shares with the one before it, the states of that one are final,
and each is joined with one that goes on alike, if there is any. Time is linear in the letters, and
memory in the states that stay.
"""

from collections.abc import Iterable, Sequence

from lmc.ir.automata.budget import Budget

Rows = list[dict[int, int]]
"""Next state by letter, letters ascending, by state; state 0 is the start."""


def automaton_of_words(
    words: Iterable[Sequence[int]], budget: Budget | None = None
) -> tuple[Rows, list[int]]:
    """Return the minimal automaton of some words, and the states in which words end, ascending.

    Args:
        words: ascending, none of them twice; at least one.
        budget: what may be used; None for no limit.

    Raises:
        ConstraintError: there are too many states, or time is up.
    """
    building = _Building(budget)
    for word in words:
        building.add(word)
    building.join(0)
    return building.numbered()


class _Building:
    """An automaton under construction; `path` is the way of the last word."""

    def __init__(self, budget: Budget | None) -> None:
        self.budget = budget
        self.rows: Rows = [{}]
        self.is_final = [False]
        self.path = [0]
        self.last: Sequence[int] = ()
        self.known: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}
        self.free: list[int] = []

    def add(self, word: Sequence[int]) -> None:
        """Add a word that comes after all those before."""
        shared, last = 0, self.last
        for one, other in zip(word, last, strict=False):
            if one != other:
                break
            shared += 1
        self.join(shared)
        rows, path = self.rows, self.path
        for letter in word[shared:]:
            made = self._state()
            rows[path[-1]][letter] = made
            path.append(made)
        self.is_final[path[-1]] = True
        self.last = word
        if self.budget is not None:
            self.budget.check_words(len(self.known))

    def join(self, depth: int) -> None:
        """Finish the states of the last word behind some letters."""
        rows, path, last = self.rows, self.path, self.last
        while len(path) - 1 > depth:
            state = path.pop()
            key = (self.is_final[state], tuple(rows[state].items()))
            found = self.known.setdefault(key, state)
            if found != state:
                rows[path[-1]][last[len(path) - 1]] = found
                self.free.append(state)

    def numbered(self) -> tuple[Rows, list[int]]:
        """Return the states that are left, breadth first from the start."""
        numbers, order = {0: 0}, [0]
        for state in order:
            for target in self.rows[state].values():
                if target not in numbers:
                    numbers[target] = len(order)
                    order.append(target)
        rows = [{k: numbers[to] for k, to in self.rows[state].items()} for state in order]
        return rows, [number for number, state in enumerate(order) if self.is_final[state]]

    def _state(self) -> int:
        if self.free:
            made = self.free.pop()
            self.rows[made] = {}
            self.is_final[made] = False
            return made
        self.rows.append({})
        self.is_final.append(False)
        return len(self.rows) - 1
