"""A long run of an engine whose memory is always full, with clients that leave and that abort.

    python tests/soak.py --minutes 30

Clients run programs on a tiny random model. Every fifth run is left before its stream has
ended, every tenth is cancelled. The report tells what was counted; `check` raises where
something leaked, ended twice or never, or waited for too long.
"""

import argparse
import random
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cost_runs import tiny_model

import lmc
from lmc.codegen.target import oracle_target
from lmc.errors import Cancelled
from lmc.runtime.cache.page_pool import Owner
from lmc.runtime.engine.engine import Engine

MAX_WAIT = 30.0
"""Seconds that a call may take."""

MAX_GROWTH = 0.01
"""Part by which resident memory may grow after the warm-up."""

WORDS = "rain bread stone river lamp north cloud paper salt green seven window".split()


@lmc.function
def talk(s, topic: str, question: str):
    s += "You answer in a few words. The topic is: " + topic + ".\nQuestion: " + question
    s += "\nAnswer: " + lmc.gen("answer", max_tokens=24)
    forks = s.fork(2)
    forks[0] += "\nWhy? " + lmc.gen("why", max_tokens=12)
    forks[1] += "\nIn a number: " + lmc.gen("number", max_tokens=6, regex="-?[0-9]+")
    s += (
        "\n"
        + forks[0]["why"]
        + forks[1]["number"]
        + "\nIs that good? "
        + lmc.select("good", ["yes", "no"])
    )


class WatchedEngine(Engine):
    """An engine that counts how often each call ends, and how long it took at the most."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.num_calls = 0
        self.num_ends = 0
        self.num_double = 0
        self.longest = 0.0
        self._counting = threading.Lock()
        super().__init__(*args, **options)

    def submit_gen(self, call: Any, on_done: Any, on_text: Any = None, **options: Any) -> Any:
        """Count a generation."""
        return super().submit_gen(call, self._watch(on_done), on_text, **options)

    def submit_score(self, call: Any, on_done: Any) -> Any:
        """Count a score."""
        return super().submit_score(call, self._watch(on_done))

    def _watch(self, on_done: Callable[[Any], None]) -> Callable[[Any], None]:
        begun, ends = time.perf_counter(), []
        with self._counting:
            self.num_calls += 1

        def ended(outcome: Any) -> None:
            ends.append(1)
            with self._counting:
                self.num_ends += 1
                self.num_double += len(ends) > 1
                self.longest = max(self.longest, time.perf_counter() - begun)
            on_done(outcome)

        return ended


@dataclass
class Report:
    """What a soak has counted; `samples` are (seconds, resident bytes, free slots).

    With overlap `steps_ahead` of the steps were chosen ahead.
    """

    seconds: float = 0.0
    runs: int = 0
    left: int = 0
    aborted: int = 0
    calls: int = 0
    ends: int = 0
    double_ends: int = 0
    longest: float = 0.0
    preemptions: int = 0
    leaked: int = 0
    steps: int = 0
    steps_ahead: int | None = None
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    @property
    def steady(self) -> list[tuple[float, int, int]]:
        """The samples after the warm-up: a third of the time."""
        return [each for each in self.samples if each[0] > self.seconds / 3]

    @property
    def growth(self) -> float:
        """Part by which resident memory grew between the first and last third of `steady`."""
        sizes = [size for _, size, _ in self.steady]
        third = max(1, len(sizes) // 3)
        return statistics.median(sizes[-third:]) / statistics.median(sizes[:third]) - 1

    def check(self, num_slots: int, *, max_growth: float = MAX_GROWTH) -> None:
        """Raise AssertionError where something is wrong."""
        assert not self.errors, self.errors[:3]
        assert (self.ends, self.double_ends) == (self.calls, 0), "a call ended twice or never"
        assert self.leaked == 0, f"{self.leaked} slots belong to requests that are gone"
        assert self.longest < MAX_WAIT, f"a call took {self.longest:.1f} s"
        free = statistics.median(free for _, _, free in self.steady)
        assert free < 0.1 * num_slots, "the pool was not full"
        wanted = self.preemptions if self.steps_ahead is None else self.steps_ahead
        assert min(self.left, self.aborted, wanted) > 0
        assert self.growth < max_growth, f"memory grew by {self.growth:.2%}"

    def __str__(self) -> str:
        sizes = [size / 2**20 for _, size, _ in self.steady]
        return (
            f"{self.seconds:.0f} s: {self.runs} runs, {self.left} left early, {self.aborted} "
            f"aborted; {self.calls} calls, {self.ends} ended, {self.double_ends} twice; longest "
            f"call {self.longest:.1f} s; {self.preemptions} preemptions; {self.leaked} slots "
            f"leaked; {self.steps} steps, {self.steps_ahead or 0} chosen ahead; "
            f"resident {min(sizes):.1f} to {max(sizes):.1f} MiB, growth {self.growth:+.2%}"
        )


def soak(
    minutes: float, *, clients: int = 64, num_slots: int = 1500, overlap: bool = False
) -> Report:
    """Run clients for some minutes; return what was counted."""
    report, counting = Report(), threading.Lock()
    engine = WatchedEngine(
        tiny_model(), oracle_target(), num_slots=num_slots, token_budget=128, max_running=16,
        overlap=overlap,
    )  # fmt: skip
    num_tenants = 1 if overlap else 4  # steps of several are not chosen ahead
    begun = time.monotonic()
    is_over = threading.Event()

    def client(number: int) -> None:
        draw = random.Random(number)
        while not is_over.is_set():
            try:
                kind = run_once(engine, draw, f"t{number % num_tenants}")
            except BaseException as error:
                report.errors.append(error)
                return
            with counting:
                report.runs += 1
                report.left += kind == "left"
                report.aborted += kind == "aborted"

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    while time.monotonic() - begun < 60 * minutes and not report.errors:
        time.sleep(1.0)
        free = engine._core.cache.pool.num_free
        report.samples.append((time.monotonic() - begun, resident(), free))
    is_over.set()
    for thread in threads:
        thread.join()
    report.seconds = time.monotonic() - begun
    finish(engine, report)
    return report


def run_once(engine: Engine, draw: random.Random, tenant: str) -> str:
    """Run one program; return how it went."""
    fate = draw.random()
    kind = "left" if fate < 0.2 else "aborted" if fate < 0.3 else "whole"
    topic = " ".join(draw.choices(WORDS, k=draw.randint(1, 3)))
    question = " ".join(draw.choices(WORDS, k=draw.randint(1, 40)))
    handle = talk.run(topic, question, stream=True, backend=engine, tenant=tenant,
                      seed=draw.randrange(1000))  # fmt: skip
    with handle as run:
        if kind == "left":
            pieces = run.text_iter()
            for _ in range(draw.randint(0, 8)):
                next(pieces, None)
        elif kind == "aborted":
            time.sleep(draw.uniform(0, 0.5))
            run.cancel()
        else:
            assert run["good"] in ("yes", "no")
    if kind == "whole":
        return kind
    error = run.error()
    assert error is None or isinstance(error, Cancelled), error
    return kind


def finish(engine: WatchedEngine, report: Report) -> None:
    """Wait until every call has ended, and count what is left."""
    deadline = time.monotonic() + MAX_WAIT
    while engine.num_ends < engine.num_calls and time.monotonic() < deadline:
        time.sleep(0.05)
    engine.check()
    stats, overlap = engine.stats(), engine._core.overlap
    report.preemptions, report.steps = stats.preemptions, stats.engine_steps
    report.steps_ahead = None if overlap is None else overlap.ahead.num_taken
    report.leaked = engine._core.cache.pool.num_owned(Owner.REQUEST)
    report.calls, report.ends = engine.num_calls, engine.num_ends
    report.double_ends, report.longest = engine.num_double, engine.longest
    engine.close()


def resident() -> int:
    """Return the process's resident memory in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def main() -> None:
    """Soak, print the report, fail where something is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--num-slots", type=int, default=1500)
    parser.add_argument("--overlap", action="store_true", help="choose steps ahead")
    options = parser.parse_args()
    report = soak(
        options.minutes,
        clients=options.clients,
        num_slots=options.num_slots,
        overlap=options.overlap,
    )
    print(report)
    report.check(options.num_slots)


if __name__ == "__main__":
    main()
