"""Check finds planted faults within a bounded number of examples, and none where none is."""

from typing import Any

import pytest
from planted_faults import FAULTS

import lmc.checking.modes
from lmc.checking.modes import Checker, Finding

MIN_FAULTS = 150


def first_finding(corpus: Any) -> Finding | None:
    """Return what the corpus shows first, None if nothing differs."""
    checkers: dict[str, Checker] = {}
    for name, example in corpus.examples():
        if name not in checkers:
            checkers[name] = Checker(corpus.programs[name])
        finding = checkers[name].examine(example)
        if finding is not None:
            return finding
    return None


def test_without_a_fault_nothing_is_found(corpus: Any) -> None:
    """The corpus runs alike in every mode."""
    assert first_finding(corpus) is None


def test_there_are_enough_faults() -> None:
    """Of every part: lowering, passes, the executor, capture, eager mode."""
    assert len(FAULTS) >= MIN_FAULTS


SOME = [
    pytest.param(name, marks=pytest.mark.long) if place % 4 else name
    for place, name in enumerate(FAULTS)
]
"""Three of four faults wait for `make test-long`: each costs a second or more."""


@pytest.mark.parametrize("name", SOME)
def test_fault_is_found(corpus: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One patch, one difference; a run that hangs is a difference as well."""
    monkeypatch.setattr(lmc.checking.modes, "TIME_LIMIT_S", 3.0)
    FAULTS[name](monkeypatch)
    finding = first_finding(corpus)
    assert finding is not None, FAULTS[name].__doc__
    assert finding.mismatch.expected != finding.mismatch.got
