"""Calls of other programs."""

import ast
import inspect
from types import FunctionType
from typing import Any

from lmc.frontend.capture.host_calls import HostCalls
from lmc.frontend.capture.values import Abstract, Called, Cell, Element, Ref, has_states
from lmc.ir.core import Value
from lmc.ir.expressions import RUN_NAMES, RUN_PARAMS
from lmc.ir.types import EFFECT, PY, STATE, Attr, is_attr

RUN_OPTIONS = frozenset({
    "backend", "seed", "mode", "passes", "on_event", "stream", "timeout",
})  # fmt: skip


class NestedPrograms(HostCalls):
    """Walks calls of programs."""

    root: Ref | Element | None = None

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
            elif key in RUN_PARAMS and key is not None:
                value = self.static_content(keyword.value)
                if not is_attr(value):
                    self.fail(keyword.value, f"{key}= of a nested program must be a constant",
                              f"make it an argument of '{name}'")  # fmt: skip
                if value is not None:
                    known_as = RUN_NAMES.get(key, key)
                    defaults[known_as] = self.checked(known_as, value, keyword.value)
            else:
                what = "is set by the outermost run" if key in RUN_OPTIONS else "is not known"
                self.fail(keyword.value, f"'{key}' of '{name}' {what}", "leave it out")
        fixed = getattr(program, "__lmc_fixed__", {})
        operands = self._program_arguments(function, fixed, arguments, keywords, node)
        return self._program_op(self.module.program(function), operands, defaults, node)

    def _program_arguments(
        self,
        function: FunctionType,
        fixed: dict[str, Any],
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.AST,
    ) -> list[Value]:
        """Return a value per parameter; `fixed` are those that bind() has set before."""
        parameters = list(inspect.signature(function).parameters.values())[1:]
        free = [parameter for parameter in parameters if parameter.name not in fixed]
        try:
            bound = inspect.Signature(free).bind(*arguments, **keywords)
        except TypeError as error:
            self.fail(node, f"{function.__name__}: {error}", "check the call")
        operands: list[Value] = []
        for parameter in parameters:
            value = bound.arguments.get(parameter.name)
            if value is None:
                name = f"{function.__name__}.{parameter.name}"
                default = fixed.get(parameter.name, parameter.default)
                value = self.from_python(default, name, node)
            operands.append(self.read(value, node))
        return operands

    def _program_op(
        self, callee: str, operands: list[Value], defaults: dict[str, Attr], node: ast.AST
    ) -> Abstract:
        caller = self.root
        if caller is None:
            self.fail(node, "a program is called where none is running", "call it from a program")
        self.check_callable(caller, node)
        before = self.content(caller, node)
        if self.tries:
            self.note_failed_call(caller, before, node)
        effect = self.store.contents[self.effect]
        named = {"defaults": defaults} if defaults else {}
        made = self.emit("func.call", [effect, before, *operands], [EFFECT, STATE, STATE, PY], node,
                         callee=callee, **named)  # fmt: skip
        self.set_effect(made[0])
        self.count_call(caller, made[1], before.hint, node)
        made[2].hint, made[3].hint = callee, "value"
        cell = Cell(STATE, callee, external="the state of a program that has ended")
        self.store.contents[cell] = made[2]
        returned = self._returned_state(callee, node)
        if returned:
            return Called(Ref(cell), Ref(cell))
        value = self.fresh(made[3], external=f"what '{callee}' returned")
        return Called(Ref(cell), value)

    def _returned_state(self, callee: str, node: ast.AST) -> bool:
        """Whether a program returns its own state; other states cannot be taken from it."""
        ops = self.module.module.functions[callee].body.ops
        if not ops or ops[-1].name != "func.return":
            return False  # still being captured
        _, state, value = ops[-1].operands
        if not has_states(value.type):
            return False
        if value is not state:
            self.fail(node, f"'{callee}' returns states, which its caller cannot take",
                      "return what is read from them")  # fmt: skip
        return True
