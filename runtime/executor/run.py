"""Run: one instance of a program while it runs: its open calls, its events, its end."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from lmc.errors import Cancelled, LmcError, RunError
from lmc.ir.calls import CallHint, CallUsage, GenCall, GenResult, ScoreCall
from lmc.ir.target import Backend, Prefill
from lmc.runtime.executor.code import CodeStep, PlanCode
from lmc.runtime.executor.frontier import Frontier
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.instance import Instance, OnEvent
from lmc.runtime.executor.loop import Loop
from lmc.runtime.executor.slots import Failure, Order
from lmc.runtime.executor.speculation import Speculator
from lmc.runtime.executor.switches import ALL, Switches
from lmc.runtime.origins import Origin
from lmc.runtime.prompt_state import Lineage
from lmc.runtime.tracing import Trace, active_trace, call_events

if TYPE_CHECKING:
    from lmc.runtime.executor.task import Task

HOST = object()
"""Stands among the open calls for a host function."""

_run_numbers = itertools.count(1)
_call_numbers = itertools.count(1)

MANY_CALLS = 256
"""Open calls that keep a run from beginning what it put off."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A model call to be submitted; arguments as in `Run.ask`."""

    call: GenCall | ScoreCall
    order: Order
    on_answer: Callable[[Any], None]
    on_text: Callable[[str], None] | None

    def refused(self) -> None:
        """Answer that the call is not needed any more."""
        self.on_answer(Cancelled("the run has failed before"))


class Run:
    """The part of a run that all its frames share; belongs to the loop's thread.

    Attributes:
        is_closed: the run has ended: tasks stop, answers that still come are dropped.
        failure: the first failure so far, in program order, that will end the run.
        frontier: the steps that may still fail.
        needed: what effects rest on, which count as needed whatever is read later.
        asked: in eager mode, what the answers of generations rest on.
        pins: prefixes that are kept computed; given back when the run closes.
        chain_steps: decode steps of the longest chain of calls so far, each of them asked
            when the one before had been answered.
        switches: what is left out.
        number: this run's number in the process, by which a backend knows its calls.
        program: the name of the program, for the same purpose.
    """

    def __init__(
        self,
        loop: Loop,
        backend: Backend,
        code: PlanCode | None,
        host: HostFunctions,
        instance: Instance,
        switches: Switches = ALL,
    ) -> None:
        self.loop = loop
        self.switches = switches
        self.ready = loop.ready
        self.backend = backend
        self.code = code
        self.host = host
        self.seed = instance.seed
        self.instance = instance.number
        self.timeout = instance.timeout
        self.tenant = instance.tenant
        self.on_event: OnEvent | None = instance.on_event
        self.on_variable = instance.on_variable
        self.profile = instance.profile
        self.speculator = Speculator(self, instance.speculate)
        self.event_error: BaseException | None = None
        self.on_abort: Callable[[BaseException], None] | None = None
        self.is_closed = False
        self.failure: Failure | None = None
        self.on_progress: Callable[[], None] | None = None
        self.frontier = Frontier(self._progress)
        self.started = time.monotonic()
        self.usages: list[CallUsage] = []
        self.first_token: float | None = None
        self.prologue_tokens = 0
        self.shared_tokens = 0
        self.held_back_tokens = 0
        self.chain_steps = 0
        self.pins: list[Any] = []
        self.number = next(_run_numbers)
        self.program = ""
        self.needed: list[Origin | None] = []
        self.asked: dict[Order, Sequence[Origin]] = {}
        self._numbers = itertools.count()
        self._open: dict[int, Any] = {}
        self._orders: dict[int, Order] = {}
        self._sites: dict[int, str] = {}
        self._on_drained: Callable[[], None] | None = None
        self._later: list[tuple[Order, int, Task, Callable[[], None]]] = []
        self._queued: list[tuple[Order, int, Ask]] = []

    @property
    def num_open(self) -> int:
        """Calls, prefills and host functions that have not come back."""
        return len(self._open)

    def ask(
        self,
        call: GenCall | ScoreCall,
        order: Order,
        on_answer: Callable[[Any], None],
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        """Submit a model call; `on_answer` gets its result or an exception, on the loop.

        `order` is the place of the asking step in program order.
        """
        asked = Ask(call, order, on_answer, on_text)
        if self.switches.parallel:
            self._submit(asked)
        else:
            heappush(self._queued, (order, next(self._numbers), asked))

    def _submit(self, asked: "Ask") -> None:
        call, on_text = asked.call, asked.on_text
        if self.is_beyond(asked.order):
            self.ready.append(asked.refused)
            return
        submitted, before = time.monotonic(), self.chain_steps
        started = self.speculator.take(call) if isinstance(call, GenCall) else None
        if started is not None:
            before = started.chain_before

        def answered(result: Any) -> None:
            begun = submitted if started is None else started.started
            self._count(result, submitted, begun, before)
            asked.on_answer(_told(result))

        def submit(done: Callable[[Any], None]) -> Any:
            if isinstance(call, ScoreCall):
                return self.backend.submit_score(call, done)
            tell = on_text and partial(self._text, on_text)
            if started is None:
                return self.backend.submit_gen(call, done, tell)
            started.hand_over(done, tell)
            return started.ticket

        if started is None:
            submit = self.loop.opening.holding(call.context, submit)
        self.begin(submit, answered, order=asked.order, site=call.site)

    def hint(self, before: int, liveness: Mapping[str, Any] | None = None) -> CallHint:
        """Return what is known of a new call that continues a prompt.

        Args:
            before: number of the call that left the prompt; 0 for none.
            liveness: what the `liveness` pass found, if it ran.
        """
        found = liveness or {}
        return CallHint(
            run=self.number,
            program=self.program,
            before=before,
            number=next(_call_numbers),
            context=found.get("context", "unknown"),
            result=found.get("result", "unknown"),
            remaining=found.get("remaining", 0),
            tenant=self.tenant,
        )

    def is_beyond(self, order: Order) -> bool:
        """Whether a step comes after a failure that will end the run."""
        return self.failure is not None and order > self.failure.order

    def fail(self, failure: Failure) -> None:
        """Note a failure that ends the run, unless an earlier step still fails.

        Calls behind it are cancelled; earlier ones go on.
        """
        if self.is_beyond(failure.order):
            return
        self.failure = failure
        self.cancel_calls(failure.order)
        self._progress()

    def cancel_calls(self, after: Order, before: Order | None = None) -> None:
        """Cancel the open model calls of steps behind a place, and before another if given."""
        for number, place in list(self._orders.items()):
            ticket = self._open.get(number)
            if place > after and (before is None or place < before) and ticket is not None:
                ticket.cancel()
        for entry in list(self._queued):
            if entry[0] > after and (before is None or entry[0] < before):
                self._queued.remove(entry)
                self.ready.append(entry[2].refused)
        heapify(self._queued)

    def abort(self, error: BaseException) -> None:
        """End the run at once: a bug of ours, or a failure of the caller's own listener."""
        if self.on_abort is not None:
            self.on_abort(error)

    def begin_later(self, task: "Task", begin: Callable[[], None]) -> None:
        """Have a task begin once nothing is ready: the first in program order before others."""
        heappush(self._later, (task.order, next(self._numbers), task, begin))

    def begin_next(self) -> None:
        """Begin what was put off: the next call in program order, or what `begin_later` got.

        A call that waits for its turn is asked once nothing else is out.
        """
        if self._queued and not self._open:
            if not self._later or self._queued[0][0] < self._later[0][0]:
                self.ready.append(partial(self._submit, heappop(self._queued)[2]))
                return
        while self._later and self.num_open < MANY_CALLS:
            _, _, task, begin = heappop(self._later)
            if not self.is_closed and not task.is_beyond():
                self.ready.append(partial(task.finish, begin))
                return

    def _progress(self) -> None:
        if self.on_progress is not None and (self.failure is not None or self.frontier.is_empty):
            self.on_progress()

    def begin(
        self,
        submit: Callable[[Callable[[Any], None]], Any],
        on_answer: Callable[[Any], None],
        *,
        is_host: bool = False,
        order: Order | None = None,
        site: str | None = None,
    ) -> None:
        """Start something outside; `submit` gets the function to call with its result.

        What `submit` returns is cancelled when the run closes. A host function cannot be
        cancelled, and the end of the run does not wait for it. `site` tells people what it is.
        """
        number = next(self._numbers)
        self._open[number] = HOST if is_host else None
        trace = active_trace() if site is not None else None
        if trace is not None:
            on_answer = self._traced(trace, site or "", on_answer)
        if order is not None:
            self._orders[number] = order
        if site is not None:
            self._sites[number] = site

        def done(result: Any) -> None:
            self.loop.post(partial(self._answered, number, on_answer, result))

        try:
            ticket = submit(done)
        except LmcError as error:
            done(error)
            return
        if number in self._open and not is_host:
            self._open[number] = ticket

    def _traced(
        self, trace: Trace, site: str, on_answer: Callable[[Any], None]
    ) -> Callable[[Any], None]:
        """Return what takes an answer and puts its call into a trace."""
        asked = time.perf_counter()

        def answered(result: Any) -> None:
            trace.add(call_events, site, self.number, self.program, asked, time.perf_counter())
            on_answer(result)

        return answered

    def _text(self, on_text: Callable[[str], None], piece: str) -> None:
        self.loop.post(partial(self._deliver, on_text, piece))

    def _deliver(self, on_text: Callable[[str], None], piece: str) -> None:
        if not self.is_closed:
            on_text(piece)

    def _answered(self, number: int, on_answer: Callable[[Any], None], result: Any) -> None:
        del self._open[number]
        self._orders.pop(number, None)
        self._sites.pop(number, None)
        if not self.is_closed:
            on_answer(result)
        else:
            if isinstance(result, Prefill):
                # It was computed before its cancellation came; nobody else would unpin it.
                result.release()
            self._drain()

    def _drain(self) -> None:
        if self._on_drained is not None and all(held is HOST for held in self._open.values()):
            on_drained, self._on_drained = self._on_drained, None
            end_run = getattr(self.backend, "end_run", None)
            if end_run is not None:
                end_run(self.number)
            on_drained()

    def _count(self, result: Any, asked: float, begun: float, chain_before: int) -> None:
        """Count an answer; one that was started ahead had begun before it was asked for."""
        usage = getattr(result, "usage", None)
        if usage is None:
            return
        self.usages.append(usage)
        if isinstance(result, GenResult):
            self.chain_steps = max(self.chain_steps, chain_before + usage.decode_steps)
        if usage.first_token_seconds > 0:
            first = max(asked, begun + usage.first_token_seconds) - self.started
            self.first_token = first if self.first_token is None else min(self.first_token, first)

    def note_call(self, step: CodeStep, name: str | None, result: Any) -> None:
        """Count the answer of a step's call in the profile, if one is recorded."""
        usage = getattr(result, "usage", None)
        if self.profile is not None and usage is not None:
            self.profile.note_call(step.location, step.op, name or "", usage)

    def note_branch(self, step: CodeStep, is_first: bool) -> None:
        """Count the arm that a branch takes in the profile, if one is recorded."""
        if self.profile is not None:
            self.profile.note_branch(step.location, step.test, is_first)

    def open_sites(self) -> list[str]:
        """Return what the run is waiting for outside, in words, in the order of asking."""
        return list(self._sites.values())

    def emit(self, kind: str, name: str | None, text: str, lineage: Lineage) -> None:
        """Tell the listener about text; what it raises ends the run."""
        if self.on_event is None or not text or self.event_error is not None:
            return
        try:
            self.on_event(kind, name, text, lineage)
        except Exception as error:
            # The listener's failure is the caller's own; it is raised where they wait.
            self.event_error = error
            self.abort(error)

    def tell_variable(self, name: str, value: Any, meta: Any, lineage: Lineage) -> None:
        """Tell the listener that a call has set a variable."""
        if self.on_variable is not None:
            self.on_variable(name, value, meta, lineage)

    def close(self, on_drained: Callable[[], None]) -> None:
        """End the run: cancel what is open, then call `on_drained` once all came back."""
        self.is_closed = True
        self.speculator.close()
        if self.profile is not None:
            self.profile.note_run(self.speculator.tokens())
        for pin in self.pins:
            pin.release()
        self.pins.clear()
        self._on_drained = on_drained
        for ticket in list(self._open.values()):
            if ticket is not None and ticket is not HOST:
                ticket.cancel()
        self._drain()


def _told(result: Any) -> Any:
    """Return an answer; an exception of a backend's or a script's own as an error of the call."""
    if not isinstance(result, Exception) or isinstance(result, LmcError):
        return result
    made = RunError(f"{type(result).__name__}: {result}")
    made.__cause__ = result
    return made
