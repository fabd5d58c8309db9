"""CompileProcesses: processes that compile constraints, and are killed when they are late.

A thread cannot be killed, and what it computes in Python holds up every other thread of its
process. So what is not small is compiled elsewhere: by a process that is started when it is
first needed, serves one constraint after another, has a limit of memory, and is killed and
replaced when a compilation takes too long. A process that dies harms one constraint alone.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint
from lmc.ir.compile_worker import CPU_SECONDS, LENGTH, MAX_MEMORY

MAX_PROCESSES = 2
_CHUNK = 2**20
_MAIN = "from lmc.ir.compile_worker import main; main()"


class CompilationLost(ConstraintError):
    """A constraint that was not compiled for a reason that may not hold the next time."""


class CompileProcess:
    """One process; used by one thread at a time.

    Raises:
        CompilationLost: it cannot be started.
    """

    def __init__(self) -> None:
        folders = [path for path in sys.path if path]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(folders),
            "OPENBLAS_NUM_THREADS": "1",  # each thread reserves address space
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-P", "-c", _MAIN]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
            )
        except OSError as error:
            raise CompilationLost(
                f"no process could be started to compile the constraint: {error}",
                hint="make it smaller, or allow more processes",
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin.fileno()
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it can take a constraint."""
        return self._process.poll() is None

    def compile(self, constraint: Constraint, deadline: float) -> bytes:
        """Return the bytes of a constraint's language (see `language_from_bytes`).

        Args:
            constraint: what is compiled.
            deadline: the time (`time.monotonic`) at which the process is killed.

        Raises:
            ConstraintError: the constraint is refused.
            CompilationLost: the process has died.
            TimeoutError: it was late, and is no more.
        """
        wanted = {"kind": constraint.kind, "source": constraint.source}
        request = json.dumps(wanted).encode()
        try:
            self._write(LENGTH.pack(len(request)) + request, deadline)
            answer = self._read(LENGTH.unpack(self._read(LENGTH.size, deadline))[0], deadline)
        except (EOFError, BrokenPipeError):
            raise self._died() from None
        except BaseException:
            self.kill()  # an answer that nobody reads would be taken for the next one
            raise
        if answer[:1] == b"R":
            raise _refusal(json.loads(answer[1:]))
        if answer[:1] == b"M":
            self.kill()
            raise ConstraintError(
                f"constraint is too complex: it needs more than {MAX_MEMORY >> 20:,} MiB of memory",
                hint="make the pattern, schema or grammar smaller",
            )
        return answer[1:]

    def stop(self) -> None:
        """Let the process end, whatever it does; whoever waits for its answer is told so."""
        self._process.kill()

    def kill(self) -> None:
        """End the process and all that belongs to it. May be called again."""
        self._process.kill()
        self._process.wait()
        self.leave()

    def leave(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _write(self, data: bytes, deadline: float) -> None:
        left = memoryview(data)
        while left:
            self._wait(self._input, select.POLLOUT, deadline)
            left = left[os.write(self._input, left) :]

    def _read(self, size: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        left = size
        while left:
            self._wait(self._output, select.POLLIN, deadline)
            part = os.read(self._output, min(left, _CHUNK))
            if not part:
                raise EOFError
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    @staticmethod
    def _wait(pipe: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(pipe, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError

    def _died(self) -> Exception:
        """Return why there is no answer."""
        self.kill()
        code = self._process.returncode
        if code == -signal.SIGXCPU:
            return TimeoutError()
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        return CompilationLost(
            f"the process that compiled the constraint ended {how}",
            hint="make the pattern, schema or grammar smaller; others are served as before",
        )


class CompileProcesses:
    """A few processes, each started when all others are busy; safe between threads.

    Args:
        count: the most that run at once.
    """

    def __init__(self, count: int = MAX_PROCESSES) -> None:
        self._count = count
        self._left: list[CompileProcess] = []
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._idle: list[CompileProcess] = []
        self._busy: set[CompileProcess] = set()
        self._num_starting = 0

    def compile(self, constraint: Constraint, seconds: float) -> bytes:
        """Return the bytes of a constraint's language (see `language_from_bytes`).

        Args:
            constraint: what is compiled.
            seconds: the most time that it may take, waiting for a process included.

        Raises:
            ConstraintError: the constraint is refused.
            CompilationLost: time was up, or the process has died or could not be started.
        """
        deadline = time.monotonic() + seconds
        try:
            process = self._take(deadline)
            try:
                return process.compile(constraint, deadline)
            finally:
                self._give_back(process)
        except TimeoutError:
            raise _late(min(seconds, CPU_SECONDS)) from None

    def close(self) -> None:
        """End all processes; later constraints start new ones."""
        with self._changed:
            idle, self._idle = self._idle, []
            for process in self._busy:
                process.stop()
        for process in idle:
            process.kill()

    def after_fork(self) -> None:
        """Leave the processes to the parent of this process, which was just forked."""
        self._left += [*self._idle, *self._busy]
        for process in self._left:
            process.leave()
        self._reset()

    def _take(self, deadline: float) -> CompileProcess:
        """Return a process that has nothing to do."""
        with self._changed:
            while True:
                while self._idle:
                    process = self._idle.pop()
                    if process.is_running:
                        self._busy.add(process)
                        return process
                    process.kill()
                if len(self._busy) + self._num_starting < self._count:
                    break
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError
            self._num_starting += 1
        try:
            process = CompileProcess()
        except BaseException:
            with self._changed:
                self._num_starting -= 1
                self._changed.notify()
            raise
        with self._changed:
            self._num_starting -= 1
            self._busy.add(process)
        return process

    def _give_back(self, process: CompileProcess) -> None:
        """Take a process back, if it lives."""
        with self._changed:
            self._busy.discard(process)
            if process.is_running:
                self._idle.append(process)
            self._changed.notify()


def _late(seconds: float) -> CompilationLost:
    return CompilationLost(
        f"the constraint was not compiled within {seconds:g} s",
        hint="make the pattern or schema smaller, or raise constraint_seconds",
    )


def _refusal(told: dict[str, Any]) -> ConstraintError:
    """Return the refusal that a process has told."""
    place: Any = told["position"]
    position = (place[0], place[1]) if isinstance(place, list) else place
    error = ConstraintError(str(told["message"]), hint=told["hint"], position=position)
    error.pointer = told["pointer"]
    return error


processes = CompileProcesses()
"""Those of this process, for all of its tokenizers and engines."""

atexit.register(processes.close)
os.register_at_fork(after_in_child=processes.after_fork)
