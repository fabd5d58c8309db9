"""Finding the source of a function, and the places of its ops."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from lmc.errors import CaptureError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module
from lmc.ir.printer import print_module

Load = Callable[[str], ModuleType]


def texts(program: object) -> list[object]:
    """Return the constants that a captured program appends, in order."""
    made = capture([program])
    return [op.attributes["value"] for op in made.module.walk() if op.name == "val.const"]


def test_text_at_column_zero(load: Load) -> None:
    """A triple-quoted text may reach to the left edge inside a nested function."""
    module = load(
        'def make():\n    def program(s):\n        s += """\nleft\n  edge\n"""\n'
        "        s += 'next'\n    return program\nprogram = make()\n"
    )
    assert texts(module.program) == ["\nleft\n  edge\n", "next", None]


def test_lambdas_on_one_line_are_told_apart(load: Load) -> None:
    """Two lambdas in one line are found by the columns of their code."""
    module = load(
        "a, b = (lambda s: s.text() + 'A'), (lambda s: s.text() + 'B')\n"
        "def program(s):\n    s += a(s) + b(s)\n"
    )
    assert texts(module.program) == ["A", "B", None]


def test_equal_names_are_told_apart_by_line(load: Load) -> None:
    """The function that was defined last under a name is the one that is captured."""
    module = load("def program(s):\n    s += 'a'\nfirst = program\ndef program(s):\n    s += 'b'\n")
    assert texts(module.first) == ["a", None]
    assert texts(module.program) == ["b", None]


def test_decorated_function_is_found(load: Load) -> None:
    """The decorator's line is where the code object begins."""
    module = load("@lmc.function\ndef program(\n    s,\n    x='d',\n):\n    s += x\n")
    made = capture([module.program])
    function = made.module.functions["program"]
    assert function.location.line == 3
    assert (function.params[0].name, function.params[0].default) == ("x", "d")


def test_columns_count_characters(load: Load) -> None:
    """Wide and non-ASCII characters before an expression do not shift its column."""
    module = load("def program(s):\n    s += 'é€😀' + lmc.gen('x')\n")
    made = capture([module.program])
    gen = next(op for op in made.module.walk() if op.name == "lm.gen")
    assert (gen.location.column, gen.location.end_column) == (18, 30)
    assert gen.location.text == "    s += 'é€😀' + lmc.gen('x')"


def test_file_changed_since_import(tmp_path: Path) -> None:
    """A changed body, a moved function, and a file that no longer parses."""
    path = tmp_path / "changing.py"
    path.write_text("def program(s):\n    s += 'a'\n")
    module = load_module(path)
    assert texts(module.program) == ["a", None]
    for number, text in enumerate((
        "def program(s):\n    s += 'b'\n", "\n\ndef program(s):\n    s += 'a'\n", "def (\n", "",
    )):  # fmt: skip
        path.write_text(text)
        os.utime(path, (number + 1, number + 1))
        with pytest.raises(CaptureError, match=r"changed since|not available") as caught:
            capture([module.program])
        assert caught.value.hint
    path.write_text("def program(s):\n    s += 'a'\n# more below\n")
    os.utime(path, (99, 99))
    assert texts(module.program) == ["a", None]


def test_locations_are_relative_to_the_folder(tmp_path: Path) -> None:
    """A helper in a sub-folder keeps its path; the module is named by the file."""
    package = tmp_path / "parts"
    package.mkdir()
    (package / "pieces.py").write_text("def add(s):\n    s += 'helped'\n")
    path = tmp_path / "whole.py"
    path.write_text("import parts.pieces\ndef program(s):\n    parts.pieces.add(s)\n")
    module = load_module(path)
    made = capture([module.program])
    assert made.module.name == "whole"
    files = {op.location.file for op in made.module.walk()}
    assert files == {"whole.py", "parts/pieces.py"}


def test_every_op_has_a_location(load: Load) -> None:
    """Ops made for control flow are no exception."""
    module = load(
        "def program(s, xs):\n    for x in xs:\n        if x and len(x) > 2:\n"
        "            continue\n        s += x\n    return [x for x in xs]\n"
    )
    assert all(op.location is not None for op in capture([module.program]).module.walk())


def test_two_entry_points_give_the_same_text(tmp_path: Path) -> None:
    """Running the file and loading it give the same module text."""
    path = tmp_path / "entry.py"
    path.write_text(
        "import lmc\nLIMIT = 4\n\n\n@lmc.tool\ndef tool(x):\n    return x\n\n\n"
        "@lmc.function\ndef program(s):\n    s += tool('a') + lmc.gen('x', max_tokens=LIMIT)\n\n\n"
        "if __name__ == '__main__':\n    from lmc.frontend.capture import capture\n"
        "    from lmc.ir.printer import print_module\n"
        "    print(print_module(capture([program]).module), end='')\n"
    )
    ran = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stdout == print_module(capture([load_module(path).program]).module)
