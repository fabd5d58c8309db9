"""Fixtures shared by the tests of the runtime."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _load(name: str) -> ModuleType:
    """Load a module that lies beside this file (tests are no package)."""
    full_name = f"lmc_tests_runtime_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            full_name, Path(__file__).parent / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)
    return sys.modules[full_name]


@pytest.fixture(scope="session")
def fakes() -> ModuleType:
    """The fake model, tokenizer and engine of engine_fakes.py."""
    return _load("engine_fakes")
