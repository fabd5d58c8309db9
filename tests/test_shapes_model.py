"""The shapes of the field, and choices of all kinds, on a real engine: guesses change nothing."""

import copy
from collections.abc import Iterator
from typing import Any

import arms
import pytest
from cost_runs import open_tiny
from test_shapes import ALL, SEED, module_of

import lmc
from lmc.checking.program import check_program
from lmc.errors import LmcError
from lmc.passes.pipeline import DEFAULT_PIPELINE
from lmc.runtime.result import RunResult

EAGERLY = DEFAULT_PIPELINE.replace(
    "speculate", "speculate{min_chars=1,max_options=40,likely=0.01,rare=0.0}"
)
"""Foresees whatever can be, and starts every generation that a profile has seen."""

READ = [path for path in ALL if not path.startswith("pictures.")]
"""The model reads text; it refuses pictures."""

ARMS = [f"arms.{name}" for name in arms.ARGUMENTS]
"""Choices before tools, turns, failures, blanks, equal calls and nested programs."""

FORESEEN = ("agents.react", "agents.router", "agents.matched", "branching.refine")
"""Programs with something after a choice that can be prepared, among others.

Not where a constraint has few answers: forced text leaves no steps in which to prepare.
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """An engine on a small random model."""
    with open_tiny(num_slots=8000) as opened:
        yield opened


def file_of(path: str) -> Any:
    """Return the file of a program as a module."""
    stem = path.partition(".")[0]
    return arms if stem == "arms" else module_of(stem)


def program_of(path: str) -> Any:
    """Return a program by 'file.name'."""
    return getattr(file_of(path), path.partition(".")[2])


def arguments_of(path: str) -> list[dict[str, Any]]:
    """Return the sets of arguments of a program's file."""
    found: list[dict[str, Any]] = file_of(path).ARGUMENTS[path.partition(".")[2]]
    return found


def log_of(path: str) -> list[Any]:
    """Return where the host functions of a program's file note their calls."""
    return getattr(file_of(path), "LOG", [])


def profiled(path: str, engine: Any) -> Any:
    """Return a program compiled to foresee all that it can, with what its runs took."""
    program, profile = program_of(path), lmc.Profile()
    for arguments in arguments_of(path):
        for seed in (SEED, SEED + 1):
            run(program, path, arguments, engine, seed=seed, profile=profile)
    return program.compile(engine, passes=EAGERLY, profile=profile)


def run(made: Any, path: str, arguments: dict[str, Any], engine: Any, **options: Any) -> Any:
    """Return all that can be seen of a run, log-probabilities of its calls and errors included."""
    log = log_of(path)
    log.clear()
    try:
        result = made.run(**copy.deepcopy(arguments), backend=engine, **options)
    except LmcError as error:
        return type(error), error.message, error.location, list(log)
    return shown(result), list(log)


def shown(result: RunResult | Exception) -> Any:
    """Return what can be seen of a result, or of a failure."""
    if isinstance(result, LmcError):
        return type(result), result.message, result.location
    assert isinstance(result, RunResult)
    state = repr(dict(result.state.variables))
    return repr(result.value), state, result.text(), result.messages(), result.calls


@pytest.mark.parametrize("path", [*READ, *ARMS])
def test_on_off_and_wrong_are_the_same_on_every_shape(path: str, engine: Any) -> None:
    made = profiled(path, engine)
    for arguments in arguments_of(path):
        wanted = run(made, path, arguments, engine, seed=SEED, speculate="off")
        assert run(program_of(path), path, arguments, engine, seed=SEED, passes="") == wanted
        for mode in ("on", "wrong"):
            engine.flush_cache()
            found = run(made, path, arguments, engine, seed=SEED, speculate=mode)
            assert found == wanted, (mode, arguments)
    engine.check()


@pytest.mark.long
@pytest.mark.parametrize("path", [*READ, *ARMS])
def test_batches_and_streams_of_every_shape_too(path: str, engine: Any) -> None:
    made, batch = profiled(path, engine), arguments_of(path) * 2
    results: dict[str, Any] = {}
    for mode in ("off", "on", "wrong"):
        engine.flush_cache()
        together = made.run_batch(
            copy.deepcopy(batch), backend=engine, seed=SEED, speculate=mode, keep_errors=True
        )
        results[mode] = [shown(result) for result in together]
        results[mode] += [streamed(made, each, engine, mode) for each in arguments_of(path)]
    assert results["on"] == results["off"]
    assert results["wrong"] == results["off"]


def streamed(made: Any, arguments: dict[str, Any], engine: Any, mode: str) -> list[str]:
    """Return the pieces of a stream joined, and what ended it."""
    handle = made.run(
        **copy.deepcopy(arguments), stream=True, backend=engine, seed=SEED, speculate=mode
    )
    pieces: list[str] = []
    try:
        pieces.extend(handle.text_iter())
    except LmcError as error:
        return ["".join(pieces), error.message]
    return ["".join(pieces)]


@pytest.mark.parametrize("path", ARMS)
def test_all_modes_are_alike_on_choices(path: str) -> None:
    report = check_program(program_of(path), arguments=arguments_of(path), examples=6, rounds=1)
    assert report.is_equal, report


@pytest.mark.parametrize("path", FORESEEN)
def test_something_is_done_ahead(path: str, engine: Any) -> None:
    made, tokens = profiled(path, engine), 0
    for arguments in arguments_of(path):
        engine.flush_cache()
        given = copy.deepcopy(arguments)
        result = made.run(**given, backend=engine, seed=SEED, speculate="wrong")
        tokens += result.usage.speculated_tokens
        assert result.usage.wasted_tokens == result.usage.speculated_tokens
    assert tokens > 0


def test_pictures_are_refused(engine: Any) -> None:
    arguments = arguments_of("pictures.question")[0]
    with pytest.raises(LmcError, match="image"):
        program_of("pictures.question").run(**arguments, backend=engine)
