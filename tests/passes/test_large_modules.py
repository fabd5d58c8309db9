"""Large and deep modules: no pass, analysis, lowering or drawing takes exponential time."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from large_modules import SHAPES

import lmc
from lmc.codegen.lower import lower
from lmc.codegen.plan_json import plan_to_json
from lmc.ir.core import Module
from lmc.ir.graph import to_dot, to_mermaid
from lmc.ir.graph_html import Stage, source_lines, to_html
from lmc.ir.parser import parse_module
from lmc.ir.printer import print_module
from lmc.ir.verifier import verify
from lmc.passes.cost.analysis import estimate_cost
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager, pass_names

MOST_GROWTH = 100
"""How much longer four times the ops may take; cubic growth is 64 times."""

LEAST_SECONDS = 0.1
"""What any module may take, so that short times are not compared."""

TARGET = lmc.Oracle().target


def pipeline(text: str) -> Callable[[Module], Any]:
    """Return a function that runs passes on a module."""
    return lambda module: PassManager.parse(text).run(module)


def page(module: Module) -> None:
    """Draw a module as a page."""
    to_html("x", [Stage(name="captured", level="E", module=module)], source_lines(module), "")


STAGES: dict[str, Callable[[Module], Any]] = {
    "verify": verify,
    "text": lambda module: parse_module(print_module(module)),
    **{name: pipeline(name) for name in pass_names()},
    "default pipeline": pipeline(DEFAULT_PIPELINE),
    "cost": lambda module: estimate_cost(module, "main", TARGET, {}, max_ops=5_000),
    "lower": lambda module: json.dumps(plan_to_json(lower(module, TARGET))),
    "dot": to_dot,
    "mermaid": to_mermaid,
    "page": page,
}


def seconds(stage: Callable[[Module], Any], module: Module) -> float:
    """Return the processor time that a stage takes."""
    started = time.process_time()
    stage(module)
    return time.process_time() - started


def check_growth(shape: str, size: int) -> None:
    """Fail where four times the ops take far more than four times the time."""
    small, large = SHAPES[shape](size), SHAPES[shape](4 * size)
    verify(large)
    for name, stage in STAGES.items():
        first, second = seconds(stage, small), seconds(stage, large)
        assert second < MOST_GROWTH * max(first, LEAST_SECONDS), (name, first, second)


@pytest.mark.parametrize("shape", SHAPES)
def test_modules_of_hundreds_of_ops(shape: str) -> None:
    check_growth(shape, 40)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_modules_of_two_thousand_ops(shape: str) -> None:
    check_growth(shape, 500)
