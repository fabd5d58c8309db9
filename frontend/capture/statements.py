"""Statements: assignment, control flow with early exits, with blocks."""

import ast
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lmc.frontend.capture.assignment import Assignment
from lmc.frontend.capture.emitter import is_state
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.recursion import NothingKnown
from lmc.frontend.capture.store import Store
from lmc.frontend.capture.stretch import Border, Borders, Stretch
from lmc.frontend.capture.values import (
    Abstract,
    HostObject,
    Iterable,
    Known,
    Plain,
    Undefined,
)
from lmc.ir.core import Block
from lmc.ir.types import EFFECT, PY

FLAT_DEPTH = 40
"""From this depth on, what follows an early exit is no longer nested below it."""

RAISES = "lmc.frontend.raising:raise_error"


class Statements(Assignment):
    """Walks statements.

    An early exit sets a flag; what follows it in the same block stands under the flag's
    opposite, or, where one side of an `if` always exits, in the other side.
    """

    def statements(self, body: Sequence[ast.stmt]) -> None:  # type: ignore[override]
        """Walk statements up to the first that always exits."""
        at = self.place_of_walk()
        try:
            self._walk_statements(body)
        except NothingKnown:
            # What comes after this call of the running function is walked in a later round.
            self.go_back(at)
            self.store.names[self.frame.id, "$return"] = Known(True)
            self.store.names[self.frame.id, "$result"] = Undefined("the result")

    def _walk_statements(self, body: Sequence[ast.stmt]) -> None:
        for index, statement in enumerate(body):
            rest = body[index + 1 :]
            if isinstance(statement, ast.If):
                self._if(statement, rest)
                return
            if isinstance(statement, ast.Match):
                self.match_statement(statement, rest)
                return
            if isinstance(statement, ast.Try):
                self.try_statement(statement, rest)
                return
            self._statement(statement)
            if not self._go_on(statement, rest):
                return

    match_statement: Callable[[ast.Match, Sequence[ast.stmt]], None]
    try_statement: Callable[[ast.Try, Sequence[ast.stmt]], None]
    raise_statement: Callable[[ast.Raise], bool]

    def _go_on(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
        """Tell whether to walk on in line; where it depends, walk the rest under a condition."""
        if not rest or self._has_exited():
            return False
        live = self._live(node)
        if isinstance(live, Known):
            return True
        if self.depth < FLAT_DEPTH:
            self.branch(node, live, lambda: self._resume(rest), lambda: None)
            return False
        self._flat(live, rest)
        return False

    def _flat(self, live: Known | Plain, rest: Sequence[ast.stmt]) -> None:
        """Walk statements one by one, each under the condition that nothing was left before.

        Keeps a long row of early exits from nesting ever deeper.
        """
        for statement in rest:
            self.branch(statement, live, partial(self._resume, [statement]), lambda: None)
            if self._has_exited():
                return
            live = self._live(statement)

    def _resume(self, rest: Sequence[ast.stmt]) -> None:
        for key in self._exit_keys():
            self.store.names[key] = Known(False)
        self.store.names[self.frame.id, "$result"] = Known(None)
        self.statements(rest)

    def _exit_keys(self) -> list[tuple[int, str]]:
        keys = [(self.frame.id, "$return")]
        if self.frame.loops:
            loop = self.frame.loops[-1]
            keys += [(self.frame.id, f"$break#{loop}"), (self.frame.id, f"$continue#{loop}")]
        return [key for key in keys if key in self.store.names]

    def _has_exited(self) -> bool:
        return any(self.store.names[key] == Known(True) for key in self._exit_keys())

    def _live(self, node: ast.AST) -> Known | Plain:
        exited: Known | Plain = Known(False)
        for key in self._exit_keys():
            exited = self.either(exited, self.store.names[key], node)
        return self.negate(exited, node)

    def _statement(self, node: ast.stmt) -> None:
        method: Callable[[Any], None] | None
        method = getattr(self, f"_stmt_{type(node).__name__}", None)
        if method is None:
            word = type(node).__name__
            hint = "move this part into a function of its own, outside the program"
            if isinstance(node, ast.TryStar):
                word, hint = "except*", "catch with except"
            self.fail(node, f"'{word}' statements cannot be captured", hint)
        method(node)
        self.note_progress(node)

    # Branches.

    def _if(self, node: ast.If, rest: Sequence[ast.stmt]) -> None:
        condition = self.condition(node.test)
        bodies = (lambda: self.statements(node.body), lambda: self.statements(node.orelse))
        self.branch_with_rest(node, condition, bodies, rest)

    def branch_with_rest(
        self,
        node: ast.stmt,
        condition: Known | Plain,
        bodies: tuple[Callable[[], None], Callable[[], None]],
        rest: Sequence[ast.stmt],
    ) -> None:
        """Walk a branch and what follows it."""
        if isinstance(condition, Known):
            bodies[0 if condition.value else 1]()
            if self._go_on(node, rest):
                self.statements(rest)
            return
        entry, outer = self.store, self.block
        sides: list[tuple[Block, Store]] = []
        exits: list[bool] = []
        for body in bodies:
            self.store, self.block = entry.copy(), Block()
            with self.inside(node):
                body()
            sides.append((self.block, self.store))
            exits.append(self._has_exited())
        if exits[0] != exits[1] and self.depth < FLAT_DEPTH:
            # One side never gets to the rest, so the rest belongs to the other.
            open_side = exits.index(False)
            self.block, self.store = sides[open_side]
            with self.inside(node):
                if self._go_on(node, rest):
                    self.statements(rest)
            sides[open_side] = (self.block, self.store)
            rest = ()
        self.join(node, condition.value, sides, outer)
        if self._go_on(node, rest):
            self.statements(rest)

    # Loops.

    def _stmt_For(self, node: ast.For) -> None:
        source = self.source(node.iter)
        loop = self._open_loop(node)

        def body(item: Abstract) -> Known | Plain:
            self._enter_body(loop)
            self.assign_target(node.target, item)
            self.statements(node.body)
            return self._leave_body(loop, node, keeps_break=bool(node.orelse))

        self.for_each(source, node, body)
        self._close_loop(loop, node)

    def _stmt_While(self, node: ast.While) -> None:
        loop = self._open_loop(node)
        key = (self.frame.id, f"$go_on#{loop}")

        def run() -> None:
            self.statements(node.body)
            self.store.names[key] = self._leave_body(loop, node, keeps_break=bool(node.orelse))

        def stop() -> None:
            self.store.names[key] = Known(False)
            self._leave_body(loop, node, keeps_break=bool(node.orelse))

        def body(item: object) -> Known | Plain:
            self._enter_body(loop)
            condition = self.condition(node.test)
            self.branch(node, condition, run, stop)
            go_on = self.store.names.pop(key)
            assert isinstance(go_on, (Known, Plain))
            return go_on

        self.loop(node, None, body)
        self._close_loop(loop, node)

    def _open_loop(self, node: ast.stmt) -> int:
        # The same number each time that the loop is walked, so that its plan fits again.
        loop = self.loop_numbers.setdefault((node, self.frame.id), self.fresh_id())
        self.store.names[self.frame.id, f"$break#{loop}"] = Known(False)
        self.frame.loops.append(loop)
        return loop

    def _enter_body(self, loop: int) -> None:
        for name in ("$return", f"$break#{loop}", f"$continue#{loop}"):
            self.store.names[self.frame.id, name] = Known(False)
        # Whoever walks the body has not returned yet.
        self.store.names[self.frame.id, "$result"] = Known(None)

    def _leave_body(self, loop: int, node: ast.stmt, *, keeps_break: bool) -> Known | Plain:
        """Return whether the loop goes on, and drop flags that mean nothing outside."""
        names = self.store.names
        broken = names[self.frame.id, f"$break#{loop}"]
        exited = self.either(broken, names[self.frame.id, "$return"], node)
        del names[self.frame.id, f"$continue#{loop}"]
        if not keeps_break:
            names[self.frame.id, f"$break#{loop}"] = Known(False)
        return self.negate(exited, node)

    def _close_loop(self, loop: int, node: ast.For | ast.While) -> None:
        self.frame.loops.pop()
        broken = self.store.names.pop((self.frame.id, f"$break#{loop}"))
        if not node.orelse:
            return
        exited = self.either(broken, self.store.names[self.frame.id, "$return"], node)
        self.branch(
            node, self.negate(exited, node), lambda: self._resume(node.orelse), lambda: None
        )

    def _stmt_Break(self, node: ast.Break) -> None:
        self.store.names[self.frame.id, f"$break#{self.frame.loops[-1]}"] = Known(True)

    def _stmt_Continue(self, node: ast.Continue) -> None:
        self.store.names[self.frame.id, f"$continue#{self.frame.loops[-1]}"] = Known(True)

    def _stmt_Return(self, node: ast.Return) -> None:
        value = Known(None) if node.value is None else self.expression(node.value)
        value = self.keep(value, node)
        self.store.names[self.frame.id, "$result"] = value
        self.store.names[self.frame.id, "$return"] = Known(True)

    listed: Callable[[Iterable, ast.AST], Abstract]

    def _stmt_Raise(self, node: ast.Raise) -> None:
        self.raise_statement(node)

    def raise_new(self, kind: str, message: Abstract | None, node: ast.AST) -> None:
        """Fail with an exception of Python's own."""
        from lmc.frontend.raising import raise_error

        effect = self.store.contents[self.effect]
        operands = [effect, self.constant(kind, node)]
        if message is not None:
            operands.append(self.read(message, node))
        made = self.emit("host.call", operands, [EFFECT, PY], node, callee=RAISES)
        self.module.host[RAISES] = raise_error
        made[0].hint = "effect"
        self.store.contents[self.effect] = made[0]
        self.store.names[self.frame.id, "$return"] = Known(True)

    def _stmt_Assert(self, node: ast.Assert) -> None:
        condition = self.condition(node.test)

        def fails() -> None:
            message = None if node.msg is None else self.expression(node.msg)
            flag = self.store.names[self.frame.id, "$return"]
            self.raise_new("AssertionError", message, node.test)
            # A failed assertion ends the run, so nothing after it needs a condition.
            self.store.names[self.frame.id, "$return"] = flag

        self.branch(node, condition, lambda: None, fails)

    # With.

    def _stmt_With(self, node: ast.With) -> None:
        closers: list[Callable[[], None]] = []
        body = node.body
        for item in node.items:
            close = self.with_item(node, item)
            if close is None:
                self.fail(item.context_expr, "this with statement cannot be captured",
                          "s.user(), s.system(), s.assistant() and s.var_scope() can")  # fmt: skip
            closers.append(close)
            if isinstance(close, Stretch):
                body = self._parted(item, body, close)
        self.statements(body)
        for close in reversed(closers):
            close()

    def _parted(self, item: ast.withitem, body: list[ast.stmt], stretch: Stretch) -> list[ast.stmt]:
        """Return the statements of a stretch with borders between its pieces."""
        if item not in self.parted:
            # Kept, so that its loops are the same ones in every walk and their plans fit.
            borders = Borders()
            self.parted[item] = borders, borders.between(body)
        borders, parted = self.parted[item]
        borders.stretch = stretch
        return parted

    def _stmt_Border(self, node: Border) -> None:
        node.cross()

    # Small ones.

    def _stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def _stmt_Global(self, node: ast.Global) -> None:
        pass

    def _stmt_Nonlocal(self, node: ast.Nonlocal) -> None:
        pass

    def _stmt_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, (ast.Yield, ast.YieldFrom)):
            self.give(node.value)
            return
        if not self._opens_nothing(node.value):
            self.walk(node.value)

    def _opens_nothing(self, node: ast.expr) -> bool:
        """Whether an expression is `s.user()` as a statement: a block that nobody enters."""
        match node:
            case ast.Call(
                ast.Attribute(ast.Name() as value, "user" | "system" | "assistant"), [], []
            ):
                return is_state(self.expression(value))
            case _:
                return False

    def _stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.decorator_list:
            self.fail(node.decorator_list[0], "a decorated inner function cannot be captured",
                      "define it at the top of the module")  # fmt: skip
        self.store.names[self.frame.id, node.name] = self.closure(node)

    def _stmt_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = self._module(
                alias.name if alias.asname else alias.name.partition(".")[0], node
            )
            name = alias.asname or alias.name.partition(".")[0]
            self.store.names[self.frame.id, name] = HostObject(module, alias.name)

    def _stmt_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or node.module is None:
            self.fail(node, "a relative import in a program cannot be captured",
                      "import at the top of the module")  # fmt: skip
        module = self._module(node.module, node)
        for alias in node.names:
            found = self.attribute_of(HostObject(module, node.module), alias.name, node)
            self.store.names[self.frame.id, alias.asname or alias.name] = found

    def _module(self, name: str, node: ast.stmt) -> Any:
        if name.partition(".")[0] == "lmc":
            return importlib.import_module(name)  # our own modules do nothing when imported
        module = sys.modules.get(name, MISSING)
        if module is MISSING:
            self.fail(node, f"the module '{name}' is not imported yet, and capture runs nothing",
                      "import it at the top of the file")  # fmt: skip
        return module

    def _stmt_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.store.names[self.frame.id, target.id] = Undefined(target.id)
            elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
                place = self.place(target.value)
                key = self.expression(target.slice)
                self.mutate(place, "__delitem__", [key], {}, node)
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                self.set_slice(self.place(target.value), target.slice, None, node)
            elif isinstance(target, ast.Tuple | ast.List):
                self._stmt_Delete(ast.copy_location(ast.Delete(target.elts), node))
            else:
                self.fail(target, "this cannot be deleted in a program", "delete items by index")
