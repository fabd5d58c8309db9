"""The cost of a program before it runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmc.ir.core import Module
from lmc.ir.location import Location
from lmc.ir.target import Target
from lmc.passes.cost.calls import CertainCall, longest_call
from lmc.passes.cost.contexts import Computed, Tree
from lmc.passes.cost.intervals import Interval
from lmc.passes.cost.lengths import Length
from lmc.passes.cost.sharing import Blocked, blocked_prefixes
from lmc.passes.cost.states import root_prompt
from lmc.passes.cost.tally import Cost, Tally
from lmc.passes.cost.values import Abstract, Known, Unknown
from lmc.passes.cost.walk import CostWalk, Scene

MAX_TRIPS = 256
"""How many trips of a loop are followed before it counts as endless."""

MAX_OPS = 200_000
"""Ops that are followed before loops and recursion count as endless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Bounds on one run of a program; every run's figures lie within them.

    Attributes:
        cold: with an empty cache.
        warm: where the constant prefixes of the program are in the cache already.
        steps: decode steps one after another at the most, when all that can runs at once.
        lines: cold cost by place in the source.
        warm_lines: warm cost by place.
        unbounded: places without a bound, and why.
        blocked: arguments not given that stand before constant text (see sharing.py).
        constraints: what is known of the constraints of generations, by place.
        longest: the longest of the calls without which the run cannot end, by its least length;
            None where no call is certain.
    """

    cold: Cost
    warm: Cost
    steps: float
    lines: Mapping[Location | None, Cost]
    warm_lines: Mapping[Location | None, Cost]
    unbounded: Mapping[Location | None, str] = field(default_factory=dict[Location | None, str])
    blocked: Sequence[Blocked] = ()
    constraints: Mapping[Location | None, Length] = field(
        default_factory=dict[Location | None, Length]
    )
    longest: CertainCall | None = None

    @property
    def peak_tokens(self) -> float:
        """Tokens that the cache holds at the most."""
        return self.cold.held.high

    @property
    def prefill(self) -> Interval:
        """Context tokens computed with an empty cache."""
        return self.cold.prefill


def estimate_cost(
    module: Module,
    entry: str,
    target: Target,
    arguments: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    max_trips: int = MAX_TRIPS,
    max_ops: int = MAX_OPS,
    is_warm_wanted: bool = True,
) -> CostReport:
    """Bound what a program costs for the given arguments; one that is not given is unknown.

    `defaults` are the run's decode parameters; without `is_warm_wanted` the warm figures are the
    cold ones. The module should be the one that will run:
    what a pass moved or shared is counted as it stands.
    """
    function = module.functions[entry]
    walk = CostWalk(module, target, max_trips=max_trips, max_ops=max_ops)
    given: list[Abstract] = []
    unknown: dict[str, Unknown] = {}
    for param in function.params:
        if param.name in arguments:
            given.append(Abstract(Known(arguments[param.name])))
        elif param.has_default:
            given.append(Abstract(Known(param.default)))
        else:
            unknown[param.name] = walk.serials.unknown(math.inf)
            given.append(Abstract(unknown[param.name]))
    cold = Scene(Computed(Tree()), Tally())
    _, final, _ = walk.run(function, given, defaults or {}, cold)
    steps, longest = walk.latest, longest_call(walk, final.value)
    blocked = blocked_prefixes(walk, unknown)
    warm = cold
    if is_warm_wanted:
        warm = Scene(_constant_prefixes(walk), Tally())
        walk.run(function, given, defaults or {}, warm)
    return CostReport(
        cold=cold.tally.total,
        warm=warm.tally.total,
        steps=steps if cold.tally.total.decode.is_bounded else math.inf,
        lines=cold.tally.lines,
        warm_lines=warm.tally.lines,
        unbounded=cold.tally.unbounded,
        blocked=blocked,
        constraints=walk.constraints,
        longest=longest,
    )


def _constant_prefixes(walk: CostWalk) -> Computed:
    """Return a cache that holds every prologue of the module."""
    computed = Computed(Tree())
    for op in walk.module.walk():
        if op.name == "lm.prologue":
            pieces: Any = op.attributes["pieces"]
            computed.add(root_prompt(walk, pieces).symbols(walk.encoder, stable=True))
    return computed
