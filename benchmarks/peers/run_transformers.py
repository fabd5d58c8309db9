"""transformers in bf16 with a static batch: what waits is padded and generated together."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import transformers
from driver import Ready, models, serve


class StaticBatch:
    """Greedy requests of fixed lengths, all that wait as one batch."""

    shares_running = False

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            models() / "hf", dtype=torch.bfloat16
        )
        self._waiting: list[Ready] = []
        self.first_token_at: float | None = None

    def start(self, requests: list[Ready]) -> None:
        self._waiting += requests

    def wait(self) -> list[Ready]:
        batch, self._waiting = self._waiting, []
        longest = max(len(each.ids) for each in batch)
        ids = torch.tensor([[0] * (longest - len(each.ids)) + each.ids for each in batch])
        mask = torch.tensor(
            [[0] * (longest - len(each.ids)) + [1] * len(each.ids) for each in batch]
        )
        count = max(each.spec["max_tokens"] for each in batch)
        made = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            logits_processor=transformers.LogitsProcessorList([self._note]),
        )
        for each, row in zip(batch, made.tolist(), strict=True):
            each.outputs = [row[longest : longest + each.spec["max_tokens"]]]
        return batch

    def _note(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Note when the first logits are there; changes nothing."""
        if self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        return scores

    def pids(self) -> list[int]:
        return [os.getpid()]


def make() -> tuple[StaticBatch, str]:
    """Load the model for as many threads as the environment says."""
    engine = StaticBatch(int(os.environ["LMC_THREADS"]))
    return engine, f"transformers {transformers.__version__}, bf16, static batch"


if __name__ == "__main__":
    serve(make)
