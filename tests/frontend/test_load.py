"""Loading program files."""

import sys
from pathlib import Path

import pytest

from lmc.errors import CaptureError, UsageError
from lmc.frontend.load import load_programs


def write(path: Path, text: str) -> Path:
    """Write a file and return its path."""
    path.write_text(text, encoding="utf-8")
    return path


def test_programs_in_order_and_executed_once(tmp_path: Path) -> None:
    """Own programs by name; the folder is importable while loading only; a fresh module."""
    write(
        tmp_path / "neighbour_of_two.py", "import lmc\n@lmc.function\ndef other(s):\n    s += 'o'\n"
    )
    path = write(
        tmp_path / "two_programs.py",
        "import sys, lmc\nfrom neighbour_of_two import other\nSEEN = list(sys.path)\n"
        "@lmc.function\ndef second(s):\n    s += 'b'\n@lmc.function\ndef first(s):\n    s += 'a'\n"
        "assert __name__ == 'two_programs'\n",
    )
    before = list(sys.path)
    programs = load_programs(path)
    assert list(programs) == ["second", "first"]
    assert sys.path == before
    module = sys.modules["two_programs"]
    assert module.SEEN[0] == str(tmp_path)
    assert load_programs(str(path))["first"] is not programs["first"]


def test_imported_programs_count_where_there_are_no_own(tmp_path: Path) -> None:
    """A file that only gathers programs offers those."""
    write(tmp_path / "gathered_from.py", "import lmc\n@lmc.function\ndef p(s):\n    s += 'o'\n")
    path = write(tmp_path / "gathers.py", "from gathered_from import p\n")
    assert list(load_programs(path)) == ["p"]


def test_wrong_files(tmp_path: Path) -> None:
    """Missing, a folder, another kind of file, no program inside, a module's name."""
    cases = {
        tmp_path / "missing.py": "does not exist",
        tmp_path: "is a folder",
        write(tmp_path / "notes.txt", "x"): "no Python file",
        write(tmp_path / "empty_file.py", "x = 1\n"): "defines no program",
        write(tmp_path / "json.py", "x = 1\n"): "has the name of a module",
        write(tmp_path / "pytest.py", "x = 1\n"): "has the name of a module",
    }
    for path, message in cases.items():
        with pytest.raises(UsageError, match=message) as caught:
            load_programs(path)
        assert caught.value.hint
        assert caught.value.exit_code == 2
    import json

    assert sys.modules["json"] is json


def test_syntax_error_tells_the_place(tmp_path: Path) -> None:
    """File, line, column, the line and carets."""
    path = write(tmp_path / "does_not_parse.py", "import lmc\ndef f(s):\n    s += = 3\n")
    with pytest.raises(CaptureError, match="does not parse") as caught:
        load_programs(path)
    assert str(caught.value.location) == "does_not_parse.py:3:10"
    assert "s += = 3" in str(caught.value)
    assert caught.value.exit_code == 3
    nul = write(tmp_path / "holds_nul.py", "x = '\0'\n")
    with pytest.raises(CaptureError):
        load_programs(nul)


def test_error_while_loading_tells_the_line(tmp_path: Path) -> None:
    """The innermost line of the file itself; the failed module is not kept."""
    path = write(
        tmp_path / "raises_inside.py",
        "def f():\n    return {}['key']\n\nVALUE = f()\n",
    )
    with pytest.raises(CaptureError, match="KeyError: 'key'") as caught:
        load_programs(path)
    assert str(caught.value.location) == "raises_inside.py:2:12"
    assert "raises_inside" not in sys.modules


def test_misuse_while_loading_keeps_its_own_words(tmp_path: Path) -> None:
    """An error of ours raised at the file's top level is passed on."""
    path = write(tmp_path / "misuses.py", "import lmc\nlmc.select('x')\n")
    with pytest.raises(UsageError, match="select needs choices"):
        load_programs(path)
