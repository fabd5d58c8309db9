"""The command as a process: exit codes, interrupts, broken pipes, several at once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_support import EXAMPLES, environment, process, start

STORY = """
import lmc

@lmc.function
def story(s, q: str = "Tell me a story."):
    s += lmc.user(q)
    s += lmc.assistant(lmc.gen("x", max_tokens=2000, ignore_eos=True, temperature=0))
"""
SLOW_TOOL = """
import time
import lmc

def tool():
    print("tool", flush=True)
    time.sleep(60)

@lmc.function
def slow(s):
    s += "a"
    tool()
"""
SLOW_LOAD = "import time\nprint('loading', flush=True)\ntime.sleep(60)\n"
BUSY = """
import lmc

@lmc.function
def busy(s):
    n = 0
    while n < 10**9:
        n += 1
    return n
"""


def test_exit_codes_of_a_process(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import lmc\n@lmc.function\ndef bad(s:\n")
    (tmp_path / "fails.py").write_text("import lmc\n@lmc.function\ndef f(s):\n    return 1 // 0\n")
    codes = {
        ("--version",): 0,
        ("ir", EXAMPLES / "judge.py"): 0,
        ("run", EXAMPLES / "react.py", "--model", "oracle", "--arg", "question=a"): 0,
        ("run", "fails.py", "--model", "oracle"): 1,
        ("run", EXAMPLES / "react.py", "--model", "oracle"): 2,
        ("run", "bad.py"): 3,
        (): 2,
    }
    for args, code in codes.items():
        told = process(*args, cwd=tmp_path)
        assert told.code == code, (args, told)
        assert "Traceback" not in told.err
        assert bool(told.err.strip()) == (args[:1] not in [("--version",), ("ir",)])


def interrupt(running: "subprocess.Popen[str]", seconds: float = 60) -> tuple[int, str, str]:
    """Send what Ctrl-C sends, and return exit code, stdout and stderr."""
    running.send_signal(signal.SIGINT)
    try:
        out, err = running.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        pytest.fail(f"still running {seconds} s after the interrupt")
    return running.returncode, out, err


def children(pid: int) -> list[str]:
    """Return the processes that a process has started and that still run."""
    return [
        line.split()[1]
        for line in subprocess.run(
            ["ps", "-e", "-o", "ppid=,pid="], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if line.split()[0] == str(pid)
    ]


@pytest.mark.model
def test_an_interrupt_while_generating(tmp_path: Path) -> None:
    (tmp_path / "story.py").write_text(STORY)
    # The stream tells when the model has begun to answer.
    running = start("run", "story.py", "--stream", cwd=tmp_path)
    assert running.stdout is not None
    line = ""
    while "assistant" not in line:
        line = running.stdout.readline()
        assert line, running.communicate()
    code, _, err = interrupt(running)
    assert code == 130
    assert err.splitlines()[-1] == "interrupted"
    assert err.count("interrupted") == 1
    assert "Traceback" not in err


@pytest.mark.model
@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0])
def test_an_interrupt_while_the_model_loads(tmp_path: Path, delay: float) -> None:
    (tmp_path / "story.py").write_text(STORY)
    running = start("run", "story.py", cwd=tmp_path)
    maps = Path(f"/proc/{running.pid}/maps")
    while "libtorch" not in maps.read_text():
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    time.sleep(delay)
    code, out, err = interrupt(running)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err


@pytest.mark.model
def test_an_interrupt_while_kernels_are_built(tmp_path: Path) -> None:
    (tmp_path / "story.py").write_text(STORY)
    cache = tmp_path / "cache"
    with subprocess.Popen(
        [sys.executable, "-m", "lmc", "run", "story.py"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env=environment(LMC_CACHE=str(cache)),
    ) as running:  # fmt: skip
        deadline = time.monotonic() + 60
        while not (compilers := children(running.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert compilers, "no compiler was started"
        # As a terminal does, to all that runs there.
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted"
    assert not any(Path(f"/proc/{pid}").exists() for pid in compilers)
    assert not list(cache.glob("kernels/*.so"))


@pytest.mark.parametrize(
    ("name", "source", "sign"),
    [("slow", SLOW_TOOL, "tool\n"), ("load", SLOW_LOAD, "loading\n"), ("busy", BUSY, None)],
)
def test_an_interrupt_of_the_users_own_code(
    tmp_path: Path, name: str, source: str, sign: str | None
) -> None:
    (tmp_path / f"{name}.py").write_text(source)
    running = start("run", f"{name}.py", "--model", "oracle", cwd=tmp_path)
    assert running.stdout is not None
    if sign is None:
        time.sleep(3)
    else:
        assert running.stdout.readline() == sign
    code, _, err = interrupt(running, 20)
    assert code == 130
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err


@pytest.mark.parametrize("args", [("ir",), ("viz",), ("run", "--model", "oracle")], ids=str)
def test_a_reader_may_leave_early(tmp_path: Path, args: tuple[str, ...]) -> None:
    long = "import lmc\n@lmc.function\ndef long(s):\n" + "".join(
        f"    s += {'text ' * 40!r} + lmc.gen('x{n}', max_tokens=2)\n" for n in range(400)
    )
    (tmp_path / "long.py").write_text(long)
    running = start(args[0], "long.py", *args[1:], cwd=tmp_path)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    err = running.stderr.read()
    running.stderr.close()
    assert running.wait(60) == 0
    assert "Broken" not in err
    assert "Traceback" not in err


def test_a_pipe_that_is_closed_from_the_start(tmp_path: Path) -> None:
    code = f"{sys.executable} -m lmc --help 2>&1 >/dev/full; echo $?"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, env=environment())
    assert "Traceback" not in done.stdout
    assert "no space left" in done.stdout.lower()


def test_text_of_any_kind_can_be_printed_anywhere(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(
        "import lmc\n@lmc.function\ndef echo(s, text: str):\n    s += 'x'\n    return text\n"
    )
    for encoding in ("ascii", "latin-1", "utf-8"):
        for how in ((), ("--json",)):
            done = subprocess.run(
                [sys.executable, "-m", "lmc", "run", "echo.py", "--model", "oracle", *how,
                 "--arg", b"text=\xe6\x97\xa5 \xff"],
                cwd=tmp_path, capture_output=True, env=environment(PYTHONIOENCODING=encoding),
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            if how:
                # An ASCII terminal is taken for one of UTF-8.
                text = done.stdout.decode("latin-1" if encoding == "latin-1" else "utf-8")
                value = "日 ?" if encoding == "ascii" else "日 \udcff"
                assert json.loads(text)["return"] == value


@pytest.mark.model
def test_two_runs_at_once_give_the_same(tmp_path: Path) -> None:
    args = ("run", EXAMPLES / "extract.py", "--arg", "text=Ada was born in Rome in 1815.", "--json")
    both = [start(*args, cwd=tmp_path) for _ in range(2)]
    outputs = [running.communicate(timeout=120) for running in both]
    assert [running.returncode for running in both] == [0, 0], outputs
    first, second = (json.loads(out) for out, _ in outputs)
    assert first["token_ids"] == second["token_ids"]
    assert first["return"] == second["return"]
