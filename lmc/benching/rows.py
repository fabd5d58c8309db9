"""The rows of a bench: the same program on the same model, with something left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lmc.runtime.executor import Switches

COMPILED = "compiled"
EAGER = "eager"


@dataclass(frozen=True, slots=True)
class Row:
    """One way of running.

    Attributes:
        name: for the table.
        engine: options of the engine that differ from the default.
        switches: what the executor leaves out; None runs the Python body, in eager mode.
    """

    name: str
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    switches: Switches | None = field(default_factory=Switches)


BASE = (Row(EAGER, switches=None), Row(COMPILED))

ABLATIONS = (
    Row("no prefix cache", {"cache": "none"}),
    Row("first come first served", {"order": "arrival"}),
    Row("random order", {"order": "random"}),
    Row("plain LRU eviction", {"eviction": "recency"}),
    Row("no program parallelism", switches=Switches(parallel=False)),
    Row("no fork groups", switches=Switches(groups=False)),
    Row("constraints not reused", {"reuse_constraints": False}),
)


def rows_of(*, has_source: bool, ablate: bool) -> list[Row]:
    """Return the rows of a bench; an artifact has no source for eager mode."""
    base = [row for row in BASE if has_source or row.switches is not None]
    return [*base, *(ABLATIONS if ablate else ())]
