"""Calls that the host makes when the program runs: functions by import name, methods."""

import ast
import enum
import sys
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

from lmc.frontend.capture.emitter import describe, kind_of
from lmc.frontend.capture.members import unspread
from lmc.frontend.capture.methods import Methods
from lmc.frontend.capture.values import (
    Abstract,
    Closure,
    Element,
    HostObject,
    Pieces,
    Ref,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.types import EFFECT, PY, is_attr

PURE_BUILTINS = frozenset({
    "divmod", "pow", "hex", "bin", "oct", "format", "ascii", "frozenset", "complex", "bytes",
    "callable",
})  # fmt: skip

REFUSED = frozenset({
    "setattr", "delattr", "globals", "locals", "vars", "eval", "exec", "super", "iter", "next",
    "__import__", "compile", "dir", "getattr", "hasattr", "type", "map", "filter",
})  # fmt: skip


class HostCalls(Methods):
    """Walks calls of functions that stay outside of the IR."""

    def set_effect(self, effect: Value) -> None:
        """Make an effect token the latest."""
        effect.hint = "effect"
        self.store.contents[self.effect] = effect

    def raw(self, abstract: Abstract, node: ast.AST) -> Value:
        """Read a value; a member of an enum is its class called with the member's own value."""
        if not isinstance(abstract, HostObject) or not isinstance(abstract.obj, enum.Enum):
            return super().raw(abstract, node)
        member = abstract.obj
        if not is_attr(member.value):
            self.fail(node, f"'{abstract.name}' has a value that cannot be written down",
                      "give the enum's members values of text or numbers")  # fmt: skip
        callee = self.import_name(type(member), type(member).__name__, node)
        self.module.host[callee] = type(member)
        operands = [self.constant(member.value, node)]
        return self.emit("host.pure", operands, [PY], node, callee=callee)[0]

    def host_call(
        self,
        obj: Any,
        name: str,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Call a function by its import name when the program runs."""
        every = [*map(unspread, arguments), *keywords.values()]
        for value in every:
            if has_states(kind_of(value)) or isinstance(value, (Pieces, Closure)):
                self.fail(node, f"'{name}' cannot take {describe(value)}",
                          "only functions written in Python can")  # fmt: skip
        if any(isinstance(value, Ref) for value in every):
            if self.module.facts.changes_arguments(obj):
                self.fail(node, f"'{name}' changes what it is given, out of the program's sight",
                          "let it return the changed value")  # fmt: skip
        callee = self.import_name(obj, name, node)
        self.module.host[callee] = obj
        operands, named = self.passed(arguments, keywords, node)
        is_pure = (
            getattr(obj, "__lmc_effects__", None) == "none"
            or isinstance(obj, enum.EnumMeta)
            or (callee.startswith("builtins:") and callee.partition(":")[2] in PURE_BUILTINS)
        )
        if is_pure:
            made = self.emit("host.pure", operands, [PY], node, callee=callee, **named)[0]
        else:
            effect = self.store.contents[self.effect]
            results = self.emit(
                "host.call", [effect, *operands], [EFFECT, PY], node, callee=callee, **named
            )
            self.set_effect(results[0])
            made = results[1]
        return self.fresh(
            made, external=f"what '{name}' gave, which may belong to others", from_host=True
        )

    def import_name(self, obj: Any, name: str, node: ast.AST) -> str:
        """Return 'module:qualname' of a live function, after checking where it leads."""
        qualname = getattr(obj, "__qualname__", None)
        if module_name(obj) == "builtins" and qualname in REFUSED:
            self.fail(node, f"'{name}' cannot be captured", "write it another way")
        found = self.import_name_of(obj, name)
        if found is None:
            self.fail(node, f"'{name}' cannot be found again by a name of its module",
                      "define it at the top of a module, under its own name")  # fmt: skip
        return found

    def import_name_of(self, obj: Any, name: str) -> str | None:
        """Return 'module:qualname' of a live function, None where no name leads to it."""
        module, qualname = module_name(obj), getattr(obj, "__qualname__", None)
        home = sys.modules.get(getattr(obj, "__module__", None) or "")
        for path in (qualname, getattr(obj, "__name__", None)):
            if path and module and "<" not in path:
                if home is not None and _reached(home, path) != obj:
                    continue
                return f"{module}:{path}"
        # A method of an object of the program's module, or an object that can be called.
        function = self.frame.function
        if callable(obj) and _reached(SimpleNamespace(**function.__globals__), name) == obj:
            return f"{module_name(function)}:{name}"
        if isinstance(obj, FunctionType) and "<locals>" in obj.__qualname__:
            return self._local_name(obj)
        return None

    def _local_name(self, obj: FunctionType) -> str:
        """Return a name of a function that is defined inside another: of this process only."""
        name = found = f"{module_name(obj)}:{obj.__qualname__}"
        number = 1
        while self.module.host.get(found, obj) is not obj:
            number += 1
            found = f"{name}#{number}"
        return found

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
        operands, named = self.passed([receiver, *arguments], keywords, node)
        results = self.emit(
            "host.method", [effect, *operands], [EFFECT, PY], node, name=name, **named
        )
        self.set_effect(results[0])
        return self.fresh(
            results[1], external=f"what '{name}' gave, which may belong to others", from_host=True
        )


def module_name(obj: Any) -> str | None:
    """Return the name of an object's module; the main module goes by its file's name."""
    module = getattr(obj, "__module__", None)
    if module != "__main__":
        return module
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).stem if file else module


def _reached(home: Any, path: str) -> Any:
    """Return what a dotted path leads to from a module, None where it leads nowhere."""
    for part in path.split("."):
        home = getattr(home, part, None)
    return home
