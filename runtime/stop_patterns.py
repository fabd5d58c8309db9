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
from lmc.ir.automata.minimise import MatchesNothingError

MAX_STATES = 20_000
MAX_CONTEXT = 16
"""The most characters before a match that a pattern may look at."""


@dataclass(frozen=True, slots=True)
class StopPattern:
    """A compiled pattern.

    `automata[k]` reads k characters that stand before a match, then the match; the last
    one serves for all places further on. There is one only where nothing looks back; None
    where no match can begin so near to the text's start.
    """

    source: str
    automata: tuple[ByteDfa | None, ...]


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
    automata = tuple(_automaton(source, size) for size in range(context + 1))
    if automata == (None,) * len(automata):
        raise ConstraintError(
            f"stop_regex {source!r:.80} matches no text at all",
            hint="what follows a match is not known when it ends; look-ahead cannot see it",
        )
    return StopPattern(source, automata)


def _automaton(source: str, after: int) -> ByteDfa | None:
    try:
        return compile_regex(source, after=after, max_states=MAX_STATES)
    except MatchesNothingError:
        return None


class PatternWatch:
    """Follows one stop pattern over one text. Matches without any character do not count.

    Args:
        pattern: what ends the text.
    """

    def __init__(self, pattern: StopPattern) -> None:
        self._automata = pattern.automata
        self._before = ""
        self._open: dict[tuple[ByteDfa, int], int] = {}
        self.source = pattern.source

    def skip(self, text: str) -> None:
        """Read text in which no match may begin."""
        self._before = (self._before + text)[-MAX_CONTEXT:]

    def step(self, char: str, position: int) -> int | None:
        """Read the character at a position; return where the leftmost match it ends begins."""
        which = min(len(self._before), len(self._automata) - 1)
        seen = self._before[len(self._before) - which :].encode()
        opening = self._automata[which]
        if opening is not None:
            begun = opening.step(opening.start, seen)
            if begun != DEAD:
                self._open.setdefault((opening, begun), position)
        self.skip(char)
        return self._advance(char.encode())

    def _advance(self, data: bytes) -> int | None:
        """Move every match in progress over a character; return where one that ends begins."""
        alive: dict[tuple[ByteDfa, int], int] = {}
        found: int | None = None
        for (automaton, state), begin in self._open.items():
            after = automaton.step(state, data)
            if after == DEAD:
                continue
            alive[automaton, after] = min(begin, alive.get((automaton, after), begin))
            if automaton.is_accepting(after):
                found = begin if found is None else min(found, begin)
        self._open = alive
        return found

    @property
    def earliest(self) -> int | None:
        """Where the leftmost match in progress begins; None where none is."""
        return min(self._open.values()) if self._open else None
