"""Runs that arrive one after another, as they come, instead of as a batch that is known.

Time is counted in engine steps, so that the load does not depend on the machine: the gaps between
arrivals are drawn from an exponential distribution by a fixed seed. Nobody is told of runs to
come, and each run's calls are asked when the program asks them.
"""

import random
import threading
from dataclasses import dataclass
from typing import Any

from sharing.measure import SEED, Run, owners_of
from sharing.replay import ReplayEngine, ReplayModel, words_of
from sharing.workloads import Workload

MEAN_GAPS = {"few-shot, MMLU": 0.5, "judge": 1.5, "generative agents": 2.0}
"""Engine steps between two arrivals, where runs are short: about four are there at once."""

MEAN_GAP = 6.0
"""The same for all others."""


class Clock(ReplayModel):
    """A replayed model that counts its steps and lets others wait for one."""

    def __init__(self, vocab_size: int, words: list[int]) -> None:
        super().__init__(vocab_size, words)
        self._moved = threading.Condition()
        self._steps = 0.0

    def forward(self, batch: Any, kv: Any) -> Any:
        """Compute as ReplayModel does; a step has passed."""
        result = super().forward(batch, kv)
        with self._moved:
            self._steps += 1
            self._moved.notify_all()
        return result

    def wait_until(self, step: float, handles: list[Any]) -> None:
        """Wait until a step; where no run is left to make steps, time goes on by itself."""
        with self._moved:
            while self._steps < step:
                if all(handle.is_done for handle in handles):
                    self._steps = step
                self._moved.wait(0.002)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A finished run of a workload, and how many instances were there when one arrived."""

    run: Run
    at_once: float


def arrival_steps(workload: Workload) -> list[float]:
    """Return the steps at which a workload's instances arrive; the same ones each time."""
    mean_gap = MEAN_GAPS.get(workload.name, MEAN_GAP)
    drawn = random.Random(SEED)
    steps: list[float] = []
    now = 0.0
    for _ in workload.batch:
        now += drawn.expovariate(1 / mean_gap)
        steps.append(now)
    return steps


def run_arriving(workload: Workload, target: Any, *, num_slots: int) -> Arrived:
    """Run a workload's instances as they arrive on a new engine of so many tokens."""
    tokenizer = target.tokenizer
    clock = Clock(tokenizer.vocab_size, words_of(tokenizer))
    handles: list[Any] = []
    there: list[int] = []
    with ReplayEngine(clock, target, workload.answer, num_slots=num_slots) as engine:
        for number, step in enumerate(arrival_steps(workload)):
            clock.wait_until(step, handles)
            there.append(sum(not handle.is_done for handle in handles))
            arguments = workload.batch[number]
            handles.append(
                workload.program.run(stream=True, backend=engine, seed=SEED + number, **arguments)
            )
        results = [handle.result() for handle in handles]
        run = Run(
            values=[result.value for result in results],
            calls=engine.log.calls,
            owners=owners_of(engine.log.calls, results),
            stats=engine.stats(),
            held_back=sum(result.usage.held_back_tokens for result in results),
            chain=max(result.usage.chain_steps for result in results),
        )
    return Arrived(run, sum(there) / len(there))
