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

ROUNDS = 9
"""Examples per program of the corpus: a fault must be found within all of them."""


class Corpus:
    """The programs of `corpus.py` with examples, each program once per round."""

    def __init__(self) -> None:
        self.programs = load_programs(Path(__file__).parent / "corpus.py")
        self.arguments: dict[str, list[dict[str, Any]]] = sys.modules["corpus"].ARGUMENTS

    def examples(self) -> Iterator[tuple[str, Example]]:
        """Yield a program's name and an example, `ROUNDS` for every program."""
        for number, (name, sets) in itertools.product(range(ROUNDS), self.arguments.items()):
            scenario = Scenario(7 * number, MANNERS[number % len(MANNERS)])
            yield name, Example(sets[number % len(sets)], scenario)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """The corpus, loaded once."""
    return Corpus()
