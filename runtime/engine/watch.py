"""Watch: takes note of steps and ended requests, for metrics and for a trace that is written."""

import dataclasses
import itertools
import time
from typing import TYPE_CHECKING, Any

from lmc.errors import Cancelled
from lmc.ir.calls import CallUsage
from lmc.runtime.cache.page_pool import Owner
from lmc.runtime.engine.metrics import Metrics
from lmc.runtime.engine.request import Request
from lmc.runtime.engine.step_plan import StepPlan
from lmc.runtime.exactness import Exactness
from lmc.runtime.tracing import Trace, active_trace, request_events, step_events

if TYPE_CHECKING:
    from lmc.runtime.engine.core import EngineCore

_numbers = itertools.count(1)


class Watch:
    """What one engine tells of itself; belongs to the engine's thread."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self._number = next(_numbers)

    def stepped(self, plan: StepPlan, begun: float, num_running: int, num_waiting: int) -> None:
        """Take note of a step whose forward pass has just ended; its sequences stand still yet."""
        ended = time.perf_counter()
        self.metrics.note_step(ended - begun, plan.num_tokens)
        trace = active_trace()
        if trace is None:
            return
        prefills = [part.length for part in plan.extends if part.start < part.seq.prefill_len]
        num_tokens = sum(prefills)
        tokens = (num_tokens, plan.num_tokens - num_tokens)
        sequences = (len(prefills), len(plan.extends) - len(prefills))
        queue = (num_running, num_waiting)
        trace.add(step_events, self._number, (begun, ended), tokens, sequences, queue)

    def ended(self, request: Request, outcome: object) -> None:
        """Take note of a request that has ended."""
        usage = getattr(outcome, "usage", None)
        if isinstance(usage, CallUsage):
            self.metrics.note_call(usage, request.gaps)
        trace = active_trace()
        if trace is not None:
            _trace_request(trace, request, outcome, usage)


def _trace_request(trace: Trace, request: Request, outcome: object, usage: Any) -> None:
    call = getattr(request, "call", None)
    hint = getattr(call, "hint", None)
    details: dict[str, Any] = {"run": hint.run, "program": hint.program} if hint else {}
    if isinstance(usage, CallUsage):
        counts = {field.name: getattr(usage, field.name) for field in dataclasses.fields(usage)}
        details |= {name: count for name, count in counts.items() if isinstance(count, int)}
    details["preemptions"] = sum(seq.num_preemptions for seq in request.sequences)
    moments = (request.submitted_at, request.started_at, request.first_token_at, request.ended_at)
    name = getattr(call, "site", "") or type(request).__name__.lower()
    trace.add(request_events, name, _in_words(outcome), moments, details)


def _in_words(outcome: object) -> str:
    if isinstance(outcome, Cancelled):
        return "cancelled"
    if isinstance(outcome, BaseException):
        return f"failed: {outcome!s:.200}"
    return getattr(outcome, "finish_reason", "done")


def gauges_of(core: "EngineCore", exactness: Exactness) -> dict[str, tuple[str, float]]:
    """Return what an engine holds now, by name: its meaning and its value."""
    pool = core.cache.pool
    return {
        "running_sequences": ("Sequences that hold KV memory.", len(core.scheduler.running)),
        "waiting_sequences": ("Sequences that wait.", len(core.scheduler.waiting)),
        "kv_slots": ("Tokens of KV memory in all.", pool.num_slots),
        "kv_slots_free": ("Tokens of KV memory that nobody owns.", pool.num_free),
        "kv_slots_cached": ("Tokens in the prefix cache.", pool.num_owned(Owner.TREE)),
        "exact": ("1 where results were proved exact on this machine.", int(exactness.is_exact)),
    }
