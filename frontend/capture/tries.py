"""`try` statements: blocks that end where something fails, handlers, `finally`, `raise`.

The body becomes the block of a `cf.try` (see `attempts`); handlers are a chain of branches on the
class of what was raised. What no handler takes is raised again and fails at its own place.
"""

import ast
import builtins
from collections.abc import Sequence
from functools import partial
from typing import Any

from lmc.frontend.capture.attempts import Attempts
from lmc.frontend.capture.store import Key, Store
from lmc.frontend.capture.values import Abstract, HostObject, Known, Plain, Tuple, Undefined
from lmc.ir.core import Value
from lmc.ir.types import BOOL, EFFECT, PY, TEXT

AGAIN = "lmc.frontend.raising:raise_again"
CLASS_NAME = "lmc.frontend.raising:class_name"


class Tries(Attempts):
    """Walks `try` and `raise` statements."""

    def try_statement(self, node: ast.Try, rest: Sequence[ast.stmt]) -> None:  # type: ignore[override]
        """Walk a `try`, and what follows it."""
        if node.finalbody:
            self._finally(node)
        elif node.handlers:
            self._handled(node, rest)
            return
        if self._go_on(node, rest):
            self.statements(rest)

    def _handled(self, node: ast.Try, rest: Sequence[ast.stmt]) -> None:
        """Walk a `try` without its `finally`."""
        if not node.handlers:
            self.statements(node.body)
            return
        made = self.attempt(node, partial(self.statements, node.body))

        def ended() -> None:
            self._go_on_from(made.ended, node)
            if node.orelse and self._go_on(node, node.orelse):
                self.statements(node.orelse)

        def failed() -> None:
            self._go_on_from(made.failed, node)
            self._handlers(node, made.raised)

        self.branch_with_rest(node, self._has_ended(made.raised, node), (ended, failed), rest)

    def _go_on_from(self, store: Store, node: ast.AST) -> None:
        """Take what a block left, and note it for the `try` around."""
        self.store = store
        self.note_progress(node)

    def _has_ended(self, raised: Value, node: ast.AST) -> Plain:
        operands = [raised, self.constant(None, node)]
        made = self.emit("val.compare", operands, [PY], node, op="is")[0]
        return Plain(self.emit("val.truth", [made], [BOOL], node)[0])

    # Handlers.

    def _handlers(self, node: ast.Try, raised: Value) -> None:
        classes = [self._classes(handler) for handler in node.handlers]
        last = next((i for i, names in enumerate(classes) if names is None), None)
        if last is None:
            every = [name for names in classes if names is not None for name in names]
            matched = self.matches(raised, every, node)
            # Raised before any handler begins, so that no name depends on this path.
            self.branch(node, matched, lambda: None, lambda: self._raise_value(raised, node))
            last = len(classes) - 1
        self._chain(node.handlers[: last + 1], classes, raised)

    def _chain(
        self,
        handlers: Sequence[ast.ExceptHandler],
        classes: Sequence[list[str] | None],
        raised: Value,
    ) -> None:
        """Walk the handlers; the last of them takes what the others do not."""
        first, names = handlers[0], classes[0]
        if len(handlers) == 1 or names is None:
            self._handler(first, raised)
            return
        self.branch(
            first, self.matches(raised, names, first),
            lambda: self._handler(first, raised),
            lambda: self._chain(handlers[1:], classes[1:], raised),
        )  # fmt: skip

    def _handler(self, handler: ast.ExceptHandler, raised: Value) -> None:
        self.handled.append(raised)
        if handler.name is not None:
            what = "an exception, which belongs to what raised it"
            self.assign_name(handler.name, self.fresh(raised, external=what), handler)
        self.statements(handler.body)
        if handler.name is not None:
            # As in Python, the name is gone after the handler.
            self.store.names[self.frame.id, handler.name] = Undefined(handler.name)
        self.handled.pop()

    def _classes(self, handler: ast.ExceptHandler) -> list[str] | None:
        """Return the import names of the classes that a handler takes; None for all."""
        if handler.type is None:
            return None
        found = self._exception_classes(self.expression(handler.type), handler.type)
        return None if any(issubclass(Exception, kind) for kind in found.values()) else list(found)

    def _exception_classes(self, found: Abstract, node: ast.AST) -> dict[str, type[BaseException]]:
        """Return classes of exceptions by import name; anything else is a graph break."""
        held: list[tuple[Any, str]] = []
        for item in found.items if isinstance(found, Tuple) else (found,):
            if isinstance(item, HostObject) and isinstance(item.obj, tuple):
                held += [(obj, getattr(obj, "__name__", "this")) for obj in item.obj]
            elif isinstance(item, HostObject):
                held.append((item.obj, item.name))
            else:
                held.append((None, "this"))
        named: dict[str, type[BaseException]] = {}
        for obj, name in held:
            if not self.is_exception(obj):
                self.fail(node, f"{name} is no class of exceptions that is known here",
                          "name classes of the module, or a tuple of them")  # fmt: skip
            named[self.class_callee(obj, name, node)] = obj
        return named

    def class_callee(self, kind: type, name: str, node: ast.AST) -> str:  # type: ignore[override]
        """Return the import name of a class of exceptions, which runs find by it."""
        callee = self.import_name(kind, name, node)
        if getattr(builtins, kind.__name__, None) is not kind:
            self.module.host[callee] = kind
        return callee

    def matches(self, raised: Value, names: list[str], node: ast.AST) -> Plain:  # type: ignore[override]
        """Tell whether an exception is an instance of one of some classes."""
        return Plain(self.emit("host.matches", [raised], [BOOL], node, classes=[*names])[0])

    def _expr_Attribute(self, node: ast.Attribute) -> Abstract:
        """Walk an attribute; `type(x).__name__` is a function of x."""
        call = node.value
        if node.attr == "__name__" and isinstance(call, ast.Call) and len(call.args) == 1:
            found = self.expression(call.func)
            if isinstance(found, HostObject) and found.obj is type:
                from lmc.frontend.raising import class_name

                self.module.host[CLASS_NAME] = class_name
                operands = [self.read(self.expression(call.args[0]), node)]
                made = self.emit("host.pure", operands, [PY], node, callee=CLASS_NAME)[0]
                return Plain(self.emit("val.call", [made], [TEXT], node, callee="str")[0])
        return super()._expr_Attribute(node)

    # Raising.

    def raise_statement(self, node: ast.Raise) -> None:  # type: ignore[override]
        """Walk a `raise`."""
        if node.exc is None:
            if not self.handled:
                self.fail(node, "'raise' alone stands in no handler here",
                          "name the exception to raise")  # fmt: skip
            self._raise_value(self.handled[-1], node)
        else:
            self._raise_expression(node, node.exc)
        self.store.names[self.frame.id, "$return"] = Known(True)

    def _raise_expression(self, node: ast.Raise, error: ast.expr) -> None:
        call = error if isinstance(error, ast.Call) else None
        found = self.expression(error.func if call is not None else error)
        if not isinstance(found, HostObject):
            value = self.read(self.expression(error) if call is not None else found, node)
        elif not self.is_exception(found.obj):
            self.fail(node, "this raise cannot be captured",
                      'raise a class of exceptions: raise ValueError("text")')  # fmt: skip
        else:
            positional, named = self.call_arguments(call) if call is not None else ([], {})
            is_own = getattr(builtins, found.obj.__name__, None) is found.obj
            if is_own and not named and len(positional) < 2:
                self._cause(node)
                self.raise_new(found.obj.__name__, positional[0] if positional else None, node)
                return
            callee = self.class_callee(found.obj, found.name, node)
            operands = [self.read(item, node) for item in (*positional, *named.values())]
            names = self.keywords_of(named)
            value = self.emit("host.pure", operands, [PY], node, callee=callee, **names)[0]
        self._cause(node)
        self._raise_value(value, node)

    def _cause(self, node: ast.Raise) -> None:
        """Walk what follows `from`; nobody in a program sees it."""
        if node.cause is not None:
            self.walk(node.cause)

    def _raise_value(self, raised: Value, node: ast.AST) -> None:
        """Fail with an exception held as a value; nothing after it needs a condition."""
        from lmc.frontend.raising import raise_again

        operands = [self.store.contents[self.effect], raised]
        made = self.emit("host.call", operands, [EFFECT, PY], node, callee=AGAIN)
        self.module.host[AGAIN] = raise_again
        self.set_effect(made[0])

    # Finally.

    def _finally(self, node: ast.Try) -> None:
        """Walk a `try` with a `finally`: whatever way the rest is left, the last part runs."""
        inner = ast.copy_location(ast.Try(node.body, node.handlers, node.orelse, []), node)
        made = self.attempt(node, lambda: self._handled(inner, ()))

        def ended() -> None:
            self._go_on_from(made.ended, node)

        def failed() -> None:
            self._go_on_from(made.failed, node)

        self.branch(node, self._has_ended(made.raised, node), ended, failed)
        held: dict[Key, Key] = {}
        for key in [*self._exit_keys(), (self.frame.id, "$result")]:
            held[key] = (self.frame.id, f"$held#{self.fresh_id()}")
            self.store.names[held[key]] = self.store.names[key]
        self._resume(node.finalbody)
        leave = partial(self._leave_finally, node, held, made.raised)
        self.branch(node, self._live(node), leave, lambda: None)
        for name in held.values():
            self.store.names.pop(name, None)

    def _leave_finally(self, node: ast.Try, held: dict[Key, Key], raised: Value) -> None:
        """Go on as the parts before the `finally` were left."""
        condition = self._has_ended(raised, node)
        self.branch(node, condition, lambda: None, lambda: self._raise_value(raised, node))
        for key, name in held.items():
            self.store.names[key] = self.store.names[name]
