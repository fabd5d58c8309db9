"""The calls that a generation makes on a prompt."""

from lmc.ir.calls import GenCall, derive_key
from lmc.runtime.parameters import GenParams
from lmc.runtime.prompt_state import PromptState


def calls_on(
    state: PromptState, params: GenParams, *, seed: int, instance: int, site: str
) -> list[GenCall]:
    """Return one call per sample; `seed` is the run's, which the parameters may replace."""
    context = state.context_ids()
    seed = seed if params.seed is None else params.seed
    place = (seed, instance, state.lineage, state.ordinal)
    is_greedy = params.sampling.is_greedy
    keys = [0 if is_greedy else derive_key(*place, i) for i in range(params.num_samples)]
    return [GenCall(context, params.sampling, params.constraint, key, site) for key in keys]
