"""Equal greedy calls are asked once, sampled ones each by itself; nobody can tell."""

from pathlib import Path
from typing import Any

import pytest

from lmc.codegen.lower import lower
from lmc.errors import LmcError, RunError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module
from lmc.ir.calls import GenCall, ScoreCall
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import DoneTicket, Oracle

TWINS = load_module(Path(__file__).resolve().parent.parent / "programs" / "twins.py")
WITHOUT = DEFAULT_PIPELINE.replace(",cse", "")


class Logging(Oracle):
    """Notes each request; may answer no generation."""

    def __init__(self, script: Any = None, *, fails: bool = False) -> None:
        super().__init__(script)
        self.log: list[GenCall | ScoreCall] = []
        self.fails = fails

    def submit_gen(self, call: GenCall, on_done: Any, on_text: Any = None) -> Any:
        """Answer, or fail."""
        self.log.append(call)
        if not self.fails:
            return super().submit_gen(call, on_done, on_text)
        on_done(RunError("no answer"))
        return DoneTicket()

    def submit_score(self, call: ScoreCall, on_done: Any) -> Any:
        """Score options."""
        self.log.append(call)
        return super().submit_score(call, on_done)


def requests(name: str, **options: Any) -> list[int]:
    """Return how many generations and choices a program's run asks for."""
    backend = Logging()
    arguments = TWINS.ARGUMENTS[name][-1]
    getattr(TWINS, name).run(**arguments, backend=backend, seed=1, **options)
    return [sum(isinstance(call, kind) for call in backend.log) for kind in (GenCall, ScoreCall)]


@pytest.mark.parametrize(
    ("name", "with_pass", "without"),
    [
        ("siblings", [1, 1], [2, 1]),
        ("second_only", [1, 0], [1, 0]),
        ("sampled", [2, 0], [2, 0]),
        ("nested", [2, 0], [3, 0]),
    ],
)
def test_equal_greedy_calls_make_one_request(
    name: str, with_pass: list[int], without: list[int]
) -> None:
    assert requests(name) == with_pass
    assert requests(name, passes=WITHOUT) == without


def test_a_default_of_the_run_decides_nothing_at_compile_time() -> None:
    assert requests("sampled", temperature=0) == [2, 0]


@pytest.mark.parametrize("name", ["siblings", "second_only", "typed", "nested"])
@pytest.mark.parametrize("script", [*TWINS.SCRIPTS, {"n": "x"}, {"answer": ""}])
def test_listeners_and_readers_see_the_same(name: str, script: Any) -> None:
    """Texts by lineage and name, values, variables, meta dicts; errors with their line."""
    assert observed(name, script) == observed(name, script, WITHOUT)


def observed(name: str, script: Any, passes: str = DEFAULT_PIPELINE, *, fails: bool = False) -> Any:
    """Return what a run shows, with the text that was told per lineage, kind and name."""
    told: dict[tuple[Any, ...], str] = {}

    def listen(kind: str, called: str | None, text: str, lineage: tuple[str, ...]) -> None:
        key = (lineage, kind, called)
        told[key] = told.get(key, "") + text

    made = capture([getattr(TWINS, name).__lmc_function__])
    module = PassManager.parse(passes).run(made.module).module
    backend = Logging(script, fails=fails)
    executor = Executor(backend, lower(module, backend.target), made.host)
    try:
        run = executor.run(name, TWINS.ARGUMENTS[name][-1], seed=1, on_event=listen)
    except LmcError as error:
        return error.message, error.hint, str(error.location)
    return run.value, run.text(), dict(run.state.variables), told


@pytest.mark.parametrize("name", ["siblings", "second_only", "typed"])
def test_a_failure_is_told_at_the_call_that_needs_it(name: str) -> None:
    """The first call's answer may be unread: then its line is nobody's."""
    with_pass = observed(name, None, fails=True)
    assert with_pass == observed(name, None, WITHOUT, fails=True)
    assert "no answer" in with_pass[0]
