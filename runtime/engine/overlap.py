"""Overlap: forward passes run on a thread of their own, while the engine's chooses the next step.

A pass is *in flight* from its launch until it has landed. The engine's thread touches nothing
meanwhile: events wait in its inbox, and choosing ahead has no effects. So whatever ends, what
a launched step reads and writes is freed, moved or written to only when it has landed, and
there is never more than one in flight. In debug mode that is verified.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.cache.page_pool import PageOwnershipError
from lmc.runtime.engine.plan_ahead import PlanAhead
from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.step_plan import StepPlan

LogitRows = NDArray[np.float32]
Forward = Callable[[StepPlan], LogitRows]


def outcome_of(forward: Forward, plan: StepPlan) -> LogitRows | Exception:
    """Return what a pass gives: its logits, or what it raised."""
    try:
        return forward(plan)
    except Exception as error:
        return error


class ForwardThread:
    """A thread that computes steps, one at a time.

    Args:
        forward: computes a step.
    """

    def __init__(self, forward: Forward) -> None:
        self._forward = forward
        self._plans: SimpleQueue[StepPlan | None] = SimpleQueue()
        self._outcomes: SimpleQueue[LogitRows | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lmc-forward", daemon=True)
        self._thread.start()

    def launch(self, plan: StepPlan) -> None:
        """Have a step computed."""
        self._plans.put(plan)

    def land(self) -> LogitRows | Exception:
        """Wait for the step that was launched; return its logits, or what it raised."""
        outcome = self._outcomes.get()
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the thread; nothing may be in flight."""
        self._plans.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (plan := self._plans.get()) is not None:
            try:
                self._outcomes.put(outcome_of(self._forward, plan))
            except BaseException as error:
                self._outcomes.put(error)  # the engine's thread raises it


class Overlap:
    """Computes steps, each beside the choice of the next where that can be chosen ahead.

    Args:
        forward: computes a step.
        scheduler: chooses steps.
        is_debug: whether to verify that nothing is touched that is in flight.
    """

    def __init__(self, forward: Forward, scheduler: Scheduler, *, is_debug: bool) -> None:
        self._forward = forward
        self._scheduler = scheduler
        self._is_debug = is_debug
        self._thread: ForwardThread | None = None
        self.ahead = PlanAhead(scheduler)

    def compute(self, plan: StepPlan) -> LogitRows | Exception:
        """Return a step's logits, or what the pass raised.

        Raises:
            PageOwnershipError: in debug mode, something in flight was touched.
        """
        if not self.ahead.is_of_use(plan):
            return outcome_of(self._forward, plan)
        if self._thread is None:
            self._thread = ForwardThread(self._forward)
        flight = Flight(plan, self._scheduler) if self._is_debug else None
        self._thread.launch(plan)
        try:
            self.ahead.assume(plan)
        except MemoryError:
            pass  # the step is chosen when this one has landed, as without overlap
        finally:
            outcome = self._thread.land()
        if flight is not None:
            flight.landed()
        return outcome

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.close()


class Flight:
    """What a launched step reads and writes, to verify that nobody touches it meanwhile.

    Args:
        plan: the step.
        scheduler: has its page table and its cache, which refuses to free what is in flight.
    """

    def __init__(self, plan: StepPlan, scheduler: Scheduler) -> None:
        self._cache, self._table = scheduler.cache, scheduler.page_table
        self._rows = [(part.seq.row, part.end) for part in plan.extends]
        self._slots = self._used()
        self._cache.in_flight = np.concatenate(self._slots)

    def landed(self) -> None:
        """Let the slots go.

        Raises:
            PageOwnershipError: the page table is another where the step has read it.
        """
        self._cache.in_flight = None
        for before, now in zip(self._slots, self._used(), strict=True):
            if (before != now).any():
                raise PageOwnershipError("the page table was changed while a step was in flight")

    def _used(self) -> list[NDArray[np.int32]]:
        return [self._table[row, :end].copy() for row, end in self._rows]
