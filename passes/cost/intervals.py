"""Numbers that are known between a least and a greatest; infinity where there is no bound."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`."""

    low: float = 0
    high: float = 0

    def __add__(self, other: "Interval") -> "Interval":
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, number: float) -> "Interval":
        """Return both ends less a known number, never below 0."""
        return Interval(max(0, self.low - number), max(0, self.high - number))

    def __str__(self) -> str:
        if self.low == self.high:
            return _number(self.high)
        return f"{_number(self.low)}..{_number(self.high)}"

    @property
    def is_bounded(self) -> bool:
        """Whether there is a greatest number."""
        return math.isfinite(self.high)


NONE = Interval()
UNBOUNDED = Interval(0, math.inf)


def exactly(number: float) -> Interval:
    """Return the interval that holds one number."""
    return Interval(number, number)


def hull(intervals: Iterable[Interval]) -> Interval:
    """Return the least interval that holds all of some."""
    held = list(intervals)
    return Interval(min(i.low for i in held), max(i.high for i in held)) if held else NONE


def _number(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else "?"
