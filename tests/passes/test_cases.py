"""The text cases of every pass: enough of them, and input and output mean the same."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lmc.checking.meaning import Meaning, TooLong, meaning_of
from lmc.checking.outcome import Mismatch, compare_modules
from lmc.errors import CompileError
from lmc.ir.core import Module
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.parser import parse_module
from lmc.passes.pipeline import PassManager, load_pass, parse_pipeline, pass_names

FOLDER = Path(__file__).parent
PASSES = "// PASSES:"
LEAST = 12
RUNS = 4
VALUES: tuple[Any, ...] = ("abc", "x", "", "no", 3, 0, True, False, None, ["p", "q"], [], {"k": 1})


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a file: its title, its pipeline and the text of its module."""

    name: str
    pipeline: str
    text: str


def cases() -> Iterator[Case]:
    """Yield every case with a pipeline."""
    for file in sorted(FOLDER.glob("*.lmir")):
        for case in file.read_text(encoding="utf-8").split("\n// -----\n"):
            head, _, _ = case.partition("// EXPECT")
            title = head.splitlines()[0].removeprefix("// ")
            for line in head.splitlines():
                if line.startswith(PASSES):
                    pipeline = line.removeprefix(PASSES).strip()
                    yield Case(f"{file.stem}: {title}", pipeline, head)


CASES = list(cases())
TOO_LONG = ("fold: matching is left to run time, since it may take long",)
"""Programs that do not end in a time worth waiting for."""


@pytest.mark.parametrize("name", pass_names())
def test_every_pass_has_enough_cases_and_some_in_which_it_must_not_fire(name: str) -> None:
    alone = [case for case in CASES if [s.name for s in parse_pipeline(case.pipeline)] == [name]]
    assert len(alone) >= LEAST
    fired = Counter(has_fired(case, load_pass(name).level) for case in alone)
    assert fired[True] >= 4
    assert fired[False] >= 2


def has_fired(case: Case, level: str) -> bool:
    """Whether a pass did what it is there for; reorder is of level E where only marks go."""
    module = module_of(case)
    if module is None:
        return False
    record = PassManager.parse(case.pipeline).run(module).log[0]
    return record.changed and record.level == level


def module_of(case: Case) -> Module | None:
    """Return the module of a case, None if the case is one of an error."""
    try:
        return parse_module(case.text)
    except CompileError:
        return None


def stand_in(name: str) -> Callable[..., Any]:
    """Return a host function that answers, or raises, by a hash of what it is given."""

    def called(*args: Any, **keywords: Any) -> Any:
        digest = hashlib.blake2b(repr((name, args, keywords)).encode(), digest_size=4).digest()
        if digest[0] % 5 == 0:
            raise ValueError(f"{name} refuses")
        return VALUES[digest[1] % len(VALUES)]

    return called


def hosts_of(module: Module) -> dict[str, Callable[..., Any]]:
    """Return stand-ins for all functions that a module calls."""
    names = {str(op.attributes["callee"]) for op in module.walk() if op.name.startswith("host.")
             and "callee" in op.attributes}  # fmt: skip
    return {name: stand_in(name) for name in names}


def meanings(
    modules: list[Module], entry: str, draw: Random, target: Any, model: Any
) -> list[Meaning]:
    """Return what a program of several modules means for the same drawn arguments."""
    names = [param.name for param in modules[0].functions[entry].params]
    args = {name: draw.choice(VALUES) for name in names}
    hosts = hosts_of(modules[0])
    return [
        meaning_of(
            module, entry, {p.name: args[p.name] for p in module.functions[entry].params},
            model=model, target=target, seed=5, host=hosts, max_steps=300,
        )
        for module in modules
    ]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case.name.startswith(TOO_LONG)],
    ids=lambda case: re.sub(r"\W+", "-", case.name),
)
def test_input_and_output_mean_the_same(case: Case, merging_target: Any, hash_model: Any) -> None:
    module = module_of(case)
    if module is None:
        return  # a text that is refused means nothing
    result = PassManager.parse(case.pipeline).run(module)
    draw = Random(case.name)
    for before, after in result.exact:
        for entry, function in before.functions.items():
            if function.kind != "program" or entry not in after.functions:
                continue
            for _ in range(RUNS):
                try:
                    first, second = meanings(
                        [before, after], entry, draw, merging_target, hash_model
                    )
                except TooLong:
                    continue
                if not isinstance(first.state, Prompt):
                    continue  # a failed try leaves no final state; capture makes no such program
                found = compare_modules(first, second)
                assert found is None or is_undefined(found), found


def is_undefined(found: Mismatch) -> bool:
    """Whether values differ only in the place of what a failed try leaves undefined."""
    expected, got = (re.sub(" at 0x[0-9a-f]+", "", text) for text in (found.expected, found.got))
    return "Undefined" in expected and expected == got
