"""What a module means for an example: the reference interpreter, and the branches it took."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lmc.checking.values import is_noted, shown_call
from lmc.errors import LmcError, RunError
from lmc.ir.calls import GenCall, ScoreCall
from lmc.ir.core import Module, Op
from lmc.ir.interpreter import bind_arguments, import_host
from lmc.ir.interpreter_demand import Traced, observed_calls
from lmc.ir.interpreter_model import ModelCalls
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.interpreter_walk import Walk
from lmc.ir.location import Location
from lmc.ir.target import Model, Target

Call = GenCall | ScoreCall

_RAISED = re.compile(r"(?P<host>.* raised )?(?P<kind>[A-Za-z_]\w*(?:Error|Exception)): ", re.S)

_TAIL = re.compile(r"the prompt ends in (.*)")


MAX_TOKENS = 100_000
"""Tokens in the contexts of all calls: a loop whose prompt grows takes ever longer per trip."""


class TooLong(Exception):
    """A run takes more steps than it may."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a run.

    Attributes:
        kind: the Python exception's name where an expression raised it, else "RunError".
        place: where in the source.
        message: the error's own words.
        is_host: whether a host function raised it.
        tail: the end of the prompt, where the error shows it.
        is_call: whether a call, or what only adds to a prompt, failed: such a failure is met
            where something takes its result, which a pass may drop.
    """

    kind: str
    place: Location | None
    message: str
    is_host: bool = False
    tail: str = ""
    is_call: bool = False

    def __str__(self) -> str:
        return f"{self.kind} at {self.place or 'an unknown place'}: {self.message}"


def failure_of(error: BaseException) -> Failure:
    """Return a failure from an error."""
    message = error.message if isinstance(error, LmcError) else str(error)
    place = error.location if isinstance(error, LmcError) else None
    found = _RAISED.match(message)
    own = "RunError" if isinstance(error, RunError) else type(error).__name__
    kind = found["kind"] if found else own
    if kind == "NameError" or "has no value on the path taken here" in message:
        kind = "UnboundLocalError"
    if "cannot append" in message or "can be appended" in message:
        kind = "RunError"  # in a Python body, the sum that makes the piece may raise already
    where = place if isinstance(place, Location) else None
    shown = _TAIL.search((error.hint if isinstance(error, LmcError) else "") or "")
    return Failure(kind, where, message, bool(found and found["host"]), shown[1] if shown else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a run means.

    Attributes:
        failure: what ends the run; None if it comes to its end.
        value: the return value, prompts within it as Prompt.
        state: the final root state.
        calls: all model calls in program order.
        demanded: those that something observable needs.
        host_calls: effectful host calls with their arguments, as text.
        arms: branches by op, and the arms that were taken.
        groups: contexts of the parents of groups, as far as no continuation can change them.
        steps: ops carried out.
    """

    failure: Failure | None
    value: Any
    state: Prompt
    calls: list[Call]
    demanded: list[Call]
    host_calls: list[str]
    arms: set[tuple[Op, bool]]
    groups: set[tuple[int, ...]]
    steps: int


class CheckedWalk(Walk):
    """The interpreter's walk, which notes the arms of branches and ends after some steps."""

    def __init__(
        self,
        module: Module,
        calls: ModelCalls,
        host: dict[str, Callable[..., Any]],
        *,
        max_steps: int,
    ) -> None:
        super().__init__(module, calls, host, import_host)
        self.arms: set[tuple[Op, bool]] = set()
        self.groups: set[tuple[int, ...]] = set()
        self._max_steps = max_steps
        self._num_tokens = self._num_counted = 0
        self._stand_ins = host

    @property
    def steps(self) -> int:
        """Ops carried out so far."""
        return self._ops

    @property
    def noted_calls(self) -> list[str]:
        """The calls of effectful host functions so far, as text; classes are not stood in for."""
        return [
            shown_call(name, *given)
            for name, given in self.host_calls
            if is_noted(name) and not isinstance(self._stand_ins.get(name), type)
        ]

    def _op(self, op: Op, operands: list[Traced], frame: Any) -> list[Traced]:
        if self._ops > self._max_steps:
            raise TooLong(f"more than {self._max_steps} steps")
        self._count_tokens()
        if op.name == "lm.group" and isinstance(operands[0].value, Prompt):
            tokenizer = self._target.tokenizer
            self.groups.add(operands[0].value.options(tokenizer, [""])[0])
        return super()._op(op, operands, frame)

    def _count_tokens(self) -> None:
        made = self._model.made
        self._num_tokens += sum(len(call.context) for call, _ in made[self._num_counted :])
        self._num_counted = len(made)
        if self._num_tokens > MAX_TOKENS:
            raise TooLong(f"more than {MAX_TOKENS} tokens in the contexts of its calls")

    def _if(self, op: Op, operands: list[Traced], frame: Any) -> list[Traced]:
        condition = operands[0].value
        if isinstance(condition, bool):
            self.arms.add((op, condition))
        return super()._if(op, operands, frame)


_CALLS = frozenset({
    "lm.gen", "lm.select", "lm.begin", "lm.end", "lm.control", "lm.image", "host.pure",
})  # fmt: skip
"""Ops whose failure stays in place of their results."""


def _call_places(module: Module) -> set[Location]:
    return {op.location for op in module.walk() if op.name in _CALLS and op.location is not None}


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
    arguments = bind_arguments(function, args)
    failure = None
    state, value = Traced(Prompt()), Traced(None)
    try:
        state, value = walk.run(function, arguments, dict(defaults or {}))
    except RunError as error:
        failure = failure_of(error)
        is_call = failure.kind == "RunError" and failure.place in _call_places(module)
        failure = replace(failure, is_call=is_call)
    demanded = walk.demanded | observed_calls(state) | observed_calls(value)
    return Meaning(
        failure=failure,
        value=value.value,
        state=state.value,
        calls=[call for call, _ in calls.made],
        demanded=[calls.made[index][0] for index in sorted(demanded)],
        host_calls=walk.noted_calls,
        arms=walk.arms,
        groups=walk.groups,
        steps=walk.steps,
    )
