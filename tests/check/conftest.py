"""The corpus that planted faults are looked for in."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmc.checking.answers import MANNERS, Scenario
from lmc.checking.modes import Example
from lmc.frontend.load import load_programs

SEEDS = (0, 7, 14, 20, 28, 35, 41, 49, 55)
ROUNDS = len(SEEDS)
"""Examples per program of the corpus: a fault must be found within all of them."""


class Corpus:
    """The programs of `corpus.py` and `corpus_more.py` with examples, each once per round."""

    def __init__(self) -> None:
        self.programs: dict[str, Any] = {}
        self.arguments: dict[str, list[dict[str, Any]]] = {}
        for name in ("corpus", "corpus_more"):
            self.programs |= load_programs(Path(__file__).parent / f"{name}.py")
            self.arguments |= sys.modules[name].ARGUMENTS

    def examples(self) -> Iterator[tuple[str, Example]]:
        """Yield a program's name and an example, `ROUNDS` for every program."""
        for number, (name, sets) in itertools.product(range(ROUNDS), self.arguments.items()):
            scenario = Scenario(SEEDS[number], MANNERS[number % len(MANNERS)])
            yield name, Example(sets[number % len(sets)], scenario)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """The corpus, loaded once."""
    return Corpus()
