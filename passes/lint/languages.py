"""What texts a constraint allows, exactly: automata, shortest texts, least numbers of tokens.

All within a budget: a question that costs too much has no answer, and a rule without an
answer is silent. Budgets count states and steps, so that the same program is told the same.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint
from lmc.ir.decode_params import constraint_from
from lmc.ir.target import Tokenizer

if TYPE_CHECKING:
    from lmc.ir.automata import ByteDfa
    from lmc.ir.grammar import Extent

MAX_STATES = 4000
MAX_TOKEN_STATES = 400
"""States of an automaton from which every token of the vocabulary is tried."""

MAX_EXAMPLE = 1000
"""Bytes of a shortest text that is shown."""

MAX_STEPS = 1_000_000
"""Steps of a search through pairs of states."""


@dataclass(slots=True)
class Languages:
    """Automata of constraints and facts of one tokenizer's tokens, each computed once."""

    tokenizer: Tokenizer
    _found: dict[Constraint, "ByteDfa | Extent | ConstraintError | None"] = field(
        default_factory=dict
    )
    _least: dict[tuple[Constraint, int], int | None] = field(default_factory=dict)
    _matrix: Any = None
    _pieces: list[bytes] | None = None
    _controls: list[str] | None = None
    _occurs: dict[str, int | None] = field(default_factory=dict)

    def constraint(self, params: Mapping[str, Any]) -> Constraint | None:
        """Return what the text of a generation with these parameters must match."""
        return constraint_from(params)

    def automaton(self, constraint: Constraint) -> "ByteDfa | None":
        """Return the automaton of a constraint; None for what nests, or would cost too much.

        Raises:
            ConstraintError: it is refused, or matches nothing.
        """
        from lmc.ir.automata import ByteDfa

        found = self._looked_at(constraint)
        return found if isinstance(found, ByteDfa) else None

    def automaton_or_none(self, constraint: Constraint) -> "ByteDfa | None":
        """Return the automaton of a constraint, None where there is none."""
        try:
            return self.automaton(constraint)
        except ConstraintError:
            return None

    def extent(self, constraint: Constraint) -> "Extent | None":
        """Return the lengths of the texts of what nests; None for all else."""
        from lmc.ir.grammar import Extent

        try:
            found = self._looked_at(constraint)
        except ConstraintError:
            return None
        return found if isinstance(found, Extent) else None

    def _looked_at(self, constraint: Constraint) -> "ByteDfa | Extent | None":
        if constraint not in self._found:
            self._found[constraint] = self._compile(constraint)
        found = self._found[constraint]
        if isinstance(found, ConstraintError):
            raise found
        return found

    def _compile(self, constraint: Constraint) -> "ByteDfa | Extent | ConstraintError | None":
        from lmc.ir.automata import ByteDfa
        from lmc.ir.grammar import Extent
        from lmc.ir.languages import CompilationLost, language_of

        try:
            found = language_of(constraint)
        except CompilationLost:
            return None
        except ConstraintError as error:
            return None if "too complex" in error.message else error
        if found.state_count > MAX_STATES:
            return None
        return found if isinstance(found, ByteDfa) else Extent(found)

    def longest(self, constraint: Constraint) -> float | None:
        """Return the most bytes of an allowed text, infinity for no bound; None: not known."""
        dfa, extent = self.automaton_or_none(constraint), self.extent(constraint)
        if dfa is None:
            return None if extent is None else extent.longest
        longest = dfa.longest_len()
        return math.inf if longest is None else longest

    # Texts.

    def shortest(self, constraint: Constraint) -> bytes | None:
        """Return a shortest text that a constraint allows."""
        dfa, extent = self.automaton_or_none(constraint), self.extent(constraint)
        if dfa is None:
            is_short = extent is not None and extent.shortest <= MAX_EXAMPLE
            return extent.example() if extent is not None and is_short else None
        before: dict[int, tuple[int, int]] = {}
        pending = deque([dfa.start])
        seen = {dfa.start}
        while pending:
            state = pending.popleft()
            if dfa.is_accepting(state):
                out = bytearray()
                while state in before:
                    state, byte = before[state]
                    out.append(byte)
                return bytes(reversed(out))
            for byte in dfa.allowed_bytes(state):
                after = dfa.step(state, bytes([byte]))
                if after not in seen:
                    seen.add(after)
                    before[after] = (state, byte)
                    pending.append(after)
        return None

    def can_hold(self, constraint: Constraint, text: str) -> bool | None:
        """Whether some prefix of an allowed text holds `text`; None where that costs too much."""
        return self._product(constraint, text, wants_end=False)

    def can_avoid(self, constraint: Constraint, text: str) -> bool | None:
        """Whether some allowed text does not hold `text`; None where that costs too much."""
        return self._product(constraint, text, wants_end=True)

    def _product(self, constraint: Constraint, text: str, *, wants_end: bool) -> bool | None:
        """Search the pairs of a constraint's state and how much of `text` was just read."""
        dfa = self.automaton_or_none(constraint)
        if dfa is None:
            return None
        pattern = text.encode("utf-8", "surrogatepass")
        failures = _failures(pattern)
        letters = _letters([dfa], pattern)
        seen = {(dfa.start, 0)}
        pending = [(dfa.start, 0)]
        for state, read in pending:
            if wants_end and dfa.is_accepting(state):
                return True
            if len(pending) * len(letters) > MAX_STEPS:
                return None
            for letter in letters:
                after = dfa.step(state, letter)
                if after < 0:
                    continue
                now = read
                while now and pattern[now] != letter[0]:
                    now = failures[now]
                now += pattern[now] == letter[0]
                if now == len(pattern):
                    if not wants_end:
                        return True
                    continue
                if (after, now) not in seen:
                    seen.add((after, now))
                    pending.append((after, now))
        return False

    def are_disjoint(self, one: Constraint, other: Constraint) -> bool | None:
        """Whether no text meets two constraints; None where that costs too much."""
        first, second = self.automaton_or_none(one), self.automaton_or_none(other)
        if first is None or second is None:
            return None
        letters = _letters([first, second], b"")
        seen, pending = {(first.start, second.start)}, [(first.start, second.start)]
        for left, right in pending:
            if first.is_accepting(left) and second.is_accepting(right):
                return False
            if len(pending) * len(letters) > MAX_STEPS:
                return None
            for letter in letters:
                pair = (first.step(left, letter), second.step(right, letter))
                if min(pair) >= 0 and pair not in seen:
                    seen.add(pair)
                    pending.append(pair)
        return True

    # Tokens.

    def least_tokens(self, constraint: Constraint, limit: int) -> int | None:
        """Return the fewest tokens that an allowed text takes, at most `limit` + 1.

        None where it costs too much. `limit` + 1 stands for any number above `limit`.
        """
        key = (constraint, limit)
        if key not in self._least:
            self._least[key] = self._find_least(constraint, limit)
        return self._least[key]

    def _find_least(self, constraint: Constraint, limit: int) -> int | None:
        dfa, extent = self.automaton_or_none(constraint), self.extent(constraint)
        if extent is not None:
            return limit + 1 if extent.shortest > limit * self.longest_token() else None
        shortest = self.shortest(constraint)
        if dfa is None or shortest is None:
            return None
        if len(shortest) > limit * self.longest_token():
            return limit + 1
        try:
            spelled = self.tokenizer.encode(shortest.decode())
        except UnicodeDecodeError:
            return None
        if len(spelled) <= 1:
            return len(spelled)
        return self._search(dfa, limit)

    def _search(self, dfa: "ByteDfa", limit: int) -> int | None:
        """Go through the automaton token by token, breadth first."""
        import numpy as np

        level, seen = {dfa.start}, {dfa.start}
        if dfa.is_accepting(dfa.start):
            return 0
        for count in range(1, limit + 1):
            if len(seen) > MAX_TOKEN_STATES:
                return None
            reached = [self._after_tokens(dfa, state) for state in level]
            level = set(map(int, np.unique(np.concatenate(reached)))) - seen if reached else set()
            if any(dfa.is_accepting(state) for state in level):
                return count
            if not level:
                return limit + 1
            seen |= level
        return limit + 1

    def closes_within(self, constraint: Constraint, count: int) -> bool | None:
        """Whether `count` tokens can make a text that cannot go on; None where not known."""
        dfa = self.automaton_or_none(constraint)
        if dfa is None:
            return None
        level = {dfa.start}
        for _ in range(count):
            if len(level) > MAX_TOKEN_STATES:
                return None
            level = {int(after) for state in level for after in self._after_tokens(dfa, state)}
        return any(dfa.is_accepting(state) and not dfa.allowed_bytes(state) for state in level)

    def _after_tokens(self, dfa: "ByteDfa", state: int) -> Any:
        """Return the states that one token leads to."""
        import numpy as np

        matrix, lengths = self._tokens()
        states = np.full(len(lengths), state, dtype=np.int64)
        alive = np.arange(len(lengths))
        ended: list[Any] = []
        for column in range(matrix.shape[1]):
            alive = alive[states[alive] >= 0]
            over = lengths[alive] == column
            ended.append(states[alive[over]])
            alive = alive[~over]
            if not len(alive):
                break
            states[alive] = dfa.padded[states[alive], dfa.classes[matrix[alive, column]]]
        else:
            ended.append(states[alive[states[alive] >= 0]])
        return np.unique(np.concatenate(ended))

    def _tokens(self) -> Any:
        """Return the bytes of all text tokens as a padded table, and their lengths."""
        import numpy as np

        if self._matrix is None:
            pieces = [piece for piece in self._text_tokens() if len(piece) <= 64]
            lengths = np.array([len(piece) for piece in pieces])
            matrix = np.zeros((len(pieces), int(lengths.max())), dtype=np.uint8)
            for row, piece in enumerate(pieces):
                matrix[row, : len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            self._matrix = (matrix, lengths)
        return self._matrix

    def _text_tokens(self) -> list[bytes]:
        """Return the bytes of all text tokens, longest first."""
        if self._pieces is None:
            ends = self.tokenizer.eos_ids
            pieces = enumerate(self.tokenizer.token_bytes())
            found = [piece for number, piece in pieces if piece and number not in ends]
            self._pieces = sorted(found, key=len, reverse=True)
        return self._pieces

    def longest_token(self) -> int:
        """Return the length in bytes of the longest text token."""
        return len(self._text_tokens()[0])

    def control_spellings(self) -> list[str]:
        """Return the spellings of all control tokens."""
        if self._controls is None:
            ids = [i for i, piece in enumerate(self.tokenizer.token_bytes()) if piece is None]
            self._controls = [text for text in map(self.tokenizer.control_text, ids) if text]
        return self._controls

    def tokens_for(self, text: str) -> int | None:
        """Return the fewest tokens within which a text can occur; None if it never can."""
        if text not in self._occurs:
            self._occurs[text] = self._find_tokens_for(text)
        return self._occurs[text]

    def _find_tokens_for(self, text: str) -> int | None:
        wanted = text.encode("utf-8", "surrogatepass")
        size = len(wanted)
        unknown = size + 1
        pieces = self._text_tokens()
        # The first token may begin before the text, the last may end behind it.
        least = [unknown] * (size + 1)
        for piece in pieces:
            if wanted[:1] not in piece:
                continue
            if wanted in piece:
                return 1
            for length in range(1, min(size, len(piece)) + 1):
                if piece.endswith(wanted[:length]):
                    least[length] = 1
        within: dict[bytes, None] = dict.fromkeys(p for p in pieces if p in wanted)
        for start in range(1, size):
            if least[start] >= unknown:
                continue
            for piece in within:
                if wanted.startswith(piece, start):
                    end = start + len(piece)
                    least[end] = min(least[end], least[start] + 1)
        found = least[size]
        rests = {start: wanted[start:] for start in range(1, size) if least[start] < unknown}
        last = [piece for piece in pieces if piece.startswith((*rests.values(),))]
        for start, rest in rests.items():
            if any(piece.startswith(rest) for piece in last):
                found = min(found, least[start] + 1)
        return found if found < unknown else None


def _letters(automata: "Sequence[ByteDfa]", pattern: bytes) -> list[bytes]:
    """Return the bytes that a search must try: one for each that the automata tell apart.

    Those of `pattern` are told apart as well.
    """
    found: dict[tuple[int, ...], int] = {}
    for byte in range(256):
        classes = tuple(int(dfa.classes[byte]) for dfa in automata)
        found.setdefault((*classes, pattern.find(byte)), byte)
    return [bytes([byte]) for byte in found.values()]


def _failures(pattern: bytes) -> list[int]:
    """Return, per length read, the longest shorter beginning that is also an ending of it."""
    table = [0, 0]
    for index in range(1, len(pattern)):
        at = table[index]
        while at and pattern[at] != pattern[index]:
            at = table[at]
        table.append(at + (pattern[at] == pattern[index]))
    return table
