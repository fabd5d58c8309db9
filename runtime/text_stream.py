"""TextStream: token ids in, text out, piece by piece, with stop strings.

Rules, the same for every back end:

- Text comes out only when it is sure: never half a character, never what may turn out to be
  the beginning of a stop string. A byte that can belong to no character becomes U+FFFD at
  once, so undecodable output keeps flowing.
- The first stop to be complete ends the text, wherever token borders lie and in whatever
  order the stops are listed. Of those that are complete at the same character, the longest
  counts; so a stop that is the prefix of another always wins over it. Patterns are stops
  like strings (`lmc.runtime.stop_patterns`); a string wins over a pattern of equal length.
- With `min_tokens`, a stop counts only if it begins after the text of that many tokens.
- Bytes of a character that the end of the output leaves unfinished are dropped.
- The kept ids are those that lie wholly before the cut and end between characters; `tail` is
  the text between them and the cut: text == decode(kept ids) + tail.

Cost per token is proportional to the token's own text. Stops are found by the automaton of
Aho and Corasick (1975), whose depth is also the length of text to hold back.
"""

import codecs
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

from lmc.ir.target import Tokenizer
from lmc.runtime.stop_patterns import PatternWatch, compile_stop_pattern


class StopAutomaton:
    """Aho-Corasick automaton over characters for a set of stop strings.

    `depth[q]` is the length of the longest suffix of the text read that begins some stop;
    `found[q]` is the length of the longest stop that is complete at `q` (0: none).
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._fail = [0]
        self.depth = [0]
        self.found = [0]
        for stop in stops:
            self._add(stop)
        self._link()

    def step(self, state: int, char: str) -> int:
        """Return the state after reading `char`; 0 is the start."""
        while char not in self._next[state] and state:
            state = self._fail[state]
        return self._next[state].get(char, 0)

    def _add(self, stop: str) -> None:
        state = 0
        for char in stop:
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self._fail.append(0)
                self.depth.append(self.depth[state] + 1)
                self.found.append(0)
            state = self._next[state][char]
        self.found[state] = len(stop)

    def _link(self) -> None:
        """Set failure links by increasing depth and hand matches down along them."""
        pending = deque(self._next[0].values())
        while pending:
            state = pending.popleft()
            for char, child in self._next[state].items():
                self._fail[child] = self.step(self._fail[state], char)
                pending.append(child)
            if self.found[state] == 0:
                self.found[state] = self.found[self._fail[state]]


@lru_cache(maxsize=256)
def stop_automaton(stops: tuple[str, ...]) -> StopAutomaton:
    """Return the automaton of a tuple of stop strings (kept, they repeat from call to call)."""
    return StopAutomaton(stops)


class TextStream:
    """The text of one generation while its tokens arrive.

    Args:
        tokenizer: gives the bytes of ids.
        stops: strings that end the text before them; empty ones are ignored.
        min_tokens: tokens in whose text no stop may begin.
        patterns: regular expressions whose matches end the text before them.

    Raises:
        ConstraintError: a pattern is wrong, unsupported or too costly.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Sequence[str] = (),
        *,
        min_tokens: int = 0,
        patterns: Sequence[str] = (),
    ) -> None:
        self._bytes = tokenizer.token_bytes()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._automaton = stop_automaton(tuple(stop for stop in stops if stop))
        self._watches = [PatternWatch(compile_stop_pattern(source)) for source in patterns]
        self._state = 0
        self._min_tokens = min_tokens
        self._token_ids: list[int] = []
        self._borders: list[tuple[int, int]] = [(0, 0)]
        self._pieces: list[str] = []
        self._held = ""
        self._shown_len = 0
        self._cut: int | None = None
        self._matched_stop: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether a stop was found or `finish` was called."""
        return self._cut is not None

    @property
    def matched_stop(self) -> str | None:
        """The stop that ended the text: a string as it was given, or a pattern's source."""
        return self._matched_stop

    @property
    def text(self) -> str:
        """The text that was given out so far; all of it once the stream has ended."""
        return "".join(self._pieces)

    @property
    def kept_len(self) -> int:
        """How many of the fed ids are kept, once the stream has ended."""
        return self._last_border()[0]

    @property
    def tail(self) -> str:
        """The text between the last kept id and the cut, once the stream has ended."""
        return self.text[self._last_border()[1] :]

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The kept ids, once the stream has ended."""
        return tuple(self._token_ids[: self.kept_len])

    def feed(self, token_id: int) -> str:
        """Take the next token; return the text that is now safe to show.

        Raises:
            ValueError: the stream has ended.
        """
        if self.is_ended:
            raise ValueError("a token came after the end of its stream")
        is_scanned = len(self._token_ids) >= self._min_tokens
        self._token_ids.append(token_id)
        chars = self._decoder.decode(self._bytes[token_id] or b"")
        piece = self._scan(chars) if is_scanned else self._skip(chars)
        if not self.is_ended and not self._decoder.getstate()[0]:
            text_len = self._shown_len + len(self._held)
            self._borders.append((len(self._token_ids), text_len))
        return piece

    def finish(self) -> str:
        """End the stream; return the text that was held back. Unfinished bytes are dropped."""
        if self.is_ended:
            return ""
        held, self._held = self._held, ""
        piece = self._show(held)
        self._cut = self._shown_len
        return piece

    def _skip(self, chars: str) -> str:
        """Show characters in which no stop may begin."""
        for watch in self._watches:
            watch.skip(chars)
        return self._show(chars)

    def _scan(self, chars: str) -> str:
        """Look for stops in new characters; return what is safe now."""
        end = len(self._held)
        self._held += chars
        for char in chars:
            end += 1
            stop = self._completed(char, end)
            if stop is not None:
                return self._stop_at(*stop)
        safe = min([len(self._held) - self._automaton.depth[self._state], *self._begun()])
        piece, self._held = self._held[:safe], self._held[safe:]
        return self._show(piece)

    def _completed(self, char: str, end: int) -> tuple[int, str] | None:
        """Read the character before `end`; return the stop it completes: where, and which.

        Places are those in the held text.
        """
        self._state = self._automaton.step(self._state, char)
        found: tuple[int, str] | None = None
        size = self._automaton.found[self._state]
        if size:
            found = end - size, self._held[end - size : end]
        for watch in self._watches:
            begin = watch.step(char, self._shown_len + end - 1)
            if begin is not None and (found is None or begin - self._shown_len < found[0]):
                found = begin - self._shown_len, watch.source
        return found

    def _begun(self) -> list[int]:
        """Return where in the held text matches of patterns have begun."""
        begins = [watch.earliest for watch in self._watches]
        return [begin - self._shown_len for begin in begins if begin is not None]

    def _stop_at(self, start: int, stop: str) -> str:
        """Cut before the stop that starts at `start` of the held text; return what is left."""
        self._matched_stop = stop
        piece, self._held = self._held[:start], ""
        self._show(piece)
        self._cut = self._shown_len
        return piece

    def _show(self, piece: str) -> str:
        if piece:
            self._pieces.append(piece)
            self._shown_len += len(piece)
        return piece

    def _last_border(self) -> tuple[int, int]:
        """Return the last border between ids that is not behind the cut, as (ids, chars)."""
        cut = self._shown_len if self._cut is None else self._cut
        index = bisect_right(self._borders, cut, key=lambda border: border[1])
        return self._borders[index - 1]
