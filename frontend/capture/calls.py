"""Calls: what is called, its arguments, builtins, and calls of host functions."""

import ast
import builtins
import functools
from collections.abc import Callable
from typing import Any, TypeGuard

from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.members import Given, Spread, no_spread, unspread
from lmc.frontend.capture.sorting import Sorting
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.types import FLAT_CALLS, FRESH_CALLS, PICKING_CALLS, call_type
from lmc.frontend.capture.values import (
    LAZY,
    Abstract,
    Builtin,
    Closure,
    Element,
    Generator,
    HostObject,
    Iterable,
    Known,
    Method,
    Numbered,
    Packed,
    PackedKind,
    Partial,
    Plain,
    ProgramRef,
    Ref,
    Remaining,
    Tuple,
    TypeOf,
    Word,
    has_states,
    plain_list,
)
from lmc.frontend.limits import is_maker
from lmc.ir.core import Value
from lmc.ir.evaluate import FUNCTIONS
from lmc.ir.types import PY, TEXT, Type

CONSUMERS = frozenset({
    "list", "tuple", "set", "sorted", "sum", "min", "max", "dict", "enumerate", "zip", "reversed",
    "map", "filter", "any", "all",
})  # fmt: skip
"""Functions that use up a generator at once."""

_CLASS_NAMES = ("int", "float", "str", "bool", "list", "dict", "tuple", "set")


class Calls(Sorting):
    """Walks call expressions."""

    def _expr_Call(self, node: ast.Call) -> Abstract:
        before, self.called = self.called, node.func
        callee = self.expression(node.func)
        self.called = before
        return self.call_of(callee, self.expanded(node))

    def call_of(self, callee: Abstract, node: ast.Call) -> Abstract:
        """Walk a call of something."""
        match callee:
            case Packed():
                given = self.walked(node)
                return self.by_template(callee, node, lambda found: self.call_of(found, given))
            case Word(name):
                return self.word_call(name, node)
            case Method():
                return self.method_call(callee, node)
            case ProgramRef(program):
                return self.program_call(program, node)
            case Builtin(name):
                return self._builtin(name, node)
            case Closure():
                arguments, keywords = self.call_arguments(node)
                return self.inline(callee, arguments, keywords, node)
            case HostObject(obj=functools.partial) if node.args:
                function, *held = (self.expression(argument) for argument in node.args)
                named = {k.arg or "**": self.expression(k.value) for k in node.keywords}
                return Partial(function, tuple(held), named)
            case HostObject(obj=maker) if is_maker(maker):
                return self.limit_call(callee, node)
            case HostObject() | Partial():
                arguments, keywords = self.call_arguments(node)
                return self.call_with(callee, arguments, keywords, node)
            case _:
                self.fail(node.func, f"{describe(callee)} cannot be called here",
                          "call a function by its name")  # fmt: skip

    def call_arguments(  # type: ignore[override]
        self, node: ast.Call
    ) -> tuple[list[Abstract], dict[str, Abstract]]:
        """Walk a call's arguments in order."""
        arguments: list[Abstract] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                arguments.append(Spread(self.expression(argument.value)))
            else:
                arguments.append(self.argument(argument, node))
        keywords: dict[str, Abstract] = {}
        for keyword in node.keywords:
            name = keyword.arg or "**"
            if name in keywords:
                self.fail(keyword.value, "several ** of unknown keys", "merge the dicts before")
            keywords[name] = self.expression(keyword.value)
        return arguments, keywords

    def _is_of_unknown_length(self, node: ast.Call) -> bool:
        return any(isinstance(argument, ast.Starred) for argument in node.args) or any(
            keyword.arg is None for keyword in node.keywords
        )

    def argument(self, argument: ast.expr, call: ast.Call) -> Abstract:
        """Walk one argument; `sep.join(x for ...)` uses a generator up."""
        joins = isinstance(call.func, ast.Attribute) and call.func.attr in ("join", "extend")
        return self.consumed(argument) if joins else self.expression(argument)

    def consumed(self, node: ast.expr) -> Abstract:  # type: ignore[override]
        """Walk an argument that is used up at once, so that a generator may be a list."""
        if isinstance(node, ast.GeneratorExp):
            return self.comprehension(node)
        return self.as_list(self.expression(node), node)

    def consumable(self, node: ast.expr) -> Abstract:
        """Walk an argument; a generator becomes a list, an iterator stays one."""
        is_generator = isinstance(node, ast.GeneratorExp)
        return self.comprehension(node) if is_generator else self.expression(node)

    def as_list(self, value: Abstract, node: ast.AST) -> Abstract:  # type: ignore[override]
        """Turn an iterator into a list, leave the rest."""
        return self.listed(value, node) if isinstance(value, LAZY) else value

    # Builtins.

    def _builtin(self, name: str, node: ast.Call) -> Abstract:
        if self._is_of_unknown_length(node):
            arguments, keywords = self.call_arguments(node)
            if name not in FUNCTIONS or name == "isinstance":
                return self.host_object_call(_live(name), name, arguments, keywords, node)
            return self.plain_call(name, arguments, node, keywords)
        if name in ("any", "all") and len(node.args) == 1:
            if isinstance(node.args[0], ast.GeneratorExp):
                return self.quantified(node.args[0], is_any=name == "any")
        if name == "next" and len(node.args) == 2 and isinstance(node.args[0], ast.GeneratorExp):
            # Python computes the default before the generator's first step, after its first
            # iterable; a default with calls in it would need that order.
            if self.static(node.args[1]) is None or not isinstance(node.args[1], ast.Call):
                return self.first_of(node.args[0], self.expression(node.args[1]))
        if name == "isinstance":
            return self._isinstance(node)
        if name == "next" and 1 <= len(node.args) <= 2:
            value, *rest = (self.expression(argument) for argument in node.args)
            return self.next_of(value, rest[0] if rest else None, node)
        key = next((k.value for k in node.keywords if k.arg == "key"), None)
        if name in ("sorted", "min", "max") and key is not None:
            keywords = {k.arg or "": k.value for k in node.keywords}
            return self.sorted_by(name, [self.consumed(a) for a in node.args], keywords, node)
        if name in ("map", "filter") and len(node.args) == 2 and not node.keywords:
            return self._mapped(name, node)
        if name in CONSUMERS:
            walk = self.source if name in ("zip", "reversed") else self.consumable
            walk = self.expression if name == "enumerate" else walk
            arguments = [walk(a) for a in node.args]
            keywords = {k.arg or "**": self.expression(k.value) for k in node.keywords}
        else:
            arguments, keywords = self.call_arguments(node)
        return self._builtin_values(name, arguments, keywords, node)

    def _builtin_values(
        self, name: str, arguments: list[Abstract], keywords: dict[str, Abstract], node: ast.Call
    ) -> Abstract:
        if name in ("list", "tuple", "set", "sorted") and len(arguments) == 1:
            arguments = [self.keys_alone(arguments[0], node)]
        match name, arguments:
            case "zip", [_, *_] if self._is_strict(keywords) is not None:
                return self.zipped(arguments, node, strict=self._is_strict(keywords) is True)
            case "iter", [value]:
                is_kept = isinstance(value, LAZY) and not isinstance(value, Iterable)
                return value if is_kept else self.keep(self.iterable(value, node), node)
            case "enumerate", [Remaining() | Generator() as value, *rest]:
                return Numbered(value, rest[0] if rest else keywords.get("start", Known(0)))
            case "enumerate", [value]:
                return self.enumerated(value, keywords.get("start", Known(0)), node)
            case "enumerate", [value, start]:
                return self.enumerated(value, start, node)
            case "reversed", [value]:
                return self.backwards(value, node)
            case (("list" | "tuple"), [value]) if isinstance(value, LAZY):
                found = self.listed(value, node)
                return found if name == "list" else self._builtin_values(name, [found], {}, node)
            case "tuple", [Ref() | Element() as value] if _holds_packed(value):
                # Functions and expressions of the language are held by lists alone.
                return self.plain_call("list", [value], node)
            case "len", [Tuple(items)]:
                return Known(len(items))
            case "tuple", [Tuple() as value]:
                return value
            case "type", [value] if not keywords:
                operands = [self.read(value, node)]
                made = self.emit("val.call", operands, [TEXT], node, callee="type name")[0]
                return TypeOf(made)
            case "collections.defaultdict", [Builtin(kind), *rest] if kind in _CLASS_NAMES:
                made = self.plain_call(name, [Known(kind), *rest], node, keywords)
                assert isinstance(made, Ref)
                made.cell.makes_items = True
                return made
            case "collections.defaultdict", [_, *_]:
                self.fail(node, "the factory of this defaultdict cannot be captured",
                          "use a plain class, or d.setdefault(key, value)")  # fmt: skip
            case _:
                if name not in FUNCTIONS:
                    return self.host_object_call(_live(name), name, arguments, keywords, node)
                plain = [self.as_list(a, node) for a in arguments]
                return self.plain_call(name, plain, node, keywords)

    def _is_strict(self, keywords: dict[str, Abstract]) -> bool | None:
        """Return zip's strict=, None where it is not a constant."""
        strict = keywords.get("strict", Known(False))
        known = isinstance(strict, Known) and set(keywords) <= {"strict"}
        return bool(strict.value) if isinstance(strict, Known) and known else None

    def plain_call(  # type: ignore[override]
        self,
        name: str,
        arguments: list[Abstract],
        node: ast.AST,
        keywords: dict[str, Abstract] | None = None,
    ) -> Abstract:
        """Make a val.call of a function without effects."""
        keywords = keywords or {}
        every = [*map(unspread, arguments), *keywords.values()]
        if name == "str" and len(every) == 1 and is_state(every[0]):
            return self._shown(every[0], node)
        if name in ("len", "list", "bool") and any(has_states(kind_of(a)) for a in every):
            return self._states_call(name, every, node)
        if name == "tuple" and any(has_states(kind_of(value)) for value in every):
            self.fail(node, "states cannot be kept in a tuple of unknown length",
                      "keep them in a list: list(...)")  # fmt: skip
        operands, named = self.passed(arguments, keywords, node)
        is_spread = len(operands) > len(keywords) and not no_spread(arguments)
        kind = PY if is_spread else call_type(name, [operand.type for operand in operands])
        made = self.emit("val.call", operands, [kind], node, callee=name, **named)[0]
        if name in FRESH_CALLS:
            return self.fresh(made)
        if name in PICKING_CALLS:
            return self.borrowed(made, [cell for value in every for cell in cells_of(value)])
        return self.derived(made, every, shift=0 if name in FLAT_CALLS else 1)

    def _shown(self, place: Abstract, node: ast.AST) -> Abstract:
        """str(s), as the reference frontend shows a state."""
        found = self.emit("lm.text", [self.content(place, node)], [TEXT], node)[0]
        for left, right in (("ProgramState(", None), (None, ")")):
            operands = [
                found if word is None else self.constant(word, node) for word in (left, right)
            ]
            found = self.emit("val.binary", operands, [TEXT], node, op="+")[0]
        return Plain(found)

    def _states_call(self, name: str, every: list[Abstract], node: ast.AST) -> Abstract:
        """len(forks), list(forks), bool(states)."""
        operand = self.members(every[0], node)
        kind = operand.type if name == "list" else call_type(name, [operand.type])
        made = self.emit("val.call", [operand], [kind], node, callee=name)[0]
        found = self.derived(made, every)
        if isinstance(found, Ref):
            found.cell.kind = plain_list(kind_of(every[0]))
        return found

    def listed(self, value: Abstract, node: ast.AST) -> Abstract:
        """Turn an iterator into a list."""
        found = self.list_of(node, [])

        def body(item: Abstract) -> Known | Plain:
            self.add_item(found, item, node)
            return Known(True)

        self.for_each(value, node, body)
        return found

    def _mapped(self, name: str, node: ast.Call) -> Abstract:
        function = self.expression(node.args[0])
        source = self.consumed(node.args[1])
        found = self.list_of(node, [])

        def body(item: Abstract) -> Known | Plain:
            made = self.apply(function, [item], node)
            if name == "map":
                self.add_item(found, made, node)
            else:
                self.branch(node, self.truth(made, node),
                            lambda: self.add_item(found, item, node), lambda: None)  # fmt: skip
            return Known(True)

        self.for_each(source, node, body)
        # Python's map and filter can be used up once.
        made = self.iterable(found, node)
        return Iterable(made.items, made.bind, made.watched)

    def call_with(  # type: ignore[override]
        self,
        function: Abstract,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        node: ast.Call,
    ) -> Abstract:
        """Call something with arguments that were walked."""
        given = [Given(argument, node) for argument in arguments]
        named = [ast.keyword(key, Given(value, node)) for key, value in keywords.items()]
        match function:
            case HostObject(obj, name):
                return self.host_object_call(obj, name, arguments, keywords, node)
            case Partial():
                return self.partial_call(function, (arguments, keywords), node)
            case _:
                call = ast.Call(node.func, [*given], named)
                return self.call_of(function, ast.copy_location(call, node))

    def apply(self, function: Abstract, arguments: list[Abstract], node: ast.Call) -> Abstract:
        """Call something that is held as a value."""
        match function:
            case Closure():
                return self.inline(function, arguments, {}, node)
            case Builtin(name):
                return self._builtin_values(name, arguments, {}, node)
            case HostObject() | Partial() | Word() | ProgramRef() | Method():
                return self.call_with(function, arguments, {}, node)
            case Known(None):
                return arguments[0]
            case Packed():
                use = functools.partial(self.apply, arguments=arguments, node=node)
                return self.by_template(function, node, use)
            case _:
                self.fail(node, f"{describe(function)} cannot be called for each item",
                          "use a lambda or a function of the module")  # fmt: skip

    class_callee: Callable[[type, str, ast.AST], str]
    matches: Callable[[Value, list[str], ast.AST], Plain]

    def is_exception(self, obj: Any) -> bool:
        """Whether a live object is a class of exceptions."""
        return isinstance(obj, type) and issubclass(obj, BaseException)

    def _isinstance(self, node: ast.Call) -> Abstract:
        arguments = [self.expression(argument) for argument in node.args]
        kinds = arguments[1].items if isinstance(arguments[-1], Tuple) else tuple(arguments[1:])
        found: Known | Plain = Known(False)
        value = self.read(arguments[0], node)
        for kind in kinds:
            if isinstance(kind, HostObject) and isinstance(kind.obj, type):
                named = [self.class_callee(kind.obj, kind.name, node)]
                found = self.either(found, self.matches(value, named, node), node)
                continue
            if not isinstance(kind, Builtin) or kind.name not in _CLASS_NAMES:
                self.fail(node, "isinstance knows classes that are known before the run only",
                          f"a class of a module, or one of {', '.join(_CLASS_NAMES)}")  # fmt: skip
            name = self.constant(kind.name, node)
            made = self.emit("val.call", [value, name], [Type("bool")], node, callee="isinstance")
            found = self.either(found, Plain(made[0]), node)
        return found

    # Places.

    def _default_place(self, node: ast.Call) -> Abstract:
        """Walk d.setdefault(key, default); the object is then the one in that slot."""
        assert isinstance(node.func, ast.Attribute)
        container = self.place(node.func.value)
        if not isinstance(container, (Ref, Element)) or has_states(kind_of(container)):
            return self.expression(node)
        key, default = (self.expression(argument) for argument in node.args)
        self.mutate(container, "setdefault", [key, default], {}, node)
        key = key if isinstance(key, (Known, Plain)) else Plain(self.read(key, node))
        return Element(container, key, PY)

    def place(self, node: ast.expr) -> Abstract:  # type: ignore[override]
        """Walk an expression whose object is about to be changed."""
        if _is_setdefault(node):
            return self._default_place(node)
        if not isinstance(node, ast.Subscript) or isinstance(node.slice, ast.Slice):
            return self.expression(node)
        container = self.place(node.value)
        index = self.expression(node.slice)
        if isinstance(container, Ref) and container.cell.makes_items:
            self.mutate(container, "__getitem__", [index], {}, node)
        if isinstance(container, (Ref, Element)) and kind_of(container).name in (
            "list",
            "group",
            "dict",
            "py",
        ):
            if has_states(kind_of(container)):
                return self.item(container, index, node)
            key = index if isinstance(index, (Known, Plain)) else Plain(self.read(index, node))
            return Element(container, key, PY)
        return self.item(container, index, node)


def _is_setdefault(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is d.setdefault(key, default)."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    if not is_method or node.func.attr != "setdefault":  # type: ignore[union-attr]
        return False
    return len(node.args) == 2 and not node.keywords  # type: ignore[union-attr]


def _holds_packed(value: Ref | Element) -> bool:
    """Whether something is a list of functions or of expressions of the language."""
    kind = kind_of(value)
    return kind.name == "list" and isinstance(kind.element, PackedKind)


def _live(name: str) -> Any:
    return getattr(builtins, name)
