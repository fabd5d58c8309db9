"""What draft tokens are worth: forward passes and CPU time per token, with and without them.

Every way of drafting answers the same calls on the same model; the answers are compared bit by
bit. Times are CPU time of the process, on one thread unless told otherwise.

    python benchmarks/bench_drafts.py [--data FOLDER] [--drafts KIND,...] [--batch N,...]
"""

import argparse
import json
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmc.backends import load_model
from lmc.ir.calls import GenCall, SamplingParams
from lmc.runtime.engine.engine import Engine

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LONGEST_TEXT = 1600


def articles(data: Path) -> list[str]:
    """Return requests for summaries."""
    lines = (data / "llm_judge" / "articles.jsonl").read_text(encoding="utf-8").splitlines()
    ask = "Summarize the following article in three sentences.\n\n"
    return [ask + json.loads(line)[:LONGEST_TEXT] for line in lines]


def questions(data: Path, *categories: str) -> list[str]:
    """Return first turns of a chat benchmark's categories."""
    lines = (data / "mtbench" / "question.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [r["turns"][0][:LONGEST_TEXT] for r in records if r["category"] in categories]


def edits(data: Path) -> list[str]:
    """Return requests to write code again with a small change; the code is this repository's."""
    root = Path(__file__).resolve().parents[1]
    ask = "Rewrite this Python code with short comments. Change nothing else.\n\n```python\n"
    return [
        f"{ask}{path.read_text(encoding='utf-8')[:LONGEST_TEXT]}\n```"
        for path in sorted((root / "runtime" / "engine").glob("*.py"))
    ]


WORKLOADS: dict[str, Callable[[Path], list[str]]] = {
    "summary": articles,
    "chat": lambda data: questions(data, "writing", "roleplay", "humanities", "stem"),
    "code": lambda data: questions(data, "coding"),
    "edit": edits,
}


def chat_ids(target: Any, text: str) -> tuple[int, ...]:
    """Return the context of an answer to one message."""
    template, ids = target.template, list(target.tokenizer.start_ids)
    opening = template.begin("user", is_first=True)
    closing = (*template.end("user"), *template.begin("assistant", is_first=False))
    for piece in (*opening, text, *closing):
        ids += target.tokenizer.encode(piece) if isinstance(piece, str) else [piece]
    return tuple(ids)


def answer_all(engine: Any, calls: list[GenCall], batch: int) -> list[Any]:
    """Answer calls, `batch` at a time."""
    results: list[Any] = [None] * len(calls)
    for start in range(0, len(calls), batch):
        part = calls[start : start + batch]
        outcomes: queue.Queue[tuple[int, Any]] = queue.Queue()
        for index, call in enumerate(part, start):
            engine.submit_gen(call, lambda o, i=index, q=outcomes: q.put((i, o)))
        for _ in part:
            index, results[index] = outcomes.get()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def measure(loaded: Any, calls: list[GenCall], batch: int, **options: Any) -> tuple[Any, ...]:
    """Return the answers, the engine's counts, and the CPU seconds of a run."""
    with Engine(loaded.model, loaded.target, **options) as engine:
        before = time.process_time()
        results = answer_all(engine, calls, batch)
        seconds = time.process_time() - before
        return results, engine.stats(), seconds


def main() -> None:
    """Print a line per workload, temperature, batch and kind of drafts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--drafts", default="ngram")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--temperature", default="0,0.7")
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--num-drafts", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    loaded = load_model(None)
    print(
        "workload  temp batch drafts  passes  tokens  CPU ms/token  ratio  drafted accepted",
        flush=True,
    )
    for name in options.workloads.split(","):
        texts = WORKLOADS[name](options.data)[: options.calls]
        contexts = [chat_ids(loaded.target, text) for text in texts]
        for temperature in map(float, options.temperature.split(",")):
            params = SamplingParams(
                max_tokens=options.tokens, temperature=temperature, return_logprob=True
            )
            calls = [GenCall(ids, params, None, key) for key, ids in enumerate(contexts)]
            for batch in map(int, options.batch.split(",")):
                plain = None
                for kind in ("off", *options.drafts.split(",")):
                    results, stats, seconds = measure(
                        loaded,
                        calls,
                        batch,
                        threads=options.threads,
                        drafts=kind,
                        num_drafts=options.num_drafts,
                        draft_model=loaded.model if kind == "model" else None,
                    )
                    plain = plain or (results, seconds)
                    assert results == plain[0], "drafts changed an answer"
                    print(
                        f"{name:<9} {temperature:<4} {batch:>5} {kind:<7}"
                        f"{stats.engine_steps:>7} {stats.output_tokens:>7}"
                        f"{1000 * seconds / stats.output_tokens:>13.2f}"
                        f"{seconds / plain[1]:>8.2f}"
                        f"{stats.drafted_tokens:>8} {stats.accepted_tokens:>8}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
