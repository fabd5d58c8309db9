"""What the machine can do: memory bandwidth and matrix products, on as many threads as engines.

Best of several rounds, since a limit is what nothing exceeds.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch

BYTES = 256 << 20
SIZE = 1024
INT8_SIZE = 2048


def best(work: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest of some rounds, after one that does not count."""
    work()
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return min(taken)


def measure(threads: int, rounds: int = 8) -> dict[str, float]:
    """Return bandwidths in GB/s and products in GFLOP/s (or GOP/s)."""
    torch.set_num_threads(threads)
    source = torch.ones(BYTES // 4)
    target = torch.empty_like(source)
    a = torch.randn(SIZE, SIZE).to(torch.bfloat16)
    whole = torch.randint(-100, 100, (INT8_SIZE, INT8_SIZE), dtype=torch.int8)
    return {
        "copy_gb_s": 2 * BYTES / best(lambda: target.copy_(source), rounds) / 1e9,
        "read_gb_s": BYTES / best(source.sum, rounds) / 1e9,
        "bf16_gflop_s": 2 * SIZE**3 / best(lambda: a @ a, rounds) / 1e9,
        "int8_gop_s": 2 * INT8_SIZE**3 / best(lambda: torch._int_mm(whole, whole), rounds) / 1e9,
    }


def processor() -> str:
    """Return the processor's name and what it multiplies with."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    found = {key.strip(): value.strip() for key, value in facts.items()}
    flags = set(found.get("flags", "").split())
    known = [name for name in ("amx_bf16", "avx512_bf16", "avx512_vnni", "avx2") if name in flags]
    return f"{found.get('model name', 'unknown')}, {', '.join(known)}"
