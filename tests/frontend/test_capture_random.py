"""Random programs: what is captured means what eager mode does, or is refused."""

from pathlib import Path
from types import ModuleType

import pytest

from lmc.errors import CaptureError, RunError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module
from lmc.ir.interpreter import interpret
from lmc.runtime.oracle import Oracle

BATCH = 20


def compare(
    random_programs: ModuleType, comparison: ModuleType, folder: Path, seeds: range
) -> tuple[int, int]:
    """Compare programs with eager mode; return how many were captured and how many ran through."""
    captured = finished = 0
    for seed in seeds:
        path = folder / f"random_{seed}.py"
        path.write_text(random_programs.program_text(seed), encoding="utf-8")
        program = load_module(path).prog
        try:
            made = comparison.captured(program)
        except CaptureError as error:
            told = bool(error.hint) and error.location is not None
            if not told:
                raise
            continue
        captured += 1
        for n in (0, 2):
            outcome = comparison.assert_same(program, {"n": n}, None, made)
            finished += outcome.error_at is None
    return captured, finished


@pytest.mark.parametrize("first", range(0, 4 * BATCH, BATCH))
def test_random_programs(
    random_programs: ModuleType, comparison: ModuleType, tmp_path: Path, first: int
) -> None:
    """A few dozen; most are captured, and most of these run to their end."""
    captured, finished = compare(random_programs, comparison, tmp_path, range(first, first + BATCH))
    assert captured >= BATCH // 2
    assert finished >= captured


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_random_programs(
    random_programs: ModuleType, comparison: ModuleType, tmp_path: Path, first: int
) -> None:
    """Two thousand."""
    captured, _ = compare(random_programs, comparison, tmp_path, range(first, first + 100))
    assert captured >= 50


def compare_aliases(random_aliases: ModuleType, folder: Path, seeds: range) -> int:
    """Run list programs in Python and as captured; return how many were captured."""
    oracle = Oracle()
    captured = 0
    for seed in seeds:
        path = folder / f"aliases_{seed}.py"
        path.write_text(random_aliases.alias_text(seed), encoding="utf-8")
        function = load_module(path).prog
        try:
            made = capture([function])
        except CaptureError:
            continue
        captured += 1
        try:
            expected = repr(function(None))
        except (TypeError, IndexError, AttributeError, UnboundLocalError):
            with pytest.raises(RunError):
                interpret(made.module, "prog", {}, model=oracle, target=oracle.target)
            continue
        found = interpret(made.module, "prog", {}, model=oracle, target=oracle.target)
        assert repr(found.value) == expected, path.read_text(encoding="utf-8")
    return captured


def test_random_aliases(random_aliases: ModuleType, tmp_path: Path) -> None:
    """A change is seen under every name of an object, or the program is refused."""
    assert compare_aliases(random_aliases, tmp_path, range(600)) >= 100


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 31000, 3000))
def test_many_random_aliases(random_aliases: ModuleType, tmp_path: Path, first: int) -> None:
    """Thirty thousand."""
    assert compare_aliases(random_aliases, tmp_path, range(first, first + 3000)) >= 500
