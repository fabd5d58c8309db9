"""Pyright on snippets: right use is accepted in strict mode, each mistake is told at its line."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("frontend", "ir", "passes", "codegen", "runtime", "kernels")
SNIPPETS = sorted(
    path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")
)

pytestmark = pytest.mark.skipif(find_spec("pyright") is None, reason="pyright is not installed")


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> dict[str, list[tuple[int, str]]]:
    """Return the errors of pyright per file: line and message."""
    folder = tmp_path_factory.mktemp("typing")
    view = folder / "installed" / "lmc"
    view.mkdir(parents=True)
    # The sources as the one package that they install as.
    for target in [ROOT / name for name in FOLDERS] + list((ROOT / "lmc").iterdir()):
        (view / target.name).symlink_to(target)
    for snippet in [*SNIPPETS, *(ROOT / "examples").glob("*.py")]:
        (folder / snippet.name).write_text(snippet.read_text())
    config = {"include": ["."], "exclude": ["installed"], "typeCheckingMode": "strict",
              "extraPaths": ["installed"]}  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        pytest.skip(f"pyright does not run here (it needs node): {error}")
    found: dict[str, list[tuple[int, str]]] = {}
    for item in report["generalDiagnostics"]:
        line = item["range"]["start"]["line"] + 1
        found.setdefault(Path(item["file"]).name, []).append((line, item["message"]))
    assert report["summary"]["filesAnalyzed"] >= len(SNIPPETS)
    return found


def expected(path: Path) -> dict[int, str]:
    """Return the text that each marked line's error must hold."""
    marks = (re.search(r"# error: (.+)$", line) for line in path.read_text().splitlines())
    return {number: mark[1] for number, mark in enumerate(marks, 1) if mark}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_each_mistake_is_told_at_its_line_and_nothing_else(checked, snippet):
    errors, wanted = checked.get(snippet.name, []), expected(snippet)
    assert wanted, "a snippet without mistakes tests nothing"
    assert [error for error in errors if error[0] not in wanted] == []
    for line, text in wanted.items():
        messages = [message for at, message in errors if at == line]
        assert any(text in message.replace("\xa0", " ") for message in messages), (
            line,
            text,
            messages,
        )


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_strict_mode_accepts_the_examples(checked, example):
    assert checked.get(example.name, []) == []
