"""The programs of the field keep their meaning, pass by pass, on the oracle."""

import copy
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lmc.errors import LmcError
from lmc.frontend.capture import Captured, capture
from lmc.frontend.load import load_module
from lmc.ir.core import Module
from lmc.ir.interpreter import interpret
from lmc.passes.pipeline import DEFAULT_PIPELINE, REGISTRY, PassManager
from lmc.runtime.oracle import Oracle

FOLDER = Path(__file__).resolve().parent.parent / "programs"
MODULES: dict[str, ModuleType] = {
    path.stem: load_module(path) for path in sorted(FOLDER.glob("*.py"))
}
PROGRAMS = [
    (stem, name) for stem, module in MODULES.items() for name in getattr(module, "ARGUMENTS", ())
]


@cache
def captured(stem: str, name: str) -> Captured:
    """Capture a program."""
    return capture([getattr(MODULES[stem], name).__lmc_function__])


def observe(
    made: Captured, module: Module, name: str, arguments: Any, oracle: Oracle
) -> tuple[str, Counter[Any], Counter[Any]]:
    """Return what a run shows, its demanded calls, and all its calls."""
    try:
        run = interpret(
            module, name, copy.deepcopy(dict(arguments)), model=oracle, target=oracle.target,
            seed=3, host=made.host,
        )  # fmt: skip
    except LmcError as error:
        return f"{error.message} at {error.location}", Counter(), Counter()
    shown = repr((run.value, run.variables, run.text, run.messages, run.host_calls))
    return shown, Counter(call for call, _ in run.demanded_calls), Counter(c for c, _ in run.calls)


@pytest.mark.parametrize(("stem", "name"), PROGRAMS)
def test_program_means_the_same_after_passes(stem: str, name: str) -> None:
    made = captured(stem, name)
    pipelines = (*REGISTRY, DEFAULT_PIPELINE)
    modules = {text: PassManager.parse(text).run(made.module).module for text in pipelines}
    for script in MODULES[stem].SCRIPTS:
        oracle = Oracle(script)
        for arguments in MODULES[stem].ARGUMENTS[name]:
            shown, demanded, calls = observe(made, made.module, name, arguments, oracle)
            for text, module in modules.items():
                if module is made.module:
                    continue
                after = observe(made, module, name, arguments, oracle)
                assert after[0] == shown, text
                assert not after[1] - demanded, f"{text}: a call is demanded that was not"
                assert not after[2] - calls, f"{text}: a call is made that was not"


def op_names(module: Module, name: str) -> Counter[str]:
    """Count the ops of a function."""
    return Counter(op.name for op in module.functions[name].body.walk())


def optimised(stem: str, name: str) -> Module:
    """Return a program after the default pipeline."""
    return PassManager.parse().run(captured(stem, name).module).module


def test_a_judge_becomes_a_prologue_a_group_and_a_straight_line() -> None:
    judge = load_module(FOLDER.parent.parent / "examples" / "judge.py").judge
    module = PassManager.parse().run(capture([judge.__lmc_function__]).module).module
    names = op_names(module, "judge")
    assert names["lm.prologue"] == names["lm.group"] == names["lm.tick"] == 1
    assert names["cf.for"] == names["lm.get"] == names["lm.prompt"] == 0
    root = next(op for op in module.walk() if op.name == "lm.prologue")
    assert root.attributes["pieces"][-1] == ["text", "Here is the text.\n\n"]  # type: ignore[index]


def test_a_loop_over_an_argument_stays_a_loop() -> None:
    names = op_names(optimised("agents", "react"), "react")
    assert names["cf.for"] == 1
    assert names["lm.prologue"] == 1
