"""What a bench found, as a table or as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lmc.benching.measure import Measured
from lmc.benching.rows import COMPILED
from lmc.summary import counted

FIGURES = {
    "computed": "tokens computed",
    "steps": "engine steps",
    "chain": "critical path",
    "seconds": "seconds",
}


@dataclass(frozen=True, slots=True)
class Report:
    """The measured rows of a program; `str` of it is what the command prints."""

    program: str
    model: str
    runs: int
    repeat: int
    rows: Sequence[Measured]

    @property
    def compiled(self) -> Measured:
        """The row that others are compared with."""
        return next(each for each in self.rows if each.row.name == COMPILED)

    @property
    def different(self) -> list[str]:
        """The rows whose results differ from the first row's, in any repeat."""
        expected = self.rows[0].samples[0].results
        return [
            each.row.name
            for each in self.rows
            if any(sample.results != expected for sample in each.samples)
        ]

    def ratio(self, row: Measured, name: str) -> float | None:
        """Return a row's figure in units of the compiled row's; None where that is 0."""
        base = self.compiled.figure(name)
        return row.figure(name) / base if base else None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        calls = int(self.compiled.figure("calls"))
        yield (
            f"{self.program} on {self.model}: {counted(self.runs, 'run')}, "
            f"{counted(calls, 'call')}, medians of {counted(self.repeat, 'repeat')}; "
            f"in brackets the ratio to '{COMPILED}'"
        )
        heads = "".join(f"{label:>22}" for label in FIGURES.values())
        yield f"{'':<24}{heads}"
        for each in self.rows:
            yield f"{each.row.name:<24}{''.join(self._cells(each))}"
        least = int(self.compiled.figure("least"))
        yield f"no order of serving computes fewer than {least:,} tokens for these calls"
        yield self._verdict()

    def _cells(self, row: Measured) -> Iterator[str]:
        for name in FIGURES:
            value = row.figure(name)
            text = f"{value:.2f}" if name == "seconds" else f"{value:,.0f}"
            ratio = self.ratio(row, name)
            is_base = row is self.compiled or ratio is None
            yield f"{text + ('' if is_base else f' ({ratio:.2f})'):>22}"

    def _verdict(self) -> str:
        if self.different:
            return (
                f"results DIFFER from those of '{self.rows[0].row.name}' in: "
                f"{', '.join(self.different)}"
            )
        return "results: equal in all rows and repeats"

    def json_text(self) -> str:
        """Return one JSON object: figures per row and repeat, medians and ratios."""
        rows: list[dict[str, Any]] = [
            {
                "name": each.row.name,
                "median": {name: each.figure(name) for name in ("calls", *FIGURES)},
                "ratio": {name: self.ratio(each, name) for name in FIGURES},
                "samples": [
                    {name: getattr(sample, name) for name in ("calls", *FIGURES)}
                    for sample in each.samples
                ],
            }
            for each in self.rows
        ]
        return json.dumps(
            {
                "version": 1,
                "program": self.program,
                "model": self.model,
                "runs": self.runs,
                "repeat": self.repeat,
                "least_tokens": int(self.compiled.figure("least")),
                "rows": rows,
                "equal": not self.different,
                "different": self.different,
            },
            ensure_ascii=False,
        )
