"""Running the command line: in this process, or as one of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
EXAMPLE_NAMES = ("judge", "few_shot", "react", "extract", "chat")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str


def command(capfd: pytest.CaptureFixture[str], *args: object) -> Outcome:
    """Run a command in this process."""
    from lmc.cli import run_command

    capfd.readouterr()
    code = run_command([str(arg) for arg in args])
    out, err = capfd.readouterr()
    return Outcome(code, out, err)


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a process of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    return {"OMP_NUM_THREADS": "2"} | kept | more


def start(*args: object, cwd: Path | None = None, **options: object) -> "subprocess.Popen[str]":
    """Start `python -m lmc` as a process, with pipes; not in the repository's folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "lmc", *map(str, args)],
        cwd=cwd or EXAMPLES, env=environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,  # type: ignore[call-overload]
    )  # fmt: skip


def process(
    *args: object, cwd: Path | None = None, timeout: float = 120, text: str = ""
) -> Outcome:
    """Run `python -m lmc` as a process to its end; `text` is what it reads."""
    with start(*args, cwd=cwd, stdin=subprocess.PIPE) as running:
        out, err = running.communicate(text, timeout=timeout)
    return Outcome(running.returncode, out, err)


def python(code: str, *, cwd: Path | None = None, **variables: str) -> Outcome:
    """Run Python code in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd or EXAMPLES, env=environment(**variables),
        text=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)
