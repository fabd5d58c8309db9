"""Where an engine's draft tokens come from, by its options and its calls' constraints."""

from lmc.errors import UsageError
from lmc.runtime.engine.draft_model import ModelDrafts
from lmc.runtime.engine.drafting import Drafter, least_chance, most_drafts
from lmc.runtime.engine.model_runner import CausalModel
from lmc.runtime.engine.ngram import NgramDrafts
from lmc.runtime.engine.policy import DraftKind
from lmc.runtime.engine.sequence import Sequence

LIKELY = 0.85
"""The chance that a model under the mask chooses a token as the tokenizer writes it."""

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


class ForcedDrafts:
    """Draft tokens where a constraint forces text and its tokens are sampled all the same.

    They are the ids that the tokenizer writes for the text. Calls that have none get those of
    another source.

    Args:
        other: where the draft tokens of other calls come from; None for nowhere.
    """

    def __init__(self, other: Drafter | None) -> None:
        self._other = other

    def propose(self, seqs: list[Sequence], room: int) -> list[list[int]]:
        """See Drafter."""
        found: dict[Sequence, list[int]] = {}
        if least_chance(len(seqs)) <= LIKELY:
            for seq in seqs:
                forced = [] if seq.chooser is None else seq.chooser.drafts()
                token_ids = forced[: most_drafts(seq, len(forced), room)]
                if token_ids:
                    found[seq] = token_ids
                    room -= len(token_ids)
        rest = [seq for seq in seqs if seq not in found]
        if self._other is not None and rest and room > 0:
            found |= zip(rest, self._other.propose(rest, room), strict=True)
        return [found.get(seq, []) for seq in seqs]

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
