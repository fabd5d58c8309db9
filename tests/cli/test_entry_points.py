"""A program gives the same IR and the same diagnostics by whichever way it comes in."""

import importlib
import sys
from pathlib import Path

import pytest
from command_support import EXAMPLES, command

from lmc.errors import CaptureError, CompileError
from lmc.ir.printer import print_module
from lmc.sources import compile_source

HEAD = "import lmc\n\nNAMES = ['a', 'b']\n\n\n"
SIX_LINES = '''@lmc.function
def p(s, word: str, times: int = 2):
    """Documented."""
    s += f"Say \\"{word}\\":" + lmc.gen("x", max_tokens=4, stop="\\n")
    if s["x"] in NAMES:
        return s["x"] * times
'''
OTHERS = {
    "roles": """@lmc.function
def p(s, question):
    s += lmc.user(question) + lmc.assistant(lmc.gen("a", max_tokens=3))
    for q in s.fork(2):
        q += "naïve 🙂" + lmc.select("k", ["b", "c"])
""",
    "helpers": """def helper(st, n):
    st += str(n) + lmc.gen("h", max_tokens=2)
    return st["h"]


@lmc.function
def inner(s):
    s += helper(s, 1)


@lmc.function
def p(s, n: int):
    while n > 0:
        n -= len(helper(s, n)) + 1
    return inner().text()
""",
}
BROKEN = {
    "unknown parameter": 's += lmc.gen("x", max_toks=3)',
    "wrong value": 's += lmc.gen("x", temperature=-1)',
    "wrong pattern": 's += lmc.gen("x", stop_regex="(")',
    "class in a program": "class A: pass",
    "no text": "s += 3",
}


def imported(path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Import a file as any module is, and return its program."""
    monkeypatch.syspath_prepend(str(path.parent))
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(path.stem).p
    finally:
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("name", ["six lines", *OTHERS])
def test_the_same_bytes_by_every_way(tmp_path, monkeypatch, capfd, name):
    """The decorator, the command, and compiling a file: artifacts and IR are the same bytes."""
    path = tmp_path / f"entry_{name.replace(' ', '_')}.py"
    path.write_text(HEAD + OTHERS.get(name, SIX_LINES), encoding="utf-8")
    program = imported(path, monkeypatch)
    by_decorator = program.compile("oracle")
    by_source = compile_source(f"{path}:p", "oracle", None)
    ran = command(capfd, "compile", f"{path}:p", "-o", tmp_path / "c.lmc", "--model", "oracle")
    assert ran.code == 0, ran.err
    by_decorator.save(tmp_path / "a.lmc")
    by_source.save(tmp_path / "b.lmc")
    files = [(tmp_path / f"{letter}.lmc").read_bytes() for letter in "abc"]
    assert files[0] == files[1] == files[2]
    shown = command(capfd, "ir", f"{path}:p", "--passes", "")
    assert shown.out.rstrip("\n") == print_module(program.trace()).rstrip("\n")


@pytest.mark.parametrize("name", BROKEN)
def test_the_same_diagnostics_by_every_way(tmp_path, monkeypatch, capfd, name):
    """Message, place and remedy."""
    path = tmp_path / "entry_broken.py"
    body = BROKEN[name]
    path.write_text(f"{HEAD}@lmc.function\ndef p(s):\n    {body}\n", encoding="utf-8")
    told = []
    for make in (
        lambda: imported(path, monkeypatch).compile("oracle"),
        lambda: compile_source(str(path), "oracle", None),
    ):
        with pytest.raises((CompileError, CaptureError)) as caught:
            make()
        told.append(str(caught.value))
    ran = command(capfd, "compile", path, "-o", tmp_path / "x.lmc", "--model", "oracle")
    assert ran.code != 0
    assert told[0] == told[1]
    assert told[0] in ran.err
    assert f"{path.name}:8:" in told[0]


def test_examples_have_one_ir(capfd):
    """As the command shows it, and as the decorator's program is traced."""
    for name in ("judge", "few_shot"):
        path = EXAMPLES / f"{name}.py"
        shown = command(capfd, "ir", path, "--passes", "")
        assert shown.out.rstrip("\n") == print_module(
            compile_source(str(path), "oracle", "").module
        ).rstrip("\n")
