"""What is told of values is what happens: the mistakes of the corpus run.

Errors (LMC501, LMC504) must end every run that gets to their line, comparisons (LMC503) must
come out as the message says.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FunctionType
from typing import Any

import pytest

from lmc.errors import LmcError, RunError
from lmc.frontend.capture import Captured, capture
from lmc.frontend.load import load_programs
from lmc.ir import interpreter_walk
from lmc.ir.core import Op
from lmc.ir.interpreter import interpret
from lmc.ir.location import Location
from lmc.passes.lint import lint_module
from lmc.runtime.oracle import Oracle

CORPUS = Path(__file__).resolve().parent / "mistakes" / "values.py"
WORDS = ("", "a", "b", "Ada", "person", "yes")

Outcomes = dict[tuple[str, Location | None], list[Any]]


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Outcomes:
    """What ops gave, by name and place: a value, or the error."""
    made: Outcomes = {}

    def watched(run: Callable[..., Any], op: Op, *arguments: Any) -> Any:
        seen = made.setdefault((op.name, op.location), [])
        try:
            results = run(*arguments)
        except RunError as error:
            seen.append(error)
            raise
        seen.append(results[-1].value)
        return results

    evaluate = interpreter_walk.evaluate_traced
    monkeypatch.setattr(
        interpreter_walk, "evaluate_traced", lambda op, args: watched(evaluate, op, op, args)
    )
    state_ops = {
        name: lambda target, op, args, run=run: watched(run, op, target, op, args)
        for name, run in interpreter_walk.STATE_OPS.items()
    }
    monkeypatch.setattr(interpreter_walk, "STATE_OPS", state_ops)
    return made


def argument(annotation: str, draw: Random) -> Any:
    """Return a value for a parameter."""
    made: dict[str, Callable[[], Any]] = {
        "bool": lambda: draw.random() < 0.5,
        "int": lambda: draw.randint(-1, 4),
        "list": lambda: [draw.choice(WORDS) for _ in range(draw.randint(0, 3))],
        "list[str]": lambda: [draw.choice(WORDS) for _ in range(draw.randint(0, 3))],
        "list[int]": lambda: [draw.randint(-2, 5) for _ in range(draw.randint(0, 3))],
    }
    return made.get(annotation, lambda: draw.choice(WORDS))()


def run(captured: Captured, entry: str, runs: int) -> None:
    """Run a program several times."""
    draw = Random(entry)
    for seed in range(runs):
        params = captured.module.functions[entry].params
        given = {param.name: argument(param.annotation, draw) for param in params}
        oracle = Oracle()
        try:
            interpret(
                captured.module, entry, given, model=oracle, target=oracle.target, seed=seed,
                host=captured.host,
            )  # fmt: skip
        except LmcError:
            continue


def check(captured: Captured, outcomes: Outcomes) -> int:
    """Compare what is told with what was seen; return how many places were reached."""
    reached = 0
    for finding in lint_module(captured.module, Oracle().target):
        at = [seen for (name, place), seen in outcomes.items() if place == finding.location]
        if finding.code.number in ("LMC501", "LMC504"):
            seen = [value for values in at for value in values]
            assert not at or any(isinstance(value, RunError) for value in seen), finding
            reached += bool(at)
        elif finding.code.number == "LMC503":
            seen = outcomes.get(("val.compare", finding.location), [])
            expected = "always" in finding.message.partition(":")[0]
            assert all(value is expected for value in seen), (finding, seen)
            reached += bool(seen)
    return reached


def test_mistakes_of_the_corpus_happen(outcomes):
    reached = 0
    for name, program in load_programs(CORPUS).items():
        outcomes.clear()
        captured = capture([program])
        run(captured, name, 8)
        reached += check(captured, outcomes)
    assert reached >= 25


METHODS = ("", ".strip()", ".lower()", ".upper()", ".strip().lower()", ".title()", ".rstrip()")
OPTIONS = ("yes", "Yes", " yes", "no", "no ", "NO", "maybe", "Maybe not", "x")


def comparison(draw: Random, value: str) -> str:
    """Return a comparison of a value with constants, as source."""
    words = [repr(draw.choice(OPTIONS).replace("e", "E", draw.randint(0, 1))) for _ in range(3)]
    return draw.choice(
        [
            f"{value} == {words[0]}",
            f"{words[0]} == {value}",
            f"{value} != {words[0]}",
            f"{value} in ({', '.join(words)})",
            f"{value} not in [{words[0]}, {words[1]}]",
        ]
    )


def test_comparisons_of_choices_are_told_exactly(lint):
    """Told where, and only where, the constants are none of the texts that can come."""
    draw = Random(3)
    bodies, expected = [], {}
    for number in range(150):
        options = draw.sample(OPTIONS, draw.randint(2, 4))
        method = draw.choice(METHODS)
        test = comparison(draw, f's["v"]{method}')
        held = [eval_comparison(test, method, option) for option in options]
        is_never = not any(held) if "!=" not in test and "not in" not in test else all(held)
        expected[f"p{number}"] = is_never
        bodies.append(
            f"@lmc.function\ndef p{number}(s):\n    s += 'Is it? '\n"
            f"    s += lmc.select('v', choices={options!r})\n    return {test}\n"
        )
    told = {d.line for d in lint("\n".join(bodies)) if d.code == "LMC503"}
    lines = ("import lmc\n" + "\n".join(bodies)).splitlines()
    starts = {f"p{n}": lines.index(f"def p{n}(s):") + 4 for n in range(150)}
    assert {name for name, line in starts.items() if line in told} == {
        name for name, is_never in expected.items() if is_never
    }
    assert 30 < len(told) < 120


def eval_comparison(test: str, method: str, option: str) -> bool:
    """Compute a comparison for one option."""
    code = compile(test, "<comparison>", "eval")
    return FunctionType(code, {"s": {"v": option}})()
