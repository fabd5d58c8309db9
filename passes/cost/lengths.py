"""How long a generation can be: by its parameters, and by what its constraint allows."""

import math
from dataclasses import dataclass
from functools import lru_cache

from lmc.ir.calls import SamplingParams
from lmc.ir.interpreter_calls import GenRequest
from lmc.ir.target import Tokenizer
from lmc.passes.cost.intervals import Interval
from lmc.passes.lint.languages import Languages

BORDER = 4
"""Tokens that the two ends of a generated text may add where it is encoded anew."""


def respelled(tokens: float) -> float:
    """Return how many tokens a generated text of some tokens needs at the most, encoded anew.

    Taken for granted: a tokenizer's own encoding of a text is as a rule its shortest, so text of
    n sampled tokens needs about n again. A merge across the border of two sampled tokens can
    undo both, so each pair of them may add one. Tests count it on random tokens, which are worse
    than text, and on every run that they measure.
    """
    return tokens + tokens // 2 + BORDER


@dataclass(frozen=True, slots=True)
class Length:
    """Bounds on one generation.

    Attributes:
        tokens: how many it may take.
        text: the most bytes of its text; infinity where the constraint sets no bound.
        shortest: the fewest bytes that its constraint allows; None without a constraint.
        states: states of the constraint's automaton.
    """

    tokens: Interval
    text: float = math.inf
    shortest: int | None = None
    states: int = 0

    @property
    def respelled(self) -> float:
        """Tokens that its text needs at the most where it stands elsewhere."""
        return min(respelled(self.tokens.high), self.text)


class Lengths:
    """Bounds generations of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._languages = Languages(tokenizer)

    def of(self, request: GenRequest) -> Length:
        """Return the bounds of a generation."""
        sampling = request.sampling
        most, low = sampling.max_tokens, _least(sampling)
        if request.constraint is None:
            return Length(Interval(low, most))
        dfa = self._languages.automaton_or_none(request.constraint)
        if dfa is None:  # refused, or too costly to look at
            return Length(Interval(0, most))
        longest, shortest = dfa.longest_len(), dfa.shortest_len()
        text = math.inf if longest is None else longest
        least = 0 if _may_stop(sampling) else math.ceil(shortest / self._languages.longest_token())
        # No token is shorter than a byte.
        tokens = Interval(min(least, most), min(most, text))
        return Length(tokens, text, shortest, len(dfa.table))


@lru_cache(maxsize=4)
def lengths_of(tokenizer: Tokenizer) -> Lengths:
    """Return what bounds a tokenizer's generations; the last ones are kept."""
    return Lengths(tokenizer)


def _least(sampling: SamplingParams) -> int:
    """Return the fewest tokens without a constraint: stop strings count from `min_tokens` on."""
    if sampling.ignore_eos and not _may_stop(sampling):
        return sampling.max_tokens
    return min(sampling.min_tokens, sampling.max_tokens)


def _may_stop(sampling: SamplingParams) -> bool:
    return bool(sampling.stop or sampling.stop_regex or sampling.stop_token_ids)
