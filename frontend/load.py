"""Loading a program file: executed once, as a module of its own."""

import ast
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakSet

from lmc.errors import CaptureError, LmcError, UsageError
from lmc.ir.location import Location

_LOADED: "WeakSet[ModuleType]" = WeakSet()
"""Modules made here, which a later load may replace."""


_loading: ContextVar[str | None] = ContextVar("lmc_loading", default=None)


def refuse_while_loading(program: str) -> None:
    """Refuse to run a program at the top level of a file that is being loaded.

    Raises:
        UsageError: a file is being loaded.
    """
    file = _loading.get()
    if file is not None:
        raise UsageError(
            f"'{program}' is run while {file} is loaded",
            hint="put it under: if __name__ == '__main__':",
        )


def load_programs(path: str | Path) -> dict[str, Any]:
    """Execute a file and return its programs by name, in the order of their definition.

    The module is named by the file's stem; the file's folder is importable while it loads.

    Raises:
        UsageError: the file is missing, is no Python file, or defines no program.
        CaptureError: it does not parse, or raised while it was loaded.
    """
    file = Path(path)
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        if str(path).endswith(":"):
            raise UsageError(f"no program is named in {str(path)!r}", hint="end it before the ':'")
        raise UsageError(f"{path} {what}", hint="give a Python file that defines a program")
    if file.suffix != ".py":
        raise UsageError(
            f"{path} is no Python file", hint="a program file ends in .py, an artifact in .lmc"
        )
    module = load_module(file.resolve())
    programs = {
        name: value
        for name, value in vars(module).items()
        if hasattr(value, "__lmc_function__") and not isinstance(value, ModuleType)
    }
    own = {
        name: value
        for name, value in programs.items()
        if value.__lmc_function__.__module__ == module.__name__
    }
    if not own and not programs:
        raise UsageError(
            f"{path} defines no program", hint="put @lmc.function above a function def f(s, ...):"
        )
    return own or programs


def load_module(file: Path) -> ModuleType:
    """Execute a file as a fresh module and keep it in sys.modules under its stem.

    Raises:
        UsageError: the file cannot be read, or has the name of another module.
        CaptureError: it does not parse, or raised while it was loaded.
    """
    before = sys.modules.get(file.stem)
    if file.stem in sys.stdlib_module_names or (before is not None and before not in _LOADED):
        raise UsageError(
            f"{file.name} has the name of a module that is in use: {file.stem}",
            hint="give the program's file another name",
        )
    try:
        text = file.read_bytes()
        tree = ast.parse(text, str(file))
        code = compile(tree, str(file), "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{file.name} cannot be read: {error.strerror}") from error
    except SyntaxError as error:
        raise _syntax_error(file, error) from error
    except ValueError as error:
        raise CaptureError(f"{file.name} is no Python source: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise CaptureError(
            f"{file.name} is nested too deeply for Python to parse", hint="split long expressions"
        ) from error
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    # Host functions are known by import name, so the name must lead to this very module.
    _LOADED.add(module)
    sys.modules[file.stem] = module
    outer = _loading.set(file.name)
    try:
        with _importable(file.parent):
            exec(code, module.__dict__)
    except LmcError as error:
        _restore(file.stem, before)
        if error.location is None:
            error.location = _place(file, error)
        raise
    except Exception as error:
        _restore(file.stem, before)
        raise _load_error(file, error) from error
    finally:
        _loading.reset(outer)
    return module


def _restore(name: str, before: ModuleType | None) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _syntax_error(file: Path, error: SyntaxError) -> CaptureError:
    line, column = error.lineno or 1, max(1, error.offset or 1)
    end_line = error.end_lineno or line
    end = error.end_offset or column + 1
    text = (error.text or "").rstrip("\r\n")
    if end_line == line and end <= column:
        end = column + 1
    where = Location(file.name, line, column, end_line, end, text)
    return CaptureError(
        f"{file.name} does not parse: {error.msg}", hint="correct the line", location=where
    )


def _load_error(file: Path, error: Exception) -> CaptureError:
    return CaptureError(
        f"loading {file.name} raised {type(error).__name__}: {error}",
        hint="the file's top level must run by itself; keep runs under: if __name__ == '__main__'",
        location=_place(file, error),
    )


def _place(file: Path, error: Exception) -> Location | None:
    """Return the last line of the file itself that was running."""
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    if not own:
        return None
    frame = own[-1]
    line = frame.lineno or 1
    text = file.read_text(errors="replace").splitlines()[line - 1 : line]
    column, end = (frame.colno or 0) + 1, (frame.end_colno or 0) + 1
    end_line = frame.end_lineno or line
    return Location(file.name, line, column, end_line, end, text[0] if text else "")
