"""How time and memory grow with the batch and with the prompt; draws docs/benchmarks.svg.

    python benchmarks/bench_scaling.py [--threads 2] [--write]

Drawing needs matplotlib: pip install '.[bench]'.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from compare.options import measuring_options
from compare.page import put
from compare.tables import table
from peers.driver import peak_megabytes
from workloads.programs import complete
from workloads.texts import Texts, read_rows

import lmc

ROOT = Path(__file__).resolve().parents[1]
BATCHES = (1, 2, 4, 8, 16, 32, 64)
PROMPTS = (512, 1024, 2048, 4096, 8000)
"""The longest leaves room for the output in the model's 8,192 positions."""


def taken(backend: Any, prompts: list[str], count: int, repeat: int) -> float:
    """Return the least seconds of some repeats, each with an empty prefix cache."""
    batch = [{"prompt": prompt, "count": count} for prompt in prompts]
    seconds = []
    for _ in range(repeat):
        backend.flush_cache()
        begun = time.perf_counter()
        complete.run_batch(batch, backend=backend, seed=1)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def measure(data: Path, threads: int, repeat: int) -> dict[str, list[list[float]]]:
    """Return [size, seconds, peak MB] by batch and by prompt."""
    backend: Any = lmc.open_backend(threads=threads)
    texts = Texts(backend.target.tokenizer, read_rows(data))
    taken(backend, [texts.take(64)], 8, 1)
    found: dict[str, list[list[float]]] = {"batch": [], "prompt": []}
    for size in BATCHES:
        prompts = [texts.take(64) for _ in range(size)]
        seconds = taken(backend, prompts, 32, repeat)
        found["batch"].append([size, seconds, peak_megabytes([os.getpid()])])
    for length in PROMPTS:
        seconds = taken(backend, [texts.take(length)], 1, repeat)
        found["prompt"].append([length, seconds, peak_megabytes([os.getpid()])])
    return found


def scaling_tables(found: dict[str, list[list[float]]]) -> str:
    """Return both curves as tables."""
    parts = []
    for name, points in found.items():
        rows = [
            [f"{size:,.0f}", f"{seconds:.2f}", f"{1e3 * seconds / size:.2f}", f"{memory:,.0f}"]
            for size, seconds, memory in points
        ]
        parts.append(table([name, "seconds", "ms for each", "peak memory, MB"], rows))
    return "\n\n".join(parts)


def draw(found: dict[str, list[list[float]]], path: Path) -> None:
    """Draw both curves, with the line through the origin that linear growth would follow."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, (name, points) in zip(axes, found.items(), strict=True):
        sizes, seconds, _ = zip(*points, strict=True)
        axis.plot(sizes, seconds, "o-", label="measured")
        slope = seconds[-1] / sizes[-1]
        axis.plot(sizes, [slope * size for size in sizes], ":", label="linear")
        axis.set(xlabel={"batch": "requests", "prompt": "prompt tokens"}[name], ylabel="seconds")
        axis.set(xscale="log", yscale="log")
        axis.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, and with --write put everything on the page."""
    options = measuring_options(__doc__, 2)
    found = measure(options.data, options.threads, options.repeat)
    print(scaling_tables(found))
    if options.write:
        (ROOT / "docs" / "scaling.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
        draw(found, ROOT / "docs" / "benchmarks.svg")
        page = ROOT / "docs" / "benchmarks.md"
        made = f"![growth of time](benchmarks.svg)\n\n{scaling_tables(found)}"
        page.write_text(put(page.read_text(encoding="utf-8"), "scaling", made), encoding="utf-8")


if __name__ == "__main__":
    main()
