"""`lmc explain`: what a program will cost, by source line, before it runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lmc.arguments import parse_argument
from lmc.backends import open_target
from lmc.compiled import CompiledProgram, load
from lmc.compiler import capture_programs, optimise
from lmc.errors import UsageError
from lmc.ir.location import Location
from lmc.ir.target import Target
from lmc.passes.cost.analysis import CostReport, estimate_cost
from lmc.passes.cost.intervals import Interval
from lmc.program import Program
from lmc.sources import find_program, is_artifact, split_source

MIN_BLOCKED = 8
"""Constant tokens behind an argument that are worth a hint."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The bounds of a program for a model; `str` of it is what the command prints."""

    program: str
    target: Target
    report: CostReport
    given: frozenset[str]

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._lines(), *self._hints()])

    def _head(self) -> Iterator[str]:
        report = self.report
        yield f"{self.program} on {self.target.name}, one run:"
        rows = [
            ("calls", report.cold.calls, ""),
            ("prefill tokens", report.cold.prefill, "with an empty cache"),
            ("", report.warm.prefill, "with the constant prefixes computed"),
            ("decode tokens", report.cold.decode, ""),
            ("decode steps", Interval(0, report.steps), "one after another"),
            ("cache", Interval(0, report.peak_tokens), "tokens"),
        ]
        for label, bounds, note in rows:
            yield f"  {label:<15}{bounds!s:>16}  {note}".rstrip()

    def _lines(self) -> Iterator[str]:
        yield f"{'line':<12}{'calls':>8}{'prefill':>14}{'decode':>12}  source"
        for place, cost in sorted(self.report.lines.items(), key=_order):
            where = f"{place.line}:{place.column}" if place is not None else "-"
            text = place.text.strip() if place is not None else ""
            yield (
                f"{where:<12}{cost.calls!s:>8}{cost.prefill!s:>14}{cost.decode!s:>12}  {text[:60]}"
            )

    def _hints(self) -> Iterator[str]:
        hints = [
            f"hint: '{b.name}' at token {b.position} keeps {b.tokens} constant tokens behind it "
            f"from being shared by runs: move it behind them (they end at {b.op.location})"
            for b in self.report.blocked
            if b.tokens >= MIN_BLOCKED
        ]
        if not self.report.cold.prefill.is_bounded:
            hints += [f"no bound at {where}: {why}" for where, why in self.report.unbounded.items()]
            missing = [b.name for b in self.report.blocked if b.name not in self.given]
            if missing:
                hints.append(f"hint: give the arguments that are known: --arg {missing[0]}=...")
        if hints:
            yield ""
            yield from hints


def explain_source(
    source: str, model: str | None, passes: str | None, arguments: Sequence[str]
) -> Explanation:
    """Bound the cost of a program of a file or artifact; `arguments` are NAME=VALUE.

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
    given = dict(parse_argument(found.name, found.__signature__, text) for text in arguments)
    target = open_target(model)
    report = estimate_cost(module, found.name, target, given)
    return Explanation(found.name, target, report, frozenset(given))


def _order(item: tuple[Location | None, Any]) -> tuple[int, int]:
    place = item[0]
    return (place.line, place.column) if place is not None else (0, 0)
