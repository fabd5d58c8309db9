"""CPU time of the scheduler and of the radix tree.

    python benchmarks/bench_scheduler.py            # a step, a match; a few seconds, no weights
    python benchmarks/bench_scheduler.py --model    # also the tree's share of a run, a minute

Times are CPU time of the thread, so a busy machine disturbs them less; medians of many steps.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.sequence import Sequence

STEPS = 400
RUNNING = 32
MATCH_TOKENS = 2000
WAITING = (32, 128, 512, 2048, 8192)

FULL_SLOTS = RUNNING * 360
"""Slots that hold about as many sequences as run, while others wait for memory."""

CACHE_CALLS = ("match_len", "find", "match_and_lock", "alloc", "insert", "release", "free")
"""What the scheduler asks of tree and pool."""


class Load:
    """A scheduler that has so many sequences running and waiting, and keeps it so.

    Args:
        waiting: sequences that wait.
        is_full: whether it is memory that makes them wait, else it is rows.
        ends_every: steps after which one sequence ends and a new one comes.
        tenants: of whom the sequences are.
        are_runs: whether each is the call of a run, so that runs are kept room for.
    """

    def __init__(
        self,
        waiting: int,
        *,
        is_full: bool,
        ends_every: int,
        tenants: tuple[str, ...] = ("",),
        are_runs: bool = False,
    ) -> None:
        self.draw = random.Random(0)
        stems = [self.tokens(300) for _ in range(8)]
        self.stems = stems
        self.tenants = tenants
        self.are_runs = are_runs
        rows = 2 * RUNNING if is_full else RUNNING
        self.cache = PrefixCache(FULL_SLOTS if is_full else 400_000)
        table = np.zeros((rows, 4096), dtype=np.int32)
        self.scheduler = Scheduler(self.cache, table, token_budget=512, max_running=rows)
        self.serial = 0
        self.ends_every = ends_every
        self.submit()
        for _ in range(40):
            self.step()
        self.end(self.scheduler.running[0])  # now it is known how large a run may become
        for _ in range(RUNNING):
            self.submit()
        while any(seq.is_prefilling for seq in self.scheduler.running) or self.scheduler.waiting:
            self.step()
        for _ in range(waiting):
            self.submit()
        for _ in range(20):
            self.step()

    def tokens(self, count: int) -> list[int]:
        """Return random tokens."""
        return [self.draw.randrange(30_000) for _ in range(count)]

    def submit(self) -> None:
        """Queue a sequence whose beginning others share."""
        self.serial += 1
        stem = self.draw.choice(self.stems)[: self.draw.randint(20, 300)]
        prompt = np.array(stem + self.tokens(60), dtype=np.int32)
        seq = Sequence(self.serial, prompt, max_len=len(prompt) + 2000, logits_from=len(prompt) - 1)
        seq.tenant = self.tenants[self.serial % len(self.tenants)]
        self.scheduler.submit(seq)

    def end(self, seq: Sequence) -> None:
        """End a sequence, and its run."""
        self.scheduler.finish(seq)
        self.scheduler.end_run(seq.serial)

    def step(self) -> float:
        """Do one step; return the CPU microseconds of planning and committing it."""
        begun = time.thread_time_ns()
        plan, ready = self.scheduler.plan()
        if plan is not None:
            self.scheduler.commit(plan)
        took = time.thread_time_ns() - begun
        for seq in ready:
            self.scheduler.finish(seq)
        for part in plan.extends if plan is not None else ():
            if part.is_live and part.seq.extend_len == 0:
                part.seq.append(self.draw.randrange(30_000))
                part.seq.logits_from = part.seq.total_len - 1
        return took / 1000

    def run(self) -> list[float]:
        """Return the microseconds of some steps."""
        times: list[float] = []
        for step in range(STEPS):
            times.append(self.step())
            if step % self.ends_every == 0:
                self.end(self.draw.choice(self.scheduler.running))
                self.submit()
        return times


def bench_steps() -> None:
    """Print what a step costs, by what makes sequences wait and by how many do."""
    print("| step; median and mean, us |", " | ".join(f"{n} waiting" for n in WAITING), "|")
    print("|---|" + "---:|" * len(WAITING))
    for name, options in (
        ("memory free, nothing ends", {"is_full": False, "ends_every": 10**9}),
        ("memory free, one ends in 4 steps", {"is_full": False, "ends_every": 4}),
        ("memory full, nothing ends", {"is_full": True, "ends_every": 10**9}),
        ("memory full, one ends in 4 steps", {"is_full": True, "ends_every": 4}),
        ("the same, each of a run", {"is_full": True, "ends_every": 4, "are_runs": True}),
        ("the same, of two tenants", {"is_full": True, "ends_every": 4, "tenants": ("a", "b")}),
    ):
        cells: list[str] = []
        for waiting in WAITING:
            load = Load(waiting, **options)
            times = load.run()
            running = len(load.scheduler.running)
            cells.append(
                f"{statistics.median(times):.0f}, {statistics.mean(times):.0f} ({running})"
            )
        print(f"| {name} (running) |", " | ".join(cells), "|", flush=True)


def bench_match() -> None:
    """Print what a match of MATCH_TOKENS tokens costs, in a tree of many nodes."""
    draw = random.Random(1)
    cache = PrefixCache(1_000_000)
    path: list[int] = []
    for _ in range(10):  # the path is cut by branches
        path += [draw.randrange(30_000) for _ in range(MATCH_TOKENS // 10)]
        for _ in range(200):
            add(cache, [*path, *(draw.randrange(30_000) for _ in range(20))])
    key = np.array(path, dtype=np.int32)
    times: list[float] = []
    for _ in range(2000):
        begun = time.thread_time_ns()
        found = cache.match_len(key)
        times.append((time.thread_time_ns() - begun) / 1000)
        assert found == MATCH_TOKENS
    nodes, median = cache.tree.num_nodes, statistics.median(times)
    print(f"match of {MATCH_TOKENS} tokens over 10 of {nodes} nodes: {median:.1f} us")


def add(cache: PrefixCache, tokens: list[int]) -> None:
    """Put tokens into a cache."""
    ids = np.array(tokens, dtype=np.int32)
    handle, slots = cache.match_and_lock(ids)
    own = cache.alloc(len(ids) - handle.length)
    assert own is not None
    cache.release(cache.insert(handle, ids, np.concatenate([slots, own])))


def bench_tree_share() -> None:
    """Print the tree's part of the time of a run whose prompts share nothing."""
    from lmc.backends import open_backend
    from lmc.ir.calls import GenCall, SamplingParams

    engine: Any = open_backend(None, num_slots=16_384)
    draw = random.Random(2)
    params = SamplingParams(max_tokens=32, temperature=0.0, ignore_eos=True)
    calls = [GenCall(tuple(draw.randrange(1000, 30_000) for _ in range(256)), params)
             for _ in range(24)]  # fmt: skip
    core = engine._core
    with timed(core.cache, CACHE_CALLS) as tree, timed(core.scheduler, ("plan", "commit")) as steps:
        before = engine.stats()
        futures = [submit(engine, call) for call in calls]
        for wait in futures:
            wait()
        run = engine.stats() - before
    assert run.cached_tokens == 0
    for name, spent in (("tree and pool", tree), ("all of planning", steps)):
        share = spent[0] / run.busy_seconds
        print(f"{name}: {1000 * spent[0]:.1f} ms of {run.busy_seconds:.1f} s: {share:.3%}")
    engine.close()


def submit(engine: Any, call: Any) -> Callable[[], Any]:
    """Start a call; return what waits for its result."""
    from concurrent.futures import Future

    answer: Future[Any] = Future()
    engine.submit_gen(call, answer.set_result)
    return lambda: answer.result()


@contextmanager
def timed(owner: Any, names: tuple[str, ...]) -> Iterator[list[float]]:
    """Add up the seconds spent in some methods of an object, outermost calls only."""
    spent, depth = [0.0], [0]

    def timing(method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            depth[0] += 1
            begun = time.perf_counter()
            try:
                return method(*args, **options)
            finally:
                depth[0] -= 1
                if depth[0] == 0:
                    spent[0] += time.perf_counter() - begun

        return call

    for name in names:
        setattr(owner, name, timing(getattr(owner, name)))
    try:
        yield spent
    finally:
        for name in names:
            delattr(owner, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="store_true", help="also the tree's share of a run")
    options = parser.parse_args()
    bench_steps()
    bench_match()
    if options.model:
        bench_tree_share()
