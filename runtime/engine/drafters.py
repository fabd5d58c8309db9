"""Where an engine's draft tokens come from, by its options."""

from lmc.errors import UsageError
from lmc.runtime.engine.draft_model import ModelDrafts
from lmc.runtime.engine.drafting import Drafter
from lmc.runtime.engine.model_runner import CausalModel
from lmc.runtime.engine.ngram import NgramDrafts
from lmc.runtime.engine.policy import DraftKind

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
