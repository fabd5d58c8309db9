"""Objects of the program's module: their methods, partial functions, properties, containers."""

import ast
import enum
import functools
import inspect
from types import FunctionType, MethodType
from typing import Any

from lmc.frontend.capture.members import unspread
from lmc.frontend.capture.parameters import Parameters
from lmc.frontend.capture.values import Abstract, HostObject, Partial, Tuple

Arguments = tuple[list[Abstract], dict[str, Abstract]]


class Objects(Parameters):
    """Takes live objects apart as far as they are made of Python functions."""

    def attribute_of(self, host: HostObject, attribute: str, node: ast.AST) -> Abstract:
        """Read an attribute of a live object; a property is a call of its function."""
        found = inspect.getattr_static(host.obj, attribute, None)
        if isinstance(found, property) and isinstance(found.fget, FunctionType):
            name = f"{host.name}.{attribute}"
            return self.inline(HostObject(found.fget, name), [host], {}, node)
        return super().attribute_of(host, attribute, node)

    def function_behind(
        self, obj: Any, name: str, given: Arguments, node: ast.AST
    ) -> tuple[Any, Arguments]:
        """Return the function that a method, partial or callable object leads to.

        What it is called with comes with it: the object itself, what a partial holds.
        """
        arguments, keywords = given
        while True:
            call = inspect.getattr_static(type(obj), "__call__", None)
            if isinstance(obj, functools.partial):
                held = [self.from_python(a, f"{name}.args", node) for a in obj.args]
                named = {
                    key: self.from_python(a, f"{name}.{key}", node)
                    for key, a in obj.keywords.items()
                }
                arguments, keywords = [*held, *arguments], {**named, **keywords}
                obj = obj.func
            elif isinstance(obj, MethodType):
                owner = HostObject(obj.__self__, name.rpartition(".")[0] or name)
                arguments, obj = [owner, *arguments], obj.__func__
            elif isinstance(call, FunctionType) and not isinstance(obj, type):
                arguments, obj = [HostObject(obj, name), *arguments], call
            else:
                return obj, (arguments, keywords)

    def is_of_language(self, function: Any, given: Arguments) -> bool:
        """Whether a call must be walked: it takes states or pieces, or makes some."""
        if not isinstance(function, FunctionType) or hasattr(function, "__lmc_effects__"):
            return False
        every = [*map(unspread, given[0]), *given[1].values()]
        others = [value for value in every if not isinstance(value, HostObject)]
        return any(map(self.needs_inlining, others)) or self.module.facts.uses_language(function)

    def partial_call(self, value: Partial, given: Arguments, node: ast.Call) -> Abstract:
        """Call what functools.partial made inside the program."""
        arguments, keywords = [*value.arguments, *given[0]], {**value.keywords, **given[1]}
        return self.call_with(value.function, arguments, keywords, node)

    def opened(self, value: Abstract, node: ast.AST) -> Abstract:  # type: ignore[override]
        """Return a live list, tuple or dict of objects, or an enum, as a container of them."""
        if not isinstance(value, HostObject):
            return value
        obj, name = value.obj, value.name
        if isinstance(obj, enum.EnumMeta):
            return Tuple(tuple(HostObject(m, f"{name}.{m.name}") for m in obj))  # type: ignore
        if type(obj) in (list, tuple):
            items = (self.from_python(item, f"{name}[{i}]", node) for i, item in enumerate(obj))
            return Tuple(tuple(items))
        if type(obj) is dict and all(type(key) is str for key in obj):
            fields = {
                key: self.from_python(item, f"{name}[{key!r}]", node, is_guarded=False)
                for key, item in obj.items()
            }
            return self.dict_with(fields, node)
        return value

    inline: Any
    call_with: Any
    needs_inlining: Any
