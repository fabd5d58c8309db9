"""Calls of the user's functions: inlined, embedded, nested programs, or left to the host."""

import ast
import inspect
from types import FunctionType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.emitter import is_state, kind_of
from lmc.frontend.capture.frame import Frame, local_names
from lmc.frontend.capture.nested import NestedPrograms
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.values import (
    Abstract,
    Closure,
    Element,
    HostObject,
    Iterable,
    Known,
    Plain,
    Ref,
    Tuple,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.types import EFFECT, PY

MAX_INLINED = 40


class Inlining(NestedPrograms):
    """Walks calls of functions that somebody wrote."""

    def host_object_call(
        self,
        obj: Any,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Call a live function or class of the program's module."""
        every = [*arguments, *keywords.values()]
        if isinstance(obj, FunctionType) and not hasattr(obj, "__lmc_effects__"):
            if any(map(_needs_inlining, every)) or self.module.facts.uses_language(obj):
                return self.inline(HostObject(obj, name), arguments, keywords, node)
            embedded = self._embedded(obj, arguments, keywords, node)
            if embedded is not None:
                return embedded
        return self.host_call(obj, name, arguments, keywords, node)

    # Inlining.

    def inline(  # type: ignore[override]
        self,
        callee: Abstract,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.AST,
    ) -> Abstract:
        """Walk a function's body in place of a call."""
        if isinstance(callee, HostObject):
            frame, defaults = self._module_frame(callee, node)
        else:
            assert isinstance(callee, Closure)
            names, nonlocals = local_names(callee.node)
            outer = callee.frame
            frame = Frame(self.fresh_id(), outer.source, callee.node, outer.function, outer,
                          names, nonlocals)  # fmt: skip
            defaults = (callee.defaults, callee.keyword_defaults)
        body = frame.node
        assert isinstance(body, (ast.FunctionDef, ast.Lambda))
        if body in self.inlined or len(self.inlined) >= MAX_INLINED:
            self.fail(node, "a function that takes states or expressions calls itself",
                      "use a loop, or make it a program of its own")  # fmt: skip
        self._bind_parameters(frame, body, arguments, keywords, defaults, node)
        return self._walk_body(frame, body, node)

    def _module_frame(self, callee: HostObject, node: ast.AST) -> tuple[Frame, Any]:
        function = callee.obj
        if not isinstance(function, FunctionType):
            self.fail(node, f"'{callee.name}' cannot take a state or an expression of the language",
                      "only functions written in Python can")  # fmt: skip
        try:
            source, body = self.module.find(function)
        except CaptureError as error:
            self.fail(node, f"'{callee.name}' takes a state, but {error.message}",
                      error.hint or "keep it in a file")  # fmt: skip
        if isinstance(body, ast.AsyncFunctionDef) or _is_generator(body):
            self.fail(node, f"'{callee.name}' is async or a generator", "write a plain function")
        self.module.guard_function(self.frame, callee.name, function)
        names, nonlocals = local_names(body)
        frame = Frame(self.fresh_id(), source, body, function, None, names, nonlocals)
        outer, self.frame = self.frame, frame
        given = inspect.signature(function).parameters.values()
        positional = tuple(
            self.from_python(p.default, f"{callee.name}.{p.name}", body)
            for p in given
            if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY
        )
        keyword = tuple(
            None if p.default is p.empty
            else self.from_python(p.default, f"{callee.name}.{p.name}", body)
            for p in given if p.kind is p.KEYWORD_ONLY
        )  # fmt: skip
        self.frame = outer
        return frame, (positional, keyword)

    def _bind_parameters(
        self,
        frame: Frame,
        body: ast.FunctionDef | ast.Lambda,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        defaults: tuple[tuple[Abstract, ...], tuple[Abstract | None, ...]],
        node: ast.AST,
    ) -> None:
        args = body.args
        if args.kwarg is not None:
            self.fail(node, "a function with **keywords cannot be captured", "name its parameters")
        positional = [*args.posonlyargs, *args.args]
        bound: dict[str, Abstract] = {}
        given = dict(keywords)
        for index, parameter in enumerate(positional):
            from_end = len(positional) - index
            if index < len(arguments):
                bound[parameter.arg] = arguments[index]
            elif parameter.arg in given and parameter not in args.posonlyargs:
                bound[parameter.arg] = given.pop(parameter.arg)
            elif from_end <= len(defaults[0]):
                bound[parameter.arg] = defaults[0][-from_end]
            else:
                self.fail(node, f"the argument '{parameter.arg}' is missing", "give it")
        if len(arguments) > len(positional) and args.vararg is None:
            self.fail(node, f"{len(arguments)} positional arguments where "
                      f"{len(positional)} fit", "leave some out")  # fmt: skip
        if args.vararg is not None:
            bound[args.vararg.arg] = Tuple(tuple(arguments[len(positional) :]))
        for parameter, default in zip(args.kwonlyargs, defaults[1], strict=True):
            value = given.pop(parameter.arg, default)
            if value is None:
                self.fail(node, f"the argument '{parameter.arg}' is missing", "give it by name")
            bound[parameter.arg] = value
        if given:
            self.fail(node, f"the function has no free parameter '{next(iter(given))}'",
                      "check the call")  # fmt: skip
        for name, value in bound.items():
            if isinstance(value, Iterable):
                self.fail(node, "an iterator cannot be passed on", "make it a list first")
            self.store.names[frame.id, name] = value

    def _walk_body(
        self, frame: Frame, body: ast.FunctionDef | ast.Lambda, node: ast.AST
    ) -> Abstract:
        outer, self.frame = self.frame, frame
        self.inlined.append(body)
        before, self.called = self.called, None
        if isinstance(body, ast.Lambda):
            found = self.expression(body.body)
        else:
            self.begin_function()
            self.statements(body.body)
            found = self.end_function()
        self.called = before
        self.inlined.pop()
        if not frame.made_closure:
            self.drop_names(frame)
        self.frame = outer
        return found

    def begin_function(self) -> None:
        """Set the running frame's flags: nothing returned yet."""
        self.store.names[self.frame.id, "$return"] = Known(False)
        self.store.names[self.frame.id, "$result"] = Known(None)

    def end_function(self) -> Abstract:
        """Return what the running frame's function returned."""
        return self.store.names[self.frame.id, "$result"]

    # Functions of plain values.

    def _embedded(
        self,
        function: FunctionType,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract | None:
        """Call a function that capture could turn into IR; None if it could not."""
        if not all(isinstance(a, (Known, Plain, Ref, Element, Tuple))
                   for a in [*arguments, *keywords.values()]):  # fmt: skip
            return None
        name = self.module.helper(function)
        if name is None:
            if any(isinstance(a, Ref) for a in arguments) and self.module.facts.changes_arguments(
                function
            ):
                return self.inline(
                    HostObject(function, function.__name__), arguments, keywords, node
                )
            return None
        self.module.guard_function(self.frame, function.__name__, function)
        operands = self._plain_arguments(function, arguments, keywords, node)
        effect = self.store.contents[self.effect]
        made = self.emit("func.apply", [effect, *operands], [EFFECT, PY], node, callee=name)
        self.set_effect(made[0])
        what = f"what '{function.__name__}' gave, which may belong to others"
        found = self.fresh(made[1], external=what)
        assert isinstance(found, Ref)
        for cell in (c for value in (*arguments, *keywords.values()) for c in cells_of(value)):
            self.aliases.same(found.cell, cell)
        return found

    def _plain_arguments(
        self,
        function: FunctionType,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.AST,
    ) -> list[Value]:
        """Return one operand per parameter, defaults filled in."""
        try:
            bound = inspect.signature(function).bind(*arguments, **keywords)
        except TypeError as error:
            self.fail(node, f"{function.__name__}: {error}", "check the call")
        operands: list[Value] = []
        for name, parameter in inspect.signature(function).parameters.items():
            value = bound.arguments.get(name)
            if value is None:
                value = self.from_python(parameter.default, f"{function.__name__}.{name}", node)
            operands.append(self.read(value, node))
        return operands


def _needs_inlining(value: Abstract) -> bool:
    """Whether an argument exists only while the program is captured."""
    if isinstance(value, Tuple):
        return any(map(_needs_inlining, value.items))
    return (
        is_state(value)
        or has_states(kind_of(value))
        or not isinstance(value, (Known, Plain, Ref, Element))
    )


def _is_generator(body: ast.AST) -> bool:
    return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(body))
