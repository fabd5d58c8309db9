"""Forced runs: the ids of text that a constraint leaves no choice about.

Where an automaton allows one byte only, and so on, the text is certain and its ids are those
that the tokenizer writes (`Tokenizer.forced_ids`), given the ids before. They depend on the
state and on the ids since the last place that is cut whatever stands around it, which are few;
what was found once is kept.
"""

import codecs
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

from lmc.ir.automata import DEAD
from lmc.ir.target import Tokenizer

MAX_KEPT = 20_000
"""Runs that are kept for one constraint."""

_WINDOW = 24
"""Tokens before a run in which a cut is looked for; all are looked at where none is found."""

Ids = tuple[int, ...]


class Steps(Protocol):
    """A deterministic automaton; its states are numbers or other hashable things."""

    @property
    def start(self) -> Any:
        """The state of the empty text."""
        ...

    def is_forced(self, state: Any) -> bool:
        """Return whether one byte only may come next, and no end."""
        ...

    def forced_bytes(self, state: Any) -> bytes:
        """Return the bytes that must come next: as long as one byte only may, and no end."""
        ...

    def step(self, state: Any, data: bytes) -> Any:
        """Return the state after some bytes, DEAD if they may not come."""
        ...

    def is_accepting(self, state: Any) -> bool:
        """Return whether the text may end in `state`."""
        ...

    def allowed_bytes(self, state: Any) -> bytes:
        """Return the bytes that may come next, ascending."""
        ...


class Safe(Protocol):
    """Which states may be entered."""

    def __getitem__(self, state: Any, /) -> Any:
        """Return whether this one may be."""
        ...


class ForcedRuns:
    """The forced runs of one automaton under one tokenizer; safe between threads.

    Args:
        dfa: the automaton.
        tokenizer: writes text.
        pieces: the bytes of its text tokens, ascending; by default taken from it.
        safe: states that may be entered; None for all.
    """

    def __init__(
        self,
        dfa: Steps,
        tokenizer: Tokenizer,
        *,
        pieces: Sequence[bytes] | None = None,
        safe: Safe | None = None,
    ) -> None:
        self._dfa = dfa
        self._tokenizer = tokenizer
        self._table = tokenizer.token_bytes()
        self._pieces = sorted(filter(None, self._table)) if pieces is None else pieces
        self._safe = safe
        self._runs: dict[tuple[Any, Ids], Ids] = {}
        self._texts: dict[Any, bytes] = {}
        self._crossings: dict[tuple[Any, bytes], bool] = {}

    def after(self, state: Any, written: Sequence[int]) -> Ids:
        """Return the ids that must come in `state` after the ids written; often none.

        Args:
            state: the automaton's state after `written`.
            written: all ids of the generation so far.
        """
        if not self._dfa.is_forced(state):
            return ()
        text = self._texts.get(state)
        if text is None:
            text = self._texts[state] = self._dfa.forced_bytes(state)
        left = self._left(written, text)
        found = self._runs.get((state, left))
        if found is None:
            if len(self._runs) >= MAX_KEPT:
                self._runs.clear()
            found = self._runs[state, left] = self._find(state, left, text)
        return found

    def _left(self, written: Sequence[int], text: bytes) -> Ids:
        """Return the ids since the last cut; all where none is found."""
        count = min(_WINDOW, len(written))
        while True:
            ids = tuple(written[len(written) - count :])
            found = self._since_cut(ids, text)
            if found is not None or count == len(written):
                return ids if found is None else found
            count = min(len(written), 4 * count)

    def _since_cut(self, ids: Ids, text: bytes) -> Ids | None:
        """Return the ids from the last cut within ids, or at their end, on.

        A token that reaches over the cut is among them: no encoder writes it there.
        """
        pieces = [self._table[i] or b"" for i in ids]
        # Ids and text may begin and end within a character.
        known = (b"".join(pieces) + text[:1]).decode("utf-8", "surrogateescape")
        at = self._tokenizer.cut(known)
        if at <= 0:
            return None
        left = len(known[:at].encode("utf-8", "surrogateescape"))
        for index, piece in enumerate(pieces):
            if left <= 0:
                return ids[index:]
            if left < len(piece):
                return ids[index:]
            left -= len(piece)
        return ()

    def _find(self, state: Any, left: Ids, text: bytes) -> Ids:
        """Compute the ids that follow `left`; where no encoder wrote these, those of the text."""
        before = b"".join(self._table[i] or b"" for i in left)
        for ids, known in ((left, before), ((), b"")):
            # What ends within a character is not certain until the character is.
            chars, used = codecs.utf_8_decode(known + text, "ignore", False)
            whole = text[: max(0, used - len(known))]
            if not whole or chars.encode() != known + whole:
                continue
            end = self._dfa.step(state, whole)
            is_all = self._dfa.is_accepting(end) and not self._dfa.allowed_bytes(end)
            crosses = None if is_all else lambda tail, end=end: self._crosses(end, tail)
            found = self._tokenizer.forced_ids(chars, list(ids), crosses)
            if found is not None:
                return self._allowed(state, found)
        return ()

    def _allowed(self, state: Any, ids: list[int]) -> Ids:
        """Return the first of some ids, as long as the vocabulary can go on behind them."""
        for count, token_id in enumerate(ids):
            state = self._dfa.step(state, self._table[token_id] or b"")
            if state == DEAD or (self._safe is not None and not self._safe[state]):
                return tuple(ids[:count])
        return tuple(ids)

    def _crosses(self, state: Any, tail: bytes) -> bool:
        """Whether some token begins with `tail`, ends later and is allowed from `state` on."""
        key = (state, tail)
        found = self._crossings.get(key)
        if found is None:
            pieces = self._pieces
            low = bisect_left(pieces, tail)
            if low == len(pieces) or not pieces[low].startswith(tail):
                return False
            if len(self._crossings) >= MAX_KEPT:
                self._crossings.clear()
            found = self._crossings[key] = self._goes_on(state, tail, low)
        return found

    def _goes_on(self, state: Any, prefix: bytes, low: int) -> bool:
        """Whether a token from `low` on is `prefix` and bytes that may come in `state`."""
        pieces = self._pieces
        for byte in self._dfa.allowed_bytes(state):
            longer = prefix + bytes([byte])
            at = bisect_left(pieces, longer, low)
            if at == len(pieces) or not pieces[at].startswith(longer):
                continue
            after = self._dfa.step(state, bytes([byte]))
            if pieces[at] == longer and (self._safe is None or self._safe[after]):
                return True
            if self._goes_on(after, longer, at):
                return True
        return False
