"""The shapes of the field: captured whole, and the same in every way of running them."""

import copy
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lmc.frontend.capture import Captured, capture
from lmc.frontend.load import load_module
from lmc.ir.core import Op
from lmc.ir.interpreter import Interpretation, interpret
from lmc.ir.interpreter_walk import Walk
from lmc.runtime.oracle import Oracle
from lmc.runtime.result import RunResult

FOLDER = Path(__file__).resolve().parent / "programs"
SEED = 5
MODES: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "unoptimised": {"passes": ""},
    "optimised": {},
}

SHAPES: dict[str, tuple[str, ...]] = {
    "few-shot question": ("questions.few_shot",),
    "choice by likelihood": ("questions.likely_ending",),
    "ReAct, replayed": ("agents.react_replay",),
    "ReAct, real": ("agents.react",),
    "generative agents": ("agents.poignancy", "agents.action_event", "agents.next_place"),
    "tree of thought": ("branching.tree", "branching.tree_joined"),
    "skeleton of thought, tips": ("branching.tips",),
    "parallel decoding": ("branching.parallel", "shapes.skeleton"),
    "multi-chain reasoning": ("branching.chains", "shapes.thought_chains"),
    "LLM judge": ("branching.rate", "shapes.judged"),
    "branch-solve-merge": ("branching.judge", "shapes.branch_solve_merge"),
    "JSON under a regex": ("questions.json_record", "shapes.from_schemas"),
    "long JSON document": ("questions.long_json",),
    "multi-turn chat": ("chat.conversation",),
    "MT-bench": ("chat.as_values", "chat.as_methods", "chat.as_blocks"),
    "multi-document question": ("branching.many_documents",),
    "expert answer": ("questions.expert",),
    "tool use": ("agents.count_tool", "shapes.tool_used"),
    "article router": ("agents.router", "agents.matched"),
    "chain-of-thought decoding": ("branching.decode_paths", "shapes.first_tokens"),
    "retrieval question": ("questions.retrieval",),
    "self-consistency": ("branching.consistent", "shapes.voted"),
    "self-refinement": ("branching.refine", "shapes.refined"),
    "map-reduce over documents": ("branching.map_reduce", "shapes.reduced"),
    "image question": ("pictures.question", "pictures.several"),
    "extraction record": ("chat.typed", "shapes.record"),
}
"""Part 1 of the programs' list."""

WIDER: dict[str, list[dict[str, Any]]] = {
    "branching.tree": [{"question": "?", "width": width} for width in (0, 1, 3)],
    "branching.tree_joined": [{"question": "?", "width": width} for width in (1, 3)],
    "branching.tips": [{"topic": "tea", "number": number} for number in (0, 1, 3)],
    "branching.many_documents": [
        {"documents": ["a b", "c", "d"][:count], "question": "?"} for count in (0, 1, 3)
    ],
    "questions.likely_ending": [
        {"context": "He", "endings": [" sat.", " ran."][:n]} for n in (1, 2)
    ],
    "branching.consistent": [{"question": "?", "n": n} for n in (1, 3)],
}
"""Arguments besides those of the programs' files: widths 0, 1 and 3, and short lists."""

ONE_ARM = {
    "matched": "a request is always text",
}
"""Programs with a branch that every run takes the same way, and why."""


@cache
def module_of(stem: str) -> ModuleType:
    """Load a file of programs once."""
    return load_module(FOLDER / f"{stem}.py")


def program_of(path: str) -> Any:
    """Return a program by 'file.name'."""
    stem, _, name = path.partition(".")
    return getattr(module_of(stem), name)


def runs_of(path: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Return every set of arguments with every script."""
    stem, _, name = path.partition(".")
    module = module_of(stem)
    arguments = [*module.ARGUMENTS[name], *WIDER.get(path, [])]
    return [(given, script) for given in arguments for script in module.SCRIPTS]


def fitting(script: dict[str, str], name: str, call: Any, oracle: Oracle) -> str | None:
    """Return a scripted answer, where it is among what a select can choose."""
    answer = script.get(name)
    options = getattr(call, "options", None)
    if answer is None or options is None:
        return answer
    texts = [oracle.spell(option) for option in options]
    return answer if any(text.endswith(answer) for text in texts) else None


def oracle_of(script: dict[str, str]) -> Oracle:
    """Return an oracle that answers as scripted."""
    oracle = Oracle()
    oracle.script = lambda name, text, call: fitting(script, name, call, oracle)
    return oracle


def walked(made: Captured, name: str, arguments: dict[str, Any], oracle: Oracle) -> Interpretation:
    """Run a captured program by the reference interpreter."""
    return interpret(
        made.module, name, copy.deepcopy(arguments), model=oracle, target=oracle.target,
        seed=SEED, host=made.host,
    )  # fmt: skip


def ran(program: Any, arguments: dict[str, Any], oracle: Oracle, mode: str) -> RunResult:
    """Run a program in a mode."""
    return program.run(**copy.deepcopy(arguments), backend=oracle, seed=SEED, **MODES[mode])  # type: ignore[no-any-return]


ALL = [path for paths in SHAPES.values() for path in paths]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("path", ALL)
def test_a_shape_is_the_same_in_every_way_of_running(path: str) -> None:
    """No graph break; equal calls and observables on every argument, both ways at branches."""
    program = program_of(path)
    made = capture([program])
    for arguments, script in runs_of(path):
        oracle = oracle_of(script)
        log = getattr(module_of(path.partition(".")[0]), "LOG", [])
        log.clear()
        reference = walked(made, program.name, arguments, oracle)
        effects = list(log)
        observed = (repr(reference.value), repr(reference.variables), reference.text)
        demanded = Counter(call for call, _ in reference.demanded_calls)
        every = Counter(call for call, _ in reference.calls)
        for mode in MODES:
            log.clear()
            result = ran(program, arguments, oracle, mode)
            told = (repr(result.value), repr(dict(result.state.variables)), result.text())
            assert told == observed, (mode, arguments, script)
            assert list(log) == effects, (mode, arguments, script)
            calls = Counter(record.call for record in result.calls)
            assert not demanded - calls, (mode, arguments, script)
            assert not calls - every, (mode, arguments, script)


@pytest.mark.parametrize("path", ALL)
def test_the_runs_take_both_arms_of_every_branch(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every branch of the captured program that a run meets goes both ways."""
    program = program_of(path)
    made = capture([program])
    taken: dict[Op, set[bool]] = defaultdict(set)
    branch = Walk._if

    def note(walker: Walk, op: Op, operands: Any, frame: Any) -> Any:
        taken[op].add(bool(operands[0].value))
        return branch(walker, op, operands, frame)

    monkeypatch.setattr(Walk, "_if", note)
    for arguments, script in runs_of(path):
        walked(made, program.name, arguments, oracle_of(script))
    once = {str(op.location): arms for op, arms in taken.items() if len(arms) == 1}
    branches = {op for function in made.module.functions.values() for op in function.body.walk()
                if op.name == "cf.if"}  # fmt: skip
    assert branches == set(taken), "a branch is never met"
    assert bool(once) == (program.name in ONE_ARM), once


def test_every_shape_has_a_program() -> None:
    """The list is whole, and none of its programs is without arguments."""
    assert len(SHAPES) == 26
    assert all(runs_of(path) for path in ALL)
