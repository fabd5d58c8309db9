"""The programs of the field, and of Python's control flow, mean what eager mode does."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lmc.frontend.load import load_module
from lmc.ir.printer import print_module

FOLDER = Path(__file__).resolve().parent.parent / "programs"
MODULES: dict[str, ModuleType] = {
    path.stem: load_module(path) for path in sorted(FOLDER.glob("*.py"))
}
PROGRAMS = [
    (stem, name) for stem, module in MODULES.items() for name in getattr(module, "ARGUMENTS", ())
]


@pytest.mark.parametrize(("stem", "name"), PROGRAMS)
def test_program_means_the_same_captured_and_eager(
    comparison: ModuleType, stem: str, name: str
) -> None:
    """Every set of arguments, with every script that forces branches."""
    module = MODULES[stem]
    program = getattr(module, name)
    made = comparison.captured(program)
    for arguments in module.ARGUMENTS[name]:
        for script in module.SCRIPTS:
            comparison.assert_same(program, arguments, script, made)


def test_capture_is_deterministic(comparison: ModuleType) -> None:
    """Capturing twice gives the same text."""
    programs = [getattr(MODULES[stem], name) for stem, name in PROGRAMS if stem == "branching"]
    texts = [print_module(comparison.captured(program).module) for program in programs]
    assert texts == [print_module(comparison.captured(program).module) for program in programs]


def test_three_ways_to_write_turns_make_the_same_prompt(comparison: ModuleType) -> None:
    """Roles as values, as methods and as blocks."""
    module = MODULES["chat"]
    arguments: dict[str, Any] = {"first": "Hi", "second": "Bye"}
    made = [
        comparison.assert_same(getattr(module, name), arguments, {"one": "x", "two": "y"})
        for name in ("as_values", "as_methods", "as_blocks")
    ]
    assert made[0] == made[1] == made[2]
    assert "Hi" in made[0].text


def test_every_program_is_compared_on_some_run() -> None:
    """The shapes of the field are all there."""
    names = {name for _, name in PROGRAMS}
    assert names >= {
        "few_shot", "likely_ending", "react_replay", "react", "poignancy", "tree", "tree_joined",
        "tips", "parallel", "chains", "rate", "judge", "json_record", "long_json", "conversation",
        "as_values", "many_documents", "expert", "count_tool", "router", "decode_paths",
        "retrieval", "consistent", "refine", "map_reduce", "typed",
    }  # fmt: skip
