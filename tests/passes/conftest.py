"""Random programs, a tiny merging tokenizer and a model that is a pure function of the call."""

from collections.abc import Callable
from random import Random

import pytest
from merging_target import HashModel, MergingTarget
from random_ir_programs import ProgramMaker

from lmc.ir.core import Module


@pytest.fixture
def make_program() -> Callable[[Random], Module]:
    """Return a function that makes a random module with the entry `main(a, b)`."""
    return lambda draw: ProgramMaker(draw).module()


@pytest.fixture
def merging_target() -> MergingTarget:
    """A target whose tokens depend on what text meets what."""
    return MergingTarget()


@pytest.fixture
def hash_model() -> HashModel:
    """A model that answers by a hash of the call."""
    return HashModel()
