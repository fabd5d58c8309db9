"""Tokens computed against what sharing allows, and compiled against eager, for docs/sharing.md.

    python benchmarks/bench_sharing.py sharing       # minutes, no weights
    python benchmarks/bench_sharing.py arrivals      # minutes, no weights
    python benchmarks/bench_sharing.py ablation      # minutes, no weights
    python benchmarks/bench_sharing.py gain judge    # on the real model, where times count

`--write` puts the tables into docs/sharing.md; `make bench-sharing` makes all of them.
"""

import argparse
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sharing.arrivals import run_arriving
from sharing.measure import SEED, offline, pool_of, run_workload
from sharing.replay import ReplayEngine, ReplayModel, words_of
from sharing.workloads import MAKERS, DataMissing, Workload

from lmc.backends import LoadedModel, load_model, open_target
from lmc.benching.measure import Bench, Measured
from lmc.benching.report import FIGURES
from lmc.benching.rows import ABLATIONS, BASE, COMPILED, EAGER
from lmc.compiler import compile_program

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sharing.md"
LARGE = 400_000
GAIN_SIZES = {"gsm8k": 0.06, "mmlu": 0.1, "judge": 0.12, "tree": 0.05, "react": 0.03,
              "branches": 0.03, "agents": 0.08, "chat": 0.05}  # fmt: skip
"""Parts of the workloads that a real model does within a minute or so."""


def workloads(names: list[str], size: float | None = None) -> Iterator[tuple[str, Workload]]:
    """Yield the workloads whose data is there; tell of the others."""
    for name in names:
        try:
            yield name, MAKERS[name](GAIN_SIZES[name] if size is None else size)
        except DataMissing as missing:
            print(f"{name}: skipped: {missing}")


def sharing(names: list[str], options: argparse.Namespace) -> list[str]:
    """Return the table of tokens computed, with a large pool and with one of half the trie."""
    target = open_target(None)
    lines = [
        "| workload | calls | tokens of contexts | trie | least | computed | beyond least "
        "| half pool | offline best | lmc | to best | arrival, LRU | to best |",
        "|---|" + "---:|" * 12,
    ]
    for _, workload in workloads(names, options.size or 1.0):
        run = run_workload(workload, target, num_slots=LARGE)
        pool = pool_of(run)
        best = offline(run.offline_calls(), pool).best
        half = run_workload(workload, target, num_slots=pool)
        plain = run_workload(
            workload, target, num_slots=pool, order="arrival", eviction="recency"
        )  # fmt: skip
        contexts = sum(len(call.call.context) for call in run.calls)
        cells = [
            workload.name, len(run.calls), contexts, run.trie, run.least, run.computed,
            run.computed - run.least, pool, best, half.computed, half.computed / best,
            plain.computed, plain.computed / best,
        ]  # fmt: skip
        lines.append(row_of(cells))
        print(lines[-1], flush=True)
    return lines


def arrivals(names: list[str], options: argparse.Namespace) -> list[str]:
    """Return the table of hit rates where runs arrive one after another."""
    target = open_target(None)
    lines = [
        "| workload | runs | at once | tokens without sharing | hit rate | offline best | to best "
        "| half pool | hit rate | offline best | to best |",
        "|---|" + "---:|" * 10,
    ]
    for _, workload in workloads(names, options.size or 1.0):
        large = run_arriving(workload, target, num_slots=LARGE)
        calls = large.run.offline_calls()
        pool = pool_of(large.run)
        half = run_arriving(workload, target, num_slots=pool)
        cells: list[Any] = [workload.name, len(workload.batch), large.at_once, large.run.tokens]
        for run, size in ((large.run, LARGE), (half.run, pool)):
            best = 1 - offline(calls, size).best / run.tokens
            rate = 1 - run.computed / run.tokens
            cells += [pool] if run is half.run else []
            cells += [f"{100 * rate:.2f} %", f"{100 * best:.2f} %", f"{100 * rate / best:.1f} %"]
        lines.append(row_of(cells))
        print(lines[-1], flush=True)
    return lines


def ablation(names: list[str], options: argparse.Namespace) -> list[str]:
    """Return the table of tokens computed without each thing, in a pool of half the trie."""
    target = open_target(None)
    rows = [BASE[1], BASE[0], *ABLATIONS]
    table: dict[str, list[Any]] = {row.name: [row.name] for row in rows}
    heads: list[str] = []
    for _, workload in workloads(names, options.size or 1.0):
        pool = pool_of(run_workload(workload, target, num_slots=LARGE))
        model = ReplayModel(target.tokenizer.vocab_size, words_of(target.tokenizer))
        measured = bench_of(workload, LoadedModel(model, target), pool).measure(rows, 1, no_note)
        check_equal(workload, measured)
        heads.append(workload.name)
        base = measured[0].figure("computed")
        for each in measured:
            value = each.figure("computed")
            table[each.row.name].append(int(value) if each.row.name == COMPILED else value / base)
        print(workload.name, {m.row.name: table[m.row.name][-1] for m in measured}, flush=True)
    head = f"| tokens computed, half pool | {' | '.join(heads)} |"
    return [head, "|---|" + "---:|" * len(heads), *(row_of(cells) for cells in table.values())]


def gain(names: list[str], options: argparse.Namespace) -> list[str]:
    """Return the table of compiled against eager, on the real model."""
    lines = [
        f"{machine()}; medians of {options.repeat}, rows taking turns.",
        "",
        "| workload | runs | calls | tokens eager | compiled | steps eager | compiled "
        "| critical path eager | compiled | seconds eager | compiled | time, compiled / eager |",
        "|---|" + "---:|" * 11,
    ]
    loaded = load_model(None)
    for _, workload in workloads(names, options.size):
        measured = bench_of(workload, loaded, None).measure(BASE, options.repeat, no_note)
        check_equal(workload, measured)
        by_name = {each.row.name: each for each in measured}
        eager, compiled = by_name[EAGER], by_name[COMPILED]
        cells: list[Any] = [workload.name, len(workload.batch), int(compiled.figure("calls"))]
        for name in ("computed", "steps", "chain"):
            cells += [int(eager.figure(name)), int(compiled.figure(name))]
        cells += [eager.figure("seconds"), compiled.figure("seconds")]
        lines.append(row_of([*cells, compiled.figure("seconds") / eager.figure("seconds")]))
        print(lines[-1], flush=True)
    return lines


def judge(names: list[str], options: argparse.Namespace) -> list[str]:
    """Return the table of the judge on the real model, without each thing."""
    workload = MAKERS["judge"](options.size or GAIN_SIZES["judge"])
    rows = [BASE[1], BASE[0], *ABLATIONS]
    measured = bench_of(workload, load_model(None), None).measure(rows, options.repeat, no_note)
    check_equal(workload, measured)
    lines = [
        f"{machine()}; medians of {options.repeat}, rows taking turns; ratios to compiled.",
        "",
        f"| judge, {len(workload.batch)} articles | tokens | steps | critical path | seconds "
        "| tokens, ratio | steps, ratio | critical path, ratio | time, ratio |",
        "|---|" + "---:|" * 8,
    ]
    for each in measured:
        values = [each.figure(name) for name in FIGURES]
        ratios = [each.figure(name) / measured[0].figure(name) for name in FIGURES]
        lines.append(row_of([each.row.name, *map(int, values[:3]), values[3], *ratios]))
        print(lines[-1], flush=True)
    return lines


def bench_of(workload: Workload, loaded: LoadedModel, num_slots: int | None) -> Bench:
    """Return the bench of a workload whose answers are the recorded ones."""
    target: Any = loaded.target
    is_real = not isinstance(loaded.model, ReplayModel)
    words = words_of(target.tokenizer)

    def make_engine(options: Mapping[str, Any]) -> ReplayEngine:
        inner = loaded.model if is_real else None
        vocab_size = target.tokenizer.vocab_size
        model = ReplayModel(vocab_size, words, inner)
        return ReplayEngine(model, target, workload.answer, num_slots=num_slots, **options)

    compiled = compile_program(workload.program, target=target)
    return Bench(compiled, workload.program, workload.batch, make_engine, SEED)


def check_equal(workload: Workload, measured: list[Measured]) -> None:
    """Fail where rows gave different results."""
    expected = measured[0].samples[0].results
    for each in measured:
        for sample in each.samples:
            assert sample.results == expected, f"{workload.name}: {each.row.name} differs"


def no_note() -> None:
    """Show nothing between samples."""


def row_of(cells: list[Any]) -> str:
    """Return a line of a table: integers with commas, ratios with two digits."""
    texts = [f"{c:,}" if isinstance(c, int) else f"{c:.2f}" if isinstance(c, float) else c
             for c in cells]  # fmt: skip
    return f"| {' | '.join(texts)} |"


def machine() -> str:
    """Return the class of the machine, in words."""
    cores = len(os.sched_getaffinity(0))
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"model name\s*: (.*)", info)
    return f"{found[1] if found else platform.processor() or platform.machine()}, {cores} cores"


def write(name: str, lines: list[str]) -> None:
    """Put a table between its marks in the page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    text = "\n".join([f"{before}{begin}", *lines, f"{end}{after}"])
    PAGE.write_text(text, encoding="utf-8")


TABLES = {
    "sharing": sharing,
    "arrivals": arrivals,
    "ablation": ablation,
    "gain": gain,
    "judge": judge,
}


def main() -> None:
    """Measure the tables that are asked for and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", choices=sorted(TABLES))
    parser.add_argument("--only", action="append", choices=sorted(MAKERS), help="one workload")
    parser.add_argument("--size", type=float, help="part of each workload, up to 1")
    parser.add_argument("--repeat", type=int, default=3, help="of times, in the table 'gain'")
    parser.add_argument("--write", action="store_true", help="into docs/sharing.md")
    options = parser.parse_args()
    for name in options.tables:
        lines = TABLES[name](options.only or list(MAKERS), options)
        print("\n".join(lines))
        if options.write:
            write(name, lines)


if __name__ == "__main__":
    main()
