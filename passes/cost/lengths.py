"""How long a generation can be: by its parameters, and by what its constraint allows."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from lmc.ir.calls import Constraint, SamplingParams
from lmc.ir.interpreter_calls import GenRequest
from lmc.ir.target import Tokenizer
from lmc.passes.cost.intervals import Interval
from lmc.passes.lint.languages import Languages

if TYPE_CHECKING:
    from lmc.ir.automata import ByteDfa
    from lmc.ir.grammar import Extent


@dataclass(frozen=True, slots=True)
class Length:
    """Bounds on one generation.

    Attributes:
        tokens: how many it may take.
        text: the most bytes of its text; infinity where the constraint sets no bound.
        shortest: the fewest bytes that its constraint allows; None without a constraint.
        states: states of the constraint's automaton.
        forced: the share of them that leave one byte only to come.
        respelled: tokens that its text needs at the most where it stands elsewhere.
        constraint: what its text must match; None for nothing, or where it cannot be looked at.
    """

    tokens: Interval
    text: float = math.inf
    shortest: int | None = None
    states: int = 0
    forced: float = 0.0
    respelled: float = math.inf
    constraint: Constraint | None = None


MANY = 1 << 50
"""Tokens from which on a limit is none: floats count no further."""


class Lengths:
    """Bounds generations of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._languages = Languages(tokenizer)
        self._bounds: dict[Constraint, _Bounds | None] = {}

    def of(self, request: GenRequest) -> Length:
        """Return the bounds of a generation."""
        length = self._of(request)
        return replace(length, respelled=self.respelled(length.tokens.high, length.text))

    def respelled(self, tokens: float, text: float = math.inf) -> float:
        """Return how many tokens a text of some generated tokens and of some bytes can need.

        No token is shorter than a byte. One of its tokens may reach over each of its ends.
        """
        if text <= tokens or tokens in (0, math.inf):
            return min(tokens, text)
        return min(self._tokenizer.growth * tokens + 1, text)

    def _of(self, request: GenRequest) -> Length:
        sampling = request.sampling
        most = sampling.max_tokens if sampling.max_tokens < MANY else math.inf
        low = min(_least(sampling), MANY)
        if request.constraint is None:
            return Length(Interval(low, most))
        known = self._bounds_of(request.constraint)
        if known is None:  # refused, or too costly to look at
            return Length(Interval(0, most))
        least = math.ceil(known.shortest / self._languages.longest_token())
        least = 0 if _may_stop(sampling) else min(least, most)
        # No token of text is shorter than a byte.
        tokens = Interval(least, min(most, known.longest_tokens))
        return Length(
            tokens, known.longest, known.shortest, known.states, known.forced,
            constraint=request.constraint,
        )  # fmt: skip

    def _bounds_of(self, constraint: Constraint) -> "_Bounds | None":
        if constraint not in self._bounds:
            dfa = self._languages.automaton_or_none(constraint)
            extent = self._languages.extent(constraint)
            found = _bounds_of(dfa) if dfa is not None else None
            self._bounds[constraint] = _bounds_of_network(extent) if extent is not None else found
        return self._bounds[constraint]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Facts of an automaton; lengths in bytes."""

    shortest: int
    longest: float
    longest_tokens: float
    states: int
    forced: float


def _bounds_of(dfa: "ByteDfa") -> _Bounds:
    longest, states = dfa.longest_len(), range(len(dfa.table))
    one_way = sum(len(dfa.allowed_bytes(s)) == 1 and not dfa.is_accepting(s) for s in states)
    most = math.inf if longest is None else longest
    return _Bounds(dfa.shortest_len(), most, most, len(states), one_way / len(states))


def _bounds_of_network(extent: "Extent") -> _Bounds:
    return _Bounds(
        extent.shortest, extent.longest, extent.longest_tokens, extent.network.state_count,
        extent.forced_share,
    )  # fmt: skip


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
