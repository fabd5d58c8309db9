"""Diagnostics that only the source shows: what capture never walks, tools with hidden effects."""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.source import find_function
from lmc.ir.evaluate import MUTATORS
from lmc.ir.expressions import GEN_PARAMS, SELECT_PARAMS
from lmc.ir.location import Location
from lmc.linting.places import SourceFile
from lmc.passes.lint import Finding, Severity
from lmc.passes.lint.finding import FALSE_PURITY, IGNORED_PARAMETER, UNREACHABLE_TEXT, found

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
MISSING = object()
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
NEVER_ALIKE = {
    "random": frozenset({"random", "randint", "randrange", "choice", "choices", "shuffle", "sample",
                         "uniform", "gauss", "getrandbits"}),
    "time": frozenset({"time", "time_ns", "monotonic", "perf_counter"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "secrets": frozenset({"token_hex", "token_bytes", "choice", "randbelow"}),
}  # fmt: skip
"""Functions of the standard library that answer differently each time."""


def unreachable(file: SourceFile, lines: set[int]) -> Iterator[Finding]:
    """Find statements that no run reaches, in the functions that stand on some lines."""
    for node in ast.walk(file.tree):
        if isinstance(node, FunctionNode) and lines & set(range(node.lineno, _end(node) + 1)):
            yield from _Unreachable(file, node).findings()


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


class _Unreachable:
    """Looks for statements after an exit and under conditions that never hold."""

    def __init__(self, file: SourceFile, node: FunctionNode) -> None:
        self.file = file
        self.node = node
        self.locals = _local_constants(node)
        self.made: list[Finding] = []

    def findings(self) -> list[Finding]:
        """Return what was found."""
        self._body(self.node.body)
        return self.made

    def _tell(self, statement: ast.stmt, why: str, severity: Severity | None = None) -> None:
        self.made.append(found(
            UNREACHABLE_TEXT, self.file.source.locate(statement), f"this is never reached: {why}",
            "leave it out, or move it to where it is reached", severity=severity,
        ))  # fmt: skip

    def _body(self, body: Sequence[ast.stmt]) -> None:
        for index, statement in enumerate(body):
            self._within(statement)
            rest = body[index + 1 :]
            if rest and exits(statement):
                if not all(_is_nothing(each) for each in rest):
                    line = statement.lineno
                    self._tell(
                        rest[0], f"{_exit_word(statement)} in line {line} ends what is before"
                    )
                return

    def _within(self, statement: ast.stmt) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return
        if isinstance(statement, (ast.If, ast.While)):
            dead = self._dead_part(statement)
            if dead:
                return
        if isinstance(statement, (ast.For, ast.AsyncFor)) and _is_empty(statement.iter):
            self._tell(statement.body[0], "the loop goes over nothing")
        for block in _blocks(statement):
            self._body(block)

    def _dead_part(self, statement: ast.If | ast.While) -> bool:
        """Tell the part of a statement that its condition never lets run."""
        literal = _value(statement.test, {})
        known = _value(statement.test, {**self.file.names, **self.locals})
        if known is MISSING:
            return False
        severity: Severity | None = None if literal is not MISSING else "hint"
        if not known:
            self._tell(statement.body[0], "its condition never holds", severity)
            self._body(statement.orelse)
            return True
        if isinstance(statement, ast.If) and statement.orelse:
            self._tell(statement.orelse[0], "the condition before always holds", severity)
            self._body(statement.body)
            return True
        return False


def _is_nothing(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, (ast.Pass, ast.FunctionDef, ast.ClassDef))


def _exit_word(statement: ast.stmt) -> str:
    words: dict[type, str] = {
        ast.Return: "return", ast.Raise: "raise", ast.Break: "break", ast.Continue: "continue",
        ast.While: "the loop",
    }  # fmt: skip
    return words.get(type(statement), "the branch")


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list) and block:
            yield block
    for handler in getattr(statement, "handlers", []):
        yield handler.body
    for case in getattr(statement, "cases", []):
        yield case.body


def exits(statement: ast.stmt) -> bool:
    """Whether nothing after a statement in its block is reached."""
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.If(body=body, orelse=orelse):
            return bool(orelse) and _leaves(body) and _leaves(orelse)
        case ast.With(items=items, body=body):
            # A context manager may swallow an exception, but no return.
            return _leaves(body) and not any(isinstance(n, ast.Raise) for n in body) and bool(items)
        case ast.While(test=test, body=body):
            return _value(test, {}) not in (MISSING, False, 0, None) and not _breaks(body)
        case ast.Match(cases=cases):
            last = cases[-1]
            is_total = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
            return is_total and last.guard is None and all(_leaves(case.body) for case in cases)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            handled = all(_leaves(handler.body) for handler in handlers)
            return _leaves(final) or (handled and (_leaves(body) or _leaves(orelse)))
        case _:
            return False


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return any(exits(statement) for statement in body)


def _breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body holds a break of its own."""
    for statement in body:
        if isinstance(statement, ast.Break):
            return True
        if isinstance(statement, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            if _breaks(getattr(statement, "orelse", [])):
                return True
            continue
        if any(_breaks(block) for block in _blocks(statement)):
            return True
    return False


def _is_empty(node: ast.expr) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Constant(value=value):
            return isinstance(value, str) and not value
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(stop))]):
            return stop <= 0
        case _:
            return False


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return what a condition of constants gives, MISSING where it is not known."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            value = names.get(name, MISSING)
            return value if isinstance(value, (bool, int, float, str, type(None))) else MISSING
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand, names)
            return MISSING if inner is MISSING else not inner
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.BoolOp(op=kind, values=values):
            return _joined(kind, [_value(each, names) for each in values])
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            pair = _value(left, names), _value(right, names)
            if MISSING in pair:
                return MISSING
            try:
                return COMPARISONS[type(kind)](*pair)
            except TypeError:
                return MISSING
        case _:
            return MISSING


def _joined(kind: ast.boolop, values: list[Any]) -> Any:
    """Return what `and` or `or` gives; one side is enough where it decides."""
    decides = isinstance(kind, ast.Or)
    for value in values:
        if value is MISSING:
            return MISSING
        if bool(value) == decides:
            return value
    return values[-1]


def _local_constants(node: FunctionNode) -> dict[str, Any]:
    """Return the names of a function that are assigned once, to a constant; others as MISSING."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    stores: dict[str, int] = {argument.arg: 2 for argument in arguments}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, (ast.Store, ast.Del)):
            stores[inner.id] = stores.get(inner.id, 0) + 1
        elif isinstance(inner, (ast.Global, ast.Nonlocal)):
            stores.update(dict.fromkeys(inner.names, 2))
        elif isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
            stores[inner.target.id] = 2
        elif isinstance(inner, (ast.MatchAs, ast.MatchStar)) and inner.name:
            stores[inner.name] = 2
        elif isinstance(inner, ast.arg):
            stores[inner.arg] = 2
    made: dict[str, Any] = dict.fromkeys(stores, MISSING)
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                if stores[name] == 1:
                    made[name] = value
            case _:
                pass
    return made


# Parameters that capture leaves aside.


def ignored_by_choices(file: SourceFile, place: Location) -> Iterator[Finding]:
    """Find parameters of a `gen(choices=...)` that mean nothing for a choice."""
    call = next((node for node in file.nodes_at(place) if isinstance(node, ast.Call)), None)
    if call is None or not any(keyword.arg == "choices" for keyword in call.keywords):
        return
    for keyword in call.keywords:
        if keyword.arg in GEN_PARAMS and keyword.arg not in ("temperature", *SELECT_PARAMS):
            yield found(
                IGNORED_PARAMETER, file.source.locate(keyword.value),
                f"{keyword.arg} is ignored: with choices the call only chooses among them",
                f"leave {keyword.arg} out, or leave choices out",
            )  # fmt: skip


# Tools.


def false_purity(function: Any, folder: Path) -> Iterator[Finding]:
    """Find what a function does that is declared with effects="none"."""
    effects = getattr(function, "__lmc_effects__", None)
    if not isinstance(function, FunctionType) or effects != "none":
        return
    try:
        source, node = find_function(function, folder)
    except CaptureError:
        return
    for place, what in _effects(function, node):
        yield found(
            FALSE_PURITY, source.locate(place),
            f"'{function.__name__}' is declared free of effects, but it {what}",
            'declare @lmc.tool(effects="write"), or take the effect out',
        )  # fmt: skip


def _effects(function: FunctionType, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    names = function.__code__.co_varnames + function.__code__.co_cellvars
    declared: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Global, ast.Nonlocal)):
            declared.update(inner.names)
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in declared:
                yield inner, f"assigns to '{name}', which is not its own"
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                if name not in names:
                    yield inner, f"changes '{name}', which is not its own"
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                if name not in names:
                    yield inner, f"changes '{name}', which is not its own"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if name in names:
                    continue
                if method in NEVER_ALIKE.get(_module_of(function, name), ()):
                    yield inner, f"calls {name}.{method}(), which answers differently each time"
                elif method in MUTATORS and isinstance(
                    function.__globals__.get(name), (list, dict, set)
                ):
                    yield inner, f"changes '{name}', which is not its own"
            case ast.Call(func=ast.Name(id="print")) if "print" not in function.__globals__:
                yield inner, "prints"
            case ast.Call(func=ast.Name(id="input")) if "input" not in function.__globals__:
                yield inner, "asks the user"
            case ast.Call(func=ast.Name(id="open"), args=[_, ast.Constant(value=str(mode)), *_]):
                if set(mode) & set("wax+"):
                    yield inner, "writes to a file"
            case _:
                pass


def _module_of(function: FunctionType, name: str) -> str:
    found_module = function.__globals__.get(name)
    return str(getattr(found_module, "__name__", ""))
