"""Calls of the user's functions: inlined, embedded, nested programs, or left to the host."""

import ast
import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodDescriptorType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.emitter import is_state, kind_of
from lmc.frontend.capture.frame import Frame, is_generator, local_names
from lmc.frontend.capture.members import unspread
from lmc.frontend.capture.parameters import Defaults, parameters_of
from lmc.frontend.capture.recursion import CallsItself, Recursion
from lmc.frontend.capture.source import is_installed
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.values import (
    Abstract,
    Closure,
    Element,
    HostObject,
    Known,
    Plain,
    Ref,
    Tuple,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.evaluate import METHODS
from lmc.ir.types import EFFECT, PY

MAX_INLINED = 40


class Inlining(Recursion):
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
        if isinstance(obj, MethodDescriptorType) and arguments and obj.__name__ in METHODS:
            receiver, *rest = arguments
            return self.data_method(receiver, obj.__name__, rest, keywords, node)
        function, given = self.function_behind(obj, name, (arguments, keywords), node)
        if function is not obj and isinstance(function, FunctionType):
            word = self.from_python(function, name, node)
            if not isinstance(word, HostObject):
                return self.call_with(word, *given, node)
            is_named = self.import_name_of(obj, name) is not None
            is_partial = isinstance(obj, functools.partial)
            if is_partial or not is_named or self.is_of_language(function, given):
                called = name if is_partial else f"{name}()"
                return self.host_object_call(function, called, *given, node)
        every = [*map(unspread, arguments), *keywords.values()]
        if isinstance(obj, FunctionType) and not hasattr(obj, "__lmc_effects__"):
            is_walked = inspect.isgeneratorfunction(obj) or any(map(self.needs_inlining, every))
            if is_walked or self.module.facts.uses_language(obj):
                return self._walk_live(obj, name, arguments, keywords, node)
            embedded = self._embedded(obj, arguments, keywords, node)
            if embedded is not None:
                return embedded
        return self.host_call(obj, name, arguments, keywords, node)

    # Inlining.

    def _walk_live(
        self,
        function: FunctionType,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Inline a live function; what breaks in an installed one is told at the call."""
        caller = self.frame
        try:
            return self.inline(HostObject(function, name), arguments, keywords, node)
        except CaptureError as error:
            if not is_installed(function) or is_installed(caller.function):
                raise
            self.frame = caller
            self.fail(node, f"'{name}' cannot be captured: {error.message}",
                      "call it in a function of your own that takes and gives values")  # fmt: skip

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
        if body in self.inlined and body not in self.module.recursive:
            raise CallsItself(body)
        if len(self.inlined) >= MAX_INLINED:
            self.fail(node, f"calls of helpers are nested deeper than {MAX_INLINED}",
                      "make a part a program of its own")  # fmt: skip
        self._bind_parameters(frame, body, arguments, keywords, defaults, node)
        if is_generator(body):
            frame.made_closure = True
            return self.generator(body, frame)
        if body in self.module.recursive:
            return self.recursive_call(frame, body, node)
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
        if isinstance(body, ast.AsyncFunctionDef):
            self.fail(node, f"'{callee.name}' is async", "write a plain function")
        self.module.guard_function(self.frame, callee.name, function)
        names, nonlocals = local_names(body)
        frame = Frame(self.fresh_id(), source, body, function, None, names, nonlocals)
        outer, self.frame = self.frame, frame
        defaults = self._defaults_of(function, callee.name, body)
        self.frame = outer
        return frame, defaults

    def _defaults_of(self, function: FunctionType, name: str, node: ast.AST) -> Defaults:
        """Return the defaults of a live function's parameters."""
        given = inspect.signature(function).parameters.values()
        positional = tuple(
            self.from_python(p.default, f"{name}.{p.name}", node)
            for p in given
            if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY
        )
        keyword = tuple(
            None if p.default is p.empty
            else self.from_python(p.default, f"{name}.{p.name}", node)
            for p in given if p.kind is p.KEYWORD_ONLY
        )  # fmt: skip
        return positional, keyword

    def _bind_parameters(
        self,
        frame: Frame,
        body: ast.FunctionDef | ast.Lambda,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        defaults: Defaults,
        node: ast.AST,
    ) -> None:
        for name, value in self.bound(
            body.args, arguments, keywords, defaults, node, getattr(body, "name", "<lambda>")
        ).items():
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

    def needs_inlining(self, value: Abstract) -> bool:
        """Whether an argument exists only while the program is captured."""
        if isinstance(value, Tuple):
            return any(map(self.needs_inlining, value.items))
        return (
            is_state(value)
            or has_states(kind_of(value))
            or not isinstance(value, (Known, Plain, Ref, Element))
        )

    generator: Callable[..., Abstract]

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
        every = [*map(unspread, arguments), *keywords.values()]
        if not all(isinstance(a, (Known, Plain, Ref, Element, Tuple)) for a in every):
            return None
        name = self.module.helper(function)
        if name is None:
            if any(isinstance(a, Ref) for a in every) and self.module.facts.changes_arguments(
                function
            ):
                return self._walk_live(function, function.__name__, arguments, keywords, node)
            return None
        self.module.guard_function(self.frame, function.__name__, function)
        operands = self._plain_arguments(function, arguments, keywords, node)
        effect = self.store.contents[self.effect]
        made = self.emit("func.apply", [effect, *operands], [EFFECT, PY], node, callee=name)
        self.set_effect(made[0])
        what = f"what '{function.__name__}' gave, which may belong to others"
        found = self.fresh(made[1], external=what)
        assert isinstance(found, Ref)
        for cell in (cell for value in every for cell in cells_of(value)):
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
        _, body = self.module.find(function)
        defaults = self._defaults_of(function, function.__name__, node)
        bound = self.bound(
            body.args, arguments, keywords, defaults, node, getattr(body, "name", "<lambda>")
        )
        return [self.read(bound[argument.arg], node) for argument in parameters_of(body.args)]
