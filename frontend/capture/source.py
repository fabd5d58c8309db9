"""Finding the source of a function, by the positions of its code object.

The whole file is parsed and the function is looked up in it, so that indentation, decorators
and text at column 0 inside triple quotes need no repair and every position is the file's own.
"""

import ast
import linecache
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType

from lmc.errors import CaptureError
from lmc.ir.location import Location

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its text, its syntax tree, and its name relative to the program's folder."""

    filename: str
    shown: str
    lines: tuple[str, ...]

    def locate(self, node: ast.AST) -> Location:
        """Return the span of a node; columns count characters from 1."""
        line: int = getattr(node, "lineno", 1)
        end_line: int = getattr(node, "end_lineno", None) or line
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = self._column(end_line, getattr(node, "end_col_offset", None) or 0)
        text = self.lines[line - 1].rstrip("\r\n") if line <= len(self.lines) else ""
        return Location(self.shown, line, column, end_line, end_column, text)

    def _column(self, line: int, offset: int) -> int:
        """Turn a byte offset within a line into a column of characters."""
        if line > len(self.lines):
            return offset + 1
        text = self.lines[line - 1]
        if text.isascii():
            return min(offset, len(text)) + 1
        head = text.encode("utf-8", "surrogatepass")[:offset]
        return len(head.decode("utf-8", "replace")) + 1


def find_function(function: FunctionType, folder: Path | None) -> tuple[Source, FunctionNode]:
    """Return the source of a function and its node.

    Raises:
        CaptureError: there is no source, or it is not the one that was imported.
    """
    code = function.__code__
    lines = source_lines(function)
    text = "".join(lines)
    source = Source(code.co_filename, shown_name(code.co_filename, folder), tuple(lines))
    try:
        nodes = _functions(text, code.co_filename)
    except (SyntaxError, RecursionError) as error:
        raise changed(function, source) from error
    found = [node for node in nodes if _is_at(node, code)]
    if len(found) > 1:
        found = [node for node in found if _covers(node, code)]
    if len(found) != 1 or not _is_current(text, code, found[0]):
        raise changed(function, source)
    return source, found[0]


def source_lines(function: FunctionType) -> list[str]:
    """Return the lines of the file that a function was written in."""
    filename = function.__code__.co_filename
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, function.__globals__)
    if not lines:
        raise CaptureError(
            f"the source of '{function.__qualname__}' is not available (file {filename!r})",
            hint="keep programs in a file; code made by exec or typed at a prompt has no source",
        )
    return lines


def is_installed(function: FunctionType) -> bool:
    """Whether a function is of the standard library or of an installed package."""
    return _is_installed(function.__code__.co_filename)


@lru_cache(maxsize=256)
def _is_installed(filename: str) -> bool:
    paths = sysconfig.get_paths()
    return any(
        Path(filename).is_relative_to(paths[key]) for key in ("stdlib", "purelib", "platlib")
    )


def shown_name(filename: str, folder: Path | None) -> str:
    """Return a file's name relative to the program's folder, or its last part."""
    return _shown_name(filename, folder, os.getcwd())


@lru_cache(maxsize=256)
def _shown_name(filename: str, folder: Path | None, _current: str) -> str:
    path = Path(filename)
    if folder is not None:
        try:
            return path.resolve().relative_to(folder.resolve()).as_posix()
        except ValueError:
            pass
    return path.name


def changed(function: FunctionType, source: Source) -> CaptureError:
    """Return the error for a file that no longer holds the function that was imported."""
    line = function.__code__.co_firstlineno
    text = source.lines[line - 1].rstrip("\r\n") if line <= len(source.lines) else ""
    return CaptureError(
        f"'{function.__qualname__}' is not what {source.shown} says now: the file has changed "
        "since it was imported",
        hint="load the file again",
        location=Location(source.shown, line, 1, line, len(text) + 1, text),
    )


@lru_cache(maxsize=64)
def _functions(text: str, filename: str) -> tuple[FunctionNode, ...]:
    """Parse a file; return all its functions."""
    tree = ast.parse(text, filename)
    return tuple(node for node in ast.walk(tree) if isinstance(node, FunctionNode))


@lru_cache(maxsize=64)
def _compiled(text: str, filename: str) -> CodeType:
    return compile(text, filename, "exec", dont_inherit=True)


def _is_at(node: FunctionNode, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
    return node.name == code.co_name and first == code.co_firstlineno


def _covers(node: FunctionNode, code: CodeType) -> bool:
    """Whether the code's own positions fill exactly the body of this node (for lambdas)."""
    if not isinstance(node, ast.Lambda):
        return True
    places = [place for place in code.co_positions() if None not in place and place[3] != 0]
    spans = {(a, c, b, d) for a, b, c, d in places}
    body = node.body
    whole = (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset)
    inside = all(
        (a, c) >= (body.lineno, body.col_offset)
        and (b, d) <= (body.end_lineno, body.end_col_offset)
        for a, c, b, d in spans  # type: ignore[operator]
    )
    return inside and whole in spans


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _is_current(text: str, code: CodeType, node: FunctionNode) -> bool:
    """Whether the file, compiled now, gives the very code that was imported."""
    same_place = [
        other
        for other in _codes(_compiled(text, code.co_filename))
        if other.co_name == code.co_name and other.co_firstlineno == code.co_firstlineno
    ]
    if any(other == code for other in same_place):
        return True
    # pytest rewrites assert statements on import: compare what rewriting leaves alone.
    asserts = any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    return asserts and any(
        other.co_varnames[: other.co_argcount] == code.co_varnames[: code.co_argcount]
        for other in same_place
    )
