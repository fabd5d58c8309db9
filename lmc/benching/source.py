"""`lmc bench` on a program file or an artifact."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmc.arguments import argument_sets
from lmc.backends import Activations, Dtype, Weights, load_model
from lmc.benching.measure import Bench
from lmc.benching.report import Report
from lmc.benching.rows import rows_of
from lmc.cli_run import find_runner
from lmc.compiled import CompiledProgram
from lmc.errors import UsageError
from lmc.progress import Progress
from lmc.sources import compile_found


def bench_source(
    source: str,
    *,
    model: str | None,
    arguments: Sequence[str] = (),
    rows: Path | None = None,
    repeat: int = 3,
    ablate: bool = False,
    seed: int = 0,
    slots: int | None = None,
    dtype: Dtype = "bfloat16",
    weights: Weights = "full",
    activations: Activations = "full",
) -> Report:
    """Measure a program eager and compiled; with `ablate` also without each thing that helps.

    Args:
        source: prog.py, prog.py:name, or an artifact (which has no eager mode).
        model: as for `lmc run`, but not the oracle: there must be something to compute.
        arguments: texts NAME=VALUE.
        rows: a file with a JSON object of arguments per line and run.
        repeat: how many times each row is measured.
        ablate: add the rows of rows.ABLATIONS.
        seed: of all sampling.
        slots: tokens of KV memory; None for the engine's default.
        dtype: of weights and KV.
        weights: how they are kept, as for open_backend.
        activations: what quantized weights are multiplied with.

    Raises:
        UsageError: wrong arguments, or no such file, program or model.
        CompileError: the program cannot be compiled.
        RunError: a run failed; tells the row and the run.
    """
    if model == "oracle":
        raise UsageError(
            "the oracle computes nothing that could be measured",
            hint="leave --model out, or name a model with weights",
        )
    found = find_runner(source, {"eager": False, "passes": None, "profile": None})
    batch = argument_sets(found.name, found.__signature__, arguments, rows)
    if not batch:
        raise UsageError(f"{rows} has no arguments, so there is nothing to measure")
    if isinstance(found, CompiledProgram):
        compiled, program = found, None
    else:
        compiled, program = compile_found(source, [found], model, None), found
    with Progress() as progress:
        loaded = load_model(
            model, dtype=dtype, weights=weights, activations=activations, progress=progress
        )
        fixed = {} if slots is None else {"num_slots": slots}

        def make_engine(options: Mapping[str, Any]) -> Any:
            return loaded.open_engine(**fixed, **options)

        bench = Bench(compiled, program, batch, make_engine, seed)
        chosen = rows_of(has_source=program is not None, ablate=ablate)
        with progress.running(f"measuring {found.name}", len(chosen) * repeat) as task:

            def count() -> None:
                task.num_done += 1

            measured = bench.measure(chosen, repeat, count)
    return Report(found.name, loaded.target.name, len(batch), repeat, measured)
