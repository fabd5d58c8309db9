"""Trace files: what an engine and its programs did, for Chrome's trace viewer or Perfetto.

    with lmc.trace("run.json"):
        judge.run(essay="...")

`lmc run --trace FILE` does the same. The file is JSON in the Trace Event Format that Perfetto's
documentation describes (https://perfetto.dev/docs/getting-started/other-formats), in three groups:
the steps of each engine (planning and forward pass; sampling lies between them) with what they
are made of; the requests that the engine serves, with the phases queued, prefill and decode; and
what programs ask, model calls and host functions, under their source lines.

Whoever traces appends a tuple to a queue. A thread turns them into text, a few times a second,
and leaves the file complete each time: it can be read while it grows, and after any end.
"""

import contextlib
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from lmc.errors import UsageError

MOST_WAITING = 100_000
"""Records that wait to be written; beyond them records are dropped, and counted."""

FLUSH_SECONDS = 0.25

STEPS, REQUESTS, PROGRAMS = 1, 2, 3
"""Groups of the file, in the place of process numbers."""

_GROUPS = {STEPS: "engine steps", REQUESTS: "engine requests", PROGRAMS: "program calls"}
_HEAD = '{"displayTimeUnit":"ms","traceEvents":[\n'

_active: "Trace | None" = None
_numbers = itertools.count(1)

Event = dict[str, Any]


def active_trace() -> "Trace | None":
    """Return the trace that is being written, if any."""
    return _active


class Trace:
    """Writes a trace while it is entered; one at a time in a process.

    Args:
        path: the file, written anew.

    Raises:
        UsageError: another trace is being written, or the file cannot be; at the end, where a
            part of it could not.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._records: deque[tuple[Any, ...]] = deque()
        self._num_dropped = 0
        self._failure: OSError | None = None
        self._origin = 0.0
        self._has_events = False
        self._stop = threading.Event()

    def __enter__(self) -> "Trace":
        global _active
        if _active is not None:
            raise UsageError(
                f"a trace is being written to {_active.path}",
                hint="one at a time: leave the other `with lmc.trace(...)` first",
            )
        try:
            self._file = self.path.open("w+b")
        except OSError as error:
            raise UsageError(f"cannot write the trace to {self.path}: {error.strerror}") from error
        self._origin = time.perf_counter()
        self._file.write(_HEAD.encode())
        self._end_of_events = self._file.tell()
        names = [_named(group, "process_name", name) for group, name in _GROUPS.items()]
        self._write(names)
        self._thread = threading.Thread(target=self._run, name="lmc-trace", daemon=True)
        self._thread.start()
        _active = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _active
        _active = None
        self._stop.set()
        self._thread.join()
        self._drain()
        with contextlib.suppress(OSError):  # what could not be written is told below
            self._file.close()
        if self._failure is not None and error is None:
            raise UsageError(
                f"the trace {self.path} ends early: {self._failure.strerror}",
                hint="is the disk full? what was written before can be read",
            )

    # -- recording: any thread, and cheap ----------------------------------------------------

    def add(self, *record: Any) -> None:
        """Take a record: a function that makes events, and its arguments."""
        if len(self._records) < MOST_WAITING:
            self._records.append(record)
        else:
            self._num_dropped += 1

    # -- writing -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_SECONDS):
            self._drain()

    def _drain(self) -> None:
        """Write what waits; the file is complete behind it."""
        events: list[Event] = []
        while self._records:
            make, *arguments = self._records.popleft()
            events += make(*arguments)
        self._write(events)

    def _write(self, events: list[Event]) -> None:
        for event in events:
            if "ts" in event:
                # What had begun before the trace begins with it.
                event["ts"] = max(0.0, round((event["ts"] - self._origin) * 1e6, 1))
        body = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        comma = ",\n" if self._has_events and body else ""
        self._has_events = self._has_events or bool(body)
        text = (comma + body).encode()
        tail = f'\n],"otherData":{{"dropped_records":{self._num_dropped}}}}}\n'.encode()
        try:
            self._file.seek(self._end_of_events)
            self._file.write(text + tail)
            self._file.flush()
        except OSError as error:
            self._failure = self._failure or error
            return
        self._end_of_events += len(text)


# -- events --------------------------------------------------------------------------------------


def step_events(
    engine: int, span: tuple[float, float], tokens: tuple[int, int], sequences: tuple[int, int],
    queue: tuple[int, int],
) -> Iterator[Event]:  # fmt: skip
    """Yield a step: tokens and sequences in prefill and in decode; running and waiting ones."""
    counts = {
        "prefill tokens": tokens[0], "decode tokens": tokens[1],
        "prefilling": sequences[0], "decoding": sequences[1],
        "running": queue[0], "waiting": queue[1],
    }  # fmt: skip
    begun, ended = span
    yield {
        "name": "step", "cat": "step", "ph": "X", "pid": STEPS, "tid": engine, "ts": begun,
        "dur": round((ended - begun) * 1e6, 1), "args": counts,
    }  # fmt: skip
    yield {
        "name": "sequences", "ph": "C", "pid": STEPS, "tid": engine, "ts": begun,
        "args": {"running": queue[0], "waiting": queue[1]},
    }  # fmt: skip


def request_events(
    name: str, outcome: str, moments: tuple[float, float | None, float | None, float],
    details: dict[str, Any],
) -> Iterator[Event]:  # fmt: skip
    """Yield a request and its phases from submission, first step, first token and end."""
    submitted, started, first_token, ended = moments
    number = next(_numbers)
    yield from _span(REQUESTS, "request", number, name, submitted, ended,
                     {"outcome": outcome, **details})  # fmt: skip
    begun = ended if started is None else started
    decoding = ended if first_token is None else first_token
    yield from _span(REQUESTS, "request", number, "queued", submitted, begun)
    if started is not None:
        yield from _span(REQUESTS, "request", number, "prefill", begun, decoding)
    if first_token is not None:
        yield from _span(REQUESTS, "request", number, "decode", decoding, ended)


def call_events(name: str, run: int, program: str, asked: float, ended: float) -> Iterator[Event]:
    """Yield what a program asked at a source line, from asking to the answer."""
    place = name.partition("@")[2]
    details = {"run": run, "program": program, "line": place}
    yield from _span(PROGRAMS, "call", next(_numbers), name, asked, ended, details)


def _span(
    group: int, category: str, number: int, name: str, begun: float, ended: float,
    details: dict[str, Any] | None = None,
) -> Iterator[Event]:  # fmt: skip
    common = {"name": name, "cat": category, "id": number, "pid": group, "tid": 0}
    yield {**common, "ph": "b", "ts": begun, "args": details or {}}
    yield {**common, "ph": "e", "ts": max(begun, ended)}


def _named(group: int, kind: str, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": group, "tid": 0, "args": {"name": name}}
