"""What rules say of random programs holds in their runs, and no rule fails on any of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from program_generator import program_text

from lmc.errors import CaptureError, LmcError
from lmc.frontend.capture import Captured, capture
from lmc.frontend.load import load_module
from lmc.ir.interpreter import Interpretation, interpret
from lmc.ir.target import Target
from lmc.linting.program import lint_program
from lmc.passes.lint import Finding, lint_module
from lmc.runtime.oracle import Oracle

NUM_PROGRAMS = 80
NUM_RUNS = 3


@dataclass
class Linted:
    """A random program, what is found in it, and some runs."""

    seed: int
    program: Any
    captured: Captured
    findings: list[Finding]
    runs: list[Interpretation | LmcError]


def arguments(draw: Random) -> dict[str, Any]:
    """Return arguments for the parameters that random programs have."""
    words = ["", "a", "Ada", "yes", "no", "x y"]
    return {
        "text": draw.choice(words), "n": draw.randint(-1, 4), "flag": draw.random() < 0.5,
        "items": [draw.choice(words) for _ in range(draw.randint(0, 3))],
        "numbers": [draw.randint(-2, 5) for _ in range(draw.randint(0, 3))],
        "level": draw.randint(0, 3), "mark": draw.choice(words),
    }  # fmt: skip


def runs_of(captured: Captured, target: Target, draw: Random) -> Iterator[Any]:
    """Run a program as it was captured, with several arguments and seeds."""
    names = {param.name for param in captured.module.functions["prog"].params}
    for seed in range(NUM_RUNS):
        given = {name: value for name, value in arguments(draw).items() if name in names}
        oracle = Oracle()
        try:
            yield interpret(
                captured.module, "prog", given, model=oracle, target=oracle.target, seed=seed,
                host=captured.host,
            )  # fmt: skip
        except LmcError as error:
            yield error


@pytest.fixture(scope="module")
def linted(tmp_path_factory: pytest.TempPathFactory) -> list[Linted]:
    """Random programs with their findings and runs."""
    folder = tmp_path_factory.mktemp("linted")
    target = Oracle().target
    made = []
    for seed in range(NUM_PROGRAMS):
        path: Path = folder / f"linted_{seed}.py"
        path.write_text(program_text(seed), encoding="utf-8")
        program = load_module(path).prog
        try:
            captured = capture([program])
        except CaptureError:
            continue
        findings = lint_module(captured.module, target)
        runs = list(runs_of(captured, target, Random(seed)))
        made.append(Linted(seed, program, captured, findings, runs))
    return made


def lines(linted: Linted, number: str) -> set[int]:
    """Return the lines at which a code is told."""
    return {f.location.line for f in linted.findings if f.code.number == number and f.location}


def calls_at(run: Interpretation, *, demanded: bool) -> set[int]:
    """Return the lines of the model calls of a run, or of those that are demanded."""
    calls = run.demanded_calls if demanded else run.calls
    return {int(call.site.rpartition(":")[2]) for call, _ in calls if call.site}


def test_most_programs_are_looked_at_and_run(linted):
    assert len(linted) >= 0.95 * NUM_PROGRAMS
    runs = [run for each in linted for run in each.runs]
    assert sum(isinstance(run, Interpretation) for run in runs) >= 0.5 * len(runs)
    found = {f.code.number for each in linted for f in each.findings}
    assert len(found) >= 8, found


def test_unused_generations_are_demanded_in_no_run(linted):
    for each in linted:
        alone = lines(each, "LMC101") - _lines_of_several_calls(each)
        for run in each.runs:
            if isinstance(run, Interpretation):
                wrong = alone & calls_at(run, demanded=True)
                assert not wrong, f"seed {each.seed}, lines {sorted(wrong)}"


def _lines_of_several_calls(linted: Linted) -> set[int]:
    """Return the lines on which several calls stand, one of which may be used."""
    seen: set[int] = set()
    several: set[int] = set()
    for function in linted.captured.module.functions.values():
        for op in function.body.walk():
            if op.name in ("lm.gen", "lm.select") and op.location is not None:
                (several if op.location.line in seen else seen).add(op.location.line)
    return several


def test_no_loop_is_told_endless_in_programs_that_end(linted):
    for each in linted:
        told = [f for f in each.findings if f.code.number == "LMC601" and f.severity != "hint"]
        assert not told, f"seed {each.seed}: {told}"


def test_the_whole_linter_takes_them(linted):
    for each in linted[::6]:
        found = lint_program(each.program, model="oracle")
        assert {d.code for d in found} >= {f.code.number for f in each.findings}
