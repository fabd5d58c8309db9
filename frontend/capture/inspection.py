"""What a function does, as far as its source shows without walking it."""

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Set
from types import FunctionType, ModuleType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.environment import WORDS
from lmc.frontend.capture.frame import MISSING, Frame, local_names
from lmc.frontend.capture.source import FunctionNode, Source
from lmc.ir.calls import Constraint
from lmc.ir.evaluate import MUTATORS
from lmc.ir.expressions import Expression
from lmc.ir.types import is_attr

CHANGING = frozenset({
    "random.shuffle", "_heapq.heappush", "_heapq.heappop", "_heapq.heapify", "_heapq.heapreplace",
    "_heapq.heappushpop", "_bisect.insort_left", "_bisect.insort_right", "_bisect.insort",
})  # fmt: skip
"""Functions without readable source, or bound methods, that change what they are given."""


class FunctionFacts:
    """Answers questions about functions, each once; `find` finds their source."""

    def __init__(self, find: Callable[[FunctionType], tuple[Source, FunctionNode]]) -> None:
        self.find = find
        self._language: dict[FunctionType, bool] = {}
        self._changing: dict[FunctionType, Set[str]] = {}

    def uses_language(self, function: FunctionType) -> bool:
        """Whether a function builds prompts or runs programs, itself or through others."""
        if function not in self._language:
            self._language[function] = False
            try:
                _, node = self.find(function)
            except CaptureError:
                return False
            self._language[function] = any(
                self._is_language(obj) for obj in _used_objects(function, node)
            )
        return self._language[function]

    def _is_language(self, obj: Any) -> bool:
        if isinstance(obj, Expression):
            return True
        if isinstance(obj, FunctionType):
            if obj in WORDS:
                return True
            return not hasattr(obj, "__lmc_effects__") and self.uses_language(obj)
        return hasattr(obj, "__lmc_function__") and not isinstance(obj, ModuleType)

    def changes_arguments(self, function: Any) -> bool:
        """Whether a function seems to change one of its arguments in place, by its source."""
        if not isinstance(function, FunctionType):
            named = f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"
            return named in CHANGING
        return bool(self._changed(function))

    def _changed(self, function: FunctionType) -> Set[str]:
        """Return the parameters whose objects a function changes, itself or through others."""
        if function in self._changing:
            return self._changing[function]
        self._changing[function] = frozenset()
        try:
            _, node = self.find(function)
        except CaptureError:
            return frozenset()
        every = inspect.signature(function).parameters
        own = {each.arg for each in (node.args.vararg, node.args.kwarg) if each is not None}
        found: set[str] = set()
        for inner in ast.walk(node):
            name = _changed_name(inner, own)
            found |= {name} if name else self._passed_on(inner, function, node)
        self._changing[function] = found & set(every)
        return self._changing[function]

    def _passed_on(self, node: ast.AST, function: FunctionType, body: FunctionNode) -> set[str]:
        """Return the names that a node passes to functions that change them."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return set()
        found: set[str | None] = set()
        for callee in _used_objects(function, body, node.func):
            if isinstance(callee, FunctionType):
                changed = self._changed(callee)
                found |= {_root_name(value) for name, value in _named(node, callee)
                          if name is None or name in changed} if changed else set()  # fmt: skip
            elif self.changes_arguments(callee):
                found |= set(map(_root_name, node.args))
        return {name for name in found if name is not None}


def _named(node: ast.Call, callee: FunctionType) -> list[tuple[str | None, ast.expr]]:
    """Return a call's arguments by parameter; None for those of which it is open."""
    every = list(inspect.signature(callee).parameters.values())
    positional = [p.name for p in every if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in every if p.kind is p.VAR_POSITIONAL), None)
    found: list[tuple[str | None, ast.expr]] = []
    is_open = False
    for number, argument in enumerate(node.args):
        is_open = is_open or isinstance(argument, ast.Starred)
        value = argument.value if isinstance(argument, ast.Starred) else argument
        name = positional[number] if number < len(positional) else rest
        found.append((None if is_open else name, value))
    return [*found, *((keyword.arg, keyword.value) for keyword in node.keywords)]


def digest_of(value: Any) -> str:
    """Return a short digest of a constant."""
    text = json.dumps(value, sort_keys=True) if is_attr(value) else f"<{type(value).__name__}>"
    if isinstance(value, (Constraint, Expression)):
        text = repr(value)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def code_digest(function: FunctionType) -> str:
    """Return a short digest of a function's code, apart from where its file lies."""
    code = function.__code__
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames)]
    parts += [repr(c) for c in code.co_consts if not hasattr(c, "co_code")]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=8).hexdigest()


def _used_objects(
    function: FunctionType, body: FunctionNode, node: ast.AST | None = None
) -> list[Any]:
    """Return the live objects that a function's body (or a node of it) names, by attribute."""
    names, _ = local_names(body)
    node = node or body
    frame = Frame(0, Source("", "", ()), node, function, None, names)
    found: list[Any] = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
            if inner.value.id not in names:
                home = frame.live(inner.value.id)[1]
                if isinstance(home, ModuleType):
                    found.append(getattr(home, inner.attr, MISSING))
        elif isinstance(inner, ast.Name) and inner.id not in names:
            found.append(frame.live(inner.id)[1])
    return found


def _changed_name(node: ast.AST, own: Set[str]) -> str | None:
    """Return the name at which something begins that a node changes.

    The containers of `*args` and `**keywords`, `own`, are the function's; what they hold is not.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in MUTATORS:
            pass
        case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()):
            pass
        case ast.AugAssign(target=ast.Name() as base):
            pass
        case _:
            return None
    is_own = isinstance(base, ast.Name) and base.id in own
    return None if is_own else _root_name(base)


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
