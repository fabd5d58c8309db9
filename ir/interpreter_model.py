"""The ops that ask the model, and the record of what was asked and answered."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lmc.errors import Cancelled, LmcError, RunError
from lmc.ir.call_meta import gen_meta, select_meta
from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.core import Op
from lmc.ir.failing import Failed
from lmc.ir.interpreter_calls import (
    check_choices,
    choose,
    gen_request,
    gen_value,
    unconditional_call,
)
from lmc.ir.interpreter_demand import Traced, union
from lmc.ir.interpreter_prompt import Calls, Prompt
from lmc.ir.target import Model, Target
from lmc.ir.types import STATE

Call = GenCall | ScoreCall
Answer = GenResult | ScoreResult


@dataclass(frozen=True, slots=True)
class ModelCalls:
    """Asks a model, one call after another; `made` records calls and answers."""

    model: Model
    target: Target
    seed: int
    instance: int
    made: list[tuple[Call, Answer]] = field(default_factory=list)

    def gen(self, op: Op, operands: Sequence[Traced], defaults: Mapping[str, Any]) -> list[Traced]:
        """Carry out `lm.gen`."""
        prompt: Prompt = operands[0].value
        params, name = _parameters(op, operands[1:])
        tokenizer, site = self.target.tokenizer, _site(op, name)
        request = gen_request(params, defaults, tokenizer)
        if prompt.failed is not None:
            return failed_results(op, operands, prompt.failed)
        calls = request.calls(prompt, tokenizer, site, seed=self.seed, instance=self.instance)
        needed = prompt.text_calls | union(operands[1:])
        with _answering():
            samples = [self._generate(call) for call in calls]
            read = [gen_value(request, result) for _, result in samples]
        values = [
            Traced(value, needed | {index}) for value, (index, _) in zip(read, samples, strict=True)
        ]
        metas = [
            Traced(gen_meta(call, result, tokenizer, with_text=request.with_text), needed | {index})
            for call, (index, result) in zip(calls, samples, strict=True)
        ]
        value, meta = (
            (values[0], metas[0]) if request.samples == 1 else (_list(values), _list(metas))
        )
        first, result = samples[0]
        text = result.text.removesuffix(result.tail) if result.tail else result.text
        prompt = prompt.append_ids(result.token_ids, text)
        prompt = prompt.append_text(result.tail, needed | {first}).count()
        prompt = _named(prompt, name, value, meta, op, operands)
        return [Traced(prompt), value, meta]

    def _generate(self, call: GenCall) -> tuple[int, GenResult]:
        result = self.model.generate(call)
        self.made.append((call, result))
        return len(self.made) - 1, result

    def _score(self, call: ScoreCall) -> tuple[Calls, ScoreResult]:
        result = self.model.score(call)
        self.made.append((call, result))
        return frozenset({len(self.made) - 1}), result

    def select(self, op: Op, operands: Sequence[Traced]) -> list[Traced]:
        """Carry out `lm.select`."""
        prompt: Prompt = operands[0].value
        params, name = _parameters(op, operands[2:])
        choices, method = check_choices(operands[1].value, params)
        if prompt.failed is not None:
            return failed_results(op, operands, prompt.failed)
        needed = union(operands[1:])
        calls: list[ScoreCall] = []
        results: list[ScoreResult] = []
        index, scores = 0, [0.0]
        tokenizer, site = self.target.tokenizer, _site(op, name)
        if len(choices) > 1:
            calls.append(ScoreCall(*prompt.options(tokenizer, choices), site))
            if method == "unconditional_likelihood_normalized":
                calls.append(unconditional_call(tokenizer, choices, site))
            needed |= prompt.text_calls
            with _answering():
                for call in calls:
                    made, scored = self._score(call)
                    results.append(scored)
                    needed |= made
            index, scores = choose(method, results[0], results[1] if results[1:] else None)
        value = Traced(choices[index], needed)
        meta = select_meta(choices, scores, calls, results, tokenizer, method=method)
        meta = Traced(meta, needed)
        prompt = prompt.append_text(choices[index], needed).count()
        return [Traced(_named(prompt, name, value, meta, op, operands)), value, meta]


class AnswerFailed(Exception):
    """A call failed by what the model answered, or that it did not."""

    def __init__(self, error: LmcError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except Cancelled:
        raise
    except LmcError as error:
        raise AnswerFailed(error) from error
    except Exception as error:
        # A model or a script of somebody's own may raise anything: the call has failed.
        raise AnswerFailed(RunError(f"{type(error).__name__}: {error}")) from error


def failed_results(op: Op, operands: Sequence[Traced], failed: Failed) -> list[Traced]:
    """Return the results of an op that needs what has failed.

    The prompt after it keeps its place, so what it forks or calls later has its keys.
    """
    held = operands[0].value if operands else None
    prompt = held if isinstance(held, Prompt) else Prompt()
    if op.name in ("lm.gen", "lm.select", "lm.again", "lm.fork"):
        prompt = prompt.count()
    results = []
    for result in op.results:
        is_state = result.type == STATE
        results.append(Traced(prompt.failing(failed) if is_state else failed))
    return results


def _list(values: list[Traced]) -> Traced:
    return Traced([value.value for value in values], items=dict(enumerate(values)))


def _parameters(op: Op, operands: Sequence[Traced]) -> tuple[dict[str, Any], str | None]:
    """Return a call's own parameters, the dynamic ones with their values, and its name."""
    params: dict[str, Any] = dict(op.attributes["params"])  # type: ignore[arg-type]
    dynamic: Any = op.attributes["dynamic"]
    params |= {key: held.value for key, held in zip(dynamic, operands, strict=True)}
    name = params.pop("name", op.attributes.get("name"))
    if name is not None and not isinstance(name, str):
        raise RunError(f"the name of a variable must be a str, not {name!r:.80}")
    return params, name


def _named(
    prompt: Prompt,
    name: str | None,
    value: Traced,
    meta: Traced,
    op: Op,
    operands: Sequence[Traced],
) -> Prompt:
    """Set the variable of a call that has a name."""
    if name is None:
        return prompt
    dynamic: Any = op.attributes["dynamic"]
    named_by = (
        operands[len(operands) - len(dynamic) + dynamic.index("name")]
        if ("name" in dynamic)
        else Traced(None)
    )
    return prompt.set(name, value, meta, named_by.all_calls)


def _site(op: Op, name: str | None) -> str:
    return f"{name or op.name}@{op.location or '?'}"
