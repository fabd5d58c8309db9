"""Decode speed as a share of the memory bandwidth measured in the same run.

A decode step reads every weight once, so the memory's bandwidth bounds its speed. In a round,
reads of 512 MB and short runs of decode steps take turns, so that whatever else runs on the
machine disturbs both alike; of each the best round counts.

    python benchmarks/bench_decode.py [--model PATH] [--turns N] [--rounds N] [--context N]
"""

import argparse
import math
import time
from collections.abc import Callable

import torch

from lmc.kernels.arena import WeightArena
from lmc.kernels.cpu import CpuKernels
from lmc.models_store import find_model
from lmc.runtime.models import CausalModel, ForwardBatch

READ_BYTES = 512 << 20
LINE_BYTES = 64
STEPS_PER_TURN = 4


class Decoding:
    """A number of sequences that decode together, greedily, after a random prompt."""

    def __init__(self, model: CausalModel, num_seqs: int, context: int) -> None:
        self.model = model
        self.num_seqs = num_seqs
        self.context = context
        length = context + STEPS_PER_TURN
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

    def run(self) -> None:
        """Decode STEPS_PER_TURN tokens of every sequence."""
        rows, starts = list(range(self.num_seqs)), list(range(self.num_seqs + 1))
        any_id = self.model.config.vocab_size // 2
        ids = torch.full((self.num_seqs,), any_id, dtype=torch.int32)
        for step in range(STEPS_PER_TURN):
            positions = torch.full((self.num_seqs,), self.context + step, dtype=torch.int32)
            ids = self.model.kernels.argmax(self.forward(ids, positions, starts, rows))

    def bytes_per_step(self) -> int:
        """Weights and cached tokens that a step reads."""
        cached = self.num_seqs * (self.context + STEPS_PER_TURN // 2)
        return self.model.nbytes_per_step + cached * self.kv.nbytes_per_token


def least_seconds(
    num_rounds: int, num_turns: int, actions: list[Callable[[], object]]
) -> list[float]:
    """Let actions take turns; return each one's mean time in its best round."""
    least = [math.inf] * len(actions)
    for _ in range(num_rounds):
        seconds = [0.0] * len(actions)
        for _ in range(num_turns):
            for i, action in enumerate(actions):
                begin = time.perf_counter()
                action()
                seconds[i] += time.perf_counter() - begin
        least = [min(a, b / num_turns) for a, b in zip(least, seconds, strict=True)]
    return least


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model directory or .gguf file")
    parser.add_argument("--turns", type=int, default=8, help="turns in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--context", type=int, default=128, help="tokens of the prompt")
    options = parser.parse_args()
    kernels = CpuKernels()
    model = CausalModel.load(find_model(options.model), kernels=kernels)
    memory = WeightArena().zeros(READ_BYTES, torch.uint8)
    memory.fill_(1)  # memory that was never written would be read from one shared page
    one, eight = (Decoding(model, count, options.context) for count in (1, 8))
    read_sum = kernels.library.free.lmc_read_sum
    read, single, batched = least_seconds(
        options.rounds,
        options.turns,
        [lambda: read_sum(memory.data_ptr(), READ_BYTES // LINE_BYTES), one.run, eight.run],
    )
    bandwidth = READ_BYTES / read
    print(f"kernels           {kernels.name}")
    print(f"memory bandwidth  {bandwidth / 1e9:6.1f} GB/s (read-sum of 512 MB)")
    for decoding, turn in ((one, single), (eight, batched)):
        seconds = turn / STEPS_PER_TURN
        rate = decoding.bytes_per_step() / seconds
        print(
            f"decode, {decoding.num_seqs} at once  {decoding.num_seqs / seconds:6.1f} tokens/s, "
            f"{seconds * 1e3:.2f} ms a step, {rate / 1e9:.1f} GB/s = "
            f"{rate / bandwidth:.0%} of the bandwidth"
        )


if __name__ == "__main__":
    main()
