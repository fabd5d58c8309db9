"""Small programs of every kind that people write: captured whole, the same in every mode."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lmc
from lmc.errors import CaptureError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module

FOLDER = Path(__file__).resolve().parent.parent / "programs" / "language"
MODULES: dict[str, ModuleType] = {
    path.stem: load_module(path) for path in sorted(FOLDER.glob("*.py"))
}
PROGRAMS: dict[str, Any] = {
    f"{stem}.{name}": value
    for stem, module in MODULES.items()
    for name, value in vars(module).items()
    if hasattr(value, "__lmc_function__")
}

BREAKS = {
    "written_assignment.nested_containers": "this changes the argument",
    "written_iterators.groups": "a function is used where plain data is needed",
    "written_iterators.pairs_of_iterator": "zip of an iterator under a name, or of a generator",
    "written_methods.replaced": "is used where plain data is needed",
    "written_small.alias_chosen": "this value may have been changed by another name",
    "written_small.appends_while_looping": "a list is changed while it is looped over",
    "written_small.argument_changed": "this changes the argument",
    "written_small.is_tests": "a function is used where plain data is needed",
    "written_small.lists_aliased": "this value may have been changed by another name",
    "written_small.type_tests": "cannot be captured",
    "written_values.byte_values": "has no form in a program",
}  # fmt: skip
"""Programs that capture refuses, and a part of what it says."""


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - BREAKS.keys()))
def test_program_means_the_same_in_every_mode(name: str) -> None:
    """Reference interpreter, eager mode, the unoptimised plan, each pass, the pipeline."""
    report = lmc.check(
        PROGRAMS[name], examples=3, rounds=1, reduce=False, call_host=True, seed=len(name)
    )
    assert report.is_equal, report


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_break_is_told_with_place_and_remedy(name: str) -> None:
    """What is refused is refused at its line."""
    with pytest.raises(CaptureError) as caught:
        capture([PROGRAMS[name]])
    assert BREAKS[name] in caught.value.message
    assert caught.value.hint
    assert caught.value.location is not None


def test_there_are_many_programs() -> None:
    """The folder is found, and few of its programs break."""
    assert len(PROGRAMS) > 150
    assert len(BREAKS) < len(PROGRAMS) / 4
