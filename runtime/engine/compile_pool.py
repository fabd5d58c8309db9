"""CompilePool: threads that make constraints ready, each within a time limit.

What is not small is compiled by other processes (`ir/languages/process.py`); the
threads wait for them, and do the rest. A thread cannot be killed. So a job that is too late is
given up: whoever waits for it is told, its thread is left to itself, and another one takes its
place. Threads are daemons, so that one that hangs keeps neither the engine nor the process from
ending.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lmc.ir.calls import Constraint
from lmc.ir.languages.compiling import compile_here
from lmc.ir.target import Target
from lmc.runtime.constraint.cache import ConstraintCache, bind, prepare_vocabulary
from lmc.runtime.engine.generation import CompiledConstraint

NUM_WORKERS = 2

MAX_HUNG = 16
"""Threads that may be left to themselves; with more, jobs only wait until they are too late."""


@dataclass(slots=True, eq=False)
class _Job:
    """What is to be done, and whom to tell when it is too late."""

    work: Callable[[], None]
    on_late: Callable[[], None]
    deadline: float


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread and the job that it is at."""

    thread: threading.Thread = field(init=False)
    job: _Job | None = None
    is_hung: bool = False


class CompilePool:
    """See the module's text.

    Args:
        seconds: time that a job may take, waiting included.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._pending: deque[_Job] = deque()
        self._workers: list[_Worker] = []
        self._clock: threading.Thread | None = None
        self._is_closing = False

    def submit(self, work: Callable[[], None], on_late: Callable[[], None]) -> bool:
        """Do `work` on a thread, or call `on_late` once its time is over; False when closed."""
        job = _Job(work, on_late, time.monotonic() + self._seconds)
        with self._changed:
            if self._is_closing:
                return False
            self._queue.append(job)
            self._pending.append(job)
            self._add_workers()
            if self._clock is None:
                self._clock = threading.Thread(
                    target=self._watch, name="lmc-constraint-clock", daemon=True
                )
                self._clock.start()
            self._changed.notify_all()
        return True

    def close(self) -> None:
        """Begin nothing more; what is running goes on."""
        with self._changed:
            self._is_closing = True
            self._queue.clear()
            self._pending.clear()
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the threads, after `close`; those that hang are left after some seconds."""
        deadline = time.monotonic() + seconds
        threads = [worker.thread for worker in self._workers if not worker.is_hung]
        for thread in [*threads, self._clock]:
            if thread is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _add_workers(self) -> None:
        """Start threads for what waits, beside those that hang."""
        self._workers = [each for each in self._workers if each.thread.is_alive()]
        hung = sum(each.is_hung for each in self._workers)
        idle = sum(each.job is None for each in self._workers)
        fresh = min(len(self._queue) - idle, NUM_WORKERS - (len(self._workers) - hung))
        for _ in range(fresh if hung <= MAX_HUNG else 0):
            worker = _Worker()
            worker.thread = threading.Thread(
                target=self._work, args=(worker,), name="lmc-constraint", daemon=True
            )
            self._workers.append(worker)
            worker.thread.start()

    def _work(self, worker: _Worker) -> None:
        """Do jobs until closed, or until one was too late."""
        while not worker.is_hung:
            with self._changed:
                while not self._queue and not self._is_closing:
                    self._changed.wait()
                if self._is_closing:
                    return
                job = worker.job = self._queue.popleft()
            try:
                job.work()
            finally:
                with self._changed:
                    worker.job = None
                    if job in self._pending:
                        self._pending.remove(job)

    def _watch(self) -> None:
        """Give up the jobs that are too late, the oldest first."""
        while True:
            with self._changed:
                if self._is_closing:
                    return
                if not self._pending:
                    self._changed.wait()
                    continue
                left = self._pending[0].deadline - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                job = self._pending.popleft()
                self._give_up(job)
            job.on_late()

    def _give_up(self, job: _Job) -> None:
        """Take a job out, or leave its thread to itself."""
        if job in self._queue:
            self._queue.remove(job)
        for worker in self._workers:
            if worker.job is job:
                worker.is_hung = True
        self._add_workers()


def make_compiler(
    target: Target, *, reuse: bool, seconds: float
) -> Callable[[Constraint], CompiledConstraint]:
    """Return what compiles constraints for a target's tokenizer.

    What all constraints of the vocabulary share is made here, before anybody waits for answers.

    Args:
        target: gives the tokenizer.
        reuse: whether equal constraints share their compiled form.
        seconds: time that a process may take for one.
    """

    prepare_vocabulary(target.tokenizer)
    if not reuse:
        return lambda constraint: bind(compile_here(constraint), target.tokenizer)
    return ConstraintCache(target.tokenizer, seconds=seconds).get
