"""The ops that ask the model: gen and select."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from lmc.errors import IncompleteError
from lmc.ir.call_meta import PieceMeta, gen_meta, select_meta, whole_piece
from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.evaluate import Undefined
from lmc.ir.value_types import label, read_typed
from lmc.runtime.executor.calls import calls_on
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.slots import undefined
from lmc.runtime.executor.state_ops import tell
from lmc.runtime.executor.task import Task
from lmc.runtime.origins import Origin, join_origins, of_call, of_items
from lmc.runtime.parameters import (
    GenParams,
    check_choices,
    choices_method,
    gen_params,
    given_params,
)
from lmc.runtime.prompt_state import PromptState
from lmc.runtime.result import CallRecord


def site_of(task: Task, name: str | None) -> str:
    """Return the words by which people and scripts know a call: its name and its line."""
    return f"{name or task.step.op}@{task.step.location or '?'}"


def dynamic_values(task: Task, first: int) -> list[Any]:
    """Return the values of dynamic parameters; one without a value is an error."""
    values = task.values()
    for value in values[1:]:
        if isinstance(value, Undefined):
            raise undefined(value)
    return values[first:]


def name_origin(task: Task) -> Origin | None:
    """Return what a dynamic name of the call rests on."""
    dynamic = task.step.attributes["dynamic"]
    if "name" not in dynamic:
        return None
    return task.slot(len(task.step.inputs) - len(dynamic) + dynamic.index("name")).origin


def check_gen(task: Task) -> GenParams:
    """Return the parameters of a generation; raises RunError for wrong ones."""
    dynamic = dynamic_values(task, 1)
    tokenizer, attributes = task.run.backend.target.tokenizer, task.step.attributes
    defaults = {**task.frame.scope.defaults, **attributes.get("defaults", {})}
    return gen_params(attributes, dynamic, defaults, tokenizer)


def gen(task: Task) -> None:
    """Ask for all samples of a generation at once, and wait for them."""
    state = tell(task, task.state())
    params: GenParams = task.checked
    calls = gen_calls(task, state, params)
    results: list[Any] = [None] * len(calls)
    untold: list[Any] = []
    missing = len(calls)

    def answered(sample: int, result: Any) -> None:
        nonlocal missing
        task.run.note_call(task.step, params.name, result)
        if len(calls) == 1 and isinstance(result, GenResult):
            task.run.speculator.decide(state, result.text, result.token_ids)
        results[sample] = result
        missing -= 1
        if not missing:
            task.finish(lambda: give_gen(task, state, params, calls, results, untold))

    for sample, call in enumerate(calls):
        on_text = None
        is_heard = task.run.on_event is not None and not _is_quiet(task)
        if sample == 0 and is_heard:
            on_text = _speaker(task, state, params, call, untold)
        task.run.ask(call, task.order, partial(answered, sample), on_text)


def _is_quiet(task: Task) -> bool:
    """Whether a generation is not shown: only what is made of it stays in the prompt."""
    return bool(task.step.attributes.get("quiet"))


def _speaker(
    task: Task, state: PromptState, params: GenParams, call: GenCall, untold: list[Any]
) -> Any:
    """Return what is called with each piece of a generation.

    In a try, a typed generation is told as a whole: a try goes back before one that is cut.
    """
    tokenizer = task.run.backend.target.tokenizer
    metas = PieceMeta(call, tokenizer, with_text=params.with_text)
    is_tried = task.guard is not None or task.frame.scope.is_tried
    is_late = is_tried and params.type_name != "str"

    def speak(piece: Any) -> None:
        told = partial(task.run.emit, "gen", params.name, metas.add(piece), state.lineage)
        if is_late:
            untold.append(told)
        else:
            task.tell(told)

    return speak


def gen_calls(task: Task, state: PromptState, params: GenParams) -> list[GenCall]:
    """Return one call per sample."""
    run, site = task.run, site_of(task, params.name)
    calls = calls_on(state, params, seed=run.seed, instance=run.instance, site=site)
    liveness = task.step.attributes.get("liveness")
    first = run.hint(state.live, liveness)
    others = replace(first, result="none" if liveness else "unknown")
    return [replace(call, hint=others if i else first) for i, call in enumerate(calls)]


def give_gen(
    task: Task,
    state: PromptState,
    params: GenParams,
    calls: Sequence[GenCall],
    results: Sequence[Any],
    untold: Sequence[Callable[[], None]] = (),
) -> None:
    """Give the state with the generated run, the value and the meta dict."""
    rest = join_origins((state.text_origin, task.origin(1)))
    origins = _call_origins(task, state, params, calls, results, rest)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    values = [read_value(params, result) for result in results]
    tokenizer = task.run.backend.target.tokenizer
    metas = [
        gen_meta(call, result, tokenizer, with_text=params.with_text)
        for call, result in zip(calls, results, strict=True)
    ]
    value, meta, origin = values[0], metas[0], origins[0]
    if params.num_samples > 1:
        value, meta, origin = values, metas, of_items(origins) or origin
    for told in untold:
        task.tell(told)
    after = state.generated(results[0], origins[0]).tick().unpinned().told()
    if calls[0].hint is not None:
        after = after.living(calls[0].hint.number)
    if params.name is not None:
        after = after.set(params.name, value, origin, meta=meta).naming(name_origin(task))
        lineage = state.lineage
        if not _is_quiet(task):
            task.tell(partial(task.run.tell_variable, params.name, value, meta, lineage))
    if state.pin is not None:
        state.pin.used()
    task.give([after, value, meta], [None, origin, origin])


def _call_origins(
    task: Task,
    state: PromptState,
    params: GenParams,
    calls: Sequence[GenCall],
    results: Sequence[Any],
    rest: Origin | None,
) -> list[Origin]:
    """Return what each sample rests on, up to the first that failed; a try around is told."""
    origins: list[Origin] = []
    for sample, (call, result) in enumerate(zip(calls, results, strict=True)):
        if isinstance(result, BaseException):
            break
        place = (params.name or "", state.lineage, state.ordinal, sample)
        record = CallRecord(*place, call, result)
        origins.append(of_call((task.order, sample, record), rest))
    if task.guard is not None:
        task.guard.note_calls(task.order, origins)
    elif task.run.code is None:
        task.run.asked[task.order] = origins
    return origins


def read_value(params: GenParams, result: GenResult) -> Any:
    """Return a sample's text, or the value of the type that was asked for.

    Raises:
        RunError: a typed generation was cut before it was complete.
    """
    if params.type_name == "str":
        return result.text
    if not result.complete:
        limit = params.sampling.max_tokens
        raise IncompleteError(
            f"the {label(params.type_name)} was cut before it was complete: {result.text!r}",
            hint=f"raise max_tokens (now {limit}), or drop stop strings that can occur in it",
        )
    try:
        return read_typed(params.type_name, result.text)
    except (ValueError, KeyError) as error:
        raise IncompleteError(f"{result.text!r} is no {label(params.type_name)}") from error


def check_select(task: Task) -> tuple[str | None, list[str], str]:
    """Return name, choices and method of a select; raises RunError for wrong ones."""
    if isinstance(task.value(1), Undefined):
        raise undefined(task.value(1))
    name, given = given_params(task.step.attributes, dynamic_values(task, 2))
    return name, check_choices(task.value(1)), choices_method(given)


def select(task: Task) -> None:
    """Score the choices, all in one call, and wait for the scores."""
    state = tell(task, task.state())
    name, choices, method = task.checked
    if len(choices) == 1:
        give_select(task, state, name, choices, method, [], [])
        return
    site = site_of(task, name)
    hint = task.run.hint(state.live, task.step.attributes.get("liveness"))
    calls = [ScoreCall(*state.option_ids(choices), site, hint)]
    if method == "unconditional_likelihood_normalized":
        tokenizer = task.run.backend.target.tokenizer
        alone = tuple(tuple(tokenizer.encode(choice, first=True)) for choice in choices)
        calls.append(ScoreCall((tokenizer.empty_context_id,), alone, site))
    results: list[Any] = [None] * len(calls)
    missing = len(calls)

    def answered(index: int, result: Any) -> None:
        nonlocal missing
        task.run.note_call(task.step, name, result)
        results[index] = result
        missing -= 1
        if not missing:
            task.finish(lambda: give_select(task, state, name, choices, method, calls, results))

    for index, call in enumerate(calls):
        task.run.ask(call, task.order, partial(answered, index))


def give_select(
    task: Task,
    state: PromptState,
    name: str | None,
    choices: list[str],
    method: str,
    calls: Sequence[ScoreCall],
    results: Sequence[Any],
) -> None:
    """Give the state with the choice, the choice and the meta dict."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    index, scores = compare(method, results) if results else (0, [0.0])
    origin = task.origin(1)
    if results:
        origin = join_origins((origin, state.text_origin))
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        place = (name or "", state.lineage, state.ordinal, number)
        record = CallRecord(*place, call, result)
        origin = of_call((task.order, number, record), origin)
    tokenizer = task.run.backend.target.tokenizer
    meta = select_meta(choices, scores, calls, results, tokenizer, method=method)
    if task.guard is not None:
        task.guard.note_calls(task.order, [origin])
    chosen = choices[index]
    task.run.speculator.decide(state, chosen)
    after = state.extend(chosen, origin).tick().told()
    if results and state.pin is not None:
        state.pin.used()
        after = after.unpinned()
    if calls and calls[0].hint is not None:
        after = after.living(calls[0].hint.number)
    if name is not None:
        after = after.set(name, chosen, origin, meta=meta).naming(name_origin(task))
    task.tell(partial(task.run.emit, "select", name, chosen, state.lineage))
    if name is not None:
        task.tell(partial(task.run.tell_variable, name, chosen, meta, state.lineage))
    task.give([after, chosen, meta], [None, origin, origin])


def again(task: Task) -> None:
    """Take the answer of an equal call, once it is there."""
    state = tell(task, task.state())
    slots = [task.handle(1).content, task.slot(2), task.slot(3)]
    task.wait(slots, partial(_give_again, task, state))


def _give_again(task: Task, state: PromptState) -> None:
    attributes, first = task.step.attributes, task.state(1)
    value, meta = copy.deepcopy(task.value(2)), copy.deepcopy(task.value(3))
    origin, name = task.slot(2).origin, attributes.get("name")
    after = state.as_after(first).tick().unpinned().told()
    if name is not None:
        after = after.set(name, value, origin, meta=meta)
    if state.pin is not None:
        state.pin.used()
    if not _is_quiet(task):
        piece = whole_piece(first.tail(first.text_len - state.text_len), meta)
        task.tell(partial(task.run.emit, attributes["kind"], name, piece, state.lineage))
        if name is not None:
            task.tell(partial(task.run.tell_variable, name, value, meta, state.lineage))
    task.give([after, value, meta], [None, origin, task.slot(3).origin])


def compare(method: str, results: Sequence[ScoreResult]) -> tuple[int, list[float]]:
    """Return the index of the best choice, the first of equals, and every choice's score."""
    logprobs = results[0].logprobs
    if method == "total_likelihood":
        totals = [sum(option) for option in logprobs]
        return max(range(len(totals)), key=totals.__getitem__), totals
    scores = [mean(option) for option in logprobs]
    if method == "greedy_token_selection":
        return token_by_token(logprobs, scores), scores
    if method == "unconditional_likelihood_normalized":
        alone = [mean(option) for option in results[1].logprobs]
        scores = [score - other for score, other in zip(scores, alone, strict=True)]
    return max(range(len(scores)), key=scores.__getitem__), scores


def token_by_token(logprobs: Sequence[Sequence[float]], means: Sequence[float]) -> int:
    """Return the choice that leads at the first token where one does; ended ones have a mean."""
    leading = list(range(len(logprobs)))
    for column in zip_longest(*logprobs):
        at = [means[i] if value is None else value for i, value in enumerate(column)]
        best = max(at[i] for i in leading)
        leading = [i for i in leading if at[i] == best]
        if len(leading) == 1:
            break
    return leading[0]


def mean(values: Sequence[float]) -> float:
    """Return the mean; 0.0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def foresee(task: Task) -> None:
    """Start what may follow the choice behind it; the prompt is as it was."""
    state, attributes = task.state(), task.step.attributes
    task.run.speculator.foresee(
        state, attributes["paths"], task.frame.scope.defaults,
        is_generated=attributes["call"] == "lm.gen",
    )  # fmt: skip
    task.give_one(0, state)


CALL_OPERATIONS: dict[str, Operation] = {
    "lm.foresee": Operation(foresee, reads=(0,), ticks=0),
    "lm.gen": Operation(gen, reads=(0,), ticks=1, check=check_gen, is_late=True),
    "lm.again": Operation(again, waits=(0,), reads=(0,), ticks=1, is_late=True),
    "lm.select": Operation(select, reads=(0,), ticks=1, check=check_select, is_late=True),
}
