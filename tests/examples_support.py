"""The five examples, ways of running them, and what must be equal between two runs."""

import runpy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lmc.frontend.load import load_programs
from lmc.program import Program

ROOT = Path(__file__).resolve().parent.parent
ESSAY = (ROOT / "examples" / "essay.txt").read_text()

MODES: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "unoptimised": {"passes": ""},
    "optimised": {},
}


@cache
def program(name: str) -> Program:
    """Return the example program of a file."""
    return load_programs(ROOT / "examples" / f"{name}.py")[name]


def record_class() -> Any:
    """Return the pydantic model of the extraction example."""
    return runpy.run_path(str(ROOT / "examples" / "extract.py"))["Market"]


@dataclass(frozen=True)
class Case:
    """One run of an example on the oracle, scripted so that a branch is taken."""

    name: str
    arguments: dict[str, Any]
    script: dict[str, Any] = field(default_factory=dict)
    expected: Any = None

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join(map(str, self.script.values()))}"[:50]


def observables(result: Any) -> dict[str, Any]:
    """Return what a user can see of a run."""
    return {
        "value": result.value,
        "variables": result.state.variables,
        "text": result.state.text(),
        "messages": result.state.messages(),
    }


def calls(result: Any) -> list[tuple[Any, ...]]:
    """Return the calls that a run needed with their answers, in an order that never varies."""
    records = [
        (record.lineage, record.ordinal, record.sample, record.name, record.call, record.result)
        for record in result.calls
    ]
    return sorted(records, key=lambda r: r[:3])


def token_ids(result: Any) -> list[tuple[int, ...]]:
    """Return the ids of every generation of a run."""
    return [r[-1].token_ids for r in calls(result) if hasattr(r[-1], "token_ids")]
