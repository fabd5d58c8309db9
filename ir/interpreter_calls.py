"""Model calls as the reference interpreter makes them: parameters, keys, results, scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from lmc.errors import RunError
from lmc.ir.calls import (
    Constraint,
    GenCall,
    GenResult,
    SamplingParams,
    ScoreCall,
    ScoreResult,
    derive_key,
)
from lmc.ir.expressions import CHOICES_METHODS, GEN_PARAMS, TYPE_REGEX
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.target import Tokenizer

MAX_SAMPLES = 4096


@dataclass(frozen=True, slots=True)
class GenRequest:
    """What a `lm.gen` asks for, its parameters merged and checked."""

    sampling: SamplingParams
    constraint: Constraint | None
    kind: str
    samples: int

    def calls(
        self, prompt: Prompt, tokenizer: Tokenizer, site: str, *, seed: int, instance: int
    ) -> list[GenCall]:
        """Return one call per sample."""
        context = prompt.context(tokenizer)
        place = (seed, instance, prompt.lineage, prompt.ordinal)
        keys = [
            0 if self.sampling.is_greedy else derive_key(*place, sample)
            for sample in range(self.samples)
        ]
        return [GenCall(context, self.sampling, self.constraint, key, site) for key in keys]


def gen_request(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> GenRequest:
    """Merge a generation's own parameters over the run's defaults; None counts as unset.

    Raises:
        RunError: a parameter has a value that it cannot have.
    """
    given = {key: value for key, value in defaults.items() if value is not None}
    given |= {key: value for key, value in params.items() if value is not None}
    for name, value in given.items():
        _check(name, value)
    kind = given.pop("type", "str")
    regex = given.pop("regex", TYPE_REGEX.get(kind))
    samples = given.pop("n", 1)
    stop = given.pop("stop", ())
    sampling = SamplingParams(
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=tuple(given.pop("stop_token_ids", ())),
        **given,
    )
    constraint = None if regex is None else Constraint("regex", regex)
    return GenRequest(sampling, constraint, kind, samples)


def _check(name: str, value: Any) -> None:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    is_number = is_int or isinstance(value, float)
    match name:
        case "max_tokens" | "min_tokens":
            sound, wanted = is_int and value >= 0, "a whole number from 0"
        case "n":
            sound, wanted = is_int and 1 <= value <= MAX_SAMPLES, f"1 to {MAX_SAMPLES}"
        case "top_k":
            sound, wanted = is_int and (value == -1 or value >= 1), "-1 or a whole number from 1"
        case "temperature":
            sound, wanted = is_number and 0 <= value < float("inf"), "a number from 0"
        case "top_p":
            sound, wanted = is_number and 0 < value <= 1, "above 0 and at most 1"
        case "min_p":
            sound, wanted = is_number and 0 <= value <= 1, "between 0 and 1"
        case "ignore_eos" | "return_logprob":
            sound, wanted = isinstance(value, bool), "True or False"
        case "stop":
            sound, wanted = isinstance(value, str) or _all(value, str), "a string or strings"
        case "stop_token_ids":
            sound, wanted = _all(value, int) and all(i >= 0 for i in value), "token ids"
        case "regex":
            sound, wanted = isinstance(value, str), "a pattern"
        case "type":
            sound, wanted = value in (*TYPE_REGEX, "str"), "int, float, bool or str"
        case _:
            sound, wanted = False, f"one of {', '.join(GEN_PARAMS)}"
            raise RunError(f"unknown decode parameter {name!r}", hint=wanted)
    if not sound:
        raise RunError(f"{name}={value!r} is no value for {name}", hint=f"give {wanted}")


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, (list, tuple)) and all(
        isinstance(value, kind) and not isinstance(value, bool) for value in values
    )


def gen_value(request: GenRequest, result: GenResult) -> Any:
    """Return the value of one sample: its text, or what its type reads from it.

    Raises:
        RunError: a typed generation was cut before its text was complete.
    """
    if request.kind == "str":
        return result.text
    if not result.complete:
        raise RunError(
            f"the {request.kind} was cut before it was complete: {result.text!r}",
            hint=f"raise max_tokens (now {request.sampling.max_tokens}), or drop stop strings "
            "that can occur in it",
        )
    try:
        return _READERS[request.kind](result.text)
    except (ValueError, KeyError) as error:
        raise RunError(f"{result.text!r} is no {request.kind}") from error


_READERS = {"int": int, "float": float, "bool": {"True": True, "False": False}.__getitem__}


def gen_meta(call: GenCall, result: GenResult) -> dict[str, Any]:
    """Return the meta dict of one sample."""
    return {
        "finish_reason": result.finish_reason,
        "matched_stop": result.matched_stop,
        "complete": result.complete,
        "prompt_tokens": len(call.context),
        "completion_tokens": len(result.token_ids),
        "token_ids": list(result.token_ids),
        "logprobs": None if result.logprobs is None else list(result.logprobs),
    }


def check_choices(choices: Any, params: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the choices and the method; raises RunError for what is neither."""
    if not isinstance(choices, (list, tuple)):
        raise RunError(f"choices must be a list of str, not {type(choices).__name__}")
    for choice in choices:
        if not isinstance(choice, str):
            raise RunError(f"every choice must be a str, not {choice!r:.80}")
    if not choices:
        raise RunError("there is nothing to choose from", hint="give at least one choice")
    method = params.get("choices_method") or CHOICES_METHODS[0]
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

    Methods: the mean log-probability per token; the same less that of the choice alone; or
    token by token, where a choice that has ended counts with its mean.
    """
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
