"""A backend whose answers the test gives by hand, and short ways to run IR text."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmc.codegen.lower import lower
from lmc.codegen.target import oracle_target
from lmc.errors import Cancelled
from lmc.ir.calls import CallUsage, GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.core import Module
from lmc.ir.parser import parse_module
from lmc.ir.verifier import verify
from lmc.runtime.executor import Executor

TIMEOUT = 20.0

ECHO = """
module "m" {} {
  entry @main
  func @main program (%effect: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %t: state = lm.extend %s, %x
    %u: state, %v: text, %m: meta = lm.gen %t {name = "v", params = {}, dynamic = []}
    func.return %effect, %u, %v
  }
}
"""
"""A program of one call, whose prompt is its argument."""


@dataclass(eq=False)
class Open:
    """A submitted call that waits for the test's answer."""

    backend: "ManualBackend"
    call: Any
    on_done: Callable[[Any], None]
    on_text: Callable[[str], None] | None = None
    is_cancelled: bool = False

    @property
    def name(self) -> str:
        """The program's name for the call; "prefill" for a prefix."""
        return self.call.site.partition("@")[0] if hasattr(self.call, "site") else "prefill"

    def cancel(self) -> None:
        """End the call with Cancelled, as the engine does."""
        self.is_cancelled = True
        self.answer(Cancelled("cancelled"))

    def answer(self, result: Any) -> None:
        """End the call, once."""
        with self.backend.changed:
            if self not in self.backend.open:
                return
            self.backend.open.remove(self)
            self.backend.changed.notify_all()
        self.on_done(result)

    def say(self, text: str, **fields: Any) -> None:
        """End a generation with a text."""
        ids = tuple(self.backend.target.tokenizer.encode(text))
        usage = CallUsage(prompt_tokens=len(self.call.context), output_tokens=len(ids))
        self.answer(GenResult(token_ids=ids, text=text, usage=usage, **fields))

    def choose(self, index: int) -> None:
        """End a scoring with one option far ahead."""
        rows = [(-0.1 if i == index else -9.0,) * len(o) for i, o in enumerate(self.call.options)]
        self.answer(ScoreResult(logprobs=tuple(rows)))


@dataclass(eq=False)
class Pinned:
    """A prefix that the manual backend pretends to hold."""

    backend: "ManualBackend"
    context: tuple[int, ...]
    computed_tokens: int

    def release(self) -> None:
        """Give the pin back; a second time is an error."""
        self.backend.pinned.remove(self.context)


@dataclass(eq=False)
class ManualBackend:
    """Holds every call open until the test answers it; `log` has all calls ever submitted."""

    target: Any = field(default_factory=oracle_target)
    open: list[Open] = field(default_factory=list)
    log: list[Any] = field(default_factory=list)
    pinned: list[tuple[int, ...]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def _add(self, opened: Open) -> Open:
        with self.changed:
            self.open.append(opened)
            self.log.append(opened.call)
            self.changed.notify_all()
        return opened

    def submit_gen(self, call: GenCall, on_done: Any, on_text: Any = None) -> Open:
        return self._add(Open(self, call, on_done, on_text))

    def submit_score(self, call: ScoreCall, on_done: Any) -> Open:
        return self._add(Open(self, call, on_done))

    def submit_prefill(self, context: tuple[int, ...], on_done: Any) -> Open:
        return self._add(Open(self, context, on_done))

    def pin(self, opened: Open) -> None:
        """Answer a prefill."""
        self.pinned.append(opened.call)
        opened.answer(Pinned(self, opened.call, len(opened.call)))

    def wait(self, count: int, log: int | None = None) -> list[Open]:
        """Wait until exactly `count` calls are open (and `log` were made in all)."""

        def is_there() -> bool:
            return len(self.open) == count and (log is None or len(self.log) >= log)

        with self.changed:
            assert self.changed.wait_for(is_there, TIMEOUT), f"open: {self.open}, not {count}"
            return list(self.open)

    def named(self, name: str) -> Open:
        """Wait for an open call by its name."""
        with self.changed:
            found = self.changed.wait_for(
                lambda: next((o for o in self.open if o.name == name), None), TIMEOUT
            )
        assert found, f"no call {name!r} is open"
        return found


class Background:
    """Runs a function on a thread; `result` waits and raises what it raised."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._outcome: Any = None
        self._error: BaseException | None = None

        def work() -> None:
            try:
                self._outcome = function()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the function has not ended."""
        return self._thread.is_alive()

    def result(self) -> Any:
        """Return what the function returned."""
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive(), "the run does not end"
        if self._error is not None:
            raise self._error
        return self._outcome


def module_of(text: str) -> Module:
    """Parse and verify a module; a body alone becomes the program `main` without parameters."""
    if "func @" not in text:
        text = (
            'module "test" {} {\n  entry @main\n'
            "  func @main program (%effect: effect) {params = []} {\n" + text + "\n  }\n}\n"
        )
    module = parse_module(text)
    verify(module)
    return module


def executor_of(
    module: Module | str, backend: Any, host: Mapping[str, Callable[..., Any]] | None = None
) -> Executor:
    """Lower a module for a backend's target and return its executor."""
    made = module_of(module) if isinstance(module, str) else module
    return Executor(backend, lower(made, backend.target), host)


def run_in_background(executor: Executor, entry: str = "main", **options: Any) -> Background:
    """Run an entry with seed 5 on a thread of its own."""
    return Background(lambda: executor.run(entry, options.pop("args", {}), seed=5, **options))
