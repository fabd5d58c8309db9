"""The meaning of a module: a plain walk over its ops against a model.

Nothing is cached, planned, reordered or run concurrently here: each op is carried out once,
in the order of the text, as `ir.ops` describes it. Executors, eager mode and every pass are
compared with this walk, so it shares no code with them beyond the meaning of `val.*` ops.

The walk is `interpreter_walk`; `interpreter_prompt` is the prompt state, `interpreter_states`
and `interpreter_model` the ops on it, `interpreter_demand` tracks which calls are needed.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lmc.errors import RunError, UsageError
from lmc.ir.core import Function, Module
from lmc.ir.interpreter_demand import observed_calls
from lmc.ir.interpreter_model import Answer, Call, ModelCalls
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.interpreter_walk import HostArgs, Walk
from lmc.ir.target import Model, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """What a run observably did.

    `calls` are all model calls with their answers in the order of the walk; `demanded` are
    the positions of those that something observable needs: the return value, the text and
    variables of the final state, an argument of a host call, or a condition of one of these.
    """

    value: Any
    variables: dict[str, Any]
    text: str
    messages: list[dict[str, Any]]
    calls: list[tuple[Call, Answer]]
    demanded: frozenset[int]
    host_calls: list[tuple[str, HostArgs]]
    state: Prompt

    @property
    def demanded_calls(self) -> list[tuple[Call, Answer]]:
        """The calls that something observable needs, in the order of the walk."""
        return [self.calls[index] for index in sorted(self.demanded)]


def interpret(
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
    resolve_host: Callable[[str], Callable[..., Any]] | None = None,
) -> Interpretation:
    """Run a program of a module, which must verify.

    Args:
        module: what to run, optimised or not.
        entry: the program's name.
        args: a value for each parameter that has no default.
        model: answers the calls, one after another.
        target: tokenizer and chat template.
        seed: with `instance`, what random keys derive from.
        instance: the place of this run in a batch.
        defaults: decode parameters for generations that set none.
        host: functions by `callee`; others are resolved by `resolve_host`.
        resolve_host: finds a function by 'module:qualname'; imports it if not given.

    Raises:
        UsageError: an unknown entry or wrong arguments.
        RunError: the program failed; the location is the op's.
    """
    function = module.functions.get(entry)
    if function is None or function.kind != "program":
        known = ", ".join(name for name, f in module.functions.items() if f.kind == "program")
        raise UsageError(f"module {module.name!r} has no program {entry!r}", hint=f"one of {known}")
    calls = ModelCalls(model, target, seed, instance)
    walk = Walk(module, calls, dict(host or {}), resolve_host or import_host)
    state, value = walk.run(function, bind_arguments(function, args), dict(defaults or {}))
    prompt: Prompt = state.value
    return Interpretation(
        value=value.value,
        variables={name: held.value for name, held in prompt.named_variables.items()},
        text=prompt.text,
        messages=prompt.messages,
        calls=calls.made,
        demanded=walk.demanded | observed_calls(state) | observed_calls(value),
        host_calls=walk.host_calls,
        state=prompt,
    )


def bind_arguments(function: Function, args: Mapping[str, Any]) -> list[Any]:
    """Return one value per parameter, defaults copied; raises UsageError for a bad fit."""
    names = [param.name for param in function.params]
    for name in args:
        if name not in names:
            raise UsageError(
                f"{function.name} has no parameter {name!r}",
                hint=f"it takes {', '.join(names) or 'none'}",
            )
    missing = [p.name for p in function.params if p.name not in args and not p.has_default]
    if missing:
        raise UsageError(f"{function.name} needs a value for {', '.join(map(repr, missing))}")
    return [
        args[param.name] if param.name in args else copy.deepcopy(param.default)
        for param in function.params
    ]


def import_host(callee: str) -> Callable[..., Any]:
    """Import a function by 'module:qualname'; raises RunError where there is none."""
    path, _, qualname = callee.partition(":")
    try:
        found: Any = import_module(path)
        for name in qualname.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise RunError(
            f"the function {callee} cannot be imported: {error}",
            hint="make its module importable, or pass the function in `host`",
        ) from error
    return found
