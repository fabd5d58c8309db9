"""lmc in a process of its own, with one mode; answers the same commands as a peer.

    python benchmarks/workloads/run_lmc.py '{"weights": "int8", "activations": "int8"}'

A command names a workload and a repeat, whose program then runs through lmc's public API.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.driver import peak_megabytes

import lmc
from workloads.catalogue import Workload, build_all
from workloads.profiling import StepClock
from workloads.texts import DATA, Texts, read_rows


def measured(workload: Workload, backend: Any, clock: StepClock) -> dict[str, Any]:
    """Run a workload with an empty prefix cache; return what it took."""
    backend.flush_cache()
    before, parts = backend.stats(), dict(clock.seconds)
    cpu, begun = time.process_time(), time.perf_counter()
    results = workload.program.run_batch(workload.batch, backend=backend, seed=1)
    seconds = time.perf_counter() - begun
    stats = backend.stats() - before
    expected = sum(request.samples for request in workload.requests)
    calls = sum(result.usage.calls for result in results)
    if calls < expected:
        raise RuntimeError(f"{workload.name}: {calls} calls instead of {expected}")
    first = [r.usage.first_token_seconds for r in results if r.usage.first_token_seconds]
    return {
        "seconds": seconds,
        "profile": clock.since(parts, seconds),
        "cpu_seconds": time.process_time() - cpu,
        "first_token": min(first) if first else None,
        "prompt_tokens": stats.prompt_tokens,
        "output_tokens": stats.output_tokens,
        "forced_tokens": stats.forced_tokens,
        "computed_tokens": stats.forward_tokens,
        "engine_steps": stats.engine_steps,
        "busy_seconds": stats.busy_seconds,
        "calls": calls,
        "peak_mb": peak_megabytes([os.getpid()]),
    }


class Builder:
    """Builds the workloads of a repeat once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._rows = read_rows(Path(os.environ.get("LMC_DATA", DATA)))
        self._made: dict[int, dict[str, Workload]] = {}

    def get(self, name: str, repeat: int) -> Workload:
        """Return a workload with the texts of a repeat."""
        if repeat not in self._made:
            texts = Texts(self._tokenizer, self._rows, repeat)
            self._made[repeat] = build_all(None, texts)
        return self._made[repeat][name]


def main() -> None:
    """Open the model, then answer commands until standard input ends."""
    mode = json.loads(sys.argv[1])
    begun = time.perf_counter()
    backend: Any = lmc.open_backend(threads=int(os.environ["LMC_THREADS"]), **mode)
    clock = StepClock(backend)
    builder = Builder(backend.target.tokenizer)
    ready = {"ready": True, "about": f"lmc {lmc.__version__}", "exact": str(backend.exactness)}
    print(json.dumps({**ready, "seconds": time.perf_counter() - begun}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        workload = builder.get(command["workload"], command["repeat"])
        print(json.dumps(measured(workload, backend, clock)), flush=True)
    backend.close()


if __name__ == "__main__":
    main()
