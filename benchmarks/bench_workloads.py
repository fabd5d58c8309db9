"""lmc's workloads, alone or beside the peers that are installed.

    python benchmarks/bench_workloads.py                       # lmc alone
    python benchmarks/bench_workloads.py --peers all --write   # and docs/benchmarks.md

In each repeat every engine carries out the workload once, one after the other, on texts that
no cache has seen. Medians count. With --keep, figures of earlier runs stay in the file of
results for what is not measured now.
"""

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from compare import limits
from compare.engines import LMC, PEERS, ROOT, EngineFailed, Kind, Process, python_of
from compare.page import render
from compare.results import Results
from compare.tables import ratio_table, seconds_table, single_table
from workloads.catalogue import NAMES, Workload, build_all
from workloads.requests import as_json
from workloads.texts import DATA, MissingData, Texts, read_rows

from lmc.backends import open_target

RESULTS = ROOT / "docs" / "benchmarks.json"
ONCE = frozenset(("h64",))
"""Workloads that are too long to be repeated."""


def chosen(options: argparse.Namespace) -> list[Kind]:
    """Return the engines to measure; tells which peers are not there."""
    kinds = [kind for kind in LMC if options.modes == "all" or kind is LMC[0]]
    wanted = options.peers.split(",") if options.peers else []
    for kind in PEERS:
        if wanted != ["all"] and kind.group not in wanted:
            continue
        if python_of(kind) is None:
            print(f"{kind.name}: not installed, skipped (make peer-{kind.group})", flush=True)
        else:
            kinds.append(kind)
    return kinds


def command(workload: Workload, repeat: int, kind: Kind) -> dict[str, Any]:
    """Return what an engine is asked: lmc to run the program, peers to answer its requests."""
    if kind.group == "lmc":
        return {"workload": workload.name, "repeat": repeat}
    return {"requests": as_json(workload.requests)}


class Run:
    """Measures workloads on running engines."""

    def __init__(self, engines: list[Process], made: list[dict[str, Workload]]) -> None:
        self._engines = engines
        self._made = made
        self.failed: set[str] = set()

    def ask(self, engine: Process, name: str, repeat: int) -> dict[str, Any] | None:
        """Return what an engine took; None, with a word, where it failed."""
        if engine.kind.name in self.failed or not engine.kind.can_run(name):
            return None
        try:
            taken = engine.ask(command(self._made[repeat][name], repeat, engine.kind))
        except EngineFailed as error:
            print(f"{name}: {error}", flush=True)
            self.failed.add(engine.kind.name)
            return None
        taken.pop("outputs", None)
        return taken

    def measure(self, name: str, repeats: int) -> dict[str, list[dict[str, Any]]]:
        """Carry out a workload on all engines, taking turns."""
        taken: dict[str, list[dict[str, Any]]] = {}
        for repeat in range(1, 1 + (1 if name in ONCE else repeats)):
            shift = repeat % len(self._engines)
            for engine in self._engines[shift:] + self._engines[:shift]:
                sample = self.ask(engine, name, repeat)
                if sample is not None:
                    taken.setdefault(engine.kind.name, []).append(sample)
        return taken


def measure(options: argparse.Namespace) -> Results:
    """Measure everything that was asked for."""
    tokenizer = open_target(None).tokenizer
    rows = read_rows(options.data)
    made = [build_all(None, Texts(tokenizer, rows, n)) for n in range(options.repeat + 1)]
    results = Results.load(options.results) if options.keep else Results.empty()
    results.data["machine"] = limits.processor()
    results.data["limits"] = limits.measure(options.threads)
    logs = ROOT / ".peers" / "logs"
    with contextlib.ExitStack() as stack:
        engines = []
        for kind in chosen(options):
            try:
                engine = Process(kind, options.threads, logs / f"{kind.name}.log")
            except EngineFailed as error:
                print(f"{error}: skipped", flush=True)
                continue
            engines.append(stack.enter_context(engine))
            about = {"group": kind.group, "precision": kind.precision, **engine.about}
            earlier = results.data["kinds"].get(kind.name, {})
            results.data["kinds"][kind.name] = {**earlier, **about}
        run = Run(engines, made)
        for engine in engines:
            run.ask(engine, "check", 0)
        for name in options.workloads:
            begun = time.perf_counter()
            for engine, samples in run.measure(name, options.repeat).items():
                results.set_samples(name, engine, samples)
                if name == "a":
                    results.data["kinds"][engine]["peak_mb"] = samples[-1]["peak_mb"]
            results.save(options.results)
            print(f"{name}: measured in {time.perf_counter() - begun:.0f} s", flush=True)
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peers", default="", help="openvino,llamacpp,... or all")
    parser.add_argument("--modes", choices=["exact", "all"], default="all")
    parser.add_argument("--workloads", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "benchmarks.json")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--write", action="store_true", help="fill docs/benchmarks.md and .json")
    options = parser.parse_args()
    if options.write:
        options.results = RESULTS
    try:
        results = measure(options)
    except MissingData as error:
        sys.exit(f"skipped: {error}")
    print(f"\n{results.data['machine']}; {options.threads} threads")
    print(", ".join(f"{name} {value:,.0f}" for name, value in results.data["limits"].items()))
    print("\nseconds (output tokens per second):\n")
    print(seconds_table(results, options.workloads))
    print("\n" + single_table(results))
    if results.engines(peers=True):
        print("\nas many times as fast as the best peer:\n\n" + ratio_table(results))
    if options.write:
        render(results, RESULTS.with_suffix(".md"), NAMES)


if __name__ == "__main__":
    main()
