"""Assembling a module: programs, embedded helpers, guards, host functions."""

import ast
import inspect
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.frame import Frame, first_yield, is_generator, local_names
from lmc.frontend.capture.host_calls import module_name
from lmc.frontend.capture.inspection import FunctionFacts, code_digest, digest_of
from lmc.frontend.capture.parameters import parameters_of
from lmc.frontend.capture.prune import prune
from lmc.frontend.capture.recursion import CallsItself, Summary
from lmc.frontend.capture.source import FunctionNode, Source, find_function
from lmc.frontend.capture.tries import Tries
from lmc.frontend.capture.unread import drop_unread
from lmc.frontend.capture.values import Cell, Element, Plain, Ref, has_states
from lmc.ir.calls import Constraint
from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.expressions import Gen, Select
from lmc.ir.location import Instruction, Location, span_of
from lmc.ir.types import BOOL, EFFECT, FLOAT, INT, PY, STATE, TEXT, Type, is_attr

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

    def __init__(
        self, name: str, folder: Path | None, left_out: Set[Location] = frozenset()
    ) -> None:
        self.module = Module(name)
        self.folder = folder
        self.left_out = left_out
        self.host: dict[str, Callable[..., Any]] = {}
        self.limits: dict[Constraint, Constraint] = {}
        self._names: dict[FunctionType, str] = {}
        self._refused: dict[FunctionType, CaptureError] = {}
        self._guards: dict[str, str] = {}
        self._watched: dict[str, Callable[[], str]] = {}
        self._calls: dict[int, Gen[Any] | Select] = {}
        self._places: dict[ast.AST, Location] = {}
        self._made: dict[Location, ast.expr] = {}
        self.facts = FunctionFacts(self.find)
        self.recursive: set[ast.AST] = set()
        self.summaries: dict[Any, Summary] = {}

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
            name = self.free_name(function.__name__)
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
        """Walk a function's body, again where an inlined one turns out to call itself."""
        while True:
            try:
                self._walk_once(function, name, kind, is_indexed=is_indexed)
                return
            except CallsItself as found:
                self.recursive.add(found.body)

    def _walk_once(
        self, function: FunctionType, name: str, kind: str, *, is_indexed: bool = False
    ) -> None:
        """Walk a function's body; on a graph break everything is as it was."""
        summaries = dict(self.summaries)
        before = dict(self.module.functions), dict(self._names), dict(self.host)
        guards = dict(self._guards), dict(self._watched)
        source, node = self.find(function)
        try:
            captured = FunctionCapture(self, function, source, node)
            made = captured.shell(name, kind)
            # Known before the walk, so that a function may call itself.
            self.module.functions[name] = made
            if kind == "program":
                captured.walk_program(made, is_indexed=is_indexed)
            else:
                captured.walk_helper(made)
        except (CaptureError, RecursionError, CallsItself) as error:
            self.summaries = summaries
            self.module.functions, self._names, self.host = before
            self._guards, self._watched = guards
            if isinstance(error, (CaptureError, CallsItself)):
                raise
            raise CaptureError(
                f"'{function.__qualname__}' is nested too deeply to be captured",
                hint="split long expressions and functions",
                location=source.locate(node),
            ) from None

    def helper(self, function: FunctionType) -> str | None:
        """Return the name of an embedded function of plain values, None if it cannot be one."""
        if function in self._refused or self.facts.uses_language(function):
            return None
        if function not in self._names:
            name = self.free_name(function.__name__)
            self._names[function] = name
            try:
                self._walk(function, name, "helper")
            except CaptureError as error:
                del self._names[function]
                self._refused[function] = error
                return None
        return self._names[function]

    def free_name(self, name: str) -> str:
        wanted, number = name, 1
        while wanted in self.module.functions:
            wanted, number = f"{name}_{number}", number + 1
        return wanted

    def serial_of(self, call: Gen[Any] | Select) -> int:
        """Return the number of a call that the module holds; those made in programs are above."""
        self._calls[call.serial] = call
        return -1 - list(self._calls).index(call.serial)

    # Places.

    def place_of(self, node: ast.AST, source: Source) -> Location:
        """Return the span of a node: of one that was kept, in the source where it stands."""
        return self._places.get(node) or source.locate(node)

    def keep_place(self, node: ast.AST, source: Source) -> None:
        """Note where a node stands: what it made may be appended by another file's code."""
        self._places.setdefault(node, source.locate(node))

    def node_of(self, made: Instruction | None, node: ast.AST) -> Any:
        """Return a node at the place where a live expression was made."""
        if made is None:
            return node
        place = span_of(made, str(self.folder or ""))
        found = self._made.get(place)
        if found is None:
            found = self._made[place] = ast.Constant(None)
            self._places[found] = place
        return found

    # Guards.

    def guard(self, frame: Frame, name: str, value: Any) -> None:
        """Note a constant that the module was specialised on."""
        function = frame.function
        key = f"{module_name(function)}.{name}"
        if name in function.__code__.co_freevars:
            key = f"{module_name(function)}.{function.__qualname__}.<closure>.{name}"

        def digest() -> str:
            return digest_of(frame.live_at(name))

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


class FunctionCapture(Tries):
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
        if is_generator(node):
            self.fail(first_yield(node), "a generator function cannot be captured", "return a list")
        others = [d for d in getattr(node, "decorator_list", ()) if not _binds_alone(d)]
        if len(others) > 1:
            self.fail(others[0], "a function with other decorators cannot be captured",
                      "leave only the program's own decorator")  # fmt: skip

    def shell(self, name: str, kind: str) -> Function:
        """Make the function with its parameters, its body still to come."""
        arguments = self.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if kind == "program":
            every = every[1:]
            if arguments.vararg or arguments.kwarg:
                self.fail(self.node, "a program with *args or **keywords cannot be captured",
                          "name its parameters")  # fmt: skip
        else:
            every = parameters_of(arguments)
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
        returns = getattr(self.node, "returns", None)
        if returns is not None and kind == "program":
            attributes["returns"] = ast.unparse(returns)
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
        drop_unread(made.body, self.hidden_reads)
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
        # States that are kept by number are no values outside of the program.
        is_returned = isinstance(self.root, Ref) and isinstance(value, (Ref, Element))
        is_state = is_returned and has_states(kind_of(value))
        found = self.content(value, node) if is_state else self.read(value, node)
        return self.defined(found, node) if self.may_be_undefined(found) else found

    def end_node(self) -> ast.AST:
        """Return the node that the function's end is told at: its last return, or its name."""
        returns = [inner for inner in ast.walk(self.node) if isinstance(inner, ast.Return)]
        return returns[-1] if returns else self.node

    def _return(self, values: list[Value], node: ast.AST) -> None:
        self.block.ops.append(Op("func.return", values, [], {}, [], self.locate(node)))


def _binds_alone(node: ast.expr) -> bool:
    """Whether a decorator only says how a function of a class is reached."""
    return isinstance(node, ast.Name) and node.id in ("staticmethod", "classmethod")


def capture(
    functions: Sequence[Any],
    *,
    folder: Path | None = None,
    left_out: Set[Location] = frozenset(),
) -> Captured:
    """Capture functions, or programs made of them, with all that they call, into a module.

    Args:
        functions: the programs; their names become the module's entries.
        folder: what source locations are relative to; the first function's folder by default.
        left_out: places of arguments of the language's words that are taken as not given, so
            that a diagnosis can go on behind one that is wrong.

    Raises:
        CaptureError: a graph break; tells the place, the reason and a remedy.
    """
    plain = [getattr(function, "__lmc_function__", function) for function in functions]
    if not plain:
        raise CaptureError("there is nothing to capture", hint="give at least one program")
    file = Path(plain[0].__code__.co_filename)
    made = ModuleCapture(file.stem, folder if folder is not None else file.parent, left_out)
    for function in plain:
        name = made.program(function)
        if name not in made.module.entries:
            made.module.entries.append(name)
    return made.finish()
