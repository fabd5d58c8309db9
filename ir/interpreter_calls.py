"""Model calls as the reference interpreter makes them: parameters, keys, results, scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from lmc.errors import IncompleteError, RunError, UsageError
from lmc.ir.calls import (
    Constraint,
    GenCall,
    GenResult,
    SamplingParams,
    ScoreCall,
    ScoreResult,
    derive_key,
)
from lmc.ir.decode_params import constraint_from, merge_params, take_sampling
from lmc.ir.expressions import CHOICES_METHODS
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.target import Tokenizer
from lmc.ir.value_types import label, read_typed


@dataclass(frozen=True, slots=True)
class GenRequest:
    """What a `lm.gen` asks for, its parameters merged and checked."""

    sampling: SamplingParams
    constraint: Constraint | None
    kind: str
    samples: int
    seed: int | None
    with_text: bool

    def calls(
        self, prompt: Prompt, tokenizer: Tokenizer, site: str, *, seed: int, instance: int
    ) -> list[GenCall]:
        """Return one call per sample."""
        context = prompt.context(tokenizer)
        place = (
            seed if self.seed is None else self.seed,
            instance,
            prompt.lineage,
            prompt.ordinal,
        )
        keys = [
            0 if self.sampling.is_greedy else derive_key(*place, sample)
            for sample in range(self.samples)
        ]
        return [GenCall(context, self.sampling, self.constraint, key, site) for key in keys]


def gen_request(
    params: Mapping[str, Any], defaults: Mapping[str, Any], tokenizer: Tokenizer
) -> GenRequest:
    """Merge a generation's own parameters over the run's defaults; None counts as unset.

    Raises:
        RunError: a parameter has a value that it cannot have.
    """
    try:
        given = merge_params(params, defaults)
        sampling = take_sampling(given, tokenizer)
    except UsageError as error:
        raise RunError(error.message, hint=error.hint) from error
    return GenRequest(
        sampling,
        constraint_from(given),
        given.get("type", "str"),
        given.get("n", 1),
        given.get("seed"),
        given.get("return_text_in_logprobs", True),
    )


def gen_value(request: GenRequest, result: GenResult) -> Any:
    """Return the value of one sample: its text, or what its type reads from it.

    Raises:
        RunError: a typed generation was cut before its text was complete.
    """
    if request.kind == "str":
        return result.text
    if not result.complete:
        raise IncompleteError(
            f"the {label(request.kind)} was cut before it was complete: {result.text!r}",
            hint=f"raise max_tokens (now {request.sampling.max_tokens}), or drop stop strings "
            "that can occur in it",
        )
    try:
        return read_typed(request.kind, result.text)
    except (ValueError, KeyError) as error:
        raise IncompleteError(f"{result.text!r} is no {label(request.kind)}") from error


def check_choices(choices: Any, params: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the choices and the method; raises RunError for what is neither."""
    if not isinstance(choices, (list, tuple)):
        raise RunError(f"choices must be a list of str, not {type(choices).__name__}")
    for choice in choices:
        if not isinstance(choice, str):
            raise RunError(f"every choice must be a str, not {choice!r:.80}")
    if not choices:
        raise RunError("there is nothing to choose from", hint="give at least one choice")
    method = params.get("choices_method")
    method = CHOICES_METHODS[0] if method is None else method
    if method not in CHOICES_METHODS:
        raise RunError(
            f"choices_method {method!r} is unknown", hint=f"one of {', '.join(CHOICES_METHODS)}"
        )
    temperature = params.get("temperature")
    is_number = isinstance(temperature, (int, float))
    if temperature is not None and not (is_number and 0 <= temperature <= 1e-5):
        raise RunError(
            f"select takes the likeliest choice; temperature={temperature!r} has no meaning here",
            hint="leave temperature out",
        )
    return list(choices), method


def unconditional_call(tokenizer: Tokenizer, choices: Sequence[str], site: str) -> ScoreCall:
    """Return the call that scores each choice alone, without the prompt."""
    options = tuple(tuple(tokenizer.encode(choice, first=True)) for choice in choices)
    return ScoreCall((tokenizer.empty_context_id,), options, site)


def choose(
    method: str, scored: ScoreResult, unconditional: ScoreResult | None
) -> tuple[int, list[float]]:
    """Return the chosen index, the first of the best, and every choice's score.

    Methods: the mean log-probability per token; the same less that of the choice alone; the
    sum; or token by token, where a choice that has ended counts with its mean.
    """
    if method == "total_likelihood":
        scores = [sum(logprobs) for logprobs in scored.logprobs]
        return scores.index(max(scores)), scores
    scores = [_mean(logprobs) for logprobs in scored.logprobs]
    if method == "greedy_token_selection":
        return _greedy(scored.logprobs, scores), scores
    if unconditional is not None:
        alone = [_mean(logprobs) for logprobs in unconditional.logprobs]
        scores = [score - other for score, other in zip(scores, alone, strict=True)]
    return scores.index(max(scores)), scores


def _greedy(logprobs: Sequence[Sequence[float]], means: Sequence[float]) -> int:
    remaining = list(range(len(logprobs)))
    missing = object()
    for column in zip_longest(*logprobs, fillvalue=missing):
        at = [means[i] if value is missing else value for i, value in enumerate(column)]
        best = max(at[index] for index in remaining)  # type: ignore[type-var]
        remaining = [index for index in remaining if at[index] == best]
    return remaining[0]


def _mean(logprobs: Sequence[float]) -> float:
    return sum(logprobs) / len(logprobs) if logprobs else 0.0
