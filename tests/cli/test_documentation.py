"""The pages on commands and errors name what there is, and nothing else."""

import inspect
import re

import pytest
from command_support import ROOT

from lmc import errors
from lmc.cli import cli

CLI = (ROOT / "docs" / "cli.md").read_text()
ERRORS = (ROOT / "docs" / "errors.md").read_text()


def sections():
    """Return the text on each command by its name."""
    parts = re.split(r"^## `lmc (\w+)", CLI, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_its_section():
    assert set(sections()) == set(cli.commands)


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_options_are_those_that_there_are(name):
    text = sections()[name].partition("\n## ")[0]
    written = set(re.findall(r"`(?:[^`\n]*?[ \[])?(--[a-z-]+)", text))
    written |= set(re.findall(r"\[(--[a-z-]+)", text))
    given = {opt for param in cli.commands[name].params for opt in param.opts if opt[:2] == "--"}
    own = {"--help", "--output"}
    assert written - own <= given, written - given
    assert given - own <= written, given - written


def test_errors_and_their_codes():
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d) \|", ERRORS, flags=re.MULTILINE))
    bases = {"LmcError", "CompileError"}
    classes = {
        name: str(kind.exit_code)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.LmcError) and name not in bases
    }
    assert rows == classes


def test_exit_codes_are_all_told():
    codes = set(re.findall(r"^\| (\d+) \|", CLI, flags=re.MULTILINE))
    assert codes == {"0", "1", "2", "3", "130"}
