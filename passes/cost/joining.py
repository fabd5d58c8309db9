"""What is known after one of several ways was taken."""

from collections.abc import Sequence

from lmc.passes.cost.contexts import Computed, Encoder, Gap, Stretch, common_len, spellings
from lmc.passes.cost.intervals import Interval, hull
from lmc.passes.cost.prompts import AbstractPrompt, Run, TextRun, common_runs
from lmc.passes.cost.values import (
    MAX_CHOICES,
    Abstract,
    Items,
    Serials,
    alternatives,
    deep_ready,
    is_text_like,
    one_of,
    size_of,
)


def join_values(
    given: Sequence[Abstract], computed: Sequence[Computed], encoder: Encoder, serials: Serials
) -> Abstract:
    """Return what is known of a value that is one of several; each with what its way computed."""
    ready = max(value.ready for value in given)
    held = [value.value for value in given]
    if all(value is held[0] or value == held[0] for value in held[1:]):
        return Abstract(held[0], ready)
    prompts = [value for value in held if isinstance(value, AbstractPrompt)]
    if len(prompts) == len(held):
        return Abstract(join_prompts(prompts, computed, encoder, serials), ready)
    rows = [value.items for value in held if isinstance(value, Items)]
    if len(rows) == len(held) and len({len(row) for row in rows}) == 1:
        columns = zip(*rows, strict=True)
        joined = [join_values(column, computed, encoder, serials) for column in columns]
        return Abstract(Items(tuple(joined), held[0].is_tuple), ready)
    known = [alternatives(value) for value in held]
    ready = max(map(deep_ready, given))
    if None not in known:
        return Abstract(one_of((v for values in known for v in values or ()), serials), ready)
    is_text = all(map(is_text_like, held))
    return Abstract(serials.unknown(max(map(size_of, held)), is_text=is_text), ready)


def join_prompts(
    prompts: Sequence[AbstractPrompt],
    computed: Sequence[Computed],
    encoder: Encoder,
    serials: Serials,
) -> AbstractPrompt:
    """Return the state after one of several ways: what they share, then one of their rests."""
    shared = common_runs(prompts)
    runs: tuple[Run, ...] = prompts[0].runs[:shared]
    if any(len(prompt.runs) > shared for prompt in prompts):
        runs += _rest(prompts, shared, computed, encoder, serials)
    names = dict.fromkeys(name for prompt in prompts for name in prompt.variables)
    always = [n for n in names if all(n in prompt.variables for prompt in prompts)]
    variables = {
        name: join_values([p.variables[name] for p in prompts], computed, encoder, serials)
        for name in always
    }
    may_have = frozenset(names) - frozenset(always)
    first = prompts[0]
    return AbstractPrompt(
        runs=runs,
        variables=variables,
        metas=frozenset.intersection(*(prompt.metas for prompt in prompts)),
        may_have=may_have.union(*(prompt.may_have for prompt in prompts)),
        has_unknown_names=any(prompt.has_unknown_names for prompt in prompts),
        turns=first.turns,
        ready=max(prompt.ready for prompt in prompts),
        handle=max(prompt.handle for prompt in prompts),
        forked_runs=first.forked_runs,
        forked_text=min(prompt.forked_text for prompt in prompts),
        forked_names=first.forked_names,
        size=max(prompt.size for prompt in prompts),
    )


def _rest(
    prompts: Sequence[AbstractPrompt],
    shared: int,
    computed: Sequence[Computed],
    encoder: Encoder,
    serials: Serials,
) -> tuple[Run, ...]:
    """Return the runs behind the shared ones: a closed stretch, and the text after it."""
    texts: list[TextRun | None] = []
    lengths: list[Interval] = []
    prefills: list[Interval] = []
    held = 0.0
    for prompt, known in zip(prompts, computed, strict=True):
        last = prompt.runs[-1] if len(prompt.runs) > shared else None
        texts.append(last if isinstance(last, TextRun) else None)
        closed = AbstractPrompt(runs=prompt.runs[:-1] if texts[-1] else prompt.runs)
        before = len(AbstractPrompt(runs=prompt.runs[:shared]).symbols(encoder, stable=False))
        symbols = closed.symbols(encoder, stable=False)
        tokens = [s.tokens if isinstance(s, Stretch) else Interval(1, 1) for s in symbols[before:]]
        lengths.append(sum(tokens, start=Interval()))
        missing, more = known.missing(symbols) if symbols[before:] else (Interval(), 0.0)
        prefills.append(missing)
        held = max(held, more)
    made: tuple[Run, ...] = ()
    if any(length.high for length in lengths):
        made = (Stretch(("join", serials.next()), hull(lengths), hull(prefills), held),)
    if any(texts):
        made = (*made, _joined_text(texts, encoder, serials, is_alone=not made))
    return made


def _joined_text(
    runs: Sequence[TextRun | None], encoder: Encoder, serials: Serials, *, is_alone: bool
) -> TextRun:
    """Return the text that is one of several; what all begin with stays known.

    That is so only if nothing else stands before it: `is_alone`.
    """
    rows = [run.parts if run is not None else () for run in runs]
    shared = common_len(rows) if is_alone else 0
    rests = [row[shared:] for row in rows]
    spelled: list[str] | None = []
    for rest in rests:
        more = spellings(rest)
        spelled = spelled + more if spelled is not None and more is not None else None
    texts = tuple(dict.fromkeys(spelled)) if spelled is not None else None
    if texts is not None and len(texts) > MAX_CHOICES:
        texts = None
    size = max(encoder.size_of(rest) for rest in rests if rest)
    return TextRun((*rows[0][:shared], Gap(serials.next(), size, texts)))
