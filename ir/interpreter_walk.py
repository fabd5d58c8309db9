"""The walk of the reference interpreter: blocks, control flow, functions and host calls."""

import copy
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lmc.errors import Cancelled, LmcError, RunError
from lmc.ir.arguments import call_arguments
from lmc.ir.caught import as_raised, placed
from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.evaluate import Undefined, undefined_error
from lmc.ir.failing import Failed, may_fail
from lmc.ir.interpreter_demand import Traced, evaluate_traced, observed_calls
from lmc.ir.interpreter_guard import CarriedFailure, Guard, carried_in
from lmc.ir.interpreter_model import AnswerFailed, ModelCalls, failed_results
from lmc.ir.interpreter_prompt import NO_CALLS, Calls, Prompt
from lmc.ir.interpreter_states import STATE_OPS, root_state

MAX_CALL_DEPTH = 200
MAX_OPS = 20_000_000
TAIL_CHARS = 200
_FRAMES = 30_000

HostArgs = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional arguments and keywords of a host call, copied before the call."""


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Let the walk nest as deep as MAX_CALL_DEPTH programs need."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@dataclass(slots=True)
class _Frame:
    """One activation of a function; `values` are its registers."""

    lineage: tuple[str, ...]
    defaults: dict[str, Any]
    depth: int
    values: dict[Value, Traced] = field(default_factory=dict)


class Walk:
    """One run: walks the ops and notes what the host was asked and what that needs."""

    def __init__(
        self,
        module: Module,
        calls: ModelCalls,
        host: dict[str, Callable[..., Any]],
        resolve: Callable[[str], Callable[..., Any]],
    ) -> None:
        self.host_calls: list[tuple[str, HostArgs]] = []
        self.demanded: Calls = NO_CALLS
        self._module = module
        self._model = calls
        self._target = calls.target
        self._host = host
        self._resolve = resolve
        self._conditions: Calls = NO_CALLS  # what decided that this op runs
        self._ops = 0
        self._num_failed = 0
        self._guards: list[Guard] = []

    def run(
        self, function: Function, args: Sequence[Any], defaults: dict[str, Any]
    ) -> tuple[Traced, Traced]:
        """Run a program from the outside; return its final root state and return value."""
        arguments = [Traced(None), *map(Traced, args)]
        frame = _Frame(lineage=(), defaults=defaults, depth=1)
        try:
            with _deep_recursion():
                _, state, value = self._block(function.body, arguments, frame)
        except CarriedFailure as carried:
            raise carried.error from None
        failures = list(_failures_in([state.value, value.value]))
        if failures:
            raise min(failures, key=_number).error
        return state, value

    def _block(self, block: Block, arguments: Sequence[Traced], frame: _Frame) -> list[Traced]:
        frame.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops[:-1]:
            self._ops += 1
            if self._ops > MAX_OPS:
                # No failure of the program's: nothing in it catches this.
                raise CarriedFailure(RunError(
                    f"the run takes more than {MAX_OPS} steps", hint="does a loop never end?",
                    location=op.location,
                ))  # fmt: skip
            operands = [frame.values[value] for value in op.operands]
            results = self._op(op, operands, frame)
            frame.values.update(zip(op.results, results, strict=True))
        return [frame.values[value] for value in block.terminator.operands]

    def _op(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        start = len(self._model.made)
        try:
            if self._guards:
                failed = carried_in(op, operands)
                if failed is not None:
                    raise CarriedFailure(failed.error)
            failed = _first_failed(op, operands)
            if op.name == "lm.again":
                failed = self._failed_again(op, operands, failed)
            if failed is not None and may_fail(op):
                raise failed.error
            if failed is not None:
                return failed_results(op, operands, failed)
            if op.name.startswith("val."):
                return evaluate_traced(op, operands)
            if op.name.startswith("cf."):
                return self._control(op, operands, frame)
            _refuse_undefined(operands)
            if op.name in STATE_OPS:
                return STATE_OPS[op.name](self._target, op, operands)
            return self._call(op, operands, frame)
        except Cancelled:
            raise
        except AnswerFailed as failure:
            if not self._guards:
                return self._failing(op, operands, failure.error)
            self._note_failing(op, operands, start)
            raise _placed(failure.error, op, operands) from failure.error
        except LmcError as error:
            if self._guards:
                self._note_failing(op, operands, start)
            elif not may_fail(op):
                return self._failing(op, operands, error)
            if isinstance(error, RunError) and error.location is not None:
                raise  # told at its own line already
            raise _placed(error, op, operands) from error

    def _note_failing(self, op: Op, operands: list[Traced], start: int) -> None:
        """Note what a failure in a `cf.try` rests on; the innermost op is told first."""
        if self._guards[-1].failed_by is not None:
            return
        needed = NO_CALLS.union(*(operand.all_calls for operand in operands))
        if op.name in ("lm.gen", "lm.select") and len(self._model.made) > start:
            needed |= operands[0].value.text_calls.union(range(start, len(self._model.made)))
            for guard in self._guards:
                guard.needed |= needed
        self._guards[-1].failed_by = self._conditions | needed

    def _failing(self, op: Op, operands: list[Traced], error: LmcError) -> list[Traced]:
        """Return what a failed call gives: failures, for whoever needs its results."""
        self._num_failed += 1
        placed = _placed(error, op, operands)
        placed.__cause__ = error
        return failed_results(op, operands, Failed(placed, self._num_failed))

    def _failed_again(self, op: Op, operands: list[Traced], failed: Failed | None) -> Failed | None:
        """Return what failed for a call that takes another one's answer.

        What came before it failed as it does for any call; the other call's failure is its own.
        """
        prompt: Prompt = operands[0].value
        if prompt.failed is not None or failed is None:
            return prompt.failed
        if op.attributes.get("first") != str(failed.error.location or ""):
            return failed
        self._num_failed += 1
        moved = placed(failed.error, hint=failed.error.hint, location=op.location)
        moved.__cause__ = failed.error.__cause__
        return Failed(moved, self._num_failed)

    def _control(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        before = self._conditions
        match op.name:
            case "cf.if":
                results = self._if(op, operands, frame)
            case "cf.for":
                results = self._for(op, operands, frame)
            case "cf.try":
                results = self._try(op, operands, frame)
            case "cf.save":
                self._guards[-1].save(op, operands)
                results = []
            case _:
                results = self._while(op, operands, frame)
        self._conditions = before
        return results

    def _call(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        match op.name:
            case "lm.prompt" | "lm.prologue":
                lineage = _called_from(operands[0].value) if operands else frame.lineage
                return [Traced(root_state(self._target, op, lineage))]
            case "lm.gen":
                own: Any = op.attributes.get("defaults") or {}
                return self._asked(self._model.gen(op, operands, {**frame.defaults, **own}))
            case "lm.select":
                return self._asked(self._model.select(op, operands))
            case "host.matches":
                return [self._matches(op, operands[0])]
            case "func.call":
                return self._call_program(op, operands, frame)
            case "func.apply":
                inner = self._enter(frame.lineage, frame.defaults, frame)
                return self._block(self._callee(op).body, operands, inner)
            case "host.pure":
                needed = NO_CALLS.union(*map(observed_calls, operands))
                return [Traced(self._ask_host(op, operands), needed)]
            case _:
                return self._call_host(op, operands)

    def _asked(self, results: list[Traced]) -> list[Traced]:
        """Note what a call's answer rests on for the tries around."""
        for guard in self._guards:
            guard.needed |= results[1].all_calls
        return results

    def _matches(self, op: Op, raised: Traced) -> Traced:
        classes = tuple(self._find_host(str(name)) for name in op.attributes["classes"])  # type: ignore[union-attr]
        return Traced(isinstance(raised.value, classes), raised.all_calls)  # type: ignore[arg-type]

    def _try(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        effect, *inits = operands
        guard = Guard(inits)
        self._guards.append(guard)
        raised: Exception | None = None
        depth = len(self._guards)
        try:
            effect, *values = self._block(op.blocks[0], (), frame)
        except Cancelled:
            raise
        except LmcError as error:
            raised = as_raised(error)
            count = len(op.results) - len(operands) - 1
            values = [Traced(Undefined("what a failed block gives"))] * count
            guard.needed |= guard.failed_by or NO_CALLS
        finally:
            del self._guards[depth - 1 :]
        needed = guard.needed
        given = [Traced(raised, needed), effect]
        return given + [value.needing(needed) for value in (*guard.slots, *values)]

    def _if(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        (condition,) = operands
        _refuse_undefined(operands)
        self._conditions |= condition.all_calls
        results = self._block(op.blocks[0 if condition.value else 1], (), frame)
        return [result.needing(condition.all_calls) for result in results]

    def _for(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        items, *carried = operands
        _refuse_undefined([items])
        decided = items.calls
        self._conditions |= decided
        for item in _items(items):
            go_on, *carried = self._block(op.blocks[0], [item, *carried], frame)
            if isinstance(go_on.value, Failed):
                return failed_results(op, [], go_on.value)
            decided |= go_on.all_calls
            self._conditions |= decided
            if not go_on.value:
                break
        return [value.needing(decided) for value in carried]

    def _while(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        carried, decided, goes_on = operands, NO_CALLS, True
        while goes_on:
            go_on, *carried = self._block(op.blocks[0], carried, frame)
            if isinstance(go_on.value, Failed):
                return failed_results(op, [], go_on.value)
            decided |= go_on.all_calls
            self._conditions |= decided
            goes_on = go_on.value
        return [value.needing(decided) for value in carried]

    def _call_program(self, op: Op, operands: list[Traced], frame: _Frame) -> list[Traced]:
        effect, caller, *arguments = operands
        prompt: Prompt = caller.value
        given: Any = op.attributes.get("defaults") or {}
        inner = self._enter(_called_from(prompt), {**frame.defaults, **given}, frame)
        results = self._block(self._callee(op).body, [effect, *arguments], inner)
        effect, state, value = results
        return [effect, Traced(prompt.count()), state, value]

    def _callee(self, op: Op) -> Function:
        return self._module.functions[str(op.attributes["callee"])]

    def _enter(self, lineage: tuple[str, ...], defaults: dict[str, Any], frame: _Frame) -> _Frame:
        if frame.depth >= MAX_CALL_DEPTH:
            raise RunError(
                f"calls are nested deeper than {MAX_CALL_DEPTH}", hint="does a recursion never end?"
            )
        return _Frame(lineage, defaults, frame.depth + 1)

    def _call_host(self, op: Op, operands: list[Traced]) -> list[Traced]:
        effect, *arguments = operands
        needed = NO_CALLS.union(*map(observed_calls, arguments))
        # The call happens whatever is read later: its arguments and conditions are observable.
        self.demanded |= self._conditions | needed
        self.demanded = self.demanded.union(*(guard.needed for guard in self._guards))
        return [effect, Traced(self._ask_host(op, arguments), needed)]

    def _ask_host(self, op: Op, arguments: list[Traced]) -> Any:
        values = [argument.value for argument in arguments]
        if _holds_prompt(values):
            raise RunError(
                "a prompt state cannot be handed to a function of your own",
                hint="hand over what the function needs: s['name'] or s.text()",
            )
        names: Any = op.attributes.get("keywords") or []
        positional, keywords = call_arguments(names, values)
        if op.name == "host.method":
            subject, *positional = positional
            callee = f".{op.attributes['name']}"
            shown: tuple[Any, ...] = (subject, *positional)
        else:
            callee = str(op.attributes["callee"])
            shown = tuple(positional)
        if op.name != "host.pure":
            self.host_calls.append((callee, _copied((shown, keywords))))
        try:
            if op.name == "host.method":
                called = getattr(subject, str(op.attributes["name"]))
            else:
                called = self._find_host(callee)
            return _awaited(called(*positional, **keywords))
        except LmcError:
            raise
        except Exception as error:
            # Whatever the user's function raises is the program's failure, told at its line.
            name = callee if op.name != "host.method" else f"{type(subject).__name__}{callee}"
            made = RunError(f"{name} raised {type(error).__name__}: {error}")
            made.raised = error
            raise made from error

    def _find_host(self, callee: str) -> Callable[..., Any]:
        return self._host[callee] if callee in self._host else self._resolve(callee)


def _called_from(prompt: Prompt) -> tuple[str, ...]:
    """Return the lineage of a program that is called from a prompt now."""
    return (*prompt.lineage, f"call{prompt.ordinal}")


def _first_failed(op: Op, operands: Sequence[Traced]) -> Failed | None:
    """Return the first failure among the values that an op itself looks at."""
    match op.name:
        case "cf.while" | "cf.try" | "cf.save" | "func.call" | "func.apply":
            return None
        case "cf.for":
            operands = operands[:1]
    failures = [operand.value for operand in operands if isinstance(operand.value, Failed)]
    return min(failures, key=_number) if failures else None


def _failures_in(value: Any) -> Iterator[Failed]:
    """Return the failures that an observer of a value meets."""
    if isinstance(value, Failed):
        yield value
    elif isinstance(value, Prompt):
        if value.failed is not None:
            yield value.failed
        for held in value.variables.values():
            yield from _failures_in(held.value)
    elif isinstance(value, dict):
        yield from _failures_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _failures_in(item)


def _holds_prompt(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(map(_holds_prompt, value))
    return isinstance(value, Prompt)


def _number(failed: Failed) -> int:
    return failed.number


def _refuse_undefined(operands: Sequence[Traced]) -> None:
    for operand in operands:
        if isinstance(operand.value, Undefined):
            raise undefined_error(operand.value.name)


def _items(items: Traced) -> Iterator[Traced]:
    try:
        iterator = iter(items.value)
    except TypeError as error:
        made = RunError(f"TypeError: {error}")
        made.raised = error
        raise made from error
    known = {} if isinstance(items.value, dict) else items.items or {}
    for index, value in enumerate(iterator):
        yield known.get(index, Traced(value)).needing(items.calls)


def _awaited(value: Any) -> Any:
    """Run what an async function returned to its end; other values are as they are."""
    if not isinstance(value, Coroutine):
        return value
    import asyncio

    return asyncio.run(value)


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        # Some objects refuse to be copied (locks, files); the record then holds them as they are.
        return value


def _placed(error: LmcError, op: Op, operands: list[Traced]) -> LmcError:
    """Give an error the op's location and, where a prompt is concerned, the prompt's tail."""
    hint = error.hint
    if op.name in ("lm.gen", "lm.select", "lm.extend"):
        tail = f"the prompt ends in {operands[0].value.text[-TAIL_CHARS:]!r}"
        hint = f"{hint}\n{tail}" if hint else tail
    return placed(error, hint=hint, location=op.location)
