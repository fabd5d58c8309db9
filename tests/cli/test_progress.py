"""Progress: silent at first, one line in place on a terminal, one line per task elsewhere."""

import io
import time
from types import SimpleNamespace

import pytest

from lmc import progress as module
from lmc.progress import Progress


class Screen(io.StringIO):
    """A stand-in for stderr, on a terminal or not."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal

    def lines(self):
        """Return what stands on the screen, line ends and carriage returns carried out."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = []
            for part in line.split("\r"):
                cells[: len(part)] = part
            shown.append("".join(cells).rstrip())
        return shown


@pytest.fixture
def screen(monkeypatch, request):
    made = Screen(getattr(request, "param", True))
    # In the module alone: pytest sets sys.stderr anew between set-up and test.
    monkeypatch.setattr(module, "sys", SimpleNamespace(stderr=made))
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(module, "REDRAW_SECONDS", 0.01)
    return made


def wait_for(screen, word):
    """Wait until something is on the screen."""
    deadline = time.monotonic() + 10
    while word not in "\n".join(screen.lines()):
        assert time.monotonic() < deadline, screen.getvalue()
        time.sleep(0.005)


def test_a_terminal_has_one_line_in_place(screen):
    with Progress() as progress:
        for share in (0.1, 0.5, 1.0):
            progress("loading weights", share)
        assert screen.lines() == ["loading weights 100%"]
        progress("next", 1234.0, None)
        assert screen.lines() == ["next 1,234"]
    assert screen.lines() == [""]


@pytest.mark.parametrize("screen", [False], indirect=True)
def test_elsewhere_each_task_is_told_once(screen):
    with Progress() as progress:
        for share in (0.1, 0.5, 1.0):
            progress("loading weights", share)
        progress("next", 5, None)
    assert screen.getvalue() == "loading weights ...\nnext ...\n"


@pytest.mark.parametrize("screen", [True, False], indirect=True)
def test_the_first_second_is_silent(screen, monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 60.0)
    with Progress() as progress:
        progress("loading weights", 0.5)
        with progress.running("running", 3):
            pass
    assert screen.getvalue() == ""


def test_a_running_task_tells_its_time_and_its_parts(screen):
    with Progress() as progress:
        with progress.running("running few_shot", 8) as task:
            task.num_done = 3
            wait_for(screen, "running few_shot 3 of 8, 0 s")
            progress.clear()
            wait_for(screen, "running few_shot 3 of 8")
        assert screen.lines() == [""]
        with progress.running("running judge"):
            wait_for(screen, "running judge 0 s")
    assert screen.lines() == [""]


def test_a_running_task_ends_with_its_error(screen):
    with Progress() as progress, pytest.raises(KeyboardInterrupt):
        with progress.running("running"):
            raise KeyboardInterrupt
    held = screen.getvalue()
    time.sleep(0.05)
    assert screen.getvalue() == held, "nothing is drawn afterwards"
