"""What the C++ kernels take alone: linear layers and attention of a small model, by rows.

python benchmarks/bench_kernels.py [--repeats N] [--portable | --no-amx]
"""

import argparse
import math
import time
from collections.abc import Callable

import torch

from lmc.kernels.cpu import CpuKernels
from lmc.kernels.interface import AttentionIndex, LinearPart

SHAPES = [(960, 576), (576, 576), (3072, 576), (576, 1536), (49152, 576)]
"""Outputs and inputs of a model of 135 million weights."""

ROWS = [1, 2, 8, 16, 32, 64, 512, 2048]
HEADS, KV_HEADS, HEAD_DIM = 9, 3, 64


def least_seconds(action: Callable[[], object], repeats: int) -> float:
    """Return the least time of some runs."""
    action()
    least = math.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        least = min(least, time.perf_counter() - begin)
    return least


def linears(kernels: CpuKernels, repeats: int) -> None:
    """Print each shape's time; several copies take turns, so that weights come from memory."""
    for n, k in SHAPES:
        copies = max(1, (64 << 20) // (n * k * 2))
        part = [LinearPart(torch.randn(n, k) / k**0.5)]
        layers = [kernels.pack_linear(part, torch.bfloat16) for _ in range(copies)]
        for rows in ROWS:
            if n * rows > 1 << 24:
                continue
            x, out = torch.randn(rows, k).bfloat16(), torch.empty(rows, n)
            turns = [layer for _, layer in zip(range(64), layers * 8, strict=False)]

            def run(x: torch.Tensor = x, out: torch.Tensor = out, turns: list = turns) -> None:
                for layer in turns:
                    kernels.linear(x, layer, out)

            seconds = least_seconds(run, repeats) / len(turns)
            rate, read = 2e-9 * n * k * rows / seconds, 2e-9 * n * k / seconds
            print(
                f"linear {n:5} x {k:4}, {rows:4} rows  {seconds * 1e6:9.1f} us  "
                f"{read:6.1f} GB/s  {rate:7.0f} GFLOP/s"
            )


def attention(kernels: CpuKernels, repeats: int) -> None:
    """Print the time of decode steps and of prompts."""
    for seqs, rows, cached in [
        (1, 1, 192), (8, 1, 192), (32, 1, 192), (1, 1, 2048), (16, 1, 700),
        (1, 2048, 0), (1, 512, 1536), (8, 64, 64),
    ]:  # fmt: skip
        length = cached + rows
        keys, values = torch.randn(2, seqs * length, KV_HEADS, HEAD_DIM).bfloat16()
        index = AttentionIndex(
            positions=torch.arange(cached, length).repeat(seqs).int(),
            seq_starts=torch.arange(0, seqs * rows + 1, rows).int(),
            table_rows=torch.arange(seqs).int(),
            page_table=torch.arange(seqs * length).view(seqs, length).int(),
        )
        q = torch.randn(seqs * rows, HEADS, HEAD_DIM).bfloat16()
        out = torch.empty_like(q)
        seconds = least_seconds(lambda: kernels.attention(q, keys, values, index, out), repeats)  # noqa: B023
        print(f"attention, {seqs:2} x {rows:4} rows over {cached:4}  {seconds * 1e6:9.1f} us")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--portable", action="store_true", help="without bf16 instructions")
    parser.add_argument("--no-amx", action="store_true", help="without tile registers")
    options = parser.parse_args()
    kernels = CpuKernels(use_native_bf16=not options.portable, use_amx=not options.no_amx)
    print(f"kernels {kernels.name}, {kernels.num_threads} threads")
    linears(kernels, options.repeats)
    attention(kernels, options.repeats)


if __name__ == "__main__":
    main()
