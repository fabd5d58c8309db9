"""Random programs run alike in every mode; together they use every op and control flow."""

import ast
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from program_generator import program_text
from program_head import HEAD

from lmc.checking.program import CheckReport, check_program
from lmc.compiler import optimise
from lmc.errors import CaptureError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module
from lmc.ir.ops import SPECS

NUM_PROGRAMS = 300
NUM_COUNTED = 150
NUM_LONG = 5000
CHUNK = 250
MIN_SHARE = 0.025
"""The aim is one of twenty; a share seen in so few programs is off by a third easily."""
MAX_BREAKS = 0.02

CONTROL = (
    "If", "For", "While", "Match", "With", "Break", "Continue", "EarlyReturn", "ForElse",
    "WhileElse", "Assert", "Raise", "Lambda", "IfExp", "BoolOp", "ListComp", "DictComp",
    "SetComp", "GeneratorExp", "Helper", "Nested",
)  # fmt: skip


@dataclass
class Survey:
    """What running some random programs gave."""

    checked: int = 0
    examples: int = 0
    counted: int = 0
    failed: int = 0
    breaks: list[str] = field(default_factory=list)
    reports: list[tuple[int, CheckReport]] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    control: Counter[str] = field(default_factory=Counter)

    def run(self, folder: Path, seeds: Iterable[int], *, count: int = 0) -> "Survey":
        """Check programs; of the first `count` note the ops and control flow that they use."""
        for seed in seeds:
            path = folder / f"random_{seed}.py"
            text = program_text(seed)
            path.write_text(text, encoding="utf-8")
            program = load_module(path).prog
            try:
                report = check_program(program, examples=2, seed=seed, rounds=1, reduce=False)
            except CaptureError as error:
                self.breaks.append(f"{seed}: {error.message}")
                continue
            self.checked += 1
            self.examples += report.examples
            self.failed += report.failed
            if not report.is_equal:
                self.reports.append((seed, report))
            if self.counted < count:
                self._count(program, text)
        return self

    def _count(self, program: object, text: str) -> None:
        self.counted += 1
        module = capture([program]).module
        found = {op.name for made in (module, optimise(module)[0]) for op in made.walk()}
        self.ops.update(found)
        self.control.update(control_flow(ast.parse(text.removeprefix(HEAD))))

    def assert_equal(self) -> None:
        """Fail, with the reports, where a program differs, or where too many break."""
        shown = "\n".join(f"seed {seed}: {report}" for seed, report in self.reports[:3])
        assert not self.reports, shown
        total = self.checked + len(self.breaks)
        assert len(self.breaks) <= MAX_BREAKS * total, self.breaks


def control_flow(tree: ast.AST) -> set[str]:
    """Return the kinds of control flow in a program's text."""
    found: set[str] = set()
    for node in ast.walk(tree):
        found.add(type(node).__name__)
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            found.add(f"{type(node).__name__}Else")
        if isinstance(node, ast.FunctionDef):
            nested = [inner for stmt in node.body[:-1] for inner in ast.walk(stmt)]
            if any(isinstance(inner, ast.Return) for inner in nested):
                found.add("EarlyReturn")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {"helper": {"Helper"}, "inner": {"Nested"}}.get(node.func.id, set())
    return found


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Programs of the first seeds, run once for all tests."""
    return Survey().run(tmp_path_factory.mktemp("programs"), range(NUM_PROGRAMS), count=NUM_COUNTED)


def test_random_programs_run_alike(survey: Survey) -> None:
    """Every mode shows what each of the programs means."""
    survey.assert_equal()


def test_most_runs_come_to_their_end(survey: Survey) -> None:
    """Programs that only fail would show little."""
    assert survey.failed < survey.examples / 4


def test_every_op_occurs(survey: Survey) -> None:
    """No op is rare in programs as captured or as optimised."""
    shares = {name: survey.ops[name] / survey.counted for name in SPECS}
    assert {name: share for name, share in shares.items() if share < MIN_SHARE} == {}


def test_every_control_flow_occurs(survey: Survey) -> None:
    """So is each way to branch, loop, leave and call."""
    shares = {name: survey.control[name] / survey.counted for name in CONTROL}
    assert {name: share for name, share in shares.items() if share < MIN_SHARE} == {}


def test_programs_depend_on_the_seed_alone() -> None:
    """A failing seed is enough to find its program again."""
    assert program_text(7) == program_text(7)
    assert program_text(7) != program_text(8)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, NUM_LONG, CHUNK))
def test_many_random_programs_run_alike(tmp_path: Path, first: int) -> None:
    """Five thousand."""
    Survey().run(tmp_path, range(10_000 + first, 10_000 + first + CHUNK)).assert_equal()
