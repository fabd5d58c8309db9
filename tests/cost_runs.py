"""Programs run on a real engine with a tiny model, and what each run took.

A run is measured by the engine's own counters, so that chunking, held-back tails, prologues and
"each call computes at least one token" are those of real runs. Steps one after another are
counted on a clock of steps: an answer comes when the program waits for nothing that is earlier.
"""

import copy
import heapq
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lmc.codegen.lower import lower
from lmc.codegen.target import oracle_target
from lmc.errors import LmcError
from lmc.ir.calls import GenResult
from lmc.ir.core import Module
from lmc.passes.cost.analysis import CostReport
from lmc.runtime.executor import Executor
from lmc.runtime.executor.prologues import release_prologues
from lmc.runtime.executor.run import HOST
from lmc.runtime.executor.session import Session

SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
NUM_SLOTS = 32768


@dataclass(frozen=True, slots=True)
class Measured:
    """What a program took.

    Attributes:
        cold: context tokens computed with an empty cache.
        warm: those of a second run, of which the cache held the constant prefixes alone.
        decode: tokens generated.
        passes: forward passes that gave one of them or the end, summed over the calls.
        path: steps one after another.
        peak: tokens that the cache held at the most.
        is_done: whether the run came to its end.
    """

    cold: int
    warm: int
    decode: int
    passes: int
    path: int
    peak: int
    is_done: bool


@dataclass
class Clock:
    """Counts steps: it stands still while a program has anything to do."""

    now: int = 0
    _due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _open: int = 0
    _lock: Any = field(default_factory=threading.Lock)
    _numbers: Any = field(default_factory=itertools.count)

    def begin(self) -> int:
        """Note a call that was made; return when."""
        with self._lock:
            self._open += 1
            return self.now

    def answer(self, begun: int, steps: int, deliver: Callable[[], None]) -> None:
        """Have an answer delivered `steps` after its call was made."""
        with self._lock:
            self._open -= 1
            heapq.heappush(self._due, (begun + steps, next(self._numbers), deliver))

    def go_on(self) -> bool:
        """Deliver the answers that come next, once those of all calls are known."""
        with self._lock:
            if self._open or not self._due:
                return False
            self.now = self._due[0][0]
            deliveries = []
            while self._due and self._due[0][0] == self.now:
                deliveries.append(heapq.heappop(self._due)[2])
        for deliver in deliveries:
            deliver()
        return True

    def run_out(self) -> None:
        """Deliver what a run that ended before did not wait for: pins lie in those answers."""
        while self.go_on() or self._open:
            time.sleep(0)


class Timed:
    """A backend whose answers come by a clock."""

    def __init__(self, engine: Any, clock: Clock) -> None:
        self.target, self._engine, self._clock = engine.target, engine, clock
        self.nudge: Callable[[], None] = lambda: None

    def submit_gen(self, call: Any, on_done: Any, on_text: Any = None) -> Any:
        return self._engine.submit_gen(call, self._held(on_done), on_text)

    def submit_score(self, call: Any, on_done: Any) -> Any:
        return self._engine.submit_score(call, self._held(on_done))

    def submit_prefill(self, context: Any, on_done: Any) -> Any:
        return self._engine.submit_prefill(context, self._held(on_done))

    def _held(self, on_done: Any) -> Any:
        begun = self._clock.begin()

        def done(result: Any) -> None:
            steps = result.usage.decode_steps if isinstance(result, GenResult) else 0
            self._clock.answer(begun, steps, lambda: on_done(result))
            self.nudge()

        return done


@contextmanager
def clocked(timed: Timed, clock: Clock) -> Iterator[None]:
    """Move the clock whenever an executor has nothing left to do."""
    idle = Session._idle

    def on_idle(session: Session) -> None:
        idle(session)
        timed.nudge = lambda: session.loop.post(lambda: None)
        jobs = list(session._jobs)
        is_busy = any(held is HOST for job in jobs for held in job.run._open.values())
        if not session.loop.ready and not is_busy:
            clock.go_on()

    Session._idle = on_idle  # type: ignore[method-assign]
    try:
        yield
    finally:
        Session._idle = idle  # type: ignore[method-assign]


@cache
def tiny_model() -> Any:
    """Return a tiny random model that takes the oracle's tokens."""
    from model_support import write_model

    from lmc.runtime.models.decoder import CausalModel

    folder = Path(tempfile.mkdtemp())
    write_model(folder, SHAPE | {"vocab_size": oracle_target().tokenizer.vocab_size})
    return CausalModel.load(folder, "float32")


def open_tiny(**options: Any) -> Any:
    """Open an engine on the tiny model."""
    from lmc.runtime.engine.engine import Engine

    return Engine(tiny_model(), oracle_target(), **options)  # type: ignore[arg-type]


@cache
def tiny_engine() -> Any:
    """Return the engine that runs are measured on; it does nothing ahead of choices.

    Bounds are on what a program needs; what speculation computes in vain comes on top.
    """
    engine = open_tiny(num_slots=NUM_SLOTS)
    engine.takes_guesses = False
    return engine


@contextmanager
def watched(engine: Any) -> Iterator[list[int]]:
    """Count how many slots are in use at the most."""
    pool, most = engine._core.cache.pool, [0]
    alloc = pool.alloc

    def noted(count: int) -> Any:
        slots = alloc(count)
        most[0] = max(most[0], pool.num_slots - pool.num_free)
        return slots

    pool.alloc = noted
    try:
        yield most
    finally:
        del pool.alloc


def measure(
    module: Module, entry: str, args: Mapping[str, Any], host: Mapping[str, Any], *, seed: int = 7
) -> Measured:
    """Run a program twice, with an empty cache and with its constant prefixes."""
    engine = tiny_engine()
    plan = lower(module, engine.target)
    release_prologues(engine)
    engine.flush_cache()
    assert engine._core.cache.pool.num_free == NUM_SLOTS, "something is pinned by an earlier run"
    before = engine.stats()
    with watched(engine) as peak:
        is_done = _ran(Executor(engine, plan, host), entry, args, seed)
    cold = engine.stats() - before
    assert cold.preemptions == 0
    engine.flush_cache()
    before = engine.stats()
    _ran(Executor(engine, plan, host), entry, args, seed)
    warm = engine.stats() - before
    clock = Clock()
    timed = Timed(engine, clock)
    with clocked(timed, clock):
        _ran(Executor(timed, plan, host), entry, args, seed)  # type: ignore[arg-type]
    clock.run_out()
    release_prologues(timed)  # type: ignore[arg-type]
    return Measured(
        cold.computed_tokens, warm.computed_tokens, cold.output_tokens, cold.decode_steps,
        clock.now, peak[0], is_done,
    )  # fmt: skip


def _ran(executor: Executor, entry: str, args: Mapping[str, Any], seed: int) -> bool:
    try:
        executor.run(entry, copy.deepcopy(dict(args)), seed=seed, timeout=60)
    except LmcError:
        return False
    return True


def bounds_of(report: CostReport, run: Measured) -> dict[str, tuple[float, float]]:
    """Return what was measured and its bound, by figure."""
    return {
        "cold prefill": (run.cold, report.cold.prefill.high),
        "warm prefill": (run.warm, report.warm.prefill.high),
        "decode tokens": (run.decode, report.cold.decode.high),
        "decode passes": (run.passes, report.cold.decode.high),
        "critical path": (run.path, report.steps),
        "peak tokens": (run.peak, report.peak_tokens),
    }
