"""What forced text will save: drawn texts of a constraint, walked as the engine would."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmc.errors import TokenRefused
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.cache import Compiled
from lmc.runtime.oracle_grammar import random_answer
from lmc.runtime.oracle_text import Draw

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


def forecast(constraint: Compiled, tokenizer: Tokenizer) -> Forecast:
    """Return what a constraint saves in the mean.

    The texts are short ones: free parts of a model's texts are longer, forced parts are not.
    """
    tokens = forced = count = 0
    for number in range(NUM_TEXTS):
        ids = random_answer(tokenizer, constraint, Draw(0, number))
        try:
            forced += num_forced(constraint, ids)
        except TokenRefused:
            continue  # the tokenizer does not write this text as it is
        tokens += len(ids)
        count += 1
    return Forecast(tokens / max(1, count), forced / max(1, count))


def num_forced(constraint: Compiled, token_ids: Sequence[int]) -> int:
    """Return how many ids of an allowed text, in the tokenizer's own ids, are forced.

    Raises:
        TokenRefused: the constraint does not allow them.
    """
    matcher, at, forced = constraint.matcher(), 0, 0
    while at < len(token_ids):
        run = matcher.forced_ids(token_ids[:at])
        forced += len(run)
        for token_id in run or token_ids[at : at + 1]:
            matcher.accept_token(token_id)
            at += 1
    return forced
