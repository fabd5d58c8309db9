"""Stop patterns: regular expressions that end a text as it grows, character by character.

A pattern ends the text at the first character at which some part of the text so far matches
it, and cuts before the leftmost part that does: what `re.search` finds when it is asked
after every character. So `[0-9]+` stops at the first digit, and `a.*b` before the first `a`
that a `b` follows. Where the text ends so far counts as an end for `$`, `\\b` and look-ahead.

Every pattern becomes an automaton over characters' bytes. Matches in progress are followed
side by side, at most one per state of the automaton (the leftmost), as in Thompson's
simulation; the leftmost of them is where text must be held back.
"""

from dataclasses import dataclass
from functools import lru_cache

from lmc.errors import ConstraintError
from lmc.ir.automata import DEAD, ByteDfa, compile_regex, context_needed

MAX_STATES = 20_000
MAX_CONTEXT = 16
"""The most characters before a match that a pattern may look at."""


@dataclass(frozen=True, slots=True)
class StopPattern:
    """A compiled pattern.

    `automata[k]` reads k characters that stand before a match, then the match; the last
    one serves for all places further on. There is one only where nothing looks back.
    """

    source: str
    automata: tuple[ByteDfa, ...]


@lru_cache(maxsize=256)
def compile_stop_pattern(source: str) -> StopPattern:
    """Return a compiled stop pattern (kept, they repeat from call to call).

    Raises:
        ConstraintError: the pattern is wrong, unsupported or too costly.
    """
    context = context_needed(source)
    if context is None or context > MAX_CONTEXT:
        raise ConstraintError(
            f"stop_regex {source!r:.80} looks back over more than {MAX_CONTEXT} characters",
            hint="shorten its look-behind",
        )
    sizes = range(context + 1)
    return StopPattern(
        source, tuple(compile_regex(source, after=size, max_states=MAX_STATES) for size in sizes)
    )


class PatternWatch:
    """Follows one stop pattern over one text. Matches without any character do not count.

    Args:
        pattern: what ends the text.
    """

    def __init__(self, pattern: StopPattern) -> None:
        self._automata = pattern.automata
        self._before = ""
        self._open: dict[tuple[int, int], int] = {}
        self.source = pattern.source

    def skip(self, text: str) -> None:
        """Read text in which no match may begin."""
        self._before = (self._before + text)[-MAX_CONTEXT:]

    def step(self, char: str, position: int) -> int | None:
        """Read the character at a position; return where the leftmost match it ends begins."""
        which = min(len(self._before), len(self._automata) - 1)
        seen = self._before[len(self._before) - which :].encode()
        begun = self._automata[which].step(0, seen)
        if begun != DEAD:
            self._open.setdefault((which, begun), position)
        self.skip(char)
        data, alive = char.encode(), {}
        found: int | None = None
        for (index, state), begin in self._open.items():
            after = self._automata[index].step(state, data)
            if after == DEAD:
                continue
            alive[index, after] = min(begin, alive.get((index, after), begin))
            if self._automata[index].is_accepting(after):
                found = begin if found is None else min(found, begin)
        self._open = alive
        return found

    @property
    def earliest(self) -> int | None:
        """Where the leftmost match in progress begins; None where none is."""
        return min(self._open.values()) if self._open else None
