"""What a stretch of a program costs, in all and by source line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lmc.ir.location import Location
from lmc.passes.cost.intervals import NONE, Interval, hull


@dataclass(frozen=True, slots=True)
class Cost:
    """Bounds on what is computed.

    Attributes:
        calls: generations and choices.
        prefill: context tokens that go through the model before the first new token.
        decode: tokens generated one after another, summed over all calls.
        held: tokens whose keys and values the cache holds if it evicts nothing.
    """

    calls: Interval = NONE
    prefill: Interval = NONE
    decode: Interval = NONE
    held: Interval = NONE

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.calls + other.calls,
            self.prefill + other.prefill,
            self.decode + other.decode,
            self.held + other.held,
        )


def either(costs: Sequence[Cost]) -> Cost:
    """Return the bounds of a cost that is one of several."""
    return Cost(
        hull(c.calls for c in costs),
        hull(c.prefill for c in costs),
        hull(c.decode for c in costs),
        hull(c.held for c in costs),
    )


@dataclass(slots=True)
class Tally:
    """Costs added up along a path; `unbounded` says where and why there is no bound."""

    total: Cost = field(default_factory=Cost)
    lines: dict[Location | None, Cost] = field(default_factory=dict[Location | None, Cost])
    unbounded: dict[Location | None, str] = field(default_factory=dict[Location | None, str])

    def add(self, location: Location | None, cost: Cost) -> None:
        """Add what an op at a place costs."""
        self.total += cost
        self.lines[location] = self.lines.get(location, Cost()) + cost

    def extend(self, other: "Tally") -> None:
        """Add what comes after."""
        self.total += other.total
        for location, cost in other.lines.items():
            self.lines[location] = self.lines.get(location, Cost()) + cost
        self.unbounded |= other.unbounded

    @classmethod
    def of_one(cls, tallies: Sequence["Tally"]) -> "Tally":
        """Return the tally of a path that is one of several."""
        places = dict.fromkeys(place for tally in tallies for place in tally.lines)
        lines = {p: either([t.lines.get(p, Cost()) for t in tallies]) for p in places}
        reasons = {p: why for tally in tallies for p, why in tally.unbounded.items()}
        return cls(either([tally.total for tally in tallies]), lines, reasons)
