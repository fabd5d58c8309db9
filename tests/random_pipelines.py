"""Random pipelines: passes in any order, with any options that their types allow."""

from dataclasses import fields
from random import Random
from typing import Any, get_type_hints

from lmc.passes.base import format_option
from lmc.passes.pipeline import load_pass, pass_names

MOST_PASSES = 8
NUMBERS = (0, 1, 2, 3, 5, 9, 40, 300)
SHARES = (0.0, 0.2, 0.5, 0.9, 1.0)


def random_pipeline(draw: Random) -> str:
    """Return the text of a pipeline of 1 to 8 passes, one of two of them with drawn options."""
    count = draw.randint(1, MOST_PASSES)
    return ",".join(_random_pass(draw, draw.choice(pass_names())) for _ in range(count))


def _random_pass(draw: Random, name: str) -> str:
    kind = load_pass(name)
    types = get_type_hints(kind)
    given = [
        f"{option.name}={format_option(_random_value(draw, types[option.name]))}"
        for option in fields(kind)
        if draw.random() < 0.5
    ]
    return f"{name}{{{','.join(given)}}}" if given else name


def _random_value(draw: Random, kind: Any) -> int | float:
    assert kind in (int, float), f"options of type {kind} are not drawn yet"
    return draw.choice(NUMBERS if kind is int else SHARES)
