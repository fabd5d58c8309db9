"""Folders import only what lies below them, and third parties only where they belong."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ALLOWED = {
    "ir": set(),
    "kernels": set(),
    "frontend": {"ir"},
    "passes": {"ir"},
    "codegen": {"ir"},
    "runtime": {
        "codegen.plan",
        "codegen.target",
        "codegen.tokenizer",
        "ir",
        "kernels",
    },
}
SHARED = {"errors", "gguf_file", "version"}

THIRD_PARTIES = {
    "click": ("lmc/cli",),
    "hypothesis": ("lmc/checking/arguments.py",),
    "lark": ("ir/parser.py", "frontend/schema.py"),
    "networkx": ("ir/graph", "passes/analysis.py"),
    "tokenizers": ("codegen/tokenizer",),
    "jinja2": ("codegen/template",),
    "torch": ("kernels/", "runtime/models/", "runtime/engine/"),
    "transformers": ("codegen/tokenizer", "runtime/models/"),
    "safetensors": ("runtime/models/",),
    "gguf": ("runtime/models/",),
    "triton": ("kernels/",),
    "flashinfer": ("kernels/",),
    "interegular": ("passes/lint/overlaps.py",),
    "xgrammar": ("runtime/constraint/",),
}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and full name of everything that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "lmc":
                yield from ((node.lineno, f"lmc.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def sources(folder: str) -> list[Path]:
    """Return a folder's Python files."""
    return sorted((ROOT / folder).rglob("*.py"))


def wrong_imports(folder: str, path: Path) -> Iterator[str]:
    """Yield every import of a file that points upward."""
    allowed = ALLOWED[folder] | {folder} | SHARED
    for line, name in imports(path):
        if not name.startswith("lmc."):
            continue
        target = name.removeprefix("lmc.")
        if not any(target == a or target.startswith(a + ".") for a in allowed):
            yield f"{path.relative_to(ROOT)}:{line} imports {name}"


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_imports_point_down(folder):
    wrong = [text for path in sources(folder) for text in wrong_imports(folder, path)]
    assert not wrong, "\n".join(wrong)


def test_a_planted_upward_import_is_found():
    path = ROOT / "ir" / "core.py"
    assert not list(wrong_imports("ir", path))
    assert list(wrong_imports("kernels", path)), "the IR is above the kernels"


@pytest.mark.parametrize("folder", [*sorted(ALLOWED), "lmc"])
def test_third_parties_stay_where_they_belong(folder):
    wrong = []
    for path in sources(folder):
        place = str(path.relative_to(ROOT))
        for line, name in imports(path):
            homes = THIRD_PARTIES.get(name.split(".")[0])
            if homes is not None and not place.startswith(homes):
                wrong.append(f"{place}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", [*sorted(ALLOWED), "lmc"])
def test_files_stay_small(folder):
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources(folder)
        if (count := len(path.read_text().splitlines())) > 600
    }
    assert not long


def test_nothing_reads_pickles_or_evaluates_text():
    banned = {"pickle", "dill", "cloudpickle", "marshal", "shelve"}
    wrong = []
    for folder in [*ALLOWED, "lmc"]:
        for path in sources(folder):
            wrong += [f"{path}:{n}" for n, name in imports(path) if name.split(".")[0] in banned]
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    if node.func.id == "eval":
                        wrong.append(f"{path}:{node.lineno} calls eval")
    assert not wrong
