"""Decode speed as a share of the memory bandwidth measured in the same run.

A decode step reads every weight once, so the memory's bandwidth bounds its speed. Reads of
512 MB and decode steps take turns, and the best of several rounds counts for each: what else
runs on the machine then disturbs both alike.

    python benchmarks/bench_decode.py [--model PATH] [--steps N] [--rounds N] [--context N]
"""

import argparse
import time
from collections.abc import Callable

import torch

from lmc.kernels.arena import WeightArena
from lmc.kernels.cpu import CpuKernels
from lmc.models_store import find_model
from lmc.runtime.models import CausalModel, ForwardBatch

READ_BYTES = 512 << 20
LINE_BYTES = 64


class Decoding:
    """A number of sequences that decode together, greedily, after a random prompt."""

    def __init__(self, model: CausalModel, num_seqs: int, context: int, num_steps: int) -> None:
        self.model = model
        self.num_seqs = num_seqs
        self.context = context
        self.num_steps = num_steps
        length = context + num_steps
        self.kv = model.new_kv(num_seqs * length)
        self.page_table = torch.arange(num_seqs * length, dtype=torch.int32).view(num_seqs, length)
        self.prefill()

    def prefill(self) -> None:
        """Compute the prompts."""
        generator = torch.Generator().manual_seed(0)
        vocab_size = self.model.config.vocab_size
        for row in range(self.num_seqs):
            ids = torch.randint(0, vocab_size, (self.context,), generator=generator)
            positions = torch.arange(self.context, dtype=torch.int32)
            self.forward(ids.int(), positions, [0, self.context], [row])

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, starts: list[int], rows: list[int]
    ) -> torch.Tensor:
        """Run a batch; return the logits of each sequence's last row."""
        table_rows = torch.tensor(rows, dtype=torch.int32)
        counts = torch.tensor(starts).diff()
        owners = table_rows.long().repeat_interleave(counts)
        batch = ForwardBatch(
            token_ids=ids,
            positions=positions,
            slots=self.page_table[owners, positions.long()],
            seq_starts=torch.tensor(starts, dtype=torch.int32),
            table_rows=table_rows,
            page_table=self.page_table,
            logit_rows=torch.tensor(starts[1:], dtype=torch.int32) - 1,
        )
        return self.model.forward(batch, self.kv)

    def seconds_per_step(self) -> float:
        """Decode `num_steps` tokens of every sequence."""
        rows, starts = list(range(self.num_seqs)), list(range(self.num_seqs + 1))
        any_id = self.model.config.vocab_size // 2
        ids = torch.full((self.num_seqs,), any_id, dtype=torch.int32)
        begin = time.perf_counter()
        for step in range(self.num_steps):
            positions = torch.full((self.num_seqs,), self.context + step, dtype=torch.int32)
            ids = self.model.kernels.argmax(self.forward(ids, positions, starts, rows))
        return (time.perf_counter() - begin) / self.num_steps

    def bytes_per_step(self) -> int:
        """Weights and cached tokens that a step reads."""
        cached = self.num_seqs * (self.context + self.num_steps // 2)
        return self.model.nbytes_per_step + cached * self.kv.nbytes_per_token


def read_seconds(kernels: CpuKernels, memory: torch.Tensor) -> float:
    """Return the time to read and sum a block of memory on all threads."""
    begin = time.perf_counter()
    kernels.library.free.lmc_read_sum(memory.data_ptr(), memory.nbytes // LINE_BYTES)
    return time.perf_counter() - begin


def best_of(num_rounds: int, measures: list[Callable[[], float]]) -> list[float]:
    """Let the measures take turns; return the least of each."""
    rounds = [[measure() for measure in measures] for _ in range(num_rounds)]
    return [min(values) for values in zip(*rounds, strict=True)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model directory or .gguf file")
    parser.add_argument("--steps", type=int, default=32, help="decode steps in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=128, help="tokens of the prompt")
    options = parser.parse_args()
    kernels = CpuKernels()
    model = CausalModel.load(find_model(options.model), kernels=kernels)
    memory = WeightArena().zeros(READ_BYTES, torch.uint8)
    memory.fill_(1)  # memory that was never written would be read from one shared page
    one = Decoding(model, 1, options.context, options.steps)
    eight = Decoding(model, 8, options.context, options.steps)
    read, single, batched = best_of(
        options.rounds,
        [lambda: read_seconds(kernels, memory), one.seconds_per_step, eight.seconds_per_step],
    )
    bandwidth = READ_BYTES / read
    print(f"kernels           {kernels.name}")
    print(f"memory bandwidth  {bandwidth / 1e9:6.1f} GB/s (read-sum of 512 MB)")
    for decoding, seconds in ((one, single), (eight, batched)):
        rate = decoding.bytes_per_step() / seconds
        print(
            f"decode, {decoding.num_seqs} at once  {decoding.num_seqs / seconds:6.1f} tokens/s, "
            f"{seconds * 1e3:.2f} ms a step, {rate / 1e9:.1f} GB/s = "
            f"{rate / bandwidth:.0%} of the bandwidth"
        )


if __name__ == "__main__":
    main()
