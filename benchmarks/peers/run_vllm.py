"""vLLM on the CPU: bf16, prefix cache, chunked prefill; the engine steps in this process."""

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ["VLLM_CPU_KVCACHE_SPACE"] = "2"
os.environ["VLLM_NO_USAGE_STATS"] = "1"

import vllm
from driver import Ready, models, pattern_of, serve
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams


class Vllm:
    """Requests on an LLMEngine."""

    shares_running = True

    def __init__(self, threads: int) -> None:
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = f"0-{threads - 1}"
        llm = vllm.LLM(
            str(models() / "hf"),
            dtype="bfloat16",
            max_model_len=8192,
            max_num_seqs=64,
            enable_prefix_caching=True,
        )
        self._engine = llm.llm_engine
        self._numbers = itertools.count()
        self._running: dict[str, Ready] = {}
        self.first_token_at: float | None = None

    def start(self, requests: list[Ready]) -> None:
        for ready in requests:
            name = str(next(self._numbers))
            self._running[name] = ready
            prompt = {"prompt_token_ids": ready.ids}
            self._engine.add_request(name, prompt, params_of(ready.spec))

    def wait(self) -> list[Ready]:
        ended: list[Ready] = []
        while not ended:
            for output in self._engine.step():
                if self.first_token_at is None:
                    self.first_token_at = time.perf_counter()
                if output.finished:
                    ready = self._running.pop(output.request_id)
                    ready.outputs = [list(each.token_ids) for each in output.outputs]
                    ended.append(ready)
        return ended

    def pids(self) -> list[int]:
        return [os.getpid()]


def params_of(spec: dict[str, Any]) -> Any:
    """Return a request's parameters as vLLM takes them."""
    pattern = pattern_of(spec)
    return vllm.SamplingParams(
        n=spec["samples"],
        temperature=spec["temperature"],
        max_tokens=spec["max_tokens"],
        ignore_eos=spec["is_fixed"],
        detokenize=False,
        output_kind=RequestOutputKind.CUMULATIVE,
        structured_outputs=None if pattern is None else StructuredOutputsParams(regex=pattern),
    )


def make() -> tuple[Vllm, str]:
    """Open the model on as many threads as the environment says."""
    return Vllm(int(os.environ["LMC_THREADS"])), f"vLLM {vllm.__version__} on the CPU, bf16"


if __name__ == "__main__":
    serve(make)
