"""Carries out plain requests (workloads/requests.py) on a peer, in the peer's own environment.

Uses nothing but the standard library and `tokenizers`. A request is handed to the engine once
those that its prompt needs have ended. Commands come as lines of JSON on standard input and
are answered by lines of JSON; what libraries print goes to standard error.
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass
class Ready:
    """A request whose prompt is known.

    Attributes:
        name: of the request.
        ids: the prompt.
        spec: the request as JSON gave it.
        outputs: token ids per sample, once it has ended.
    """

    name: str
    ids: list[int]
    spec: dict[str, Any]
    outputs: list[list[int]] = field(default_factory=list)


class Engine(Protocol):
    """What an adapter provides.

    Attributes:
        shares_running: whether requests find prefixes of others that run.
        first_token_at: `time.perf_counter()` of the first output token since it was set to None.
    """

    shares_running: bool
    first_token_at: float | None

    def start(self, requests: list[Ready]) -> None:
        """Take requests."""
        ...

    def wait(self) -> list[Ready]:
        """Work until requests have ended, and return them with their outputs."""
        ...

    def pids(self) -> list[int]:
        """Return the processes that work for it."""
        ...


class Graph:
    """The requests of a workload, and what is known of their outputs."""

    def __init__(self, requests: list[dict[str, Any]], tokenizer: Any) -> None:
        self.waiting = {request["name"]: request for request in requests}
        self.outputs: dict[str, list[int]] = {}
        self._tokenizer = tokenizer

    def take_ready(self, *, in_order: bool) -> list[Ready]:
        """Return the requests that may start now; `in_order` heeds `after` as well."""
        found = [r for r in self.waiting.values() if self._needs(r, in_order) <= set(self.outputs)]
        for request in found:
            del self.waiting[request["name"]]
        return [Ready(r["name"], self._ids(r["prompt"]), r) for r in found]

    def end(self, ready: Ready) -> None:
        """Take note of what a request gave."""
        self.outputs[ready.name] = ready.outputs[0]

    def _needs(self, request: dict[str, Any], in_order: bool) -> set[str]:
        names = set(request["after"]) if in_order else set()
        for run in request["prompt"]:
            pieces = run.get("pieces", [run])
            names |= {piece["request"] for piece in pieces if isinstance(piece, dict)}
        return names

    def _ids(self, prompt: list[dict[str, Any]]) -> list[int]:
        ids: list[int] = []
        for run in prompt:
            if "pieces" not in run:
                ids += self.outputs[run["request"]]
                continue
            joined = "".join(self._text(piece) for piece in run["pieces"])
            ids += self._tokenizer.encode(joined, add_special_tokens=False).ids
        return ids

    def _text(self, piece: Any) -> str:
        if isinstance(piece, str):
            return piece
        made = self._tokenizer.decode(self.outputs[piece["request"]], skip_special_tokens=True)
        return made.strip() if piece["strip"] else made


def carry_out(engine: Engine, requests: list[dict[str, Any]], tokenizer: Any) -> dict[str, Any]:
    """Answer all requests; return what they took.

    Returns:
        seconds in all and to the first token; prompt and output tokens; first ids for checks.
    """
    graph = Graph(requests, tokenizer)
    engine.first_token_at = None
    ended: list[Ready] = []
    begun = time.perf_counter()
    while len(ended) < len(requests):
        ready = graph.take_ready(in_order=not engine.shares_running)
        if ready:
            engine.start(ready)
        for each in engine.wait():
            graph.end(each)
            ended.append(each)
    seconds = time.perf_counter() - begun
    first = engine.first_token_at
    return {
        "seconds": seconds,
        "first_token": None if first is None else first - begun,
        "prompt_tokens": sum(len(each.ids) for each in ended),
        "output_tokens": sum(len(ids) for each in ended for ids in each.outputs),
        "outputs": {each.name: each.outputs[0] for each in ended},
    }


def peak_megabytes(pids: list[int]) -> float:
    """Return the most memory that processes have held, in MB of 10^6 bytes."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        total += int(line.split()[1]) * 1024
    return total / 1e6


def choice_pattern(choices: list[str]) -> str:
    """Return a regex of texts that need no escape."""
    assert all(c.replace(" ", "").isalnum() for c in choices), "escapes differ between engines"
    return "(" + "|".join(choices) + ")"


def pattern_of(spec: dict[str, Any]) -> str | None:
    """Return the regex that holds a request's output, if any."""
    return choice_pattern(spec["choices"]) if spec["choices"] else spec["regex"]


def serve(make: Any) -> None:
    """Make an engine, then answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    begun = time.perf_counter()
    engine, about = make()
    answer({"ready": True, "about": about, "seconds": time.perf_counter() - begun})
    tokenizer = about_tokenizer()
    for line in sys.stdin:
        command = json.loads(line)
        taken = carry_out(engine, command["requests"], tokenizer)
        answer({**taken, "peak_mb": peak_megabytes(engine.pids())})
    close = getattr(engine, "close", None)
    if close is not None:
        close()


def about_tokenizer() -> Any:
    """Return the model's tokenizer; the spelling of a control token stays text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(models() / "hf" / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def models() -> Path:
    """Return the folder of the peers' models."""
    return Path(os.environ["LMC_PEERS"]) / "models"
