"""Diagnostics of programs: captured, looked at by the rules, told by place."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmc.errors import CaptureError, CompileError, ConstraintError, ModelError
from lmc.frontend.capture import Captured, capture
from lmc.ir.core import Op
from lmc.ir.location import Location
from lmc.ir.target import Backend, Target
from lmc.linting.places import Places
from lmc.linting.source import false_purity, ignored_by_choices, unreachable
from lmc.passes.lint import Code, Finding, Languages, Severity, lint_module
from lmc.passes.lint.finding import (
    GRAPH_BREAK,
    IMPOSSIBLE_CONSTRAINT,
    IMPOSSIBLE_STOP,
    INVALID_PARAMETER,
    TOO_FEW_OPTIONS,
    UNSET_VARIABLE,
    found,
)
from lmc.program import Program

MAX_REFUSALS = 50
"""Wrong arguments of one program that are told; capture goes on behind each."""

ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "hint": 2}

REFUSALS: tuple[tuple[str, Code, str], ...] = (
    (r"^stop must be .*none of them empty", IMPOSSIBLE_STOP, "leave the empty text out"),
    (r"is read before it is assigned$", UNSET_VARIABLE, "assign it before"),
    (r"^select needs choices", TOO_FEW_OPTIONS, "give choices"),
)
"""Messages of capture that stand for a code of their own, and a remedy where there is none."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake, or likely mistake, in a program.

    Attributes:
        code: the stable number, such as "LMC101"; docs/errors.md has a section for each.
        name: the stable name, such as "unused-generation".
        severity: "error" (the program cannot compile, or fails when it gets there), "warning"
            (it does not do what it says), or "hint".
        message: what is wrong, with the values concerned.
        file: the file, relative to the program's folder.
        line, column: where it begins, both from 1.
        end_line, end_column: where it ends; the column is the one after the last character.
        source: the first line of the place.
        remedy: what to write instead.
    """

    code: str
    name: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: str
    remedy: str

    @property
    def location(self) -> Location:
        """The place."""
        return Location(
            self.file, self.line, self.column, self.end_line, self.end_column, self.source
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain data, as `lmc lint --json` prints them."""
        return asdict(self)

    def __str__(self) -> str:
        head = f"{self.severity}: {self.message} [{self.code} {self.name}]"
        return f"{head}\n{self.location.render()}\nhint: {self.remedy}"


def lint_program(
    program: Program | Sequence[Program],
    *,
    model: "Backend | str | Path | None" = None,
    target: Target | None = None,
    folder: Path | None = None,
) -> list[Diagnostic]:
    """Return what is wrong, or likely wrong, in programs, by place.

    Args:
        program: one program, or several; what they call is looked at with them.
        model: whose tokenizer and chat template count: a backend, a model's path or name,
            "oracle", or None for the default model (the oracle where that one is missing).
        target: these themselves, instead of `model`.
        folder: what files are told relative to; the first program's folder by default.

    Raises:
        ModelError: there is no such model.
    """
    programs = [program] if isinstance(program, Program) else list(program)
    linter = Linter(programs, target or target_of(model), folder)
    return linter.run()


def target_of(model: "Backend | str | Path | None") -> Target:
    """Return the target of a model; the oracle's where the default model is missing."""
    from lmc.backends import open_target

    if model is not None and not isinstance(model, (str, Path)):
        return model.target
    try:
        return open_target(None if model is None else str(model))
    except ModelError:
        if model is not None:
            raise
        return open_target("oracle")


class Linter:
    """Looks at some programs for one target."""

    def __init__(self, programs: Sequence[Program], target: Target, folder: Path | None) -> None:
        self.programs = programs
        self.target = target
        self.languages = Languages(target.tokenizer)
        files = [Path(program.func.__code__.co_filename) for program in programs]
        self.folder = (folder or (files[0].parent if files else Path())).resolve()
        self.places = Places(self.folder, _live_names())
        self.found: list[Finding] = []

    def run(self) -> list[Diagnostic]:
        """Return the diagnostics of all programs, each once, in the order of the source."""
        for program in self.programs:
            captured = self._captured(program)
            if captured is not None:
                self._look_at(captured)
            self._look_at_source(program, captured)
        made = {self._diagnostic(finding): None for finding in self.found}
        return sorted(made, key=_order)

    def _captured(self, program: Program) -> Captured | None:
        """Capture a program, leaving out arguments that are refused; None at a graph break."""
        left_out: set[Location] = set()
        while True:
            try:
                return capture([program], folder=self.folder, left_out=left_out)
            except CompileError as error:
                self.found.append(_refusal(error))
                place = error.location
                is_argument = not isinstance(error, CaptureError)
                if not is_argument or not isinstance(place, Location):
                    return None
                if place in left_out or len(left_out) >= MAX_REFUSALS:
                    return None
                left_out.add(place)

    def _look_at(self, captured: Captured) -> None:
        declared = {name for name, obj in captured.host.items() if hasattr(obj, "__lmc_effects__")}
        self.found += lint_module(
            captured.module, self.target, declared=declared, languages=self.languages
        )
        for obj in captured.host.values():
            self.found += false_purity(obj, self.folder)

    def _look_at_source(self, program: Program, captured: Captured | None) -> None:
        for shown, lines in _lines_by_file(program, captured, self.folder).items():
            file = self.places.file(shown)
            if file is not None:
                self.found += unreachable(file, lines)
        for op in _selects(captured):
            file = self.places.file(op.location.file) if op.location is not None else None
            if file is not None and op.location is not None:
                self.found += ignored_by_choices(file, op.location)

    def _diagnostic(self, finding: Finding) -> Diagnostic:
        place = self.places.focused(finding.location, finding.focus) or Location("", 1, 1, 1, 1)
        return Diagnostic(
            finding.code.number, finding.code.name, finding.severity, finding.message,
            place.file, place.line, place.column, place.end_line, place.end_column, place.text,
            finding.remedy,
        )  # fmt: skip


def _refusal(error: CompileError) -> Finding:
    """Return what an error of capture says as a finding."""
    code = GRAPH_BREAK if isinstance(error, CaptureError) else INVALID_PARAMETER
    if isinstance(error, ConstraintError):
        code = IMPOSSIBLE_CONSTRAINT
    remedy = "give a value that it can have (docs/parameters.md), or leave it out"
    for pattern, own, what_to_do in REFUSALS:
        if re.search(pattern, error.message):
            code, remedy = own, what_to_do
    place = error.location if isinstance(error.location, Location) else None
    return found(code, place, error.message, error.hint or remedy, severity="error")


def _lines_by_file(
    program: Program, captured: Captured | None, folder: Path
) -> dict[str, set[int]]:
    """Return the lines that captured code stands on, by file: the program's first line at least."""
    from lmc.frontend.capture.source import shown_name

    code = program.func.__code__
    lines: dict[str, set[int]] = {}
    own = max(code.co_firstlineno, *(line for *_, line in code.co_lines() if line))
    lines.setdefault(shown_name(code.co_filename, folder), set()).add(own)
    for function in captured.module.functions.values() if captured is not None else ():
        for place in (function.location, *(op.location for op in function.body.walk())):
            if place is not None:
                lines.setdefault(place.file, set()).add(place.line)
    return lines


def _selects(captured: Captured | None) -> Iterator[Op]:
    for function in captured.module.functions.values() if captured is not None else ():
        yield from (op for op in function.body.walk() if op.name == "lm.select")


def _live_names() -> dict[str, dict[str, Any]]:
    """Return the names of all modules that came from files, by the file's path."""
    made: dict[str, dict[str, Any]] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            made[str(Path(file).resolve())] = vars(module)
    return made


def _order(diagnostic: Diagnostic) -> tuple[Any, ...]:
    where = (diagnostic.file, diagnostic.line, diagnostic.column)
    return (*where, ORDER[diagnostic.severity], diagnostic.code, diagnostic.message)


def counts(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """Return how many diagnostics there are of each severity."""
    made: dict[str, int] = dict.fromkeys((str(each) for each in ORDER), 0)
    for diagnostic in diagnostics:
        made[diagnostic.severity] += 1
    return made
