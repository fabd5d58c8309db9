"""Any passes in any order with any options: what they leave verifies and means the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from program_generator import program_text
from random_modules import placed, random_module
from random_pipelines import random_pipeline

from lmc.checking.answers import MANNERS, Scenario
from lmc.checking.meaning import TooLong, meaning_of
from lmc.checking.modes import Checker, Example
from lmc.checking.outcome import Mismatch, compare_modules
from lmc.codegen.lower import lower
from lmc.errors import CaptureError
from lmc.frontend.load import load_module
from lmc.ir.core import Module
from lmc.passes.pipeline import PassManager, pass_names

NUM_SHORT, NUM_LONG, CHUNK = 200, 4_000, 500
NUM_PROGRAMS, NUM_MANY_PROGRAMS, PIPELINES_PER_PROGRAM = 10, 410, 6
MAX_STEPS = 2_000
ARGS = {"a": "abc", "b": 3, "x": "X"}
GIVEN: dict[str, tuple[Any, ...]] = {
    "text": ("", "abc", "one two", "stop"), "n": (-1, 0, 2, 5), "flag": (True, False),
    "items": ([], ["p"], ["go", "a b", ""]), "numbers": ([], [3, 1], [0, 5, 2]), "level": (0, 2, 4),
    "mark": ("-", "a"),
}  # fmt: skip
"""Arguments of random source programs."""


def fails(text: Any) -> Any:
    """A host function that refuses some of what it is given."""
    if len(repr(text)) % 3:
        raise ValueError("refused")
    return text


def hosts() -> dict[str, Callable[..., Any]]:
    """Return the host functions of both kinds of random modules."""
    return {
        "m:note": lambda x: [x, x], "m:pure": lambda x: repr(x) + "ab", "m:name": lambda: "u",
        "m:grow": lambda items: items.append("grown"), "test:note": lambda x: len(repr(x)),
        "test:both": lambda a, other: f"{a}/{other}", "test:fail": fails,
    }  # fmt: skip


def modules(make_program: Any, seed: int) -> Module:
    """Return a random module of one kind or the other."""
    if seed % 2:
        return make_program(Random(seed))
    return placed(random_module(seed, failing=0.04 if seed % 4 else 0.0, token="<|m|>"))


def difference(module: Module, pipeline: str, target: Any, model: Any) -> Mismatch | None:
    """Run a pipeline; return what the module that it leaves does not mean as before."""
    result = PassManager.parse(pipeline).run(module)
    lower(result.module, target)
    given = [param.name for param in module.functions["main"].params]
    for pair in result.exact:
        try:
            before, after = (
                meaning_of(
                    each, "main", {name: ARGS[name] for name in given}, model=model,
                    target=target, seed=7, host=hosts(), max_steps=MAX_STEPS * (20**place),
                )
                for place, each in enumerate(pair)
            )  # fmt: skip
        except TooLong:
            continue
        found = compare_modules(before, after)
        if found is not None:
            return found
    return None


def check_pipelines(
    seeds: Iterator[int] | range, make_program: Any, target: Any, model: Any
) -> None:
    used: set[str] = set()
    for seed in seeds:
        pipeline = random_pipeline(Random(seed))
        used |= {step.name for step in PassManager.parse(pipeline).passes}
        found = difference(modules(make_program, seed), pipeline, target, model)
        assert found is None, f"seed {seed}: {pipeline}: {found}"
    assert used == set(pass_names())


def test_random_pipelines_keep_the_meaning(
    make_program: Any, merging_target: Any, hash_model: Any
) -> None:
    check_pipelines(range(NUM_SHORT), make_program, merging_target, hash_model)


@pytest.mark.long
@pytest.mark.parametrize("first", range(NUM_SHORT, NUM_LONG, CHUNK))
def test_many_random_pipelines_keep_the_meaning(
    first: int, make_program: Any, merging_target: Any, hash_model: Any
) -> None:
    check_pipelines(range(first, first + CHUNK), make_program, merging_target, hash_model)


def check_programs(seeds: range, folder: Path) -> None:
    """Compile source programs by random pipelines; plans do what they mean, too."""
    judged = 0
    for seed in seeds:
        path = folder / f"random_{seed}.py"
        path.write_text(program_text(seed), encoding="utf-8")
        draw = Random(seed)
        texts = [random_pipeline(draw) for _ in range(PIPELINES_PER_PROGRAM)]
        try:
            checker = Checker(load_module(path).prog, pipelines={text: text for text in texts})
        except CaptureError:
            continue
        params = checker.module.functions["prog"].params
        args = {param.name: draw.choice(GIVEN[param.name]) for param in params}
        found = checker.examine(Example(args, Scenario(seed, draw.choice(MANNERS))))
        assert found is None, f"seed {seed}: {found}"
        judged += checker.tally.examples
    assert judged > len(seeds) / 2


def test_random_pipelines_run_programs_as_they_mean(tmp_path: Path) -> None:
    check_programs(range(NUM_PROGRAMS), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("first", range(NUM_PROGRAMS, NUM_MANY_PROGRAMS, 50))
def test_many_programs_run_as_they_mean(first: int, tmp_path: Path) -> None:
    check_programs(range(first, first + 50), tmp_path)
