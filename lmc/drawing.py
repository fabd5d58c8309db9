"""`lmc viz`: drawings of a program, as a page, DOT, Mermaid or SVG."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmc.arguments import parse_argument
from lmc.automaton_drawings import drawing_named, drawings_by_place
from lmc.backends import open_target
from lmc.compiled import load
from lmc.compiler import capture_programs
from lmc.errors import ModelError, UsageError
from lmc.ir.core import Module
from lmc.ir.graph import to_dot, to_mermaid
from lmc.ir.graph_html import Place, Stage, StageRemark, source_lines, to_html
from lmc.ir.location import Location
from lmc.ir.profile import Profile
from lmc.ir.profile_file import read_profile
from lmc.ir.target import Target
from lmc.passes.base import Remark, counted
from lmc.passes.cost.analysis import CostReport, estimate_cost
from lmc.passes.cost.intervals import Interval
from lmc.passes.cost.tally import Cost
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager
from lmc.sources import captured_of, find_program, is_artifact, module_of, read_text, split_source

SVG_SECONDS = 120


def draw(
    source: str,
    kind: str,
    passes: str | None,
    model: str | None,
    arguments: Sequence[str],
    profile: Path | None = None,
    constraint: str | None = None,
) -> str:
    """Return a drawing of a program, an artifact or IR text; a page also of recorded runs.

    With `constraint`, the name of a generation, the automaton of its constraint is drawn.

    Raises:
        UsageError: no such source, an argument for IR text, a profile that cannot be read, or
            no Graphviz for SVG.
        CaptureError: the program has a graph break.
    """
    if kind == "html":
        if constraint is not None:
            raise UsageError(
                "--constraint does not fit --format html",
                hint="the page shows a constraint at a click on its generation",
            )
        recorded = read_profile(profile) if profile is not None else None
        return _page(source, passes, model, arguments, recorded)
    if arguments or model is not None or profile is not None:
        raise UsageError(
            f"--arg, --model and --profile do not fit --format {kind}", hint="use --format html"
        )
    module = module_of(source, passes, None)
    if constraint is not None:
        drawn = drawing_named(module, constraint)
        if kind == "mermaid":
            return drawn.to_mermaid()
        return drawn.to_dot() if kind == "dot" else _svg(drawn.to_dot())
    if kind == "mermaid":
        return to_mermaid(module)
    return to_dot(module) if kind == "dot" else _svg(to_dot(module))


def _svg(dot: str) -> str:
    program = shutil.which("dot")
    if program is None:
        raise UsageError(
            "SVG needs Graphviz, and there is no command 'dot'",
            hint="install graphviz, or use --format html",
        )
    done = subprocess.run(
        [program, "-Tsvg"], input=dot, text=True, capture_output=True, timeout=SVG_SECONDS,
        check=False, encoding="utf-8",
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"dot failed: {done.stderr.strip()[:200]}")
    return done.stdout


def _page(
    source: str,
    passes: str | None,
    model: str | None,
    arguments: Sequence[str],
    profile: Profile | None,
) -> str:
    path, name = split_source(source)
    given: dict[str, Any] = {}
    lines: Sequence[tuple[int, str]] | None = None
    if path.suffix == ".lmir" or is_artifact(source):
        module, pipeline = captured_of(source)
        passes = pipeline if passes is None else passes
        entry = name or (module.entries[0] if module.entries else None)
        if is_artifact(source):
            compiled = load(path, name)
            entry = compiled.name
            given = dict(parse_argument(entry, compiled.__signature__, a) for a in arguments)
        elif arguments:
            raise UsageError("IR text takes no --arg", hint="draw the program")
    else:
        program = find_program(source)[1]
        entry = program.name
        given = dict(parse_argument(entry, program.__signature__, a) for a in arguments)
        module = capture_programs([program], folder=path.resolve().parent).module
        lines = list(enumerate(read_text(path).splitlines(), 1))
    costing = _Costing(entry, _target(model), given)
    took = _took(profile, module, source) if profile is not None else {}
    stages = _stages(module, DEFAULT_PIPELINE if passes is None else passes, costing, took)
    shown = lines if lines is not None else source_lines(module)
    title, totals = f"{source} {entry or ''}".strip(), costing.totals()
    if profile is not None:
        totals += f"; took: {counted(profile.runs, 'run')}, recorded in a profile"
    return to_html(
        title, stages, shown, totals, _by_line(took),
        {place: drawn.as_picture() for place, drawn in drawings_by_place(module).items()},
    )  # fmt: skip


def _took(profile: Profile, module: Module, source: str) -> dict[Place, str]:
    """Return what the places of a program took; raises UsageError where the profile has none."""
    took = profile.took({str(op.location) for op in module.walk()})
    if not took and (profile.sites or profile.branches):
        raise UsageError(
            f"the profile is of '{profile.program}', and has no place of {source}",
            hint=f"record one: lmc run {source} --profile run.json",
        )
    return took


def _by_line(took: Mapping[Place, str]) -> dict[int, str]:
    """Return what was taken by line, the places of a line one after another."""
    made: dict[int, str] = {}
    for (line, _), text in sorted(took.items()):
        made[line] = f"{made[line]}; {text}" if line in made else text
    return made


def _target(model: str | None) -> Target | None:
    """Return the target that costs are counted for; without a model there are none."""
    try:
        return open_target(model)
    except ModelError:
        if model is not None:
            raise
        return None


class _Costing:
    """Counts what each stage costs."""

    def __init__(self, entry: str | None, target: Target | None, given: Mapping[str, Any]) -> None:
        self._entry, self._target, self._given = entry, target, given
        self._last: CostReport | None = None

    def of(self, module: Module) -> CostReport | None:
        """Return the bounds of a stage; None without a tokenizer or program."""
        if self._entry is None or self._target is None:
            return None
        self._last = estimate_cost(module, self._entry, self._target, self._given)
        return self._last

    def totals(self) -> str:
        """Return a line about the last stage."""
        if self._last is None or self._target is None:
            return "no model, so no costs"
        cold, steps = self._last.cold, Interval(0, self._last.steps)
        return (
            f"{self._target.name}, one run: {cold.calls} calls, {cold.prefill} prefill tokens "
            f"with an empty cache, {cold.decode} decode tokens in {steps} steps"
        )


def _stages(
    module: Module, passes: str, costing: _Costing, took: Mapping[Place, str]
) -> list[Stage]:
    made: list[Module] = []
    result = PassManager.parse(passes).run(module, print_after=lambda _, left: made.append(left))
    stages = [_stage("captured", "", module, (), costing.of(module), took)]
    for record, left in zip(result.log, made, strict=True):
        report = costing.of(left)
        stages.append(_stage(record.name, record.level, left, record.remarks, report, took))
    return stages


def _stage(
    name: str,
    level: str,
    module: Module,
    remarks: Sequence[Remark],
    report: CostReport | None,
    took: Mapping[Place, str],
) -> Stage:
    costs: dict[Place, str] = {}
    by_line: dict[int, list[str]] = {}
    lines: Mapping[Location | None, Cost] = {} if report is None else report.lines
    for place, cost in lines.items():
        if place is None:
            continue
        parts = [f"prefill {cost.prefill}"]
        if cost.decode.high:
            parts.append(f"decode {cost.decode}")
        if cost.calls.high > 1:
            parts.append(f"calls {cost.calls}")
        costs[place.line, place.column] = ", ".join(parts)
        by_line.setdefault(place.line, []).append(str(cost.prefill))
    told = [
        StageRemark(f"{r.location or ''}: {r.message}" if r.location else r.message,
                    r.location.line if r.location else 0, r.fired)
        for r in remarks
    ]  # fmt: skip
    line_costs = {line: "+".join(counts) for line, counts in by_line.items()}
    return Stage(
        name=name, module=module, level=level, remarks=told, costs=costs, line_costs=line_costs,
        took=took,
    )  # fmt: skip
