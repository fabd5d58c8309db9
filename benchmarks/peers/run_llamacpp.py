"""llama.cpp's own server with 64 slots; weights in bf16, or quantized as a second argument says."""

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from driver import Ready, models, pattern_of, serve
from gbnf import gbnf_of

SLOTS = 64
CONTEXT = 64 * 2304
START_SECONDS = 60


class LlamaServer:
    """Requests over HTTP, as many at a time as the server has slots."""

    shares_running = False

    def __init__(self, threads: int, file: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        binary = Path(os.environ["LMC_PEERS"]) / "llamacpp" / "build" / "bin" / "llama-server"
        self._process = subprocess.Popen(
            [
                *(str(binary), "--model", str(models() / "llamacpp" / file)),
                *("--threads", str(threads), "--threads-batch", str(threads)),
                *("--parallel", str(SLOTS), "--ctx-size", str(CONTEXT), "--kv-unified"),
                *("--port", str(self._port), "--no-webui", "--log-disable"),
            ],
            stdout=subprocess.DEVNULL,
        )
        self._ended: queue.Queue[Ready | Exception] = queue.Queue()
        self.first_token_at: float | None = None
        self._expect_health()

    def _expect_health(self) -> None:
        """Wait until the server answers."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("llama-server does not answer")

    def start(self, requests: list[Ready]) -> None:
        for ready in requests:
            for number in range(ready.spec["samples"]):
                work = partial(self._work, ready, number)
                threading.Thread(target=work, daemon=True).start()

    def wait(self) -> list[Ready]:
        while True:
            ended = self._ended.get()
            if isinstance(ended, Exception):
                raise ended
            if len(ended.outputs) == ended.spec["samples"]:
                return [ended]

    def _work(self, ready: Ready, seed: int) -> None:
        try:
            ids = self._answer(ready, seed)
        except Exception as error:  # told to who waits
            self._ended.put(error)
            return
        ready.outputs.append(ids)
        self._ended.put(ready)

    def _answer(self, ready: Ready, seed: int) -> list[int]:
        spec, ids = ready.spec, []
        body: dict[str, Any] = {
            "prompt": ready.ids,
            "n_predict": spec["max_tokens"],
            "ignore_eos": spec["is_fixed"],
            "temperature": spec["temperature"],
            "seed": seed,
            "top_k": 0 if spec["temperature"] else 1,
            "top_p": 1.0,
            "min_p": 0.0,
            "cache_prompt": True,
            "stream": True,
            "return_tokens": True,
        }
        pattern = pattern_of(spec)
        if pattern is not None:
            body["grammar"] = gbnf_of(pattern)
        connection = HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.request(
            "POST", "/completion", json.dumps(body), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"llama-server: {answer.read(500)!r}")
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            if self.first_token_at is None:
                self.first_token_at = time.perf_counter()
            ids += json.loads(line[6:]).get("tokens") or []
        connection.close()
        return ids

    def pids(self) -> list[int]:
        return [self._process.pid]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)


def make() -> tuple[LlamaServer, str]:
    """Start the server on as many threads as the environment says."""
    kind = sys.argv[1]
    engine = LlamaServer(int(os.environ["LMC_THREADS"]), f"{kind}.gguf")
    return engine, f"llama.cpp server, {kind}, {SLOTS} slots"


if __name__ == "__main__":
    serve(make)
