"""Context-free constraints: a generation is a reading of a network, masks come from walks.

Everything that a matcher holds are readings, which never change, so taking tokens back and
forking cost nothing.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ConstraintError, EngineError, TokenRefused
from lmc.ir.automata import DEAD
from lmc.ir.forced_runs import ForcedRuns
from lmc.ir.grammar import Machine, MachineSteps, Network, Reading
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.matcher import Words, write_mask
from lmc.runtime.constraint.regex import Mask
from lmc.runtime.constraint.vocabulary import Vocabulary, vocabulary_of
from lmc.runtime.constraint.walk import Walker

MAX_MASKS = 4096
"""Masks kept by reading; beyond it they are dropped and put together anew."""


class GrammarConstraint:
    """A network for one tokenizer; shared by all requests, safe between threads.

    Every reading that a matcher can be in allows a token or the end: tokens are allowed only
    where those of a single byte could lead on to an end.
    """

    def __init__(self, network: Network, tokenizer: Tokenizer) -> None:
        """Bind a network to a vocabulary.

        Raises:
            ConstraintError: the vocabulary cannot spell any text of the language, or has no
                control token of a name that the grammar needs.
        """
        self.vocabulary = vocabulary_of(tokenizer)
        self.control_ids = _control_ids(network, tokenizer)
        network, safe = _spelled(network, self.vocabulary)
        self.machine = Machine(network)
        self._walker = Walker(self.machine, self.vocabulary, safe)
        self._steps = _Steps(self.machine, self._walker)
        runs_safe = None if safe is None else self._steps
        self.runs = ForcedRuns(
            self._steps, tokenizer, pieces=self.vocabulary.sorted_pieces, safe=runs_safe
        )
        self._lock = threading.Lock()
        self._masks: dict[Reading, Mask] = {}
        self._shared: dict[bytes, Mask] = {}
        if not self.machine.start.may_end and not self._walker.is_live(self.machine.start):
            raise ConstraintError(
                "the tokenizer cannot spell any text that the grammar allows",
                hint="use characters that the model's vocabulary contains",
            )

    @property
    def nbytes(self) -> int:
        """Memory held now, masks included."""
        masks = len(self._shared) * self.vocabulary.words * 4
        return self.machine.network.nbytes + self.machine.nbytes + self._walker.nbytes + masks

    def matcher(self) -> "GrammarMatcher":
        """Return a matcher at the start of the text."""
        return GrammarMatcher(self)

    def matches(self, data: bytes) -> bool:
        """Return whether the grammar derives a text without control tokens."""
        return self.machine.matches(data)

    def mask(self, reading: Reading) -> Mask:
        """Return the mask after a reading."""
        found = self._masks.get(reading)
        if found is None:
            with self._lock:
                words = self._walker.mask(reading)
                for name in self.machine.allowed_controls(reading):
                    token_id = self.control_ids[name]
                    words[token_id // 32] |= _bit(token_id)
                found = self._keep(reading, words)
        return found

    def _keep(self, reading: Reading, words: NDArray[np.int32]) -> Mask:
        """Store a mask, once for equal ones; returns the stored one."""
        set_bits = np.flatnonzero(words)
        count = int(np.bitwise_count(words[set_bits].view(np.uint32)).sum())
        only = None
        if count == 1:
            word = int(set_bits[0])
            only = word * 32 + int(words[word : word + 1].view(np.uint32)[0]).bit_length() - 1
        if reading.may_end:
            for token_id in self.vocabulary.eos_ids:
                words[token_id // 32] |= _bit(token_id)
        words.flags.writeable = False
        if len(self._masks) >= MAX_MASKS:
            self._masks.clear()
            self._shared.clear()
        mask = self._shared.setdefault(words.tobytes(), Mask(words, count, only))
        self._masks[reading] = mask
        return mask

    def advance(self, reading: Reading, token_id: int) -> Reading | None:
        """Return the reading after a token that is no end; None if it is not allowed."""
        vocabulary = self.vocabulary
        piece = vocabulary.token_bytes[token_id] if 0 <= token_id < vocabulary.size else None
        if piece is not None:
            after = self.machine.read(reading, piece)
        else:
            names = self.machine.allowed_controls(reading)
            name = next((name for name in names if self.control_ids[name] == token_id), None)
            after = None if name is None else self.machine.step(reading, name)
        if after is None or not (after.may_end or self._walker.is_live(after)):
            return None
        return after


class _Steps(MachineSteps):
    """A machine as `ForcedRuns` asks for it, which states may be entered included."""

    def __init__(self, machine: Machine, walker: Walker) -> None:
        super().__init__(machine)
        self._walker = walker

    def __getitem__(self, state: Reading) -> bool:
        return state.may_end or self._walker.is_live(state)


def _bit(token_id: int) -> np.int32:
    """Return the word in which one token's bit is set."""
    return np.array([1 << token_id % 32], dtype=np.uint32).view(np.int32)[0]


def _control_ids(network: Network, tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of the control tokens that a network names."""
    found: dict[str, int] = {}
    for name in {name for _, name, _ in network.controls}:
        token_id = tokenizer.control_id(name)
        if token_id is None:
            raise ConstraintError(
                f"the tokenizer has no control token {name!r}",
                hint="name one of the model's own, or write it as text",
            )
        if token_id in tokenizer.eos_ids:
            raise ConstraintError(
                f"control token {name!r} ends a generation, so it cannot stand inside of one",
                hint="name another one",
            )
        found[name] = token_id
    return found


def _spelled(network: Network, vocabulary: Vocabulary) -> tuple[Network, NDArray[np.bool_] | None]:
    """Return a network whose calls can be gone on after, and which states are safe to be in.

    A state is safe if tokens of single bytes lead on to an end of its rule. None: all are.
    """
    is_usable = np.zeros(network.table.shape[1], dtype=bool)
    is_usable[network.classes[vocabulary.single_bytes]] = True
    if is_usable.all():
        return network, None  # from every state of a rule some text leads to its end
    safe = safe_states(network, is_usable)
    if safe.all():
        return network, None
    return replace(network, calls=network.calls[safe[network.calls[:, 2]]]), safe


def safe_states(network: Network, is_usable: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return from which states an end of their rule can be reached by bytes of some classes."""
    edges = np.where(is_usable[None, :], network.table, DEAD)
    callers, rules, afters = network.calls.T
    called = network.starts[rules]
    safe = network.accepting.copy()
    before = -1
    while before != (before := int(safe.sum())):
        padded = np.append(safe, False)  # the last entry serves DEAD
        safe |= padded[edges].any(axis=1)
        safe[callers[safe[called] & safe[afters]]] = True
        for state, _, after in network.controls:
            safe[state] |= safe[after]
    return safe


class GrammarMatcher:
    """One generation's place in a GrammarConstraint (see `Matcher`); not shared by threads."""

    __slots__ = ("_is_ended", "_readings", "constraint")

    def __init__(self, constraint: GrammarConstraint) -> None:
        self.constraint = constraint
        self._readings = [constraint.machine.start]
        self._is_ended = False

    @property
    def reading(self) -> Reading:
        """What has been read; an end token changes nothing in it."""
        return self._readings[-1]

    @property
    def is_ended(self) -> bool:
        """Whether an end token has been accepted."""
        return self._is_ended

    def fill_bitmask(self, row: Words) -> None:
        """Write the mask of the next token; nothing is allowed after an end token.

        Args:
            row: int32 words, at least as many as the vocabulary needs.

        Raises:
            EngineError: the row is too short.
        """
        mask = None if self._is_ended else self.constraint.mask(self.reading).words
        write_mask(row, mask, self.constraint.vocabulary.words)

    def accept_token(self, token_id: int) -> None:
        """Go on by one token.

        Raises:
            TokenRefused: the token is not allowed here; nothing has changed.
        """
        after: Reading | None = None
        if not self._is_ended:
            if token_id in self.constraint.vocabulary.eos_ids:
                after = self.reading if self.can_end() else None
                self._is_ended = after is not None
            else:
                after = self.constraint.advance(self.reading, token_id)
        if after is None:
            raise TokenRefused(
                f"token {token_id} is not allowed by the constraint after "
                f"{len(self._readings) - 1} tokens",
                hint="sample under the mask that fill_bitmask gives",
            )
        self._readings.append(after)

    def rollback(self, count: int) -> None:
        """Take the last `count` tokens back.

        Raises:
            EngineError: fewer tokens have been accepted.
        """
        if not 0 <= count < len(self._readings):
            raise EngineError(
                f"cannot take back {count} tokens: {len(self._readings) - 1} were accepted",
                hint="count accepted tokens only",
            )
        del self._readings[len(self._readings) - count :]
        self._is_ended = self._is_ended and not count

    def fork(self) -> "GrammarMatcher":
        """Return an independent matcher at the same place."""
        other = GrammarMatcher(self.constraint)
        other._readings = self._readings.copy()
        other._is_ended = self._is_ended
        return other

    def can_end(self) -> bool:
        """Return whether the text so far is a full match."""
        return self.reading.may_end

    def is_terminated(self) -> bool:
        """Return whether nothing may follow but the end, or an end token has come."""
        return self._is_ended or (
            self.can_end() and self.constraint.mask(self.reading).text_tokens == 0
        )

    def single_token(self) -> int | None:
        """Return the only token that may come next, if there is one and the end may not."""
        if self._is_ended or self.can_end():
            return None
        return self.constraint.mask(self.reading).only

    def forced_ids(self, written: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that must come next, after all ids of the generation; often none."""
        return () if self._is_ended else self.constraint.runs.after(self.reading, written)
