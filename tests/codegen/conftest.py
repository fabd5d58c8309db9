"""Fixtures shared by the tests of codegen."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def samples() -> ModuleType:
    """The module tokenizer_samples.py that lies beside this file (tests are no package)."""
    name = "lmc_tests_codegen_tokenizer_samples"
    if name not in sys.modules:
        path = Path(__file__).parent / "tokenizer_samples.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for lmc."""
    folder = tmp_path / "lmc-cache"
    monkeypatch.setenv("LMC_CACHE", str(folder))
    return folder
