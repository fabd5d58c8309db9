"""Constraints as objects: `lmc.Constraint` in a program, and `gen(constraint=...)`."""

import ast
import builtins
import operator
from collections.abc import Callable
from typing import Any

from lmc.errors import CompileError, ConstraintError, UsageError
from lmc.frontend.capture.expressions import Expressions
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.members import Given
from lmc.frontend.capture.values import Abstract, Builtin, HostObject, Known, Packed, Plain
from lmc.frontend.limits import limit_param
from lmc.ir.calls import Constraint

CONSTANTS_ALONE = "in a program a constraint is made of constants alone"
KNOWN_BEFORE = "the constraint is not known before the program runs"
BY_TEXT = "give regex=, json_schema= or grammar= a text: that may be computed"


class Limits(Expressions):
    """Makes constraints while the source is walked; they are gone in the IR."""

    def limited(self, given: dict[str, ast.expr], node: ast.Call) -> Abstract:
        """Walk a `gen` with `constraint=` as one with the parameter that says the same."""
        place = given["constraint"]
        rest = {key: value for key, value in given.items() if key != "constraint"}
        found = self.expression(place)
        if isinstance(found, Packed):
            return self.by_template(
                found, node, lambda each: self._limited_by(each, rest, place, node)
            )
        return self._limited_by(found, rest, place, node)

    def _limited_by(
        self, found: Abstract, given: dict[str, ast.expr], place: ast.expr, node: ast.Call
    ) -> Abstract:
        limit: Any = MISSING
        if isinstance(found, (HostObject, Known)):
            limit = found.obj if isinstance(found, HostObject) else found.value
        if limit is MISSING:
            self.fail(place, KNOWN_BEFORE, BY_TEXT)
        if limit is None:
            return self.generation(given, node)
        types = ("type", "dtype")
        others = {k: self.live_type(v) if k in types else self.static(v) for k, v in given.items()}
        try:
            name, source = limit_param(limit, others)
        except UsageError as error:
            raise self._wrong(error, place) from error
        return self.generation({**given, name: Given(Known(source), place)}, node)

    def limit_call(self, host: HostObject, node: ast.Call) -> HostObject:
        """Call one of the class methods of `lmc.Constraint` now, with constants."""
        arguments = [self._constant(argument, node) for argument in node.args]
        keywords = {k.arg or "**": self._constant(k.value, node) for k in node.keywords}
        try:
            made: Constraint = host.obj(*arguments, **keywords)
        except (UsageError, ConstraintError) as error:
            raise self._wrong(error, node) from error
        except TypeError as error:
            raise self._wrong(UsageError(str(error)), node) from error
        # Equal ones are one object, as constants are.
        return HostObject(self.module.limits.setdefault(made, made), host.name)

    def _constant(self, argument: ast.expr, node: ast.Call) -> Any:
        if isinstance(argument, ast.Starred):
            self.fail(node, CONSTANTS_ALONE, BY_TEXT)
        for found in (self.static_content(argument), self.live_type(argument)):
            if found is not MISSING:
                return found
        value = self.expression(argument)
        if isinstance(value, HostObject):
            return value.obj
        if (
            isinstance(value, Plain)
            or (found := self.static_content(Given(value, node))) is MISSING
        ):
            self.fail(argument, CONSTANTS_ALONE, BY_TEXT)
        return found

    def live_type(self, node: ast.expr) -> Any:
        """Return the live object that a type expression stands for, else MISSING."""
        match node:
            case ast.Constant(value=value):
                return value
            case Given(value=HostObject(obj=obj)):
                return obj
            case Given(value=Builtin(name)):
                return getattr(builtins, name, MISSING)
            case ast.Name(id=name):
                return MISSING if self.frame.owner(name) is not None else self.frame.live(name)[1]
            case ast.Attribute(value=inner, attr=attribute):
                return getattr(self.live_type(inner), attribute, MISSING)
            case ast.Tuple(elts=items):
                kinds = [self.live_type(item) for item in items]
                return MISSING if any(kind is MISSING for kind in kinds) else tuple(kinds)
            case ast.Subscript(value=outer, slice=inner):
                kinds = [self.live_type(outer), self.live_type(inner)]
                apply = operator.getitem
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                kinds = [self.live_type(left), self.live_type(right)]
                apply = operator.or_
            case _:
                return MISSING
        try:
            return MISSING if any(kind is MISSING for kind in kinds) else apply(*kinds)
        except TypeError as error:
            raise self._wrong(UsageError(f"this is no type: {error}"), node) from error

    def _wrong(self, error: UsageError | ConstraintError, node: ast.AST) -> CompileError:
        """Return the error of what is wrong in whatever mode the program runs."""
        return CompileError(error.message, hint=error.hint, location=self.locate(node))

    by_template: Callable[[Packed, ast.AST, Callable[[Abstract], Abstract]], Abstract]
    generation: Callable[[dict[str, ast.expr], ast.Call], Abstract]
