"""Regular constraints: one automaton state per request, token masks by state.

A mask is computed when a state is first met, by walking the vocabulary's trie through the
automaton, and kept; equal masks are stored once.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmc.errors import EngineError, TokenRefused
from lmc.ir.automata import DEAD, ByteDfa
from lmc.ir.forced_runs import ForcedRuns
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.matcher import Words, write_mask
from lmc.runtime.constraint.reach import find_traps
from lmc.runtime.constraint.vocabulary import vocabulary_of

MAX_MASK_BYTES = 64 * 2**20
"""Memory for one constraint's masks; beyond it they are dropped and computed anew."""

PREPARED_RUNS = 32
"""Forced runs whose ids are looked for when a constraint is compiled; others when they come."""

_ENDED = -2


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The tokens allowed in a state: packed words, end tokens included where they fit.

    `text_tokens` counts the allowed tokens that are text; `only` is the one, if it is one.
    """

    words: Words
    text_tokens: int
    only: int | None


class RegexConstraint:
    """A pattern compiled for one tokenizer; shared by all requests, safe between threads.

    Every state that a matcher can be in allows a token or the end: where the vocabulary
    cannot spell what must follow, the tokens that lead there are not allowed.
    """

    def __init__(self, dfa: ByteDfa, tokenizer: Tokenizer) -> None:
        """Bind an automaton to a tokenizer.

        Raises:
            ConstraintError: the vocabulary cannot spell any text of the language.
        """
        self.dfa = dfa
        self.vocabulary = vocabulary = vocabulary_of(tokenizer)
        self.safe = find_traps(dfa, vocabulary)
        self.runs = ForcedRuns(dfa, tokenizer, pieces=vocabulary.sorted_pieces, safe=self.safe)
        for state in dfa.forced_heads()[:PREPARED_RUNS]:
            self.runs.after(state, ())  # as after a place that is cut: most runs begin there
        self._node_classes = vocabulary.classes_of(dfa)
        self._lock = threading.Lock()
        self._masks: dict[int, Mask] = {}
        self._shared: dict[bytes, Mask] = {}

    @property
    def nbytes(self) -> int:
        """Memory held now, masks included."""
        return self.dfa.nbytes + len(self._shared) * self.vocabulary.words * 4

    def matcher(self) -> "RegexMatcher":
        """Return a matcher at the start of the text."""
        return RegexMatcher(self)

    @property
    def control_ids(self) -> dict[str, int]:
        """The control tokens that may come: none."""
        return {}

    def matches(self, data: bytes) -> bool:
        """Return whether a text is a full match."""
        return self.dfa.matches(data)

    def mask(self, state: int) -> Mask:
        """Return the mask of a state of the automaton."""
        found = self._masks.get(state)
        if found is None:
            found = self._keep(state, self._compute(state))
        return found

    def _compute(self, state: int) -> Mask:
        vocabulary, dfa = self.vocabulary, self.dfa
        after = vocabulary.run(dfa, state, self._node_classes)
        allowed = after != DEAD
        if self.safe is not None:
            allowed &= self.safe[after]
        count = int(np.count_nonzero(allowed))
        only = int(allowed.argmax()) if count == 1 else None
        if dfa.is_accepting(state):
            allowed[list(vocabulary.eos_ids)] = True
        return Mask(vocabulary.pack(allowed), count, only)

    def _keep(self, state: int, mask: Mask) -> Mask:
        """Store a mask, once for equal ones; returns the stored one."""
        with self._lock:
            if len(self._shared) * mask.words.nbytes > MAX_MASK_BYTES:
                self._masks.clear()
                self._shared.clear()
            mask = self._shared.setdefault(mask.words.tobytes(), mask)
            self._masks[state] = mask
        return mask

    def advance(self, state: int, token_id: int) -> int:
        """Return the state after a text token, or DEAD if it is not allowed in `state`."""
        vocabulary = self.vocabulary
        piece = vocabulary.token_bytes[token_id] if 0 <= token_id < vocabulary.size else None
        if piece is None:
            return DEAD
        after = self.dfa.step(state, piece)
        return DEAD if after != DEAD and self.safe is not None and not self.safe[after] else after

    def is_closed(self, state: int) -> bool:
        """Return whether no text may follow in `state`."""
        if self.safe is None:
            return bool((self.dfa.table[state] == DEAD).all())
        return self.mask(state).text_tokens == 0


class RegexMatcher:
    """One generation's place in a RegexConstraint (see `Matcher`); not shared by threads."""

    __slots__ = ("_states", "constraint")

    def __init__(self, constraint: RegexConstraint) -> None:
        self.constraint = constraint
        self._states = [constraint.dfa.start]

    @property
    def state(self) -> int:
        """The automaton's state; the last one before the end once an end token has come."""
        return self._states[-2] if self._states[-1] == _ENDED else self._states[-1]

    @property
    def is_ended(self) -> bool:
        """Whether an end token has been accepted."""
        return self._states[-1] == _ENDED

    def fill_bitmask(self, row: Words) -> None:
        """Write the mask of the next token; nothing is allowed after an end token.

        Args:
            row: int32 words, at least as many as the vocabulary needs.

        Raises:
            EngineError: the row is too short.
        """
        mask = None if self.is_ended else self.constraint.mask(self.state).words
        write_mask(row, mask, self.constraint.vocabulary.words)

    def accept_token(self, token_id: int) -> None:
        """Go on by one token.

        Raises:
            TokenRefused: the token is not allowed here; nothing has changed.
        """
        after = DEAD
        if not self.is_ended:
            if token_id in self.constraint.vocabulary.eos_ids:
                after = _ENDED if self.can_end() else DEAD
            else:
                after = self.constraint.advance(self.state, token_id)
        if after == DEAD:
            raise TokenRefused(
                f"token {token_id} is not allowed by the constraint after "
                f"{len(self._states) - 1} tokens",
                hint="sample under the mask that fill_bitmask gives",
            )
        self._states.append(after)

    def rollback(self, count: int) -> None:
        """Take the last `count` tokens back.

        Raises:
            EngineError: fewer tokens have been accepted.
        """
        if not 0 <= count < len(self._states):
            raise EngineError(
                f"cannot take back {count} tokens: {len(self._states) - 1} were accepted",
                hint="count accepted tokens only",
            )
        del self._states[len(self._states) - count :]

    def fork(self) -> "RegexMatcher":
        """Return an independent matcher at the same place."""
        other = RegexMatcher(self.constraint)
        other._states = self._states.copy()
        return other

    def can_end(self) -> bool:
        """Return whether the text so far is a full match."""
        return self.constraint.dfa.is_accepting(self.state)

    def is_terminated(self) -> bool:
        """Return whether nothing may follow but the end, or an end token has come."""
        return self.is_ended or (self.can_end() and self.constraint.is_closed(self.state))

    def single_token(self) -> int | None:
        """Return the only token that may come next, if there is one and the end may not."""
        if self.is_ended or self.can_end():
            return None
        return self.constraint.mask(self.state).only

    def forced_ids(self, written: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that must come next, after all ids of the generation; often none."""
        return () if self.is_ended else self.constraint.runs.after(self.state, written)
