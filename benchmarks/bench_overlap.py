"""What it is worth to choose the next step while one is computed.

    python benchmarks/bench_overlap.py                 # choosing alone; no weights, seconds
    python benchmarks/bench_overlap.py --device 2      # passes of 2 ms on another processor
    python benchmarks/bench_overlap.py --model [PATH]  # a model on this machine

Two engines, with and without, take turns at the same calls; medians of the rounds.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from lmc.ir.calls import GenCall, SamplingParams
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.engine import Engine
from lmc.runtime.engine.plan_ahead import PlanAhead
from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.sequence import Sequence

ROWS = (2, 8, 32, 64)
PROMPT = 20


class Decoding:
    """A scheduler with so many sequences that decode for ever."""

    def __init__(self, rows: int) -> None:
        table = np.zeros((rows, 4096), dtype=np.int32)
        self.scheduler = Scheduler(PrefixCache(rows * 4096), table, max_running=rows)
        self.ahead = PlanAhead(self.scheduler)
        chooser: Any = object()
        for serial in range(rows):
            prompt = np.arange(serial, serial + PROMPT, dtype=np.int32)
            self.scheduler.submit(
                Sequence(serial, prompt, max_len=4096, logits_from=PROMPT - 1, chooser=chooser)
            )

    def give_tokens(self, plan: Any) -> None:
        """Apply a step."""
        self.scheduler.commit(plan)
        for part in plan.extends:
            if part.seq.extend_len == 0:
                part.seq.append(5)
                part.seq.logits_from = part.seq.total_len - 1


def bench_choosing(rounds: int) -> None:
    """Print what it takes to plan a step in order, to choose it ahead, and then to take it."""
    print("| sequences | in order, us | ahead, us | then, us |\n|---:|---:|---:|---:|")
    for rows in ROWS:
        load, times = Decoding(rows), {"plan": [], "assume": [], "take": []}

        def timed(name: str, action: Callable[[], Any], times: Any = times) -> Any:
            begun = time.thread_time_ns()
            result = action()
            times[name].append((time.thread_time_ns() - begun) / 1000)
            return result

        for _ in range(4):
            load.give_tokens(load.scheduler.plan()[0])
        for _ in range(40 * rounds):
            plan = timed("plan", load.scheduler.plan)[0]
            timed("assume", lambda load=load, plan=plan: load.ahead.assume(plan))
            load.give_tokens(plan)
            plan = timed("take", load.ahead.take)
            assert plan is not None
            load.give_tokens(plan)
        medians = [statistics.median(each) for each in times.values()]
        print(f"| {rows} | " + " | ".join(f"{each:.0f}" for each in medians) + " |", flush=True)


class Device:
    """A model that computes nothing for some seconds, and leaves the processor alone."""

    def __init__(self, model: Any, seconds: float) -> None:
        self._model, self._seconds = model, seconds

    def forward(self, batch: Any, kv: Any) -> Any:
        """Wait; return logits that are all alike."""
        import torch

        time.sleep(self._seconds)
        return torch.zeros(len(batch.logit_rows), self._model.config.vocab_size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def bench_engine(model: Any, target: Any, rows: int, *, rounds: int, tokens: int) -> None:
    """Print the times of a step in which so many calls decode, with and without."""
    options = {"num_slots": rows * (PROMPT + tokens) + 64, "max_running": max(ROWS)}
    engines = [Engine(model, target, overlap=overlap, **options) for overlap in (False, True)]
    times: list[list[tuple[float, float]]] = [[], []]
    for _ in range(rounds + 1):
        for engine, own in zip(engines, times, strict=True):
            engine.flush_cache()
            own.append(decode(engine, rows, tokens))
    for name, own in zip(("off", "on"), times, strict=True):
        wall, cpu = (statistics.median(column) for column in zip(*own[1:], strict=True))
        print(f"{rows} calls, overlap {name}: {wall:.0f} us a step, {cpu:.0f} of CPU", flush=True)
    for engine in engines:
        engine.close()


def decode(engine: Engine, rows: int, tokens: int) -> tuple[float, float]:
    """Answer calls at once; return the microseconds a step, by the clock and of CPU."""
    params = SamplingParams(max_tokens=tokens, temperature=0.0, ignore_eos=True)
    answers: list[Future[Any]] = [Future() for _ in range(rows)]
    before = engine.stats().engine_steps
    wall, cpu = time.perf_counter(), time.process_time()
    for number, answer in enumerate(answers):
        context = tuple(range(50 + number, 50 + number + PROMPT))
        engine.submit_gen(GenCall(context, params), answer.set_result)
    for answer in answers:
        answer.result()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    steps = engine.stats().engine_steps - before
    return 1e6 * wall / steps, 1e6 * cpu / steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", nargs="?", const="", help="measure an engine on a model")
    parser.add_argument("--device", type=float, metavar="MS", help="passes that only wait")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.model is None and options.device is None:
        bench_choosing(options.rounds)
        return
    from lmc.backends import load_model

    loaded = load_model(options.model or None)
    model = loaded.model
    if options.device is not None:
        model = Device(model, options.device / 1000)
    for rows in options.rows:
        bench_engine(model, loaded.target, rows, rounds=options.rounds, tokens=options.tokens)


if __name__ == "__main__":
    main()
