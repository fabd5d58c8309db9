"""What forced text will save: drawn texts of a constraint, walked as the engine would."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.regex import RegexConstraint
from lmc.runtime.oracle_text import Draw, random_match

NUM_TEXTS = 24


@dataclass(frozen=True, slots=True)
class Forecast:
    """Means over drawn texts of a constraint.

    Attributes:
        tokens: of a text, as the tokenizer writes it.
        forced: those of them that take no decode step, since the constraint forces them.
    """

    tokens: float
    forced: float

    @property
    def share(self) -> float:
        """The share of tokens that take no step."""
        return self.forced / self.tokens if self.tokens else 0.0


def forecast(constraint: RegexConstraint, tokenizer: Tokenizer) -> Forecast:
    """Return what a constraint saves in the mean.

    The texts are short ones: free parts of a model's texts are longer, forced parts are not.
    """
    tokens = forced = count = 0
    table = tokenizer.token_bytes()
    for number in range(NUM_TEXTS):
        text = random_match(constraint.dfa, Draw(0, number))
        ids = tokenizer.encode(text)
        if b"".join(table[token_id] or b"" for token_id in ids) == text.encode():
            tokens += len(ids)
            forced += num_forced(constraint, ids)
            count += 1
    return Forecast(tokens / max(1, count), forced / max(1, count))


def num_forced(constraint: RegexConstraint, token_ids: Sequence[int]) -> int:
    """Return how many ids of an allowed text, in the tokenizer's own ids, are forced."""
    state, at, forced = constraint.dfa.start, 0, 0
    while at < len(token_ids):
        run = constraint.runs.after(state, token_ids[:at])
        forced += len(run)
        for token_id in run or token_ids[at : at + 1]:
            state = constraint.advance(state, token_id)
            at += 1
    return forced
