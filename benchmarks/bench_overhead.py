"""What the tool itself costs on the judge, eight instances, compiled and in eager mode.

    python benchmarks/bench_overhead.py [--threads 2] [--write]

The engine's thread computes steps one after another. The time of a run in which it computes none
is what program, executor and hand-over cost at the most; what they do beside a step is hidden
by it.
"""

import time
from pathlib import Path
from statistics import median
from typing import Any

from compare.options import measuring_options
from compare.page import put
from compare.tables import table
from workloads.catalogue import build_all
from workloads.texts import Texts, read_rows

import lmc

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
MODES = {"compiled": {}, "eager": {"mode": "eager"}}
WANTED = 0.02


def measure(backend: Any, rows: list[str], repeat: int) -> dict[str, list[tuple[float, float]]]:
    """Return (seconds, seconds without a step) of each mode's repeats, in turns."""
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    for turn in range(repeat + 1):
        texts = Texts(backend.target.tokenizer, rows, turn)
        workload = build_all(["h8"], texts)["h8"]
        for mode, options in MODES.items():
            backend.flush_cache()
            before, begun = backend.stats().busy_seconds, time.perf_counter()
            workload.program.run_batch(workload.batch, backend=backend, seed=1, **options)
            seconds = time.perf_counter() - begun
            idle = seconds - (backend.stats().busy_seconds - before)
            if turn:  # the first compiles
                found[mode].append((seconds, idle))
    return found


def main() -> None:
    """Measure, print, and with --write put the table on the page."""
    options = measuring_options(__doc__, 3)
    backend: Any = lmc.open_backend(threads=options.threads)
    rows = []
    for mode, samples in measure(backend, read_rows(options.data), options.repeat).items():
        seconds = median(taken for taken, _ in samples)
        idle = median(idle for _, idle in samples)
        share = idle / seconds
        rows.append(
            [
                mode,
                f"{seconds:.2f}",
                f"{idle:.3f}",
                f"{share:.1%}",
                "yes" if share < WANTED else "no",
            ]
        )
    made = table(["mode", "seconds", "without a step", "share", f"under {WANTED:.0%}"], rows)
    print(made)
    if options.write:
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), "overhead", made), encoding="utf-8")


if __name__ == "__main__":
    main()
