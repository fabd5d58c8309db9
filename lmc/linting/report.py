"""The command `lmc lint`: the programs of a file, told as text or as JSON."""

import json
from dataclasses import dataclass
from typing import Any

from lmc.errors import UsageError
from lmc.frontend.load import load_programs
from lmc.linting.program import Diagnostic, counts, lint_program, target_of
from lmc.sources import is_artifact, split_source

FORMAT = 1
"""Version of the JSON form; goes up when a field changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """What was found in a file.

    Attributes:
        file: the file as it was given.
        programs: the names of the programs that were looked at.
        model: the name of the model whose tokenizer and template counted.
        diagnostics: what was found, by place.
    """

    file: str
    programs: tuple[str, ...]
    model: str
    diagnostics: tuple[Diagnostic, ...]

    @property
    def has_failed(self) -> bool:
        """Whether there is an error or a warning."""
        return any(found.severity != "hint" for found in self.diagnostics)

    def text(self) -> str:
        """Return the diagnostics as the command prints them; empty where there are none."""
        return "\n\n".join(map(str, self.diagnostics)) + ("\n" if self.diagnostics else "")

    def summary(self) -> str:
        """Return how much was found, in one line."""
        known = counts(self.diagnostics)
        parts = [f"{n} {word}{'' if n == 1 else 's'}" for word, n in known.items() if n]
        return f"{self.file}: {', '.join(parts) or 'nothing found'} (model: {self.model})"

    def json_text(self) -> str:
        """Return everything as one JSON object."""
        made: dict[str, Any] = {
            "version": FORMAT,
            "file": self.file,
            "programs": list(self.programs),
            "model": self.model,
            "counts": counts(self.diagnostics),
            "diagnostics": [found.as_dict() for found in self.diagnostics],
        }
        return json.dumps(made, ensure_ascii=False, indent=2)


def lint_source(source: str, model: str | None) -> LintReport:
    """Look at the programs of a file: all of them, or the one that the source names.

    Raises:
        UsageError: no such file, program or model.
        CaptureError: the file does not parse, or raised while it was loaded.
    """
    if is_artifact(source):
        raise UsageError("an artifact has no source to look at", hint="lint its source")
    path, name = split_source(source)
    programs = load_programs(path)
    if name is not None and name not in programs:
        raise UsageError(f"{path} has no program '{name}'", hint=f"it has: {', '.join(programs)}")
    chosen = programs if name is None else {name: programs[name]}
    target = target_of(model)
    found = lint_program(list(chosen.values()), target=target, folder=path.resolve().parent)
    return LintReport(str(path), tuple(chosen), target.name, tuple(found))
