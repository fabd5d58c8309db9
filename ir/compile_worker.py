"""What a compile process runs: constraints come in, languages or refusals go out.

A request is JSON: {"kind", "source"}. An answer is one byte, then: `L` and a language's bytes,
`R` and a refusal as JSON, or `M`, after which the process ends, for want of memory. Each message
has its length before it. The process ends when its input does.
"""

import json
import os
import resource
import signal
import struct
import sys
import warnings
from typing import IO

LENGTH = struct.Struct("<Q")
MAX_MEMORY = 2 * 2**30
"""Bytes of address space of a compile process."""

CPU_SECONDS = 30
"""Processor time of one compilation after which the system ends the process; compilations
give up long before, so this ends what hangs, even when nobody is there to kill it."""


def main() -> None:
    """Answer requests on standard input until it ends."""
    # Whatever prints must not do so into the answers.
    answers, requests = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    warnings.simplefilter("ignore")  # patterns are read by Python's parser, which warns of odd ones
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # whatever that of the engine is
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    _answer(b'{"kind": "regex", "source": "a"}')  # loads all that compiles now, within the limits

    while request := _read(requests):
        _limit_time()
        answer = _answer(request)
        answers.write(LENGTH.pack(len(answer)))
        answers.write(answer)
        answers.flush()
        if answer == b"M":
            return


def _answer(request: bytes) -> bytes:
    # Here, since they are to be loaded once standard output is no longer that of the answers.
    from lmc.errors import ConstraintError
    from lmc.ir.calls import Constraint
    from lmc.ir.languages.compiling import compile_here, language_to_bytes

    try:
        wanted = json.loads(request)
        language = compile_here(Constraint(wanted["kind"], wanted["source"]))
        return b"L" + language_to_bytes(language)
    except ConstraintError as error:
        told = {
            "message": error.message,
            "hint": error.hint,
            "pointer": error.pointer,
            "position": error.position,
        }
        return b"R" + json.dumps(told).encode()
    except MemoryError:
        return b"M"


def _limit_time() -> None:
    """Let the system end this process when one compilation hangs."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _read(requests: IO[bytes]) -> bytes:
    """Return the next request; empty at the end of the input."""
    head = requests.read(LENGTH.size)
    return requests.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
