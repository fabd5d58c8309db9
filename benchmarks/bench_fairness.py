"""Time to first token of a tenant that asks little, alone and beside one that asks much more.

    python benchmarks/bench_fairness.py                  # a tiny random model, ten seconds
    python benchmarks/bench_fairness.py --model          # SmolLM2-135M, several minutes
    python benchmarks/bench_fairness.py --clock wall     # seconds that pass, for an idle machine

The heavy tenant has 50 calls open at any moment, more than there is room for. The light one has
one at a time, after pauses of random length, so that its calls come at any point of a step. What
is promised: its 99th percentile is at most the larger of twice its value alone and of three step
budgets, one being what a step of `token_budget` prompt tokens takes on an engine without others.

The engine's core is stepped here, on one thread, and the clock is the CPU time of this thread: a
busy machine matters little. Pauses in which there is nothing to do are jumped over.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lmc.backends import find_model, load_model
from lmc.codegen.target import load_target
from lmc.ir.calls import CallHint, GenCall, SamplingParams
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.generation import Generation
from lmc.runtime.engine.sampler import TokenRules
from lmc.runtime.models import CausalModel

HEAVY_CALLS = 50
HEAVY_PROMPTS, HEAVY_OUTPUTS = (10, 60, 300), (2, 20, 60)
LIGHT_PROMPTS, LIGHT_OUTPUTS = (5, 60), (1, 8)

TINY_VOCAB = 2048
"""Tokens of the tiny model: with as many as its tokenizer has, logits would be most of a step."""

CLOCKS: dict[str, Callable[[], float]] = {"cpu": time.thread_time, "wall": time.perf_counter}


def tiny_model() -> CausalModel:
    """Return a random model of three narrow layers, with few tokens."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from model_support import TINY, write_model

    with tempfile.TemporaryDirectory() as folder:
        return CausalModel.load(write_model(Path(folder), TINY | {"vocab_size": TINY_VOCAB}))


@dataclass
class Times:
    """What a run took: seconds and steps to the first token of each light call, and its steps.

    The step in which a call arrived is not among `counts`.
    """

    counts: list[int] = field(default_factory=list[int])
    waits: list[float] = field(default_factory=list[float])
    steps: list[float] = field(default_factory=list[float])
    light_tokens: int = 0
    all_tokens: int = 0


class Office:
    """An engine's core that two tenants use, and its clock."""

    def __init__(self, model: Any, target: Any, options: argparse.Namespace) -> None:
        self.model, self.target = model, target
        self.rules = TokenRules(target.tokenizer, model.config.vocab_size)
        self.core = EngineCore(
            model,
            num_slots=options.slots,
            token_budget=options.budget,
            max_running=options.rows,
        )
        self.draw = random.Random(options.seed)
        self._clock = CLOCKS[options.clock]
        self._begun = self._clock()
        self.serial = 0

    @property
    def now(self) -> float:
        """Seconds since the beginning, pauses included."""
        return self._clock() - self._begun

    def jump(self, moment: float) -> None:
        """Let the time until a moment pass."""
        self._begun -= max(0.0, moment - self.now)

    def ask(self, tenant: str, size: int, max_tokens: int) -> Generation:
        """Submit a call with a random prompt."""
        self.serial += 1
        vocab = min(self.target.tokenizer.vocab_size, self.model.config.vocab_size)
        prompt = tuple(self.draw.randrange(vocab // 2, vocab) for _ in range(size))
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        request = Generation(
            GenCall(prompt, params, hint=CallHint(run=self.serial, tenant=tenant)),
            lambda result: None,
            None,
            tokenizer=self.target.tokenizer,
            rules=self.rules,
            vocab_size=self.model.config.vocab_size,
        )
        self.core.register(request)
        self.core.start(request)
        return request

    def forget_done(self, requests: dict[int, Generation]) -> None:
        """Take out the calls that have ended, and end their runs."""
        for run in [run for run, request in requests.items() if request.is_done]:
            del requests[run]
            self.core.scheduler.end_run(run)

    def step_budget(self) -> float:
        """Return the seconds of a step that is full of prompt tokens, the median of some."""
        times: list[float] = []
        for _ in range(5):
            self.ask("", self.core.scheduler.token_budget, 1)
            begun = self.now
            self.core.step()
            times.append(self.now - begun)
            assert not self.core.has_work
            self.core.scheduler.end_run(self.serial)
        return statistics.median(times)

    def run(self, *, heavy: int, calls: int, pause: float) -> Times:
        """Serve the light tenant's calls, with so many calls of the heavy one open."""
        times, begun_tokens = Times(), self.core.stats.forward_tokens
        open_heavy: dict[int, Generation] = {}
        light: dict[int, Generation] = {}
        is_waiting, first_step = False, 0
        arrival = self.now + self.draw.expovariate(1 / pause)
        while len(times.waits) < calls or light:
            self.forget_done(open_heavy)
            while len(open_heavy) < heavy and len(times.waits) < calls:
                size, length = self.draw.choice(HEAVY_PROMPTS), self.draw.choice(HEAVY_OUTPUTS)
                request = self.ask("heavy", size, length)
                open_heavy[self.serial] = request
            if not light and self.now >= arrival:
                size, length = self.draw.randint(*LIGHT_PROMPTS), self.draw.choice(LIGHT_OUTPUTS)
                light[self.serial + 1] = self.ask("light", size, length)
                is_waiting, first_step = True, len(times.steps)
                times.light_tokens += size + length - 1
            if not self.core.has_work:
                self.jump(arrival)
                continue
            begun = self.now
            self.core.step()
            times.steps.append(self.now - begun)
            if is_waiting and next(iter(light.values())).first_token_at is not None:
                times.waits.append(self.now - arrival)
                times.counts.append(len(times.steps) - first_step)
                is_waiting = False
            if light and next(iter(light.values())).is_done:
                self.forget_done(light)
                arrival = self.now + self.draw.expovariate(1 / pause)
        times.all_tokens = self.core.stats.forward_tokens - begun_tokens
        for request in open_heavy.values():
            request.cancel(self.core)
        return times


def percentile(values: list[float], share: float) -> float:
    """Return the value that a share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(name: str, model: Any, target: Any, options: argparse.Namespace) -> bool:
    """Print the figures of a model; return whether the promise holds."""
    office = Office(model, target, options)
    office.step_budget()  # the first steps take longer
    budget = office.step_budget()
    alone = office.run(heavy=0, calls=options.calls, pause=budget)
    crowd = office.run(heavy=HEAVY_CALLS, calls=options.calls, pause=budget)
    limit = max(2 * percentile(alone.waits, 0.99), 3 * budget)
    print(f"{name}: {options.calls} light calls, {options.budget} tokens per step,"
          f" {options.clock} seconds")  # fmt: skip
    for label, times in (("alone", alone), ("beside 50 calls of another", crowd)):
        p50, p99 = percentile(times.waits, 0.5), percentile(times.waits, 0.99)
        print(f"  first token, {label}: p50 {p50:.4f}, p99 {p99:.4f}, max {max(times.waits):.4f}")
    steps = f"median {statistics.median(crowd.steps):.4f}, longest {max(crowd.steps):.4f}"
    print(f"  one step budget: {budget:.4f}; steps under load: {steps}")
    waited = percentile([float(count) for count in crowd.counts], 0.99)
    print(f"  steps to the first token under load: p99 {waited:.0f}, max {max(crowd.counts)}")
    print(f"  tokens under load: {crowd.all_tokens}, of the light tenant {crowd.light_tokens}")
    holds = percentile(crowd.waits, 0.99) <= limit
    print(f"  p99 at most {limit:.4f}: {'holds' if holds else 'DOES NOT HOLD'}", flush=True)
    return holds


def main() -> None:
    """Measure the tiny model, or the real one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="store_true", help="SmolLM2-135M, not a tiny model")
    parser.add_argument("--calls", type=int, default=100, help="calls of the light tenant")
    parser.add_argument("--budget", type=int, default=512, help="tokens per step")
    parser.add_argument("--rows", type=int, default=64, help="calls that run at once")
    parser.add_argument("--slots", type=int, default=16_384, help="tokens of KV memory")
    parser.add_argument("--clock", choices=CLOCKS, default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.clock == "cpu":  # of this thread, which then does all the work
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    if options.model:
        loaded = load_model(None)
        holds = measure("SmolLM2-135M", loaded.model, loaded.target, options)
    else:
        target = load_target(find_model(None))
        model = tiny_model()
        holds = measure("tiny random model", model, target, options)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
