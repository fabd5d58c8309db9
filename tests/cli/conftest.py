"""Program files for tests of the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_support import Outcome, command

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a program file below a temporary folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)

    def made(name: str, body: str) -> Path:
        path = tmp_path / name
        path.write_text(f"import lmc\n{body}", encoding="utf-8")
        return Path(name)

    return made


@pytest.fixture
def lmc(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command in this process."""
    return lambda *args: command(capfd, *args)
