"""Time to the first token of a new process, without and with the KV that an old one left on disk.

    python benchmarks/bench_restart.py [--tokens 1500] [--model MODEL] [--repeat 3]

Each figure is of a process of its own, from the call to its first token: the model is loaded
before. Wall and CPU seconds, the least of the repetitions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from lmc.backends import open_backend
from lmc.ir.calls import GenCall, SamplingParams


def measure(tokens: int, model: str | None, folder: str | None) -> dict[str, Any]:
    """Open an engine, ask for one token behind a prefix, and return what that took."""
    options = {} if folder is None else {"disk_tier": folder}
    backend: Any = open_backend(model, num_slots=tokens + 64, **options)
    rules = " ".join(
        f"Rule {i}: be {'kind' if i % 2 else 'brief'} about item {i}." for i in range(tokens)
    )
    context = tuple(backend.target.tokenizer.encode(rules)[:tokens])
    results: list[Any] = []
    is_done = threading.Event()

    def done(result: Any) -> None:
        results.append(result)
        is_done.set()

    params = SamplingParams(max_tokens=1, temperature=0.0, return_logprob=True)
    wall, cpu = time.perf_counter(), time.process_time()
    backend.submit_gen(GenCall(context, params), done)
    is_done.wait()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    backend.close()
    usage = results[0].usage
    answer = [list(results[0].token_ids), results[0].logprobs]
    return {
        "wall": wall, "cpu": cpu, "computed": usage.computed_tokens,
        "from disk": usage.cached_disk_tokens, "answer": answer,
    }  # fmt: skip


def in_a_process(arguments: argparse.Namespace, folder: str | None) -> dict[str, Any]:
    """Measure in a new process."""
    command = [sys.executable, __file__, "--tokens", str(arguments.tokens), "--one"]
    command += ["--model", arguments.model] if arguments.model else []
    command += ["--folder", folder] if folder else []
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Measure, compare the answers, and print a row per way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--model")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.tokens, arguments.model, arguments.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = {"cold": [in_a_process(arguments, None) for _ in range(arguments.repeat)]}
        rows["cold, writes"] = [in_a_process(arguments, folder)]
        rows["warm disk"] = [in_a_process(arguments, folder) for _ in range(arguments.repeat)]
    answers = {json.dumps(each["answer"]) for made in rows.values() for each in made}
    for name, made in rows.items():
        wall, cpu = (min(each[kind] for each in made) for kind in ("wall", "cpu"))
        print(
            f"{name:<14}{wall:>8.3f} s wall {cpu:>8.3f} s CPU "
            f"{made[0]['computed']:>6,} computed {made[0]['from disk']:>6,} from disk"
        )
    print("the answers are the same bits" if len(answers) == 1 else "THE ANSWERS DIFFER")


if __name__ == "__main__":
    main()
