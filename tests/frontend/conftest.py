"""Fixtures shared by the tests of the frontend."""

import importlib.util
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from lmc.frontend.load import load_module

_numbers = itertools.count()


def _beside(name: str) -> ModuleType:
    """Load a module that lies beside this file (tests are no package)."""
    full_name = f"lmc_tests_frontend_{name}"
    if full_name not in sys.modules:
        path = Path(__file__).parent / f"{name}.py"
        spec = importlib.util.spec_from_file_location(full_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)
    return sys.modules[full_name]


@pytest.fixture(scope="session")
def comparison() -> ModuleType:
    """The functions of comparison.py."""
    return _beside("comparison")


@pytest.fixture(scope="session")
def random_programs() -> ModuleType:
    """The generator of random_programs.py."""
    return _beside("random_programs")


@pytest.fixture(scope="session")
def random_aliases() -> ModuleType:
    """The generator of random_aliases.py."""
    return _beside("random_aliases")


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], ModuleType]:
    """Write a program file and load it; `lmc` is imported in it."""

    def write(text: str) -> ModuleType:
        path = tmp_path / f"written{next(_numbers)}.py"
        path.write_text("import lmc\n" + text, encoding="utf-8")
        return load_module(path)

    return write
