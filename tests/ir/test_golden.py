"""The golden files cover every op, and their machinery tells a wrong expectation."""

import os
import subprocess
import sys
from pathlib import Path

from lmc.ir.ops import SPECS

FOLDER = Path(__file__).parent / "roundtrip"
CONFTEST = Path(__file__).parent.parent / "conftest.py"
CASE = '// {}\nmodule "m" {{}} {{\n}}\n// EXPECT\nmodule "{}" {{}} {{\n}}\n'


def test_every_op_is_in_a_golden_file() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.lmir"))
    assert [name for name in SPECS if f" {name} " not in text and f" {name}\n" not in text] == []


def golden(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the golden cases of a folder in a process of their own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        str(folder),
    ]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=env)


def test_a_wrong_expectation_is_shown_and_can_be_accepted(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    file = tmp_path / "cases.lmir"
    cases = [CASE.format("good", "m"), CASE.format("wrong", "n"), CASE.format("last", "m")]
    file.write_text("// -----\n".join(cases), encoding="utf-8")
    failed = golden(tmp_path)
    assert failed.returncode == 1
    assert '-module "n" {} {' in failed.stdout
    assert '+module "m" {} {' in failed.stdout
    assert "1 failed, 2 passed" in failed.stdout
    assert golden(tmp_path, "--update-golden").returncode == 0
    assert file.read_text(encoding="utf-8") == "// -----\n".join(
        [cases[0], CASE.format("wrong", "m"), cases[2]]
    )
