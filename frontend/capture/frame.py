"""Frames: the names of one function activation while its source is walked."""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any

from lmc.frontend.capture.source import FunctionNode, Source

MISSING = object()


@dataclass(eq=False, slots=True)
class Frame:
    """One activation of a function, lambda or comprehension.

    `function` is the live function at the bottom of the chain of frames, whose globals and
    closure the names fall back to. `loops` holds the numbers of the open loops, `made_closure`
    says that the names outlive the activation.
    """

    id: int
    source: Source
    node: ast.AST
    function: FunctionType
    parent: "Frame | None" = None
    locals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()
    loops: list[int] = field(default_factory=list)
    made_closure: bool = False

    def owner(self, name: str) -> "Frame | None":
        """Return the frame that a name belongs to; None means the module or Python itself."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.locals and name not in frame.nonlocals:
                return frame
            frame = frame.parent
        return None

    def live(self, name: str) -> tuple[str, Any]:
        """Return where a name's live object was found ('closure', 'global', ...) and the object."""
        code = self.function.__code__
        if name in code.co_freevars and self.function.__closure__:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            try:
                return "closure", cell.cell_contents
            except ValueError:
                return "closure", MISSING
        if name in self.function.__globals__:
            return "global", self.function.__globals__[name]
        return "builtin", getattr(builtins, name, MISSING)

    def live_at(self, path: str) -> Any:
        """Return the live object that `name.part["key"]` leads to now, MISSING for none."""
        try:
            return self._reached(ast.parse(path, mode="eval").body)
        except (SyntaxError, ValueError, TypeError, LookupError):
            return MISSING

    def _reached(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self.live(name)[1]
            case ast.Attribute(value=inner, attr=attribute):
                return getattr(self._reached(inner), attribute, MISSING)
            case ast.Subscript(value=inner, slice=key):
                return self._reached(inner)[ast.literal_eval(key)]
            case _:
                return MISSING


@lru_cache(maxsize=1024)
def local_names(node: FunctionNode) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a function binds, and those declared nonlocal."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    names = {argument.arg for argument in every}
    nonlocals: set[str] = set()
    module_names: set[str] = set()
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    for statement in body:
        for inner in own_nodes(statement):
            match inner:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    names.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    names.add(name)
                case ast.AsyncFunctionDef(name=name):
                    names.add(name)
                case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    names.add(name)
                case ast.MatchMapping(rest=str(name)):
                    names.add(name)
                case ast.Global(names=declared):
                    module_names.update(declared)
                case ast.Nonlocal(names=declared):
                    nonlocals.update(declared)
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    names.update((a.asname or a.name).partition(".")[0] for a in aliases)
                case ast.ExceptHandler(name=str(name)):
                    names.add(name)
                case _:
                    pass
    return frozenset(names - module_names), frozenset(nonlocals)


@lru_cache(maxsize=1024)
def is_generator(body: ast.AST) -> bool:
    """Whether a function is a generator function."""
    return any(True for _ in _yields(body))


def first_yield(body: ast.AST) -> ast.AST:
    """Return the first `yield` of a generator function."""
    return min(_yields(body), key=lambda node: (node.lineno, node.col_offset))


def _yields(body: ast.AST) -> Iterator[ast.Yield | ast.YieldFrom]:
    statements = getattr(body, "body", [])
    for statement in statements if isinstance(statements, list) else ():
        for inner in own_nodes(statement):
            if isinstance(inner, (ast.Yield, ast.YieldFrom)):
                yield inner


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it that run in the same scope (walrus targets included)."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target
        return
    for child in ast.iter_child_nodes(node):
        yield from own_nodes(child)
