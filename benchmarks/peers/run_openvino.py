"""OpenVINO GenAI: continuous batching with its prefix cache, weights in fp16."""

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import openvino as ov
import openvino_genai as genai
from driver import Ready, models, pattern_of, serve


class OpenVino:
    """Requests on a ContinuousBatchingPipeline."""

    shares_running = False

    def __init__(self, threads: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = 1
        scheduler.enable_prefix_caching = True
        scheduler.max_num_batched_tokens = 2048
        scheduler.max_num_seqs = 256
        self._pipe = genai.ContinuousBatchingPipeline(
            str(models() / "openvino"), scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads}
        )
        self._numbers = itertools.count()
        self._running: list[tuple[Ready, Any, dict[int, list[int]]]] = []
        self.first_token_at: float | None = None

    def start(self, requests: list[Ready]) -> None:
        for ready in requests:
            ids = ov.Tensor(np.array([ready.ids], dtype=np.int64))
            handle = self._pipe.add_request(next(self._numbers), ids, config_of(ready.spec))
            self._running.append((ready, handle, {}))

    def wait(self) -> list[Ready]:
        ended: list[Ready] = []
        while not ended:
            self._pipe.step()
            ended = [ready for ready, handle, got in self._running if self._take(handle, got)]
            for ready, _, got in self._running:
                if ready in ended:
                    ready.outputs = list(got.values())
            self._running = [each for each in self._running if each[0] not in ended]
        return ended

    def _take(self, handle: Any, got: dict[int, list[int]]) -> bool:
        """Take a request's new tokens; return whether it has ended."""
        while handle.can_read():
            for sequence, output in handle.read().items():
                got.setdefault(sequence, []).extend(output.generated_ids)
            if self.first_token_at is None:
                self.first_token_at = time.perf_counter()
        return handle.get_status() != genai.GenerationStatus.RUNNING

    def pids(self) -> list[int]:
        return [os.getpid()]


def config_of(spec: dict[str, Any]) -> Any:
    """Return a request's parameters as the pipeline takes them."""
    config = genai.GenerationConfig()
    config.max_new_tokens = spec["max_tokens"]
    config.ignore_eos = spec["is_fixed"]
    if not spec["is_fixed"]:
        config.eos_token_id = 2
    config.do_sample = spec["temperature"] > 0
    config.num_return_sequences = spec["samples"]
    pattern = pattern_of(spec)
    if pattern is not None:
        config.structured_output_config = genai.StructuredOutputConfig(regex=pattern)
    return config


def make() -> tuple[OpenVino, str]:
    """Open the model on as many threads as the environment says."""
    engine = OpenVino(int(os.environ["LMC_THREADS"]))
    return engine, f"OpenVINO GenAI {genai.__version__.split('-')[0]}, fp16 weights"


if __name__ == "__main__":
    serve(make)
