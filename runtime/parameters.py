"""Decode parameters of a call: the op's own, then inherited defaults, then the general ones."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmc.errors import RunError
from lmc.ir.calls import Constraint, SamplingParams
from lmc.ir.expressions import CHOICES_METHODS, GEN_PARAMS, TYPE_REGEX

MAX_SAMPLES = 4096
ALMOST_ZERO = 1e-5


@dataclass(frozen=True, slots=True)
class GenParams:
    """Everything that decides a generation except its context and key."""

    name: str | None
    sampling: SamplingParams
    num_samples: int
    constraint: Constraint | None
    type_name: str


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
    attributes: Mapping[str, Any], dynamic: Sequence[Any], defaults: Mapping[str, Any]
) -> GenParams:
    """Resolve the parameters of a gen step.

    Raises:
        RunError: a value is of the wrong kind or outside its range; names it.
    """
    name, given = given_params(attributes, dynamic)
    merged = {key: value for key, value in defaults.items() if value is not None}
    checked = check_params(merged | given)
    type_name = checked.pop("type", "str")
    regex = checked.pop("regex", TYPE_REGEX.get(type_name))
    constraint = Constraint("regex", regex) if regex is not None else None
    num_samples = checked.pop("n", 1)
    return GenParams(name, SamplingParams(**checked), num_samples, constraint, type_name)


def check_params(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return decode parameters in the form that calls have them; raises RunError for others."""
    for key in given:
        if key not in _CHECKS:
            raise RunError(
                f"{key!r} is no decode parameter", hint=f"there are: {', '.join(GEN_PARAMS)}"
            )
    return {key: _CHECKS[key](key, value) for key, value in given.items()}


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


def _int(name: str, value: Any, *, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise RunError(f"{name} must be an int of at least {minimum}, not {value!r:.80}")
    return value


def _count(name: str, value: Any) -> int:
    return _int(name, value, minimum=0)


def _samples(name: str, value: Any) -> int:
    if _int(name, value, minimum=1) > MAX_SAMPLES:
        raise RunError(f"{name} must be at most {MAX_SAMPLES}, not {value}")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RunError(f"{name} must be a number, not {value!r:.80}")
    return value


def _share(name: str, value: Any) -> float:
    if not 0 <= _number(name, value) <= 1:
        raise RunError(f"{name} must be from 0 to 1, not {value!r}")
    return value


def _positive_share(name: str, value: Any) -> float:
    if not 0 < _number(name, value) <= 1:
        raise RunError(f"{name} must be above 0 and at most 1, not {value!r}")
    return value


def _temperature(name: str, value: Any) -> float:
    if not 0 <= _number(name, value) < math.inf:
        raise RunError(f"{name} must be a number of at least 0, not {value!r}")
    return value


def _top_k(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != -1):
        raise RunError(f"{name} must be an int of at least 1, or -1 for all, not {value!r:.80}")
    return value


def _stop(name: str, value: Any) -> tuple[str, ...]:
    stops = (value,) if isinstance(value, str) else value
    if not isinstance(stops, (list, tuple)) or not all(isinstance(s, str) for s in stops):
        raise RunError(f"{name} must be a str or a list of str, not {value!r:.80}")
    return tuple(stops)


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        raise RunError(f"{name} must be a list of token ids, not {value!r:.80}")
    return tuple(_count(name, item) for item in value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RunError(f"{name} must be True or False, not {value!r:.80}")
    return value


def _pattern(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise RunError(f"{name} must be a str, not {value!r:.80}")
    return value


def _type(name: str, value: Any) -> str:
    if value not in (*TYPE_REGEX, "str"):
        raise RunError(f"{name} must be int, float, bool or str, not {value!r:.80}")
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "max_tokens": _count, "min_tokens": _count, "n": _samples, "stop": _stop,
    "stop_token_ids": _token_ids, "temperature": _temperature, "top_p": _positive_share,
    "top_k": _top_k, "min_p": _share, "ignore_eos": _flag, "return_logprob": _flag,
    "regex": _pattern, "type": _type,
}  # fmt: skip
