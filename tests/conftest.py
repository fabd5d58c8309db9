"""Golden-text tests: a `.lmir` file holds cases of IR text and the text expected from it.

A case begins with a title line `// ...`, may name a pipeline in `// PASSES: fold,dce`, and
has the expected output after `// EXPECT`; without passes the module is read, verified and
printed again. An expected output that starts with `error: ` is the first line of the error.
Cases are parted by `// -----`; `pytest --update-golden` rewrites the expected outputs.
"""

import difflib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

BORDER = "\n// -----\n"
EXPECT = "// EXPECT"
PASSES = "// PASSES:"

# Workers share the cores: kernels of one on the cores of another would wait for each other.
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
if WORKERS > 1:
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // WORKERS)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of golden texts and of long runs."""
    parser.addoption("--update-golden", action="store_true", help="rewrite expected outputs")
    parser.addoption(
        "--first-seed", type=int, default=10_000, help="of the random programs of long runs"
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what was imported out of the garbage collector's sight, and let it come less often.

    Modules, types and collected tests stay to the end; looking at them again and again took a
    third of the time of tests that make many objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 20)


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Collect `.lmir` files."""
    if file_path.suffix == ".lmir":
        return LmirFile.from_parent(parent, path=file_path)  # type: ignore[no-any-return]
    return None


class GoldenMismatch(Exception):
    """The printed text differs from the expected one."""


class LmirFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item per case, named by its title."""
        for number, case in enumerate(self.path.read_text(encoding="utf-8").split(BORDER)):
            title = case.splitlines()[0].removeprefix("//").strip() if case.strip() else ""
            item = LmirItem.from_parent(self, name=title or f"case {number}")
            item.number = number
            yield item


class LmirItem(pytest.Item):
    """One case of a file."""

    number: int

    def runtest(self) -> None:
        """Compare what is printed now with what is expected."""
        cases = self.path.read_text(encoding="utf-8").split(BORDER)
        head, _, expected = cases[self.number].partition(EXPECT)
        actual = printed(head)
        if actual.strip() == expected.strip():
            return
        if not self.config.getoption("--update-golden"):
            raise GoldenMismatch(expected, actual)
        is_last = self.number == len(cases) - 1
        cases[self.number] = f"{head}{EXPECT}\n{actual if is_last else actual.rstrip()}"
        self.path.write_text(BORDER.join(cases), encoding="utf-8")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Show a mismatch as a diff."""
        if not isinstance(excinfo.value, GoldenMismatch):
            return str(super().repr_failure(excinfo))
        expected, actual = (text.strip().splitlines() for text in excinfo.value.args)
        diff = difflib.unified_diff(expected, actual, "expected", "printed", "", "", lineterm="")
        return "\n".join([f"{self.path}: {self.name}", *diff, "--update-golden accepts it"])

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the case in reports."""
        return self.path, None, f"{self.path.name}::{self.name}"


def printed(head: str) -> str:
    """Return what a case prints: the module after its passes, or its error's first line."""
    from lmc.errors import CompileError
    from lmc.ir import parse_module, print_module, verify

    pipelines = [line for line in head.splitlines() if line.startswith(PASSES)]
    try:
        module = parse_module(head, "case.lmir")
        verify(module)
        if pipelines:
            from lmc.passes.pipeline import PassManager

            text = pipelines[0].removeprefix(PASSES).strip()
            module = PassManager.parse(text).run(module).module
    except CompileError as error:
        return f"error: {error.message.splitlines()[0]}\n{place_of(error)}"
    return print_module(module)


def place_of(error: Exception) -> str:
    """Return the place of an error as one line, nothing if it has none."""
    location = getattr(error, "location", None)
    return f"at {location}\n" if location else ""
