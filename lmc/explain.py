"""`lmc explain`: what a program will cost, by source line, before it runs."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmc.arguments import argument_sets, parse_argument
from lmc.backends import open_target
from lmc.codegen.lower import lower
from lmc.compiled import CompiledProgram, load
from lmc.compiler import capture_programs, optimise
from lmc.errors import UsageError
from lmc.ir.core import Module
from lmc.ir.location import Location
from lmc.ir.target import Target
from lmc.model_shape import kv_bytes_per_token
from lmc.passes.cost.analysis import CostReport, estimate_cost
from lmc.passes.cost.intervals import Interval
from lmc.passes.cost.lengths import Length
from lmc.passes.cost.sharing import Blocked, Saving, saving_of
from lmc.passes.cost.tally import Cost
from lmc.program import Program
from lmc.sources import find_program, is_artifact, split_source

if TYPE_CHECKING:
    from lmc.runtime.constraint.forecast import Forecast
    from lmc.runtime.executor.batch_plan import BatchPlan

MIN_BLOCKED = 8
"""Constant tokens behind an argument that are worth a hint."""


@dataclass(frozen=True, slots=True)
class Hint:
    """An argument that keeps constant text from being shared, and what moving it saves.

    `saving` is exact where a batch is given; None where only the constant text is known.
    """

    blocked: Blocked
    saving: Saving | None

    def __str__(self) -> str:
        blocked, saving = self.blocked, self.saving
        head = f"hint: '{blocked.name}' at token {blocked.position} keeps"
        if saving is None:
            return (
                f"{head} {blocked.tokens} constant tokens behind it from being shared by runs: "
                f"move it behind them (they end at {blocked.op.location})"
            )
        line = blocked.op.location.line if blocked.op.location is not None else "?"
        return (
            f"{head} {blocked.tokens} tokens from being shared by {saving.instances:,} instances: "
            f"move it behind the text before line {line}, which saves {saving.saved:,} of "
            f"{saving.now:,} prompt tokens"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The bounds of a program for a model; `str` of it is what the command prints.

    Attributes:
        program: its name.
        target: what it is compiled for.
        report: the bounds of one run; of a batch, of that with the longest arguments.
        missing: arguments without a default that are not given.
        instances: runs of the batch that is given; 1 without one.
        hints: what could be shared.
        token_bytes: bytes of a token's keys and values, None for the oracle.
        dtype: in which they are kept.
        batch: what the runs of a batch share before any generation.
        forecasts: what forced text saves in generations with a constraint, by place.
    """

    program: str
    target: Target
    report: CostReport
    missing: tuple[str, ...]
    instances: int
    hints: tuple[Hint, ...]
    token_bytes: int | None
    dtype: str
    batch: "BatchPlan | None" = None
    forecasts: "Mapping[Location | None, Forecast]" = field(default_factory=dict[Any, Any])

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._lines(), *self._constraints(), *self._ends()])

    def _head(self) -> Iterator[str]:
        report = self.report
        which = f"the longest of {self.instances:,} runs" if self.instances > 1 else "one run"
        yield f"{self.program} on {self.target.name}, {which}:"
        rows = [
            ("calls", report.cold.calls, ""),
            ("prefill tokens", report.cold.prefill, "with an empty cache"),
            ("", report.warm.prefill, "with the constant prefixes computed"),
            ("decode tokens", report.cold.decode, ""),
            ("decode steps", Interval(0, report.steps), "one after another"),
            ("cache", Interval(0, report.peak_tokens), f"tokens{self._memory()}"),
        ]
        for label, bounds, note in rows:
            yield f"  {label:<15}{bounds!s:>16}  {note}".rstrip()
        if self.batch is not None:
            yield str(self.batch)

    def _memory(self) -> str:
        if self.token_bytes is None or not math.isfinite(self.report.peak_tokens):
            return ""
        most = self.report.peak_tokens * self.token_bytes
        each = f"{self.token_bytes:,} bytes each in {self.dtype}"
        return f", {most / 2**20:,.1f} MiB ({each})"

    def _lines(self) -> Iterator[str]:
        labels = ("prefill", "warm", "decode", "cache")
        yield f"{'line':<10}{'calls':>8}" + "".join(f"{each:>12}" for each in labels) + "  source"
        for place, cold, warm in self.rows():
            where = f"{place.line}:{place.column}" if place is not None else "-"
            text = place.text.strip() if place is not None else ""
            figures = (cold.prefill, warm.prefill, cold.decode, cold.held)
            shown = "".join(f"{each!s:>12}" for each in figures)
            yield f"{where:<10}{cold.calls!s:>8}{shown}  {text[:60]}"

    def rows(self) -> Iterator[tuple[Location | None, Cost, Cost]]:
        """Yield place, cost with an empty cache, and cost with the constant prefixes."""
        for place, cost in sorted(self.report.lines.items(), key=_order):
            yield place, cost, self.report.warm_lines.get(place, Cost())

    def _constraints(self) -> Iterator[str]:
        if self.report.constraints:
            yield ""
        for place, length in sorted(self.report.constraints.items(), key=_order):
            where = f"{place.line}:{place.column}" if place is not None else "-"
            yield f"constraint at {where}: {_told(length)}"
            if (saved := self.forecasts.get(place)) is not None:
                yield f"  a short text: {_told_saving(saved)}"

    def _ends(self) -> Iterator[str]:
        lines = [str(hint) for hint in self.hints]
        if not self.report.cold.prefill.is_bounded:
            lines += [f"no bound at {where}: {why}" for where, why in self.report.unbounded.items()]
            if self.missing:
                known = " ".join(f"--arg {name}=..." for name in self.missing)
                lines.append(f"hint: give the arguments that are known: {known}")
        if lines:
            yield ""
            yield from lines

    def as_json(self) -> str:
        """Return the same as one line of JSON; a bound that does not exist is null."""
        report = self.report
        peak, each = report.peak_tokens, self.token_bytes
        figures = {
            **_figures(report.cold),
            "warm_prefill": _pair(report.warm.prefill),
            "decode_steps": _pair(Interval(0, report.steps)),
            "cache_bytes": None if each is None else _pair(Interval(0, peak * each)),
        }
        lines = [
            {"at": str(place), **_figures(cold), "warm_prefill": _pair(warm.prefill),
             "source": place.text.strip() if place is not None else ""}
            for place, cold, warm in self.rows()
        ]  # fmt: skip
        payload = {
            "program": self.program,
            "model": self.target.name,
            "instances": self.instances,
            "figures": figures,
            "lines": lines,
            "constraints": [
                _constraint(place, length, self.forecasts.get(place))
                for place, length in self.report.constraints.items()
            ],
            "batch": None if self.batch is None else self.batch.as_data(),
            "hints": [_hint(hint) for hint in self.hints],
            "unbounded": [{"at": str(at), "why": why} for at, why in report.unbounded.items()],
        }
        return json.dumps(payload, ensure_ascii=False, allow_nan=False)


def explain_source(
    source: str,
    model: str | None,
    passes: str | None,
    arguments: Sequence[str],
    *,
    rows: Path | None = None,
    dtype: str = "bfloat16",
) -> Explanation:
    """Bound the cost of a program of a file or artifact.

    Args:
        source: prog.py, prog.py:name or an artifact.
        model: what it is bounded for.
        passes: pipeline text; None for the default one.
        arguments: texts NAME=VALUE.
        rows: a file with a JSON object of arguments per line: a batch.
        dtype: in which keys and values are kept.

    Raises:
        UsageError: no such file, program, argument or model.
        CaptureError: the program has a graph break.
    """
    path, name = split_source(source)
    found: Program | CompiledProgram
    if is_artifact(source):
        if passes is not None:
            raise UsageError("--passes does not fit an artifact", hint="explain its source instead")
        found = load(path, name)
        module = found.module
    else:
        found = find_program(source)[1]
        captured = capture_programs([found], folder=path.resolve().parent)
        module = optimise(captured.module, passes)[0]
    signature = found.__signature__
    given = dict(parse_argument(found.name, signature, text) for text in arguments)
    batch = [given] if rows is None else argument_sets(found.name, signature, arguments, rows)
    if not batch:
        raise UsageError(f"{rows} has no arguments", hint="write a JSON object per line")
    target = open_target(model)
    longest = max(batch, key=lambda args: len(str(args)))
    report = estimate_cost(module, found.name, target, longest)
    blocked = report.blocked
    if rows is not None:
        # What differs between the instances is what keeps them from sharing.
        blocked = estimate_cost(module, found.name, target, _common(batch)).blocked
    hints = _hints(blocked, target, None if rows is None else batch)
    return Explanation(
        found.name, target, report, _missing(signature, longest), len(batch), hints,
        kv_bytes_per_token(model, dtype), dtype,
        None if rows is None else _batch_plan(module, found, target, batch),
        _forecasts(report, target),
    )  # fmt: skip


def _missing(signature: Signature, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the arguments without a default that are not given."""
    required = [p.name for p in signature.parameters.values() if p.default is Parameter.empty]
    return tuple(name for name in required if name not in given)


def _batch_plan(
    module: Module, found: Program | CompiledProgram, target: Target, batch: Sequence[Any]
) -> "BatchPlan":
    """Return what the runs of a batch ask before any generation."""
    from lmc.runtime.executor.batch_plan import plan_batch

    return plan_batch(lower(module, target), found.name, target, batch)


def _forecasts(report: CostReport, target: Target) -> "dict[Location | None, Forecast]":
    """Return what the constraints of generations are expected to save."""
    from lmc.runtime.constraint import ConstraintCache
    from lmc.runtime.constraint.forecast import forecast

    compiled, found = ConstraintCache(target.tokenizer), dict[Location | None, Any]()
    for place, length in report.constraints.items():
        if length.constraint is None:
            continue
        found[place] = forecast(compiled.get(length.constraint), target.tokenizer)
    return found


def _common(batch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments that are the same in all instances."""
    first, *others = batch
    return {
        name: value
        for name, value in first.items()
        if others and all(name in args and args[name] == value for args in others)
    }


def _hints(
    blocked: Sequence[Blocked], target: Target, batch: Sequence[Mapping[str, Any]] | None
) -> tuple[Hint, ...]:
    hints: list[Hint] = []
    for each in blocked:
        if each.tokens < MIN_BLOCKED:
            continue
        saving = None if batch is None else saving_of(each, target.tokenizer, batch)
        if batch is None or (saving is not None and saving.saved > 0):
            hints.append(Hint(each, saving))
    return tuple(hints)


def _told(length: Length) -> str:
    if length.shortest is None:
        return "refused, or too costly to look at"
    longest = f"{length.text:,.0f}" if math.isfinite(length.text) else "any number of"
    return (
        f"{length.states:,} states, {length.forced:.0%} of them with one way on; "
        f"matches of {length.shortest:,} to {longest} bytes; {length.tokens} tokens"
    )


def _told_saving(saved: "Forecast") -> str:
    return (
        f"of {saved.tokens:.1f} tokens {saved.forced:.1f} are forced, "
        f"which saves {saved.share:.0%} of the decode steps"
    )


def _figures(cost: Cost) -> dict[str, Any]:
    return {
        "calls": _pair(cost.calls),
        "prefill": _pair(cost.prefill),
        "decode": _pair(cost.decode),
        "cache_tokens": _pair(cost.held),
    }


def _pair(bounds: Interval) -> list[int | None]:
    return [int(each) if math.isfinite(each) else None for each in (bounds.low, bounds.high)]


def _constraint(place: Location | None, length: Length, saved: "Forecast | None") -> dict[str, Any]:
    return {
        "at": str(place),
        "states": length.states,
        "forced_share": round(length.forced, 4),
        "shortest_bytes": length.shortest,
        "longest_bytes": int(length.text) if math.isfinite(length.text) else None,
        "tokens": _pair(length.tokens),
        "expected_tokens": None if saved is None else round(saved.tokens, 1),
        "expected_steps_saved": None if saved is None else round(saved.forced, 1),
    }


def _hint(hint: Hint) -> dict[str, Any]:
    blocked, saving = hint.blocked, hint.saving
    made: dict[str, Any] = {
        "argument": blocked.name,
        "position": blocked.position,
        "tokens": blocked.tokens,
        "until": str(blocked.op.location),
    }
    if saving is not None:
        made |= {"instances": saving.instances, "now": saving.now, "saved": saving.saved}
    return made


def _order(item: tuple[Location | None, Any]) -> tuple[int, int]:
    place = item[0]
    return (place.line, place.column) if place is not None else (0, 0)
