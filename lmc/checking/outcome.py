"""What a run showed, and whether that is what its module means."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmc.checking.meaning import Call, Failure, Meaning
from lmc.checking.values import first_difference, shortened, shown
from lmc.errors import RunError
from lmc.ir.calls import GenCall, GenResult, ScoreCall
from lmc.runtime.prompt_state import Lineage
from lmc.runtime.result import RunResult

ASPECTS = ("value", "variables", "text", "messages", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run showed.

    Attributes:
        failure: what ended the run; None if it came to its end.
        aspects: value, variables, text, messages and meta dicts as text, by name.
        calls: the model calls that it counts as needed.
        host_calls: effectful host calls in their order, as text.
        streams: texts as they came, piece by piece, by the lineage of their state.
        untold: a generated text that was not streamed with its state, None where all were.
    """

    failure: Failure | None
    aspects: dict[str, str] = field(default_factory=dict[str, str])
    calls: list[Call] = field(default_factory=list[Call])
    host_calls: list[str] = field(default_factory=list[str])
    streams: dict[Lineage, str] = field(default_factory=dict[Lineage, str])
    untold: str | None = None


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One aspect in which a run is not what it should be."""

    aspect: str
    expected: str
    got: str


def result_outcome(
    result: RunResult,
    host_calls: list[str],
    streams: dict[Lineage, str],
    quiet: Collection[str] = (),
) -> Outcome:
    """Return what a run that came to its end showed.

    `quiet` names the generations that streams do not show, since their reasoning is separated.
    """
    state = result.state
    aspects = {
        "value": shown(result.value),
        "variables": shown(state.variables),
        "text": state.text(),
        "messages": shown(state.messages()),
        "meta": shown(_metas(state)),
    }
    calls = [record.call for record in result.calls]
    untold = _untold(result, streams, quiet)
    return Outcome(
        failure=None,
        aspects=aspects,
        calls=calls,
        host_calls=host_calls,
        streams=streams,
        untold=untold,
    )


def _untold(result: RunResult, streams: dict[Lineage, str], quiet: Collection[str]) -> str | None:
    """Return a generated text that was not streamed with its state."""
    for record in result.calls:
        answer = record.result
        if record.name in quiet:
            continue
        if getattr(record.call, "constraint", None) is not None and not answer.complete:  # type: ignore[union-attr]
            continue  # a typed one that was cut, which a try caught: its text was taken back
        if isinstance(answer, GenResult) and record.sample == 0:
            if answer.text not in streams.get(record.lineage, ""):
                place = "/".join(record.lineage) or "the root"
                return f"{record.name} of {place}: {answer.text!r}"
    return None


def _metas(state: Any) -> dict[str, Any]:
    """Return the meta dicts of a final state by variable."""
    found: dict[str, Any] = {}
    for name in state.variables:
        try:
            found[name] = state.get_meta_info(name)
        except RunError:
            continue  # set by no call
    return found


def meaning_aspects(meaning: Meaning) -> dict[str, str]:
    """Return what a run that comes to its end must show, by name."""
    state = meaning.state
    metas = {name: state.metas[name].value for name in state.variables if name in state.metas}
    return {
        "value": shown(meaning.value),
        "variables": shown({name: held.value for name, held in state.named_variables.items()}),
        "text": state.text,
        "messages": shown(state.messages),
        "meta": shown(metas),
    }


def compare_compiled(meaning: Meaning, outcome: Outcome) -> Mismatch | None:
    """Compare a compiled run with the meaning of the module that it ran."""
    found = _compare_failures(meaning.failure, outcome.failure) or _compare_lists(
        "host calls", meaning.host_calls, outcome.host_calls
    )
    if found is not None or meaning.failure is not None:
        return found
    return (
        _compare_aspects(meaning_aspects(meaning), outcome.aspects)
        or _compare_calls(meaning.demanded, outcome.calls)
        or _compare_stream(meaning, outcome)
    )


def _compare_failures(expected: Failure | None, got: Failure | None) -> Mismatch | None:
    if expected is None and got is None:
        return None
    if expected is not None and got is not None:
        if expected.tail != got.tail:
            return Mismatch("prompt in the error", expected.tail, got.tail)
        if expected.kind == got.kind and expected.place == got.place:
            return None
    return Mismatch("error", str(expected or "no error"), str(got or "no error"))


def _compare_aspects(expected: dict[str, str], got: dict[str, str]) -> Mismatch | None:
    for aspect in ASPECTS:
        if got[aspect] != expected[aspect]:
            return _mismatch(aspect, expected[aspect], got[aspect])
    return None


def _mismatch(aspect: str, expected: str, got: str) -> Mismatch:
    at = first_difference(expected, got)
    return Mismatch(aspect, shortened(expected, at), shortened(got, at))


def _compare_lists(aspect: str, expected: Sequence[str], got: Sequence[str]) -> Mismatch | None:
    return None if list(expected) == list(got) else Mismatch(aspect, _lines(expected), _lines(got))


def _lines(items: Sequence[str]) -> str:
    return "\n".join(map(shortened, items)) or "none"


def _compare_calls(expected: Sequence[Call], got: Sequence[Call]) -> Mismatch | None:
    if list(expected) == list(got):
        return None
    missing, extra = Counter(expected) - Counter(got), Counter(got) - Counter(expected)
    if not missing and not extra:
        return Mismatch("order of calls", _calls(expected), _calls(got))
    return Mismatch("calls", _calls(missing) or "no more", _calls(extra) or "no more")


def _calls(calls: "Sequence[Call] | Counter[Call]") -> str:
    return "\n".join(shortened(shown_model_call(call)) for call in list(calls)[:4])


def shown_model_call(call: Call) -> str:
    """Return a model call as text, the end of its context only."""
    end = f"context of {len(call.context)} ids, the last {list(call.context[-8:])}"
    if isinstance(call, GenCall):
        return f"gen {call.site}: {end}; {call.params}; {call.constraint}; key {call.key}"
    return f"select {call.site}: {end}; options {call.options}"


def _compare_stream(meaning: Meaning, outcome: Outcome) -> Mismatch | None:
    stream = outcome.streams.get((), "")
    if stream != meaning.state.text:
        return _mismatch("stream", meaning.state.text, stream)
    if outcome.untold is not None:
        return Mismatch("stream", outcome.untold, "nothing")
    return None


def compare_streams(expected: Outcome, got: Outcome) -> Mismatch | None:
    """Compare the streams of two runs by lineage, as far as both came.

    What nothing needs may not come to its end, so of two texts one may be the beginning.
    """
    for lineage, text in got.streams.items():
        other = expected.streams.get(lineage, text)
        if not (text.startswith(other) or other.startswith(text)):
            return _mismatch(f"stream of {'/'.join(lineage)}", other, text)
    return None


def compare_eager(
    meaning: Meaning, outcome: Outcome, call_lines: Collection[int]
) -> Mismatch | None:
    """Compare an eager run with what capture made of the program.

    The failure of a model call, at one of `call_lines`, is met where a Python body reads the
    text; a compiled run meets it where something comes of the text, which may be later or never.
    """
    got, expected = outcome.failure, meaning.failure
    if got is not None and got.place is not None and got.place.line in call_lines:
        return None
    if expected is not None:
        if got is not None and expected.kind == got.kind and _is_within(got, expected):
            return _compare_lists("host calls", meaning.host_calls, outcome.host_calls)
        return Mismatch("error", str(expected), str(got or "no error"))
    if got is not None:
        return Mismatch("error", "no error", str(got))
    return (
        _compare_aspects(meaning_aspects(meaning), outcome.aspects)
        or _compare_lists("host calls", meaning.host_calls, outcome.host_calls)
        or _compare_read(meaning, outcome)
        or _compare_stream(meaning, outcome)
    )


def _is_within(got: Failure, expected: Failure) -> bool:
    """Whether an eager failure's line is one of the op's; a host function has lines of its own."""
    if expected.place is None or expected.is_host:
        return True
    if got.place is None:
        return False
    return expected.place.line <= got.place.line <= expected.place.end_line


def _compare_read(meaning: Meaning, outcome: Outcome) -> Mismatch | None:
    """Compare calls: reading a value counts it as needed, though nothing may come of it."""
    missing = Counter(meaning.demanded) - Counter(outcome.calls)
    extra = Counter(outcome.calls) - Counter(meaning.calls)
    if not missing and not extra:
        return None
    return Mismatch("calls", _calls(missing) or "no more", _calls(extra) or "no more")


def _once(calls: Sequence[Call]) -> Counter[Call]:
    """Count calls; greedy ones, which are answered alike, once."""
    counts = Counter(calls)
    return Counter({
        call: 1 if isinstance(call, ScoreCall) or call.key == 0 else count
        for call, count in counts.items()
    })  # fmt: skip


_EMPTY = ("", repr(""))


def compare_modules(before: Meaning, after: Meaning) -> Mismatch | None:
    """Compare the meanings of a module before and after a pass.

    A call that fails is met by the first op that may fail and takes its result. A pass may drop
    that one, if it cannot fail by itself: then the failure is met later, or never.
    """
    failure, host_calls = after.failure, after.host_calls
    if before.failure is not None and before.failure.is_call:
        host_calls = host_calls[: len(before.host_calls)]
        if failure is None or failure.place != before.failure.place:
            return _compare_lists("host calls", before.host_calls, host_calls)
    if failure is not None and before.failure is not None and failure.tail in _EMPTY:
        # Of an append whose prompt nobody reads, a pass may keep the check of its text alone.
        failure = replace(failure, tail=before.failure.tail)
    found = _compare_failures(before.failure, failure) or _compare_lists(
        "host calls", before.host_calls, host_calls
    )
    if found is not None or before.failure is not None:
        return found
    return _compare_aspects(meaning_aspects(before), meaning_aspects(after)) or _compare_needed(
        before, after
    )


def _compare_needed(before: Meaning, after: Meaning) -> Mismatch | None:
    """Compare calls: the same are needed, equal greedy ones once; others may come and go."""
    expected, got = _once(before.demanded), _once(after.demanded)
    missing, extra = expected - got, got - expected
    if not missing and not extra:
        return None
    return Mismatch("calls", _calls(missing) or "no more", _calls(extra) or "no more")
