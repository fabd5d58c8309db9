"""Calls of the user's functions: inlined, embedded, nested programs, or left to the host."""

import ast
import inspect
from types import FunctionType
from typing import Any

from lmc.errors import CaptureError
from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.frame import Frame, local_names
from lmc.frontend.capture.methods import Methods
from lmc.frontend.capture.values import (
    Abstract,
    Called,
    Cell,
    Closure,
    Element,
    HostObject,
    Iterable,
    Known,
    Pieces,
    Plain,
    Ref,
    Tuple,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.types import EFFECT, PY, STATE, Attr, is_attr

PURE_BUILTINS = frozenset({
    "divmod", "pow", "hex", "bin", "oct", "format", "ascii", "frozenset", "complex", "bytes",
    "callable",
})  # fmt: skip

REFUSED = frozenset({
    "setattr", "delattr", "globals", "locals", "vars", "eval", "exec", "super", "iter", "next",
    "__import__", "compile", "dir", "getattr", "hasattr", "type", "map", "filter",
})  # fmt: skip

MAX_INLINED = 40

RUN_OPTIONS = frozenset({"backend", "seed", "mode", "passes", "on_event"})
RUN_DEFAULTS = frozenset({
    "max_tokens", "min_tokens", "stop", "stop_token_ids", "temperature", "top_p", "top_k",
    "min_p", "ignore_eos", "return_logprob",
})  # fmt: skip


class Inlining(Methods):
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
            if any(map(_needs_inlining, every)):
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
            if any(isinstance(a, Ref) for a in arguments) and self.module.changes_arguments(
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
        self._set_effect(made[0])
        every = [*arguments, *keywords.values()]
        found = self.derived(made[1], every)
        assert isinstance(found, Ref)
        found.cell.external = f"what '{function.__name__}' gave, which may belong to others"
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

    def _set_effect(self, effect: Value) -> None:
        effect.hint = "effect"
        self.store.contents[self.effect] = effect

    # Host functions.

    def host_call(
        self,
        obj: Any,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Call a function by its import name when the program runs."""
        for value in (*arguments, *keywords.values()):
            if has_states(kind_of(value)) or isinstance(value, (Pieces, Closure)):
                self.fail(node, f"'{name}' cannot take {describe(value)}",
                          "only functions written in Python, whose source is at hand, can")  # fmt: skip
        callee = self._import_name(obj, name, node)
        self.module.host[callee] = obj
        operands = [self.read(value, node) for value in (*arguments, *keywords.values())]
        named = self.keywords_of(keywords)
        is_pure = getattr(obj, "__lmc_effects__", None) == "none" or (
            callee.startswith("builtins:") and callee.partition(":")[2] in PURE_BUILTINS
        )
        if is_pure:
            made = self.emit("host.pure", operands, [PY], node, callee=callee, **named)[0]
        else:
            effect = self.store.contents[self.effect]
            results = self.emit(
                "host.call", [effect, *operands], [EFFECT, PY], node, callee=callee, **named
            )
            self._set_effect(results[0])
            made = results[1]
        return self.fresh(
            made, external=f"what '{name}' gave, which may belong to others", from_host=True
        )

    def _import_name(self, obj: Any, name: str, node: ast.AST) -> str:
        module = getattr(obj, "__module__", None)
        qualname = getattr(obj, "__qualname__", None)
        if module == "builtins" and qualname in REFUSED:
            self.fail(node, f"'{name}' cannot be captured", "write it another way")
        if not module or not qualname or not callable(obj):
            self.fail(node, f"'{name}' is no function that can be imported",
                      "call a function or class of a module")  # fmt: skip
        if "<" in qualname:
            self.fail(node, f"'{name}' is made inside another function and cannot be imported",
                      "define it at the top of its module")  # fmt: skip
        return f"{module}:{qualname}"

    def host_method(  # type: ignore[override]
        self,
        receiver: Abstract,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Call a method of an object of unknown kind."""
        if not isinstance(receiver, (Ref, Element)) or kind_of(receiver) != PY:
            self.fail(node, f"{kind_of(receiver)} has no method '{name}' that a program can use",
                      "use another, or call a function of your own")  # fmt: skip
        effect = self.store.contents[self.effect]
        every = [receiver, *arguments, *keywords.values()]
        operands = [effect, *(self.read(value, node) for value in every)]
        results = self.emit(
            "host.method", operands, [EFFECT, PY], node, name=name, **self.keywords_of(keywords)
        )
        self._set_effect(results[0])
        return self.fresh(
            results[1], external=f"what '{name}' gave, which may belong to others", from_host=True
        )

    # Nested programs.

    def program_call(self, program: Any, node: ast.Call) -> Abstract:
        """Call another program: a state of its own, which ends with the call."""
        function = program.__lmc_function__
        name = function.__name__
        own = list(inspect.signature(function).parameters)[1:]
        defaults: dict[str, Attr] = {}
        arguments, keywords = [], {}
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                self.fail(
                    argument, "starred arguments of a program cannot be captured", "name them"
                )
            arguments.append(self.expression(argument))
        for keyword in node.keywords:
            key = keyword.arg
            if key in own and key is not None:
                keywords[key] = self.expression(keyword.value)
            elif key in RUN_DEFAULTS:
                value = self.static(keyword.value)
                if not is_attr(value):
                    self.fail(keyword.value, f"{key}= of a nested program must be a constant",
                              f"make it an argument of '{name}'")  # fmt: skip
                if value is not None:
                    defaults[key] = value
            else:
                what = "is set by the outermost run" if key in RUN_OPTIONS else "is not known"
                self.fail(keyword.value, f"'{key}' of '{name}' {what}", "leave it out")
        operands = self._program_arguments(function, arguments, keywords, node)
        return self._program_op(self.module.program(function), operands, defaults, node)

    def _program_arguments(
        self,
        function: FunctionType,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.AST,
    ) -> list[Value]:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        try:
            bound = inspect.Signature(parameters).bind(*arguments, **keywords)
        except TypeError as error:
            self.fail(node, f"{function.__name__}: {error}", "check the call")
        operands: list[Value] = []
        for parameter in parameters:
            value = bound.arguments.get(parameter.name)
            if value is None:
                name = f"{function.__name__}.{parameter.name}"
                value = self.from_python(parameter.default, name, node)
            operands.append(self.read(value, node))
        return operands

    def _program_op(
        self, callee: str, operands: list[Value], defaults: dict[str, Attr], node: ast.AST
    ) -> Abstract:
        caller = self.root
        self.check_callable(caller, node)
        before = self.content(caller, node)
        effect = self.store.contents[self.effect]
        named = {"defaults": defaults} if defaults else {}
        made = self.emit("func.call", [effect, before, *operands], [EFFECT, STATE, STATE, PY], node,
                         callee=callee, **named)  # fmt: skip
        self._set_effect(made[0])
        self.count_call(caller, made[1], before.hint, node)
        made[2].hint, made[3].hint = callee, "value"
        cell = Cell(STATE, callee, external="the state of a program that has ended")
        self.store.contents[cell] = made[2]
        value = self.fresh(made[3], external=f"what '{callee}' returned")
        return Called(Ref(cell), value)

    root: Ref


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
