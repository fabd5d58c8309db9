"""Bounds hold on a real engine: 500 runs of the field's programs and of random ones."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import test_shapes as shapes
from cost_runs import Measured, bounds_of, measure
from program_generator import program_text

from lmc.codegen.target import oracle_target
from lmc.compiler import capture_programs, optimise
from lmc.errors import CaptureError
from lmc.frontend.load import load_module
from lmc.passes.cost.analysis import CostReport, estimate_cost
from lmc.passes.pipeline import REGISTRY

SEEDS = range(7, 10)
"""The field's programs run with each of them, so that their branches go several ways."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run with its bounds."""

    name: str
    report: CostReport
    run: Measured


def drawn(annotation: str) -> Any:
    """Return an argument for an annotation of the random programs."""
    given: dict[str, Any] = {"str": "harbour", "int": 3, "bool": True, "float": 1.5}
    return given.get(annotation, ["a", "bc", "d"] if "list" in annotation else "x")


def random_cases(folder: Path, seeds: Iterable[int]) -> Iterator[Case]:
    """Yield a run of each random program that has no graph break."""
    for seed in seeds:
        path = folder / f"random_{seed}.py"
        path.write_text(program_text(seed), encoding="utf-8")
        try:
            made = capture_programs([load_module(path).prog])
        except CaptureError:
            continue
        module = optimise(made.module)[0] if seed % 4 else made.module
        args = {p.name: drawn(p.annotation) for p in module.functions["prog"].params}
        report = estimate_cost(module, "prog", oracle_target(), args)
        yield Case(f"random {seed}", report, measure(module, "prog", args, made.host))


@cache
def field_cases(path: str, seeds: tuple[int, ...]) -> list[Case]:
    """Return runs of one of the field's programs, with every set of its arguments."""
    program = shapes.program_of(path)
    made = capture_programs([program])
    module = optimise(made.module)[0]
    stem, _, name = path.partition(".")
    cases = []
    for args in [*shapes.module_of(stem).ARGUMENTS[name], *shapes.WIDER.get(path, [])]:
        report = estimate_cost(module, program.name, oracle_target(), args)
        for seed in seeds:
            run = measure(module, program.name, args, made.host, seed=seed)
            cases.append(Case(f"{path} {args} seed {seed}", report, run))
    return cases


def assert_all_within(cases: Iterable[Case]) -> dict[str, list[float]]:
    """Fail where a run took more than its bound; return measured/bound by figure.

    Runs that failed count for the bounds, not for the ratios.
    """
    ratios: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        for figure, (took, bound) in bounds_of(case.report, case.run).items():
            assert took <= bound, (case.name, figure)
            if case.run.is_done and math.isfinite(bound) and bound > 0:
                ratios[figure].append(took / bound)
    return ratios


@pytest.mark.parametrize("path", shapes.ALL)
def test_no_run_of_the_fields_programs_takes_more(path: str) -> None:
    """Every figure, with every set of arguments."""
    assert_all_within(field_cases(path, (SEEDS[0],)))


def test_no_run_of_a_random_program_takes_more(tmp_path: Path) -> None:
    """Every figure; what hosts and the model answer is whatever it is."""
    ratios = assert_all_within(random_cases(tmp_path, range(40)))
    assert min(len(found) for found in ratios.values()) >= 5


VARIED = ("agents.react", "agents.router", "branching.map_reduce", "shapes.voted")
"""Branches on choices, nested programs, equal calls in forks."""


@pytest.mark.parametrize("name", REGISTRY)
def test_no_run_takes_more_after_any_pass_alone(name: str) -> None:
    """Bounds are those of the module that runs, whatever a pass put into it."""
    cases = []
    for path in VARIED:
        program = shapes.program_of(path)
        made = capture_programs([program])
        module = optimise(made.module, name)[0]
        stem, _, short = path.partition(".")
        args = shapes.module_of(stem).ARGUMENTS[short][-1]
        report = estimate_cost(module, program.name, oracle_target(), args)
        cases.append(Case(f"{path} {name}", report, measure(module, program.name, args, made.host)))
    assert_all_within(cases)


@pytest.mark.long
def test_bounds_are_near_over_500_runs(tmp_path: Path) -> None:
    """The median of measured/bound is at least 0.7 for every figure."""
    field = [case for path in shapes.ALL for case in field_cases(path, tuple(SEEDS))]
    random = list(random_cases(tmp_path, range(1000, 1260)))
    assert len(field) + len(random) >= 500
    near = assert_all_within(field)
    far = assert_all_within(random)
    for figure, found in near.items():
        both = [*found, *far[figure]]
        print(f"{figure}: {median(both):.3f} of {len(both)} runs, "
              f"field {median(found):.3f}, random {median(far[figure]):.3f}")  # fmt: skip
        assert median(both) >= 0.7, figure
        assert median(far[figure]) >= 0.3, figure
