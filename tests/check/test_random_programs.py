"""Random programs run alike in every mode; together they use every op and control flow."""

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from program_features import FEATURES, features
from program_generator import program_text
from program_head import HEAD

from lmc.checking.modes import Checker
from lmc.checking.program import CheckReport, check_in_modes
from lmc.errors import CaptureError
from lmc.frontend.load import load_module
from lmc.ir.ops import SPECS

NUM_PROGRAMS = 300
NUM_LONG = 5000
CHUNK = 250
MIN_SHARE = 0.05
MAX_BREAKS = 0.02


@dataclass
class Survey:
    """What running some random programs gave."""

    checked: int = 0
    examples: int = 0
    failed: int = 0
    breaks: list[str] = field(default_factory=list)
    reports: list[tuple[int, CheckReport]] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def run(self, folder: Path, seeds: Iterable[int], *, is_counted: bool = False) -> "Survey":
        """Check programs; note the ops and features of each if asked for."""
        for seed in seeds:
            path = folder / f"random_{seed}.py"
            text = program_text(seed)
            path.write_text(text, encoding="utf-8")
            program = load_module(path).prog
            try:
                checker = Checker(program)
                report = check_in_modes(checker, examples=2, seed=seed, rounds=1, reduce=False)
            except CaptureError as error:
                self.breaks.append(f"{seed}: {error.message}")
                continue
            self.checked += 1
            self.examples += report.examples
            self.failed += report.failed
            if not report.is_equal:
                self.reports.append((seed, report))
            if is_counted:
                self._count(checker, text)
        return self

    def _count(self, checker: Checker, text: str) -> None:
        modules = (checker.module, checker.module_of("pipeline"))
        found = {op.name for module in modules for op in module.walk()}
        self.ops.update(found)
        self.features.update(features(ast.parse(text.removeprefix(HEAD))))

    def assert_equal(self) -> None:
        """Fail, with the reports, where a program differs, or where too many break."""
        shown = "\n".join(f"seed {seed}: {report}" for seed, report in self.reports[:3])
        assert not self.reports, shown
        total = self.checked + len(self.breaks)
        assert len(self.breaks) <= MAX_BREAKS * total, self.breaks


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Programs of the first seeds, run once for all tests."""
    return Survey().run(tmp_path_factory.mktemp("programs"), range(NUM_PROGRAMS), is_counted=True)


def test_random_programs_run_alike(survey: Survey) -> None:
    """Every mode shows what each of the programs means."""
    survey.assert_equal()


def test_most_runs_come_to_their_end(survey: Survey) -> None:
    """Programs that only fail would show little."""
    assert survey.failed < survey.examples / 3


def assert_common(shares: Mapping[str, float]) -> None:
    """Fail where something is in too few programs; print the rarest."""
    rarest = sorted(shares.items(), key=lambda item: item[1])
    print("rarest:", ", ".join(f"{name} {share:.1%}" for name, share in rarest[:8]))
    assert {name: share for name, share in rarest if share < MIN_SHARE} == {}


def test_every_op_occurs(survey: Survey) -> None:
    """Each op is in at least one of twenty programs, as captured or as optimised."""
    assert_common({name: survey.ops[name] / survey.checked for name in SPECS})


def test_every_control_flow_occurs(survey: Survey) -> None:
    """So is each way to branch, loop, leave and call, and each primitive."""
    assert_common({name: survey.features[name] / survey.checked for name in FEATURES})


def test_programs_depend_on_the_seed_alone() -> None:
    """A failing seed is enough to find its program again."""
    assert program_text(7) == program_text(7)
    assert program_text(7) != program_text(8)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, NUM_LONG, CHUNK))
def test_many_random_programs_run_alike(
    tmp_path: Path, first: int, request: pytest.FixtureRequest
) -> None:
    """Five thousand; `--first-seed` takes others."""
    start = request.config.getoption("--first-seed") + first
    Survey().run(tmp_path, range(start, start + CHUNK)).assert_equal()
