"""What a module means, failures included: the reference interpreter, going on after failures.

The interpreter ends at the first failing op. A compiled run is lazier: an op whose operands
failed fails with them, and the run fails where something observable does. This walk is the
interpreter's own, with failed values in it, so it tells both: the first failure, which a
Python body would meet, and the failure that reaches what can be observed, if one does.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmc.check_values import is_noted, shown_call
from lmc.errors import Cancelled, LmcError, RunError
from lmc.ir.calls import GenCall, ScoreCall
from lmc.ir.core import Block, Module, Op
from lmc.ir.interpreter import bind_arguments, import_host
from lmc.ir.interpreter_demand import Traced, observed_calls
from lmc.ir.interpreter_model import ModelCalls
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.interpreter_walk import Walk
from lmc.ir.location import Location
from lmc.ir.target import Model, Target
from lmc.ir.types import STATE

Call = GenCall | ScoreCall

_PYTHON_ERROR = re.compile(r"(?:^|.* raised )([A-Za-z_]\w*(?:Error|Exception|Iteration)): ", re.S)

_TICKS = {"lm.gen": 1, "lm.select": 1, "lm.fork": 1}
_WAITS: dict[str, tuple[int, ...]] = {
    "cf.if": (0,), "cf.for": (0,), "cf.while": (), "func.call": (1,), "func.apply": (),
}  # fmt: skip
"""Positions of operands that an op needs before it does anything; all, where not listed."""


class TooLong(Exception):
    """A run takes more steps than it may."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run or a value failed.

    Attributes:
        kind: the Python exception's name where an expression raised it, else "RunError".
        op: name of the failing op; "" where it is not known.
        place: where in the source.
        message: the error's own words.
        number: its place among the failures of the walk, in program order.
        host_calls: host calls made before it.
    """

    kind: str
    op: str
    place: Location | None
    message: str
    number: int = 0
    host_calls: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.place or 'an unknown place'}: {self.message}"


def failure_of(error: BaseException, op: str = "", *, number: int = 0, host: int = 0) -> Failure:
    """Return a failure from an error."""
    place = error.location if isinstance(error, LmcError) else None
    message = error.message if isinstance(error, LmcError) else str(error)
    found = _PYTHON_ERROR.match(message)
    kind = found[1] if found else type(error).__name__
    if kind == "NameError" or "has no value on the path taken here" in message:
        kind = "UnboundLocalError"
    where = place if isinstance(place, Location) else None
    return Failure(kind, op, where, message, number, host)


class _Unknown(RunError):
    """A decision that rests on a failed value."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, location=failure.place or Location("?", 0, 0, 0, 0))
        self.failure = failure


class Failed:
    """Stands for a value that could not be computed; whoever looks at it fails likewise."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure

    def __bool__(self) -> bool:
        raise _Unknown(self.failure)


@dataclass(frozen=True, slots=True, eq=False)
class FailedPrompt(Prompt):
    """A state whose text could not be computed; its lineage and ordinal are known."""

    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a run means.

    Attributes:
        first: the first failure in program order, seen or not; None if nothing failed.
        failure: the failure that ends the run: the first that reaches something observable.
        value: the return value, prompts within it as Prompt.
        state: the final root state.
        calls: all model calls in program order.
        demanded: those that something observable needs.
        host_calls: effectful host calls with their arguments, as (callee, text of them).
        arms: branches by op, and the arms that were taken.
        steps: ops carried out.
    """

    first: Failure | None
    failure: Failure | None
    value: Any
    state: Prompt
    calls: list[Call]
    demanded: list[Call]
    host_calls: list[str]
    arms: set[tuple[Op, bool]]
    steps: int


@dataclass(slots=True)
class _Notes:
    """What the walk notes beside what the interpreter notes."""

    failures: list[Failure] = field(default_factory=list)
    arms: set[tuple[Op, bool]] = field(default_factory=set)


class CheckedWalk(Walk):
    """The interpreter's walk, going on after failures; notes the arms of branches."""

    def __init__(
        self,
        module: Module,
        calls: ModelCalls,
        host: dict[str, Callable[..., Any]],
        *,
        max_steps: int,
    ) -> None:
        super().__init__(module, calls, host, import_host)
        self.notes = _Notes()
        self.results: list[Traced] = []  # of the block that ended last: in the end, the program's
        self._max_steps = max_steps

    @property
    def steps(self) -> int:
        """Ops carried out so far."""
        return self._ops

    @property
    def asked(self) -> list[str]:
        """The calls of effectful host functions so far, as text."""
        made = (shown_call(name, *given) for name, given in self.host_calls if is_noted(name))
        return list(made)

    def _block(self, block: Block, arguments: Sequence[Traced], frame: Any) -> list[Traced]:
        self.results = super()._block(block, arguments, frame)
        return self.results

    def _op(self, op: Op, operands: list[Traced], frame: Any) -> list[Traced]:
        if self._ops > self._max_steps:
            raise TooLong(f"more than {self._max_steps} steps")
        failure = _blocking(op, operands)
        if failure is not None:
            return _without(op, operands, failure)
        try:
            return super()._op(op, operands, frame)
        except _Unknown as unknown:
            return _without(op, operands, unknown.failure)
        except Cancelled:
            raise
        except LmcError as error:
            number, host = len(self.notes.failures), len(self.asked)
            failure = failure_of(error, op.name, number=number, host=host)
            self.notes.failures.append(failure)
            return _without(op, operands, failure)

    def _if(self, op: Op, operands: list[Traced], frame: Any) -> list[Traced]:
        condition = operands[0].value
        if isinstance(condition, bool):
            self.notes.arms.add((op, condition))
        return super()._if(op, operands, frame)


def _blocking(op: Op, operands: Sequence[Traced]) -> Failure | None:
    """Return the first failure among what an op waits for."""
    positions = _WAITS.get(op.name, range(len(operands)))
    found = [
        failure
        for position in positions
        for failure in _failures_for(op, position, operands[position].value)
    ]
    return min(found, key=lambda failure: failure.number, default=None)


def _failures_for(op: Op, position: int, value: Any) -> Iterator[Failure]:
    if isinstance(value, Failed):
        yield value.failure
    elif op.name.startswith("lm.") and op.name not in ("lm.fork", "lm.group"):
        if isinstance(value, FailedPrompt) and value.failure:
            yield value.failure
        elif op.name == "lm.join" and position == 1:
            yield from find_failures(value, deep=False)
    elif op.name == "lm.group" and position == 0:
        yield from find_failures(value, deep=False)


def find_failures(value: Any, *, deep: bool = True) -> Iterator[Failure]:
    """Yield the failures within a value; `deep` looks into the variables of states as well."""
    if isinstance(value, Failed):
        yield value.failure
    elif isinstance(value, FailedPrompt) and value.failure:
        yield value.failure
    elif isinstance(value, Prompt):
        for held in value.variables.values() if deep else ():
            yield from find_failures(held.value)
    elif isinstance(value, (list, tuple)):
        for item in value:  # type: ignore[reportUnknownVariableType]
            yield from find_failures(item, deep=deep)
    elif isinstance(value, dict):
        for item in value.values():  # type: ignore[reportUnknownVariableType]
            yield from find_failures(item, deep=deep)


def _without(op: Op, operands: Sequence[Traced], failure: Failure) -> list[Traced]:
    """Return the results of an op that failed: states keep their place, if it is known."""
    results: list[Traced] = []
    for index, result in enumerate(op.results):
        before = _identity(op, operands, index) if result.type == STATE else None
        if before is None:
            results.append(Traced(Failed(failure)))
            continue
        made = FailedPrompt(lineage=before.lineage, ordinal=before.ordinal, failure=failure)
        results.append(Traced(made))
    return results


def _identity(op: Op, operands: Sequence[Traced], index: int) -> Prompt | None:
    """Return a state with the lineage and ordinal of an op's result."""
    position, ticks = 0, _TICKS.get(op.name, 0)
    match op.name, index:
        case "lm.group", _:
            position = index + 1
        case "lm.tick", 0:
            n = op.attributes["n"]
            ticks = n if isinstance(n, int) else 0
        case "func.call", 1:
            position, ticks = 1, 1
        case _, 0 if op.name.startswith("lm.") and operands:
            pass
        case _:
            return None
    before = operands[position].value
    return before.count(ticks) if isinstance(before, Prompt) else None


def meaning_of(
    module: Module,
    entry: str,
    args: Mapping[str, Any],
    *,
    model: Model,
    target: Target,
    seed: int = 0,
    instance: int = 0,
    defaults: Mapping[str, Any] | None = None,
    host: Mapping[str, Callable[..., Any]] | None = None,
    max_steps: int = 200_000,
) -> Meaning:
    """Return what a program of a module means for some arguments.

    Raises:
        UsageError: the arguments do not fit the program.
        TooLong: the run takes more than `max_steps` ops.
    """
    function = module.functions[entry]
    calls = ModelCalls(model, target, seed, instance)
    walk = CheckedWalk(module, calls, dict(host or {}), max_steps=max_steps)
    walk.run(function, bind_arguments(function, args), dict(defaults or {}))
    _, state, value = walk.results
    found = [failure for result in walk.results for failure in find_failures(result.value)]
    demanded = walk.demanded | observed_calls(state) | observed_calls(value)
    return Meaning(
        first=walk.notes.failures[0] if walk.notes.failures else None,
        failure=min(found, key=lambda failure: failure.number, default=None),
        value=value.value,
        state=state.value if isinstance(state.value, Prompt) else Prompt(),
        calls=[call for call, _ in calls.made],
        demanded=[calls.made[index][0] for index in sorted(demanded)],
        host_calls=walk.asked,
        arms=walk.notes.arms,
        steps=walk.steps,
    )
