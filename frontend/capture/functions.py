"""Assembling a module: programs, embedded helpers, guards, host functions."""

import ast
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.environment import WORDS
from lmc.frontend.capture.frame import MISSING, Frame, local_names
from lmc.frontend.capture.host_calls import module_name
from lmc.frontend.capture.patterns import Patterns
from lmc.frontend.capture.prune import prune
from lmc.frontend.capture.source import FunctionNode, Source, find_function
from lmc.frontend.capture.values import Cell, Plain, Ref
from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.evaluate import MUTATORS
from lmc.ir.types import BOOL, EFFECT, FLOAT, INT, PY, STATE, TEXT, Type, is_attr

CHANGING = frozenset({
    "random.shuffle", "_heapq.heappush", "_heapq.heappop", "_heapq.heapify", "_heapq.heapreplace",
    "_heapq.heappushpop", "_bisect.insort_left", "_bisect.insort_right", "_bisect.insort",
})  # fmt: skip
"""Functions without readable source, or bound methods, that change what they are given."""

ANNOTATED: dict[str, Type] = {"str": TEXT, "int": INT, "float": FLOAT, "bool": BOOL}


@dataclass(slots=True)
class Captured:
    """A module, the live functions that it calls by name, and what it was specialised on."""

    module: Module
    host: dict[str, Callable[..., Any]]
    watched: dict[str, Callable[[], str]] = field(default_factory=dict)

    def is_current(self) -> bool:
        """Whether the constants and functions that capture read are still the same."""
        guards = self.module.attributes["guards"]
        assert isinstance(guards, dict)
        return all(guards[name] == digest() for name, digest in self.watched.items())


class ModuleCapture:
    """Captures functions into one module, each once."""

    def __init__(self, name: str, folder: Path | None) -> None:
        self.module = Module(name)
        self.folder = folder
        self.host: dict[str, Callable[..., Any]] = {}
        self._names: dict[FunctionType, str] = {}
        self._refused: dict[FunctionType, CaptureError] = {}
        self._guards: dict[str, str] = {}
        self._watched: dict[str, Callable[[], str]] = {}
        self._language: dict[FunctionType, bool] = {}
        self._changing: dict[FunctionType, bool] = {}

    def finish(self) -> Captured:
        """Return the module with its guards."""
        order = sorted(self._guards)
        self.module.attributes["guards"] = {name: self._guards[name] for name in order}
        host = {name: self.host[name] for name in sorted(self.host)}
        return Captured(self.module, host, {name: self._watched[name] for name in order})

    def find(self, function: FunctionType) -> tuple[Source, FunctionNode]:
        """Return a function's source and node."""
        return find_function(function, self.folder)

    # Programs and helpers.

    def program(self, function: FunctionType) -> str:
        """Return the name of a program in the module, captured at its first use."""
        if function not in self._names:
            name = self._free_name(function.__name__)
            self._names[function] = name
            try:
                self._walk(function, name, "program")
            except CaptureError as error:
                self._walk_indexed(function, name, error)
        return self._names[function]

    def _walk_indexed(self, function: FunctionType, name: str, error: CaptureError) -> None:
        """Walk a program again with its states by number; tell the first error if that fails."""
        try:
            self._walk(function, name, "program", is_indexed=True)
        except CaptureError:
            raise error from None

    def _walk(
        self, function: FunctionType, name: str, kind: str, *, is_indexed: bool = False
    ) -> None:
        """Walk a function's body; on a graph break everything is as it was."""
        before = dict(self.module.functions), dict(self._names), dict(self.host)
        guards = dict(self._guards), dict(self._watched)
        try:
            source, node = self.find(function)
            captured = FunctionCapture(self, function, source, node)
            made = captured.shell(name, kind)
            # Known before the walk, so that a function may call itself.
            self.module.functions[name] = made
            if kind == "program":
                captured.walk_program(made, is_indexed=is_indexed)
            else:
                captured.walk_helper(made)
        except CaptureError:
            self.module.functions, self._names, self.host = before
            self._guards, self._watched = guards
            raise

    def helper(self, function: FunctionType) -> str | None:
        """Return the name of an embedded function of plain values, None if it cannot be one."""
        if function in self._refused or self.uses_language(function):
            return None
        if function not in self._names:
            name = self._free_name(function.__name__)
            self._names[function] = name
            try:
                self._walk(function, name, "helper")
            except CaptureError as error:
                del self._names[function]
                self._refused[function] = error
                return None
        return self._names[function]

    def _free_name(self, name: str) -> str:
        wanted, number = name, 1
        while wanted in self.module.functions:
            wanted, number = f"{name}_{number}", number + 1
        return wanted

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
        if function in self._changing:
            return self._changing[function]
        self._changing[function] = False
        try:
            _, node = self.find(function)
        except CaptureError:
            return False
        parameters = set(inspect.signature(function).parameters)
        self._changing[function] = any(
            _changes(inner, parameters) or self._passes_on(inner, parameters, function, node)
            for inner in ast.walk(node)
        )
        return self._changing[function]

    def _passes_on(
        self, node: ast.AST, parameters: set[str], function: FunctionType, body: FunctionNode
    ) -> bool:
        """Whether a node passes a parameter to a function that changes it."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return False
        if not any(_root_name(argument) in parameters for argument in node.args):
            return False
        return any(map(self.changes_arguments, _used_objects(function, body, node.func)))

    # Guards.

    def guard(self, frame: Frame, name: str, value: Any) -> None:
        """Note a constant that the module was specialised on."""
        function = frame.function
        key = f"{module_name(function)}.{name}"
        if name in function.__code__.co_freevars:
            key = f"{module_name(function)}.{function.__qualname__}.<closure>.{name}"

        def digest() -> str:
            found = frame.live(name.partition(".")[0])[1]
            for attribute in name.split(".")[1:]:
                found = getattr(found, attribute, MISSING)
            return digest_of(found)

        self._guards[key] = digest_of(value)
        self._watched[key] = digest

    def guard_function(self, frame: Frame, name: str, function: FunctionType) -> None:
        """Note a function whose body became part of the module."""
        key = f"{module_name(function)}.{function.__qualname__}()"

        def digest() -> str:
            found = frame.live(name)[1]
            code = getattr(found, "__code__", None)
            return code_digest(function) if code is None else code_digest(found)

        self._guards[key] = code_digest(function)
        self._watched[key] = digest


class FunctionCapture(Patterns):
    """Captures one function."""

    def __init__(
        self, module: ModuleCapture, function: FunctionType, source: Source, node: FunctionNode
    ) -> None:
        names, nonlocals = local_names(node)
        super().__init__(module, Frame(0, source, node, function, None, names, nonlocals))
        self.function = function
        self._check_shape(node)
        self.node = node

    def _check_shape(self, node: FunctionNode) -> None:
        if isinstance(node, ast.AsyncFunctionDef):
            self.fail(node, "an async function cannot be captured", "write a plain function")
        if node.args.vararg or node.args.kwarg:
            self.fail(node, "a program or helper with *args or **keywords cannot be captured",
                      "name its parameters")  # fmt: skip
        if any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node)):
            self.fail(node, "a generator function cannot be captured", "return a list")
        if isinstance(node, ast.FunctionDef) and len(node.decorator_list) > 1:
            self.fail(node.decorator_list[0], "a function with other decorators cannot be captured",
                      "leave only the program's own decorator")  # fmt: skip

    def shell(self, name: str, kind: str) -> Function:
        """Make the function with its parameters, its body still to come."""
        arguments = self.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if kind == "program":
            every = every[1:]
        given = inspect.signature(self.function).parameters
        params: list[Param] = []
        for argument in every:
            default = given[argument.arg].default
            has_default = default is not inspect.Parameter.empty
            if has_default and not is_attr(default):
                self.fail(argument, f"the default of '{argument.arg}' is no plain data",
                          "use None, text, numbers, lists or dicts")  # fmt: skip
            annotation = ast.unparse(argument.annotation) if argument.annotation else ""
            params.append(Param(
                argument.arg, annotation, has_default, default if has_default else None,
                argument in arguments.kwonlyargs,
            ))  # fmt: skip
        values = [Value(EFFECT, "effect"), *(Value(PY, param.name) for param in params)]
        doc = inspect.getdoc(self.function)
        attributes = {"doc": doc} if doc and kind == "program" else {}
        return Function(name, kind, params, Block(values), dict(attributes),
                        self.frame.source.locate(self.node))  # fmt: skip

    def walk_program(self, made: Function, *, is_indexed: bool) -> None:
        """Walk the body of a program, with its states by number if asked."""
        self._enter(made)
        state = self.node.args.posonlyargs or self.node.args.args
        name = state[0].arg
        prompt = self.emit("lm.prompt", [], [STATE], state[0])[0]
        prompt.hint = name
        if is_indexed:
            self.root = self.open_heap(prompt, state[0])
            made.attributes["indexed_states"] = True
        else:
            cell = Cell(STATE, name)
            self.store.contents[cell] = prompt
            self.root = Ref(cell)
        self.store.names[0, name] = self.root
        value = self._walk_function()
        end = self.end_node()
        self._return([self.store.contents[self.effect], self.content(self.root, end), value], end)
        made.body.ops = self.block.ops
        prune(made.body)

    def walk_helper(self, made: Function) -> None:
        """Walk the body of a function of plain values."""
        self._enter(made)
        value = self._walk_function()
        self._return([self.store.contents[self.effect], value], self.end_node())
        made.body.ops = self.block.ops
        prune(made.body)

    def _enter(self, made: Function) -> None:
        self.block = Block(made.body.arguments)
        self.store.contents[self.effect] = made.body.arguments[0]
        for param, value in zip(made.params, made.body.arguments[1:], strict=True):
            if param.annotation in ANNOTATED:
                self.store.names[0, param.name] = Plain(value)
                continue
            external = f"the argument '{param.name}'"
            cell = Cell(PY, param.name, external)
            self.store.contents[cell] = value
            self.store.names[0, param.name] = Ref(cell)

    def _walk_function(self) -> Value:
        assert isinstance(self.node, (ast.FunctionDef, ast.Lambda))
        if isinstance(self.node, ast.Lambda):
            return self.data(self.node.body)
        self.begin_function()
        self.inlined.append(self.node)
        self.statements(self.node.body)
        return self._result(self.end_function())

    def _result(self, value: Any) -> Value:
        node = self.end_node()
        self.check_usable(value, node)
        found = self.read(value, node)
        return self.defined(found, node) if self.may_be_undefined(found) else found

    def end_node(self) -> ast.AST:
        """Return the node that the function's end is told at: its last return, or its name."""
        returns = [inner for inner in ast.walk(self.node) if isinstance(inner, ast.Return)]
        return returns[-1] if returns else self.node

    def _return(self, values: list[Value], node: ast.AST) -> None:
        self.block.ops.append(Op("func.return", values, [], {}, [], self.locate(node)))


def digest_of(value: Any) -> str:
    """Return a short digest of a constant."""
    text = json.dumps(value, sort_keys=True) if is_attr(value) else f"<{type(value).__name__}>"
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


def _changes(node: ast.AST, parameters: set[str]) -> bool:
    """Whether a node changes something that begins at a parameter."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=name)) if name in MUTATORS:
            return _root_name(base) in parameters
        case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()):
            return _root_name(base) in parameters
        case ast.AugAssign(target=ast.Name(id=name)):
            return name in parameters
        case _:
            return False


def _root_name(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def capture(functions: Sequence[Any], *, folder: Path | None = None) -> Captured:
    """Capture functions, or programs made of them, with all that they call, into a module.

    Args:
        functions: the programs; their names become the module's entries.
        folder: what source locations are relative to; the first function's folder by default.

    Raises:
        CaptureError: a graph break; tells the place, the reason and a remedy.
    """
    plain = [getattr(function, "__lmc_function__", function) for function in functions]
    if not plain:
        raise CaptureError("there is nothing to capture", hint="give at least one program")
    file = Path(plain[0].__code__.co_filename)
    made = ModuleCapture(file.stem, folder if folder is not None else file.parent)
    for function in plain:
        name = made.program(function)
        if name not in made.module.entries:
            made.module.entries.append(name)
    return made.finish()
