"""Runs of small programs, each of which was once outside its bounds, or had none."""

from typing import Any

import pytest
from cost_runs import bounds_of, measure

import lmc
from lmc.codegen.target import oracle_target
from lmc.compiler import capture_programs, optimise
from lmc.passes.cost.analysis import estimate_cost


@lmc.function
def voted(s, question: str, width: int = 6):
    """A variable is read off a state that has gone on since it was set."""
    s += question
    forks = s.fork(width)
    for i, fork in enumerate(forks):
        fork += f" {i}" + lmc.select("vote", choices=[" yes", " no", " maybe"])
        if fork["vote"] == " yes":
            fork += " why" + lmc.gen("why", max_tokens=5)
    s += " votes" + "".join([fork["vote"] for fork in forks]) + lmc.gen("end", max_tokens=2)


@lmc.function
def headed(s, thing: str):
    """Options that begin alike; what was scored may be what is chosen."""
    s += "Look at " + thing + " which is"
    s += lmc.select("size", choices=[" very large", " very large indeed", " very small", " v"])
    s += " or" + lmc.select("kind", choices=[" an apple", " an apple pie", " an ape"])
    s += "." + lmc.gen("end", max_tokens=2)


@lmc.function
def normalised(s, question: str):
    """Options are scored behind nothing as well."""
    method = lmc.unconditional_likelihood_normalized
    s += question
    s += lmc.select("kind", choices=[" a b c", " a b d", " q"], choices_method=method)
    s += " x" + lmc.gen("end", max_tokens=2)


@lmc.function
def sampled(s, thing: str):
    """Texts of several samples, joined."""
    s += "Name a " + thing + ":" + lmc.gen("names", n=4, max_tokens=4)
    vote = s.copy()
    vote += "Vote: " + ", ".join(s["names"]) + " best:" + lmc.gen("best", max_tokens=3)
    return vote["best"]


@lmc.function
def parted(s, thing: str):
    """Texts of children, joined."""
    forks = s.fork(3)
    for i, fork in enumerate(forks):
        fork += f"Part {i} of {thing}:" + lmc.gen("part", max_tokens=7)
    s += "\n".join(fork["part"] for fork in forks) + "\nAll:" + lmc.gen("all", max_tokens=5)


@lmc.function
def either(s, thing: str):
    """Behind a branch, what one arm computed may be there."""
    s += thing + lmc.select("way", choices=[" left", " right"])
    if s["way"] == " left":
        t = s.copy()
        t += " and so on, for a long way" + lmc.gen("there", max_tokens=2)
    s += " and so on, for a long way" + lmc.gen("end", max_tokens=2)


@lmc.function
def counted(s, thing: str):
    """The length of a list is known once all that it holds is."""
    names = []
    for i in range(2):
        t = s.copy()
        t += thing + str(i) + lmc.gen("name", max_tokens=5)
        names.append(t["name"])
    for i, _ in enumerate(names):
        s += f"{i}" + lmc.gen("end", max_tokens=3)


PROGRAMS = (voted, headed, normalised, sampled, parted, either, counted)


@pytest.mark.parametrize("is_optimised", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_runs_are_within_their_bounds_at_both_ends(
    program: lmc.Program[..., Any], is_optimised: bool
) -> None:
    """Every figure has a bound."""
    made = capture_programs([program])
    module = optimise(made.module)[0] if is_optimised else made.module
    (name,) = (p.name for p in module.functions[program.name].params if p.annotation == "str")
    args = {name: "harbour"}
    report = estimate_cost(module, program.name, oracle_target(), args)
    for seed in range(2):
        run = measure(module, program.name, args, made.host, seed=seed)
        assert run.is_done
        for figure, (took, bound) in bounds_of(report, run).items():
            assert took <= bound, figure
        assert report.cold.prefill.low <= run.cold
        assert report.warm.prefill.low <= run.warm
        assert report.cold.prefill.is_bounded
