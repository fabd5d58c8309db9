"""Passes keep the meaning: the reference interpreter observes the same before and after."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from merging_target import HashModel, MergingTarget
from random_ir_programs import ProgramMaker

from lmc.errors import RunError
from lmc.ir.core import Module
from lmc.ir.interpreter import interpret
from lmc.ir.printer import print_module
from lmc.ir.verifier import verify
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager

HOST = {
    "m:note": lambda x: [x, x],
    "m:pure": lambda x: repr(x) + "ab",
    "m:name": lambda: "u",
    "m:grow": lambda items: items.append("grown"),
}
ARGS = {"a": "abc", "b": 3}

PIPELINES = ("inline", "cse", "fold", "unroll", "dce", "hoist-prefix{min_chars=1}", "batch-forks",
             "fold,speculate{min_chars=1,max_options=99}", "liveness")  # fmt: skip
LONG = (DEFAULT_PIPELINE, "hoist-prefix,unroll,batch-forks,fold,dce,fold,hoist-prefix")


def observe(module: Module, target: Any, model: Any) -> tuple[Any, Counter[Any], Counter[Any]]:
    """Return what a run shows, its demanded calls, and all its calls."""
    try:
        run = interpret(module, "main", ARGS, model=model, target=target, seed=7, host=HOST)
    except RunError as error:
        return ("error", error.message, error.location), Counter(), Counter()
    shown = run.value, run.variables, run.text, run.messages, run.host_calls
    return repr(shown), once(run.demanded_calls), Counter(map(repr, run.calls))


def once(calls: list[Any]) -> Counter[str]:
    """Count calls; greedy ones, which are answered alike, once wherever they are made."""
    is_greedy = [getattr(call, "key", 0) == 0 for call, _ in calls]
    sampled = [pair for pair, greedy in zip(calls, is_greedy, strict=True) if not greedy]
    others = [pair for pair, greedy in zip(calls, is_greedy, strict=True) if greedy]
    alike = {repr((replace(call, site=""), answer)) for call, answer in others}
    return Counter(map(repr, sampled)) + Counter(alike)


class Subject:
    """A module with its text and what a run of it shows, made once for many pipelines."""

    def __init__(self, module: Module, target: Any, model: Any) -> None:
        verify(module)
        self.module, self.target, self.model = module, target, model
        self.text = print_module(module)
        self.shown, self.demanded, self.calls = observe(module, target, model)

    def check(self, pipeline: str) -> None:
        """Fail if the module after the pipeline shows anything else."""
        result = PassManager.parse(pipeline).run(self.module, is_verified=True)
        assert print_module(self.module) == self.text, f"{pipeline} changed the given module"
        shown, demanded, calls = observe(result.module, self.target, self.model)
        assert shown == self.shown, pipeline
        assert not calls - self.calls, f"{pipeline}: a call is made that was not"
        assert demanded == self.demanded, pipeline


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.randoms(use_true_random=False))
def test_random_programs_mean_the_same(
    draw: Random, make_program: Any, merging_target: Any, hash_model: Any
) -> None:
    subject = Subject(make_program(draw), merging_target, hash_model)
    for pipeline in (*PIPELINES, *LONG):
        subject.check(pipeline)


@pytest.fixture(scope="module")
def seeded() -> list[Subject]:
    """The programs of the first seeds."""
    target, model = MergingTarget(), HashModel()
    return [Subject(ProgramMaker(Random(seed)).module(), target, model) for seed in range(120)]


@pytest.mark.parametrize("pipeline", [*PIPELINES, *LONG])
def test_seeded_programs_mean_the_same(pipeline: str, seeded: list[Subject]) -> None:
    for subject in seeded:
        subject.check(pipeline)
