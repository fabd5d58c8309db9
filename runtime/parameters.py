"""Decode parameters of a call: the op's own, then inherited defaults, then the general ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmc.errors import RunError, UsageError
from lmc.ir.calls import Constraint, SamplingParams
from lmc.ir.decode_params import ALMOST_ZERO, constraint_from, merge_params, take_sampling
from lmc.ir.expressions import CHOICES_METHODS
from lmc.ir.target import Tokenizer


@dataclass(frozen=True, slots=True)
class GenParams:
    """Everything that decides a generation except its context and key."""

    name: str | None
    sampling: SamplingParams
    num_samples: int
    constraint: Constraint | None
    type_name: str
    seed: int | None
    with_text: bool


def given_params(
    attributes: Mapping[str, Any], dynamic: Sequence[Any]
) -> tuple[str | None, dict[str, Any]]:
    """Return the name and the parameters of a gen or select step, dynamic ones filled in."""
    given = dict(attributes["params"])
    given.update(zip(attributes["dynamic"], dynamic, strict=True))
    name = given.pop("name", attributes.get("name"))
    if name is not None and not isinstance(name, str):
        raise RunError(f"the name of a variable must be a str, not {name!r:.80}")
    # A dynamic parameter that turns out to be None was not given.
    return name, {key: value for key, value in given.items() if value is not None}


def gen_params(
    attributes: Mapping[str, Any],
    dynamic: Sequence[Any],
    defaults: Mapping[str, Any],
    tokenizer: Tokenizer,
) -> GenParams:
    """Resolve the parameters of a gen step.

    Raises:
        RunError: a value is of the wrong kind or outside its range; names it.
    """
    name, given = given_params(attributes, dynamic)
    try:
        merged = merge_params(given, defaults)
        sampling = take_sampling(merged, tokenizer)
    except UsageError as error:
        raise RunError(error.message, hint=error.hint) from error
    return GenParams(
        name,
        sampling,
        num_samples=merged.get("n", 1),
        constraint=constraint_from(merged),
        type_name=merged.get("type", "str"),
        seed=merged.get("seed"),
        with_text=merged.get("return_text_in_logprobs", True),
    )


def choices_method(given: Mapping[str, Any]) -> str:
    """Return the method by which a select compares its choices."""
    temperature = given.get("temperature", 0)
    if not isinstance(temperature, (int, float)) or not 0 <= temperature <= ALMOST_ZERO:
        raise RunError(
            f"select takes the likeliest choice; temperature={temperature!r} has no meaning here",
            hint="leave temperature out",
        )
    method = given.get("choices_method", CHOICES_METHODS[0])
    if method not in CHOICES_METHODS:
        raise RunError(
            f"choices_method {method!r} is unknown", hint=f"use one of {', '.join(CHOICES_METHODS)}"
        )
    return method


def check_choices(choices: Any) -> list[str]:
    """Return the choices of a select as a list of str; raises RunError for others."""
    if not isinstance(choices, (list, tuple)):
        raise RunError(f"choices must be a list of str, not {type(choices).__name__}")
    for choice in choices:
        if not isinstance(choice, str):
            raise RunError(f"every choice must be a str, not {choice!r:.80}")
    if not choices:
        raise RunError("there is nothing to choose from", hint="give at least one choice")
    return list(choices)
