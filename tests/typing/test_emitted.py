"""Pyright on the stub of `lmc compile --emit py`: right calls pass in strict mode, others fail."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_support import process

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")

SOURCE = '''
import typing
import lmc

@lmc.function
def grade(s, essay: str, *, limit: int = 3, kinds: "list[str] | None" = None) -> str:
    """Grade an essay."""
    s += "Grade: " + essay + lmc.gen("grade", max_tokens=limit)
    return s["grade"]

@lmc.function
def plain(s, seed: typing.Literal["a", "b"], what, other: "Unknown" = "x"):
    s += str(seed) + lmc.gen("x", max_tokens=2)
'''

USES = """
import asyncio
from typing import Any, assert_type

from graded import grade, plain
from lmc import RunHandle, RunResult

assert_type(grade("essay"), str)
assert_type(grade(essay="essay", limit=2, kinds=["a"]), str)
assert_type(grade.run("essay", temperature=0, seed=1, backend="oracle"), RunResult[str])
assert_type(grade.run("essay").value, str)
assert_type(grade.stream("essay"), RunHandle[str])
assert_type(asyncio.run(grade.arun(essay="essay")), RunResult[str])
result: Any = plain("a", 3)
grade()  # error: essay
grade(essay=3)  # error: is not assignable to "str"
grade("essay", 3)  # error: Expected 1 positional
grade("essay", limit="x")  # error: not assignable to "int"
grade("essay", limits=3)  # error: No parameter named "limits"
grade.run("essay", temprature=1)  # error: No parameter named "temprature"
plain("c", 1)  # error: is not assignable to type
"""

pytestmark = pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")


def test_the_stub_is_strictly_typed(tmp_path: Path) -> None:
    (tmp_path / "grade.py").write_text(SOURCE)
    made = process("compile", "grade.py", "--model", "oracle", "--emit", "py", "-o", "graded.py",
                   cwd=tmp_path)  # fmt: skip
    assert made.code == 0, made.err
    view = tmp_path / "installed" / "lmc"
    view.mkdir(parents=True)
    for target in [ROOT / name for name in FOLDERS] + list((ROOT / "lmc").iterdir()):
        (view / target.name).symlink_to(target)
    (tmp_path / "uses.py").write_text(USES)
    config = {"include": ["uses.py", "graded.pyi"], "typeCheckingMode": "strict",
              "extraPaths": ["installed"]}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "-p", str(tmp_path), "--outputjson"]
    try:
        done = subprocess.run(
            [*command, "--pythonpath", sys.executable],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        pytest.skip(f"pyright does not run here (it needs node): {error}")
    assert report["summary"]["filesAnalyzed"] == 2
    problems: dict[int, str] = {}
    for item in report["generalDiagnostics"]:
        assert Path(item["file"]).name == "uses.py", item
        line = item["range"]["start"]["line"]
        problems[line] = problems.get(line, "") + item["message"]
    for number, line in enumerate(USES.splitlines()):
        if wanted := line.partition("# error: ")[2]:
            assert wanted in problems.pop(number, ""), (line, problems)
    assert not problems
