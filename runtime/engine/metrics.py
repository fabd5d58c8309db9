"""Metrics: an engine's totals and distributions as text that Prometheus reads.

The format is the text exposition format 0.0.4 (https://prometheus.io/docs/instrumenting/
exposition_formats/): counters end in `_total`, times are seconds, buckets are cumulative.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import fields

from lmc.ir.calls import CallUsage
from lmc.runtime.engine.stats import EngineStats

PREFIX = "lmc_"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKENS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0)


class Histogram:
    """Counts of observed values in fixed buckets.

    Args:
        bounds: the upper bounds of the buckets, which belong to them, ascending.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> list[str]:
        """Return its samples."""
        result: list[str] = []
        total = 0
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += count
            result.append(f'{name}_bucket{{le="{_number(bound)}"}} {total}')
        return [*result, f"{name}_sum {_number(self._sum)}", f"{name}_count {total}"]


class Metrics:
    """The distributions that an engine keeps; all are of calls or steps that have ended."""

    def __init__(self) -> None:
        self.queue = Histogram(SECONDS)
        self.first_token = Histogram(SECONDS)
        self.gaps = Histogram(SECONDS)
        self.requests = Histogram(SECONDS)
        self.steps = Histogram(SECONDS)
        self.step_tokens = Histogram(TOKENS)

    def note_call(self, usage: CallUsage, gaps: list[float]) -> None:
        """Count an answered call; `gaps` are the seconds between its output tokens."""
        self.queue.observe(usage.queue_seconds)
        if usage.first_token_seconds > 0:
            self.first_token.observe(usage.first_token_seconds)
        for gap in gaps:
            self.gaps.observe(gap)
        self.requests.observe(usage.total_seconds)

    def note_step(self, seconds: float, num_tokens: int) -> None:
        """Count a step."""
        self.steps.observe(seconds)
        self.step_tokens.observe(num_tokens)

    def text(self, stats: EngineStats, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return everything as text.

        Args:
            stats: the engine's totals.
            gauges: by name, what each means and its value now.
        """
        lines: list[str] = []
        for each in fields(stats):
            value = getattr(stats, each.name)
            if isinstance(value, (int, float)):
                name = f"{PREFIX}{each.name}_total"
                lines += _head(name, "counter", f"EngineStats.{each.name}, since the start.")
                lines.append(f"{name} {_number(value)}")
        for name, (meaning, value) in gauges.items():
            lines += _head(f"{PREFIX}{name}", "gauge", meaning)
            lines.append(f"{PREFIX}{name} {_number(value)}")
        for name, meaning, histogram in self._histograms():
            lines += _head(f"{PREFIX}{name}", "histogram", meaning)
            lines += histogram.lines(f"{PREFIX}{name}")
        return "\n".join([*lines, ""])

    def _histograms(self) -> list[tuple[str, str, Histogram]]:
        return [
            ("queue_seconds", "From submission to the first step of a call.", self.queue),
            ("time_to_first_token_seconds", "From submission to a token.", self.first_token),
            ("time_between_tokens_seconds", "Between output tokens of a call.", self.gaps),
            ("request_seconds", "From submission to the end of an answered call.", self.requests),
            ("step_seconds", "Time of a step of the engine.", self.steps),
            ("step_tokens", "Tokens computed in a step.", self.step_tokens),
        ]  # fmt: skip


def _head(name: str, kind: str, meaning: str) -> list[str]:
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]


def _number(value: float) -> str:
    """Return a number as the format spells it."""
    if value == float("inf"):
        return "+Inf"
    return repr(value) if isinstance(value, int) else f"{value:.9g}"
