"""What a generation and a choice cost, and what is known of their results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lmc.errors import LmcError
from lmc.ir.calls import SamplingParams
from lmc.ir.core import Op
from lmc.ir.interpreter_calls import check_choices, gen_request, unconditional_call
from lmc.passes.cost.contexts import Computed, Gap, Stretch, Symbol, common_len, spellings
from lmc.passes.cost.intervals import Interval, exactly, hull
from lmc.passes.cost.lengths import Length
from lmc.passes.cost.prompts import AbstractPrompt, Run, TextRun, generated, name_of
from lmc.passes.cost.tally import Cost
from lmc.passes.cost.values import (
    NUMBER_SIZE,
    Abstract,
    Items,
    alternatives,
    one_of,
)

if TYPE_CHECKING:
    from lmc.passes.cost.walk import CostWalk, Scene

ONCE = exactly(1)


@dataclass(frozen=True, slots=True)
class CertainCall:
    """A generation and the fewest tokens that must fit the cache for it.

    Attributes:
        op: the call.
        context: tokens of its context, at the least.
        max_tokens: tokens that it may generate.
    """

    op: Op
    context: float
    max_tokens: int

    @property
    def tokens(self) -> float:
        """Tokens that the cache must have room for; the last one generated is not computed."""
        return self.context + max(0, self.max_tokens - 1)


def longest_call(walk: "CostWalk", final: Any) -> CertainCall | None:
    """Return the longest of the calls that a final state's text rests on, by its least length.

    The text of a run's final state is always needed, so these calls are.
    """
    runs = final.runs if isinstance(final, AbstractPrompt) else ()
    keys = [run.key for run in runs if isinstance(run, Stretch)]
    made = [walk.calls[key] for key in keys if key in walk.calls]
    return max(made, key=lambda call: call.tokens, default=None)


def gen_cost(
    walk: "CostWalk", op: Op, operands: list[Abstract], defaults: Mapping[str, Any], scene: "Scene"
) -> list[Abstract]:
    """Count a generation and return state, value and meta."""
    prompt: AbstractPrompt = operands[0].value
    params, name, is_named = _parameters(op, operands[1:])
    ready = max(scene.after, prompt.ready, *(operand.ready for operand in operands))
    try:
        request = gen_request(params, defaults, walk.target.tokenizer)
    except LmcError:
        request = gen_request({}, {}, walk.target.tokenizer)  # the run fails here at no cost
    length = walk.lengths.of(request)
    if request.constraint is not None:
        walk.constraints[op.location] = length
    if params.pop("max_tokens", None) is UNKNOWN:
        scene.tally.unbounded[op.location] = "max_tokens is not known"
        length = Length(Interval(0, math.inf), length.text, respelled=length.text)
    tokens = length.tokens
    symbols = prompt.symbols(walk.encoder, stable=False)
    is_empty = not symbols
    symbols = symbols or [walk.target.tokenizer.empty_context_id]
    _charge(op, symbols, _recomputed(symbols, request.sampling), tokens, request.samples, scene)
    done = ready + tokens.high
    walk.latest = max(walk.latest, done)
    values = [
        walk.serials.unknown(
            _value_size(request.kind, length.respelled),
            is_text=request.kind == "str",
            is_number=request.kind in ("int", "float", "bool"),
        )
        for _ in range(request.samples)
    ]
    value = values[0] if request.samples == 1 else Items(tuple(Abstract(v, done) for v in values))
    kept = Interval(0 if request.sampling.stop else tokens.low, tokens.high)
    run = generated(walk.serials.next(), kept)
    if is_empty:
        # It stood behind the id that stands in for an empty context; later ones begin with it.
        run = replace(run, prefill=kept, held=kept.high)
    least = sum(1 if isinstance(symbol, int) else symbol.tokens.low for symbol in symbols)
    most = 0 if math.isinf(tokens.high) else request.sampling.max_tokens
    walk.calls[run.key] = CertainCall(op, least, most)
    prompt = prompt.append_run(run, length.respelled, done)
    tail = _tail_size(walk, request.sampling)
    if tail:
        prompt = prompt.append(Gap(walk.serials.next(), tail), 0)
    result = Abstract(value, done)
    if is_named:
        prompt = prompt.set(name, result, has_meta=True)
    return [Abstract(prompt, done), result, Abstract(walk.serials.unknown(math.inf), done)]


def _recomputed(symbols: Sequence[Symbol], sampling: SamplingParams) -> float:
    """Return how many tokens of a context a call computes at the least, cached or not.

    The last one's logits are needed; with log-probabilities of the prompt, those of all from
    a place on.
    """
    start = sampling.logprob_start_len if sampling.return_logprob else -1
    if start < 0:
        return 1
    size = sum(1 if isinstance(symbol, int) else symbol.tokens.high for symbol in symbols)
    return max(1, size - max(1, start) + 1)


UNKNOWN = object()
"""Stands for a parameter whose value is not known."""


def _parameters(op: Op, dynamic: Sequence[Abstract]) -> tuple[dict[str, Any], str | None, bool]:
    """Return the known parameters, the variable's name if it is known, and whether there is one."""
    params: dict[str, Any] = dict(op.attributes["params"])  # type: ignore[arg-type]
    name, is_named = op.attributes.get("name"), "name" in op.attributes
    names: Any = op.attributes["dynamic"]
    for key, given in zip(names, dynamic, strict=True):
        values = alternatives(given.value)
        if key == "name":
            found = name_of(given)
            name, is_named = (found[0] if found and len(found) == 1 else None), True
        elif values is None or len(values) != 1:
            params[key] = UNKNOWN
            if key == "max_tokens" and values and all(type(v) is int for v in values):
                params[key] = max(values)
        else:
            params[key] = values[0]
    known = {key: value for key, value in params.items() if value is not UNKNOWN}
    if params.get("max_tokens") is UNKNOWN:
        known["max_tokens"] = UNKNOWN
    return known, name, is_named  # type: ignore[return-value]


def _charge(
    op: Op, symbols: Sequence[Symbol], least: float, tokens: Interval, samples: int, scene: "Scene"
) -> None:
    """Count calls on one context, of which each computes `least` tokens at the least."""
    prefill, held = scene.computed.missing(symbols)
    first = Interval(max(prefill.low, 1), max(prefill.high, least))
    rest = Interval(samples - 1, (samples - 1) * least)
    decode = Interval(tokens.low * samples, tokens.high * samples)
    # The last token that a call generates is not computed; those that are computed once more
    # lie twice in the cache for a while.
    grown = max(0, tokens.high - 1) * samples + (samples - 1) * least
    cost = Cost(exactly(samples), first + rest, decode, Interval(0, max(held, least) + grown))
    scene.tally.add(op.location, cost)
    scene.computed.add(symbols)


def _value_size(kind: str, text_size: float) -> float:
    if kind in ("int", "bool"):
        return max(text_size, 5)
    return max(text_size, NUMBER_SIZE) if kind != "str" else text_size


def _tail_size(walk: "CostWalk", sampling: SamplingParams) -> float:
    """Return the most tokens of text that a cut inside the last token can leave in the prompt."""
    tail = walk.encoder.longest_broken_head
    if sampling.stop_regex:
        return walk.encoder.longest_piece
    return max(tail, walk.encoder.longest_head(sampling.stop)) if sampling.stop else tail


def select_cost(
    walk: "CostWalk", op: Op, operands: list[Abstract], scene: "Scene"
) -> list[Abstract]:
    """Count a choice and return state, value and meta."""
    prompt: AbstractPrompt = operands[0].value
    params, name, is_named = _parameters(op, operands[2:])
    ready = max(scene.after, prompt.ready, *(operand.ready for operand in operands))
    lists = alternatives(operands[1].value)
    try:
        choices, method = check_choices(lists[0] if lists and len(lists) == 1 else None, params)
    except LmcError:
        return _unknown_choice(walk, op, operands, scene, name if is_named else "")
    if len(choices) > 1:
        scene.tally.add(op.location, _score_cost(walk, prompt, choices, scene))
        if method == "unconditional_likelihood_normalized":
            call = unconditional_call(walk.target.tokenizer, choices, "")
            options = [list(option) for option in call.options]
            scene.tally.add(op.location, _tree_cost(list(call.context), options, scene))
    value = one_of(choices, walk.serials)
    chosen = Abstract(value, ready)
    prompt = prompt.append_value(chosen, walk.serials)
    if is_named:
        prompt = prompt.set(name, chosen, has_meta=True)
    return [Abstract(prompt, ready), chosen, Abstract(walk.serials.unknown(math.inf), ready)]


def _unknown_choice(
    walk: "CostWalk", op: Op, operands: list[Abstract], scene: "Scene", name: str | None
) -> list[Abstract]:
    prompt: AbstractPrompt = operands[0].value
    scene.tally.unbounded[op.location] = "the choices are not known"
    endless = Interval(0, math.inf)
    scene.tally.add(op.location, Cost(ONCE, endless, Interval(), endless))
    chosen = Abstract(walk.serials.unknown(math.inf), prompt.ready)
    prompt = prompt.append_value(chosen, walk.serials)
    if name != "":
        prompt = prompt.set(name, chosen, has_meta=True)
    return [Abstract(prompt, prompt.ready), chosen, chosen]


def _score_cost(
    walk: "CostWalk", prompt: AbstractPrompt, choices: Sequence[str], scene: "Scene"
) -> Cost:
    """Count a scoring: the stable context, and below it every distinct token of the options."""
    encoder = walk.encoder
    runs, text = prompt.runs, [""]
    if runs and isinstance(runs[-1], TextRun):
        known = spellings(runs[-1].parts)
        if known is None:
            return _bounded_score(walk, prompt, choices, scene)
        runs, text = runs[:-1], known
    costs = []
    ends: list[Computed] = []
    for spelled in text:
        before = AbstractPrompt(runs=runs).append(spelled, 0)
        context = before.symbols(encoder, stable=True)
        context = context or [walk.target.tokenizer.empty_context_id]
        options = [_option(walk, runs, spelled, choice) for choice in choices]
        way = scene.fork(0)
        costs.append(_tree_cost(context, options, way))
        ends.append(way.computed)
    scene.computed.join(ends)
    return Cost(ONCE, hull(c.prefill for c in costs), Interval(), hull(c.held for c in costs))


def _option(walk: "CostWalk", runs: Sequence[Any], text: str, choice: str) -> list[int]:
    tokenizer, first = walk.target.tokenizer, not runs
    stable = tokenizer.stable_len(text, first=first) if text else 0
    return tokenizer.encode(text + choice, first=first)[stable:]


def _tree_cost(context: list[Symbol], options: Sequence[Sequence[int]], scene: "Scene") -> Cost:
    """Count a scoring: each distinct token of the options is computed anew, for its logits.

    So is the context's last one. The last token of an option is never computed. Behind a context
    that is cached the engine may begin with any branch: what it shares with one before it in
    order is then computed twice.
    """
    prefill, held, shared = Interval(), 0.0, 0
    is_cached = scene.computed.missing(context)[0].high == 0
    heads = _branch_heads(options)
    for index, head in enumerate(heads):
        symbols = [*context, *head]
        missing, more = scene.computed.missing(symbols)
        least = len(head) - shared + (not index)
        following = common_len((head, heads[index + 1])) if index + 1 < len(heads) else 0
        twice = min(max(0, following - shared), missing.high) if is_cached else 0
        prefill += Interval(max(missing.low, least), max(missing.high, least) + twice)
        held += max(more, least) + twice
        shared = following
        scene.computed.add(symbols)
    return Cost(ONCE, prefill, Interval(), Interval(0, held))


def _branch_heads(options: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the options without their last tokens, sorted; no one begins another."""
    heads = sorted({tuple(option[:-1]) for option in options if option})
    following = [*heads[1:], ()][: len(heads)]
    return [
        head
        for head, after in zip(heads, following, strict=True)
        if not after or after[: len(head)] != head
    ]


def _bounded_score(
    walk: "CostWalk", prompt: AbstractPrompt, choices: Sequence[str], scene: "Scene"
) -> Cost:
    """Count a scoring whose last run of text is not known: by each end that it may have."""
    last: Any = prompt.runs[-1]
    rests = [spellings(last.parts[index + 1 :]) for index in range(len(last.parts))]
    unknown = next(index for index, rest in enumerate(rests) if rest is not None)
    ends: Sequence[str] = rests[unknown] or [""]
    costs: list[Cost] = []
    computed: list[Computed] = []
    for end in ends:
        parts = (*last.parts[: unknown + 1], end) if end else last.parts[: unknown + 1]
        way = scene.fork(0)
        made = replace(prompt, runs=(*prompt.runs[:-1], TextRun(parts)))
        costs.append(_score_at(walk, made, end, choices, way))
        computed.append(way.computed)
    scene.computed.join(computed)
    return Cost(ONCE, hull(c.prefill for c in costs), Interval(), hull(c.held for c in costs))


def _score_at(
    walk: "CostWalk", prompt: AbstractPrompt, end: str, choices: Sequence[str], scene: "Scene"
) -> Cost:
    """Count a scoring behind text of which the end is known: from a certain place, or by bytes."""
    last: Any = prompt.runs[-1]
    cut = walk.encoder.borders.cut(end)
    if cut < len(end):
        return _score_behind(walk, prompt, end[cut:], choices, scene)
    symbols = prompt.symbols(walk.encoder, stable=False)
    missing, held = scene.computed.missing(symbols)
    # Each option begins anew with what it may change of the text before it.
    more = sum(walk.encoder.size_of((choice,)) for choice in choices)
    tail = min(walk.encoder.longest_piece, walk.encoder.size_of(last.parts))
    high = missing.high + more + tail * len(choices)
    scene.computed.add(prompt.symbols(walk.encoder, stable=True))
    return Cost(ONCE, Interval(1, high), Interval(), Interval(0, held + more + tail))


def _score_behind(
    walk: "CostWalk", prompt: AbstractPrompt, end: str, choices: Sequence[str], scene: "Scene"
) -> Cost:
    """Count a scoring behind text whose end is known, from where its encoding is certain."""
    tokenizer = walk.target.tokenizer
    stable = tokenizer.stable_len(end)
    head = tokenizer.decode(tokenizer.encode(end)[:stable])
    symbols = AbstractPrompt(runs=_without_end(prompt.runs, len(end) - len(head))).symbols(
        walk.encoder, stable=False
    )
    options = [tokenizer.encode(end + choice)[stable:] for choice in choices]
    return _tree_cost(symbols, options, scene)


def _without_end(runs: Sequence[Run], length: int) -> tuple[Run, ...]:
    """Return runs without the last characters of the text that they end with."""
    last: Any = runs[-1]
    end = last.parts[-1]
    kept = end[: len(end) - length]
    return (*runs[:-1], TextRun((*last.parts[:-1], kept) if kept else last.parts[:-1]))
