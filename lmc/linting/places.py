"""From a place of the IR to the part of the source that a diagnostic is about."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmc.frontend.capture.pieces import POSITIONAL
from lmc.frontend.capture.source import Source
from lmc.ir.location import Location
from lmc.passes.lint import Focus

SPELLINGS = {
    "type": ("type", "dtype", "json_schema"),
    "regex": ("regex", "constraint"),
    "json_schema": ("json_schema", "constraint"),
    "grammar": ("grammar", "constraint"),
    "choices": ("choices",),
}
"""Arguments that one parameter of the IR may come from."""


@dataclass(slots=True)
class SourceFile:
    """One file that a program's ops come from, parsed."""

    source: Source
    tree: ast.Module
    names: dict[str, Any]

    def nodes_at(self, place: Location) -> Iterator[ast.AST]:
        """Yield the nodes that fill a place exactly, outer ones first."""
        for node in ast.walk(self.tree):
            if getattr(node, "lineno", 0) == place.line:
                if _span(self.source.locate(node)) == _span(place):
                    yield node

    def nodes_within(self, place: Location) -> Iterator[ast.expr]:
        """Yield the expressions that lie within a place, in the order of the source."""
        found: list[tuple[tuple[int, int], ast.expr]] = []
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.expr) or node.lineno < place.line:
                continue
            if node.lineno > place.end_line:
                continue
            where = _span(self.source.locate(node))
            if where[:2] >= _span(place)[:2] and where[2:] <= _span(place)[2:]:
                found.append((where[:2], node))
        yield from (node for _, node in sorted(found, key=lambda pair: pair[0]))


class Places:
    """Finds the parts of sources; files are read once.

    Args:
        folder: what the places' files are relative to.
        names: the live names of each file's module, by absolute path.
    """

    def __init__(self, folder: Path, names: dict[str, dict[str, Any]]) -> None:
        self.folder = folder
        self._names = names
        self._files: dict[str, SourceFile | None] = {}

    def file(self, shown: str) -> SourceFile | None:
        """Return a file by the name that places have; None where it cannot be read."""
        if shown not in self._files:
            self._files[shown] = self._read(shown)
        return self._files[shown]

    def _read(self, shown: str) -> SourceFile | None:
        path = self.folder / shown
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            return None
        source = Source(str(path), shown, tuple(text.splitlines(keepends=True)))
        return SourceFile(source, tree, self._names.get(str(path.resolve()), {}))

    def focused(self, place: Location | None, focus: Focus | None) -> Location | None:
        """Return the part of a place that a focus means, the place itself where there is none."""
        file = self.file(place.file) if place is not None else None
        if place is None or focus is None or file is None:
            return place
        node: ast.AST | None = None
        if focus.kind == "argument":
            node = _item(_argument(file, place, focus.text), focus.item)
        if focus.kind == "text":
            node = _text(file, place, focus.text)
        return place if node is None else file.source.locate(node)


def _span(place: Location) -> tuple[int, int, int, int]:
    return place.line, place.column, place.end_line, place.end_column


def _argument(file: SourceFile, place: Location, name: str) -> ast.AST | None:
    """Return the node of a call's argument, or of a function's parameter."""
    for node in file.nodes_at(place):
        if isinstance(node, ast.Call):
            return _call_argument(node, name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return next((each for each in every if each.arg == name), None)
    return None


def _call_argument(node: ast.Call, name: str) -> ast.AST | None:
    for spelling in SPELLINGS.get(name, (name,)):
        for keyword in node.keywords:
            if keyword.arg == spelling:
                return keyword.value
    word = node.func.attr if isinstance(node.func, ast.Attribute) else None
    if isinstance(node.func, ast.Name):
        word = node.func.id
    order = POSITIONAL.get(word or "", POSITIONAL["gen"])
    if name in order and order.index(name) < len(node.args):
        return node.args[order.index(name)]
    return None


def _item(node: ast.AST | None, text: str | None) -> ast.AST | None:
    """Return the last item of a written list that is a text; the list itself without one."""
    if text is None or not isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return node
    items = [e for e in node.elts if isinstance(e, ast.Constant) and e.value == text]
    return items[-1] if items else node


def _text(file: SourceFile, place: Location, text: str) -> ast.AST | None:
    """Return the last constant, f-string or name within a place that gives a text."""
    within = list(file.nodes_within(place))
    texts = [(n, _known_text(n, file)) for n in within]
    # Capture joins constants that follow each other: the last of them ends the text.
    for fits in (text.__eq__, text.endswith):
        found = [node for node, known in texts if known and fits(known)]
        if found:
            return found[-1]
    return None


def _known_text(node: ast.expr, file: SourceFile) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = file.names.get(node.id)
    return value if isinstance(value, str) else None
