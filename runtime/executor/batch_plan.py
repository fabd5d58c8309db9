"""BatchPlan: what many runs will ask before the first generation, and what they share.

The plan's own steps are carried out on a backend that never answers, without weights and
without host functions: what then stands waiting are the calls whose contexts are known. It is
the picture that the engine has of a batch at its start; later stages it sees as they come.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from lmc.codegen.plan import Plan
from lmc.errors import LmcError
from lmc.ir.calls import GenCall, ScoreCall
from lmc.ir.target import Backend, OnGen, OnPrefill, OnScore, OnText, Target
from lmc.ir.token_trie import trie_size
from lmc.runtime.executor.code import Operation, PlanCode
from lmc.runtime.executor.executor import bind_arguments, checked_defaults
from lmc.runtime.executor.frame import Scope
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.host_ops import HOST_OPERATIONS
from lmc.runtime.executor.instance import Instance
from lmc.runtime.executor.loop import Loop
from lmc.runtime.executor.opening import Opening
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.slots import Ready, known
from lmc.runtime.executor.task import Task, open_frame

MAX_FIRES = 200_000
"""Steps of one instance after which it is taken as it stands: a loop may never end."""

FEW_FIRES = 5_000
"""The same where the order of starting is all that is wanted."""

EFFECTS = frozenset({"host.call", "host.method"})
"""Steps that call functions whose order may be seen."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call that can be asked before any generation: whose it is, where, how long."""

    instance: int
    site: str
    context: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The calls of a batch that are known ahead, in the order in which they share most.

    Attributes:
        num_instances: runs in the batch.
        calls: depth first through the trie of their contexts: each prefix is computed once,
            and none is needed again once the calls have moved on from it.
    """

    num_instances: int
    calls: tuple[PlannedCall, ...]

    @property
    def context_tokens(self) -> int:
        """Sum of the contexts: what is computed without sharing."""
        return sum(len(call.context) for call in self.calls)

    @property
    def trie_tokens(self) -> int:
        """Distinct prefixes of the contexts: what is computed at the least."""
        return trie_size(call.context for call in self.calls)

    @property
    def shared_tokens(self) -> int:
        """Tokens that need not be computed again."""
        return self.context_tokens - self.trie_tokens

    @property
    def order(self) -> tuple[int, ...]:
        """The instances by their first planned call; those without one are left out."""
        return tuple(dict.fromkeys(call.instance for call in self.calls))

    @property
    def peak_tokens(self) -> int:
        """Tokens to hold at a time when calls go one after another: the longest context."""
        return max((len(call.context) for call in self.calls), default=0)

    def as_data(self) -> dict[str, Any]:
        """Return the figures and the order as plain data."""
        names = ("context_tokens", "trie_tokens", "shared_tokens", "peak_tokens")
        figures: dict[str, Any] = {name: getattr(self, name) for name in names}
        return {"calls": len(self.calls), **figures, "order": list(self.order)}

    def __str__(self) -> str:
        calls = f"{len(self.calls)} calls of {self.num_instances} runs before any generation"
        sizes = f"{self.context_tokens:,} tokens of contexts, {self.trie_tokens:,} in their trie"
        saved = f"{self.shared_tokens:,} are shared"
        peak = f"{self.peak_tokens:,} at a time suffice one after another"
        return f"batch: {calls}: {sizes}: {saved}; {peak}"


def plan_batch(
    plan: Plan,
    entry: str,
    target: Target,
    batch: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, Any] | None = None,
) -> BatchPlan:
    """Return what is known of a batch before it runs.

    Args:
        plan: lowered for `target`.
        entry: name of the program.
        target: tokenizer and template.
        batch: one set of arguments per run.
        defaults: decode parameters for generations that do not set their own.

    Raises:
        UsageError: arguments or parameters that do not fit.
    """
    code = PlanCode(plan, {**OPERATIONS, **_UNANSWERED})
    calls: list[PlannedCall] = []
    for number, args in enumerate(batch):
        calls += _known_calls(code, entry, target, args, number, checked_defaults(defaults))
    calls.sort(key=lambda call: (call.context, call.instance))
    return BatchPlan(len(batch), tuple(calls))


def start_order(
    plan: Plan,
    entry: str,
    target: Target,
    batch: Sequence[Mapping[str, Any] | LmcError],
    defaults: Mapping[str, Any],
) -> list[int]:
    """Return the order in which to start the runs of a batch: through the trie, depth first.

    Runs whose first calls share most come one after another. Where a program calls functions
    that may have effects, it is the batch's own order.
    """
    if not EFFECTS.isdisjoint(step.op for step in plan.steps(entry)):
        return list(range(len(batch)))
    code = PlanCode(plan, {**OPERATIONS, **_UNANSWERED})
    first: dict[int, tuple[int, ...]] = {}
    for number, args in enumerate(batch):
        if isinstance(args, LmcError):
            continue
        try:
            checked = checked_defaults(defaults)
            calls = _known_calls(code, entry, target, args, number, checked, FEW_FIRES)
        except LmcError:
            continue  # told where the run starts
        first[number] = min((call.context for call in calls), default=())
    return sorted(range(len(batch)), key=lambda number: (first.get(number, ()), number))


def _leave(task: Task) -> None:
    """Leave a step's outputs to come: its function is not called ahead."""


_UNANSWERED: dict[str, Operation] = {
    name: replace(operation, act=_leave)
    for name, operation in HOST_OPERATIONS.items()
    if name != "host.matches"
}


def _known_calls(
    code: PlanCode,
    entry: str,
    target: Target,
    args: Mapping[str, Any],
    number: int,
    defaults: dict[str, Any],
    max_fires: int = MAX_FIRES,
) -> list[PlannedCall]:
    """Return the calls that one run asks while nothing is answered."""
    function = code.plan.functions[entry]
    loop, backend = _StillLoop(), _Unanswering(target)
    instance = Instance(seed=0, number=number)
    run = Run(cast(Loop, loop), cast(Backend, backend), code, HostFunctions({}), instance)
    arguments = [known(None), *map(known, bind_arguments(function, args))]
    open_frame(run, code.body(entry), arguments, (), (), Scope((), defaults))
    for _ in range(max_fires):
        if not loop.ready:
            run.begin_next()
        if not loop.ready:
            break
        loop.ready.popleft()()
    return [PlannedCall(number, call.site, call.context) for call in backend.asked]


class _StillLoop:
    """Stands for a run's loop: what is ready is fired by the one who looks."""

    def __init__(self) -> None:
        self.ready: Ready = deque()
        self.opening = Opening(cast(Loop, self))

    def post(self, function: Any) -> None:
        """Queue a function."""
        self.ready.append(function)


class _Unanswering:
    """A backend that lists calls and answers none; prefixes count as computed."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.asked: list[GenCall | ScoreCall] = []

    def submit_gen(self, call: GenCall, on_done: OnGen, on_text: OnText | None = None) -> "_Open":
        """List a generation."""
        self.asked.append(call)
        return _Open()

    def submit_score(self, call: ScoreCall, on_done: OnScore) -> "_Open":
        """List the scoring of options."""
        self.asked.append(call)
        return _Open()

    def submit_prefill(self, context: tuple[int, ...], on_done: OnPrefill) -> "_Open":
        """Go on at once."""
        on_done(_Nothing())
        return _Open()


class _Open:
    """The ticket of a call that is never answered."""

    def cancel(self) -> None:
        """Do nothing."""


class _Nothing:
    """A prefix for which nothing was computed."""

    computed_tokens = 0

    def release(self) -> None:
        """Do nothing."""
