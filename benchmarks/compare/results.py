"""Results as plain data: medians, ratios against the best peer, and targets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Samples = Sequence[Mapping[str, Any]]

TARGETS = {
    "b8": 1.3, "b32": 1.5, "c": 1.0, "d1": 2.0, "d16": 2.0, "e": 1.5, "f": 1.4, "g": 2.0,
    "h1": 2.0, "h8": 2.0,
}  # fmt: skip
"""How many times as fast as the best peer lmc is to be, with unquantized weights."""


@dataclass(frozen=True, slots=True)
class Results:
    """What was measured.

    Attributes:
        data: `machine`, `limits`, `kinds` (by name: group, precision, about, memory) and
            `samples` (by workload and engine: one object per repeat).
    """

    data: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> "Results":
        """Read results; those of no file are empty."""
        return cls(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else cls.empty()

    @classmethod
    def empty(cls) -> "Results":
        """Return results of no run."""
        return cls({"machine": "", "limits": {}, "kinds": {}, "samples": {}})

    def save(self, path: Path) -> None:
        """Write everything."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.data, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def samples(self, workload: str, engine: str) -> Samples:
        """Return what an engine took for a workload, once per repeat."""
        return self.data["samples"].get(workload, {}).get(engine, ())  # type: ignore[no-any-return]

    def set_samples(self, workload: str, engine: str, samples: Samples) -> None:
        """Note what an engine took."""
        self.data["samples"].setdefault(workload, {})[engine] = list(samples)

    def median(self, workload: str, engine: str, figure: str = "seconds") -> float | None:
        """Return the median of a figure; None where it was not measured."""
        return middle(each.get(figure) for each in self.samples(workload, engine))

    def rate(self, workload: str, engine: str) -> float | None:
        """Return output tokens per second; behind the first token for a single request."""
        return middle(decode_rate(each) for each in self.samples(workload, engine))

    def engines(self, *, peers: bool, precision: str | None = None) -> list[str]:
        """Return the engines that are peers, or not, in the order of measuring."""
        return [
            name
            for name, about in self.data["kinds"].items()
            if (about["group"] != "lmc") == peers and precision in (None, about["precision"])
        ]

    def best_peer(self, workload: str, precision: str | None = None) -> tuple[str, float] | None:
        """Return the peer that took the least time, and the time."""
        found = [
            (taken, name)
            for name in self.engines(peers=True, precision=precision)
            if (taken := self.median(workload, name)) is not None
        ]
        return min(found)[::-1] if found else None

    def ratio(self, workload: str, engine: str, precision: str | None = None) -> float | None:
        """Return how many times as fast as the best peer an engine is."""
        peer, own = self.best_peer(workload, precision), self.median(workload, engine)
        return None if peer is None or own is None else peer[1] / own


def middle(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are there."""
    there = [value for value in values if value is not None]
    return median(there) if there else None


def decode_rate(sample: Mapping[str, Any]) -> float | None:
    """Return the tokens per second after the first one."""
    first, count = sample.get("first_token"), sample["output_tokens"]
    if first is None or count < 2:
        return None
    return (count - 1) / (sample["seconds"] - first)  # type: ignore[no-any-return]
