"""Where an engine's draft tokens come from, by its options and its calls' constraints."""

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from lmc.errors import UsageError
from lmc.runtime.engine.draft_model import ModelDrafts
from lmc.runtime.engine.drafting import Drafter, least_chance, most_drafts
from lmc.runtime.engine.model_runner import CausalModel
from lmc.runtime.engine.ngram import NgramDrafts
from lmc.runtime.engine.policy import DraftKind
from lmc.runtime.engine.sequence import Sequence

FIRST_RATE = 0.9
"""The chance that a model under the mask chooses a token as the tokenizer writes it."""

_WEIGHT = 1 / 8
_PAUSE = 8
"""Of so many places where drafts are unlikely to come, one is tried."""

DEFAULT_LIMIT = 8
"""Draft tokens of a call in a step, at the most."""


def make_drafter(
    kind: DraftKind,
    limit: int,
    model: CausalModel | None,
    *,
    num_slots: int,
    token_budget: int,
    max_running: int,
) -> Drafter | None:
    """Return what drafts; None for nothing.

    Args:
        kind: where drafts come from.
        limit: the most of them, of a call in a step.
        model: the draft model.
        num_slots, token_budget, max_running: the engine's sizes, which hold for it too.

    Raises:
        UsageError: the options do not fit together.
    """
    if limit < 1:
        raise UsageError(
            f"num_drafts={limit} is no number of draft tokens",
            hint='give 1 or more; drafts="off" computes none',
        )
    if (kind == "model") != (model is not None):
        raise UsageError(
            'drafts="model" needs a draft_model'
            if model is None
            else f"a draft_model was given, but drafts={kind!r}",
            hint="open_backend(model, draft_model=...) drafts with a second model",
        )
    if kind == "ngram":
        return NgramDrafts(limit)
    if model is None:
        return None
    return ModelDrafts(
        model,
        limit=limit,
        num_slots=num_slots,
        token_budget=token_budget,
        max_running=max_running,
    )


@dataclass(slots=True)
class _Luck:
    """How one call takes to its drafts.

    Attributes:
        rate: share of them that came, of those that could: a moving average.
        asked: drafts of the last step.
        accepted: the sequence's count of accepted drafts before it.
        waited: how often nothing was likely.
    """

    rate: float = FIRST_RATE
    asked: int = 0
    accepted: int = 0
    waited: int = 0

    def learn(self, accepted: int) -> None:
        """Take note of the last step; one that was refused voids those behind it."""
        hits = accepted - self.accepted
        for has_come in [1.0] * hits + [0.0] * (hits < self.asked):
            self.rate += (has_come - self.rate) * _WEIGHT
        self.accepted, self.asked = accepted, 0

    def most(self, least: float) -> int:
        """Return how many tokens to draft: while all of them are likely to come."""
        rate = min(max(self.rate, 0.01), 0.999)
        likely = int(math.log(least) / math.log(rate))
        if likely == 0:
            self.waited += 1
            likely = int(self.waited % _PAUSE == 0)
        return likely


class ForcedDrafts:
    """Draft tokens where a constraint forces text and its tokens are sampled all the same.

    They are the ids that the tokenizer writes for the text: as many as are likely to come all,
    by what came of such drafts in the same call before. Calls that have none get those of
    another source.

    Args:
        other: where the draft tokens of other calls come from; None for nowhere.
    """

    def __init__(self, other: Drafter | None) -> None:
        self._other = other
        self._luck: WeakKeyDictionary[Sequence, _Luck] = WeakKeyDictionary()

    def propose(self, seqs: list[Sequence], room: int) -> list[list[int]]:
        """See Drafter."""
        found: dict[Sequence, list[int]] = {}
        least = least_chance(len(seqs))
        for seq in seqs:
            token_ids = self._forced(seq, least)
            token_ids = token_ids[: most_drafts(seq, len(token_ids), room)]
            if token_ids:
                self._luck[seq].asked = len(token_ids)
                found[seq] = token_ids
                room -= len(token_ids)
        rest = [seq for seq in seqs if seq not in found]
        if self._other is not None and rest and room > 0:
            found |= zip(rest, self._other.propose(rest, room), strict=True)
        return [found.get(seq, []) for seq in seqs]

    def _forced(self, seq: Sequence, least: float) -> list[int]:
        """Return the forced ids of a masked call that are likely to come."""
        if seq.chooser is None or not seq.chooser.has_drafts:
            return []
        luck = self._luck.setdefault(seq, _Luck(accepted=seq.accepted))
        if luck.asked:
            luck.learn(seq.accepted)
        limit = luck.most(least) if seq.chooser.is_forced else 0
        return seq.chooser.drafts(limit) if limit else []

    def may_draft(self, seqs: list[Sequence]) -> bool:
        """See Drafter."""
        if self._other is not None and self._other.may_draft(seqs):
            return True
        return any(seq.chooser is not None and seq.chooser.has_drafts for seq in seqs)

    def settle(self) -> None:
        """See Drafter."""
        if self._other is not None:
            self._other.settle()

    def check(self) -> None:
        """See Drafter."""
        if self._other is not None:
            self._other.check()
