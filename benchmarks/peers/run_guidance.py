"""guidance on llama.cpp, bf16: requests under a regex, one after another."""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import guidance
from driver import Ready, about_tokenizer, models, pattern_of, serve


class Guidance:
    """Requests on one model object; guidance forces tokens by itself."""

    shares_running = False

    def __init__(self, threads: int) -> None:
        self._tokenizer = about_tokenizer()
        self._model = guidance.models.LlamaCpp(
            str(models() / "llamacpp" / "bf16.gguf"), n_ctx=4096, n_threads=threads, echo=False
        )
        self._waiting: list[Ready] = []
        self.first_token_at: float | None = None

    def start(self, requests: list[Ready]) -> None:
        self._waiting += requests

    def wait(self) -> list[Ready]:
        ready = self._waiting.pop(0)
        prompt = self._tokenizer.decode(ready.ids, skip_special_tokens=False)
        made = self._model + prompt
        made += guidance.gen(
            "text", regex=pattern_of(ready.spec), max_tokens=ready.spec["max_tokens"]
        )
        if self.first_token_at is None:
            self.first_token_at = time.perf_counter()
        ready.outputs = [self._tokenizer.encode(made["text"], add_special_tokens=False).ids]
        return [ready]

    def pids(self) -> list[int]:
        return [os.getpid()]


def make() -> tuple[Guidance, str]:
    """Open the model on as many threads as the environment says."""
    engine = Guidance(int(os.environ["LMC_THREADS"]))
    return engine, f"guidance {guidance.__version__} on llama.cpp, bf16"


if __name__ == "__main__":
    serve(make)
