"""Capture compared with eager mode, which runs the Python body as it is, on the oracle."""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from lmc.errors import LmcError
from lmc.frontend.capture import Captured, capture
from lmc.ir.interpreter import interpret
from lmc.ir.parser import parse_module
from lmc.ir.printer import print_module
from lmc.ir.verifier import verify
from lmc.runtime.eager import run_eager
from lmc.runtime.oracle import Oracle

SEED = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run observably did: an error's line, or value, variables and text."""

    error_at: str | None
    value: str = ""
    variables: str = ""
    text: str = ""


def captured(program: Any) -> Captured:
    """Capture a program; its module must verify and keep its text through the parser."""
    made = capture([program])
    verify(made.module)
    text = print_module(made.module)
    assert print_module(parse_module(text)) == text
    return made


def assert_same(
    program: Any, arguments: Mapping[str, Any], script: Any = None, made: Captured | None = None
) -> Outcome:
    """Run a program eagerly and as captured; both must do the same."""
    function: FunctionType = getattr(program, "__lmc_function__", program)
    made = made or captured(program)
    oracle = Oracle(script)
    eager_calls: Counter[Any] = Counter()
    walked_calls: Counter[Any] = Counter()
    demanded: Counter[Any] = Counter()

    def eagerly() -> Outcome:
        result = run_eager(oracle, function, copy.deepcopy(dict(arguments)), seed=SEED)
        eager_calls.update(record.call for record in result.calls)
        return _outcome(result.value, dict(result.state.variables), result.text())

    def walked() -> Outcome:
        result = interpret(
            made.module, function.__name__, copy.deepcopy(dict(arguments)),
            model=oracle, target=oracle.target, seed=SEED, host=made.host,
        )  # fmt: skip
        walked_calls.update(call for call, _ in result.calls)
        demanded.update(call for call, _ in result.demanded_calls)
        return _outcome(result.value, result.variables, result.text)

    eager, walk = _guarded(eagerly), _guarded(walked)
    assert walk == eager
    # Eager mode may leave out calls that nothing reads; it makes all that something demands.
    assert not eager_calls - walked_calls
    assert eager.error_at is not None or not demanded - eager_calls
    return walk


def _outcome(value: Any, variables: Mapping[str, Any], text: str) -> Outcome:
    return Outcome(None, repr(value), repr(variables), text)


def _guarded(run: Callable[[], Outcome]) -> Outcome:
    try:
        return run()
    except LmcError as error:
        # CPython may place an unassigned name one line early (a joined store and load).
        if error.message.startswith("UnboundLocalError") or "has no value on" in error.message:
            return Outcome("a name without a value")
        return Outcome(f"line {getattr(error.location, 'line', None)}")
