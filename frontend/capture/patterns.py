"""match statements: patterns as conditions and bindings."""

import ast
from collections.abc import Callable, Sequence

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.statements import Statements
from lmc.frontend.capture.values import Abstract, Builtin, Known, Plain, has_states
from lmc.ir.core import Value
from lmc.ir.types import BOOL, INT, PY

_CLASSES = ("int", "float", "str", "bool", "list", "dict", "tuple")
Bindings = list[tuple[str, Abstract]]


class Patterns(Statements):
    """Walks match statements as chains of branches."""

    def match_statement(self, node: ast.Match, rest: Sequence[ast.stmt]) -> None:
        """Walk a match and what follows it."""
        subject = self.expression(node.subject)
        if has_states(kind_of(subject)):
            self.fail(node.subject, "a state cannot be matched", "match one of its variables")
        self._case(node, subject, node.cases, rest)

    def _case(
        self,
        node: ast.Match,
        subject: Abstract,
        cases: Sequence[ast.match_case],
        rest: Sequence[ast.stmt],
    ) -> None:
        if not cases:
            self.statements(rest)
            return
        case = cases[0]
        found = self._matches(case.pattern, subject)
        if case.guard is not None:
            guard = case.guard

            def guarded() -> Abstract:
                self._bind(case.pattern, subject)
                return self.condition(guard)

            both = self.choose(case.pattern, found, guarded, lambda: Known(False))
            found = self.truth(both, case.pattern)

        def take() -> None:
            self._bind(case.pattern, subject)
            self.statements(case.body)

        def others() -> None:
            self._case(node, subject, cases[1:], ())

        self.branch_with_rest(node, found, (take, others), rest)

    def _matches(self, pattern: ast.pattern, subject: Abstract) -> Known | Plain:
        match pattern:
            case ast.MatchValue(value=value):
                found = self.compare("==", subject, self.expression(value), pattern)
                return self.truth(found, pattern)
            case ast.MatchSingleton(value=value):
                return self.truth(self.compare("is", subject, Known(value), pattern), pattern)
            case ast.MatchAs(pattern=None):
                return Known(True)
            case ast.MatchAs(pattern=ast.pattern() as inner):
                return self._matches(inner, subject)
            case ast.MatchOr(patterns=patterns):
                return self._any(patterns, subject)
            case ast.MatchClass(cls=cls, patterns=[] | [_], kwd_patterns=[]):
                return self._of_class(cls, subject, pattern)
            case ast.MatchSequence(patterns=patterns):
                return self._sequence(patterns, subject, pattern)
            case _:
                self.fail(pattern, "this pattern cannot be captured",
                          "use values, names, |, sequences and plain classes")  # fmt: skip

    def _any(self, patterns: Sequence[ast.pattern], subject: Abstract) -> Known | Plain:
        first = self._matches(patterns[0], subject)
        if len(patterns) == 1:
            return first
        rest: Callable[[], Abstract] = lambda: self._any(patterns[1:], subject)  # noqa: E731
        found = self.choose(patterns[0], first, lambda: Known(True), rest)
        return self.truth(found, patterns[0])

    def _of_class(self, cls: ast.expr, subject: Abstract, node: ast.MatchClass) -> Known | Plain:
        found = self.expression(cls)
        if not isinstance(found, Builtin) or found.name not in _CLASSES:
            self.fail(node, "a match knows Python's plain classes only", ", ".join(_CLASSES))
        made = self._instance(self.read(subject, node), found.name, node)
        if not node.patterns:
            return made
        inner = node.patterns[0]
        both = self.choose(node, made, lambda: self._matches(inner, subject), lambda: Known(False))
        return self.truth(both, node)

    def _instance(self, value: Value, name: str, node: ast.AST) -> Plain:
        operands = [value, self.constant(name, node)]
        made = self.emit("val.call", operands, [BOOL], node, callee="isinstance")[0]
        return Plain(made)

    def _sequence(
        self, patterns: Sequence[ast.pattern], subject: Abstract, node: ast.pattern
    ) -> Known | Plain:
        if any(isinstance(pattern, ast.MatchStar) for pattern in patterns):
            self.fail(node, "a starred pattern cannot be captured", "slice the list instead")
        value = self.read(subject, node)
        kind = self.either(
            self._instance(value, "list", node), self._instance(value, "tuple", node), node
        )

        def of_length() -> Abstract:
            length = self.emit("val.call", [value], [INT], node, callee="len")[0]
            wanted = self.constant(len(patterns), node)
            return Plain(self.emit("val.compare", [length, wanted], [PY], node, op="==")[0])

        found = self.truth(self.choose(node, kind, of_length, lambda: Known(False)), node)
        for index, pattern in enumerate(patterns):
            if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
                continue

            def inner(index: int = index, pattern: ast.pattern = pattern) -> Abstract:
                return self._matches(pattern, self.item(subject, Known(index), pattern))

            found = self.truth(self.choose(node, found, inner, lambda: Known(False)), node)
        return found

    def _bind(self, pattern: ast.pattern, subject: Abstract) -> None:
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self._bind(inner, subject)
                if name is not None:
                    self.assign_name(name, subject, pattern)
            case ast.MatchSequence(patterns=patterns):
                for index, part in enumerate(patterns):
                    if _binds(part):
                        self._bind(part, self.item(subject, Known(index), part))
            case ast.MatchClass(patterns=[inner]):
                self._bind(inner, subject)
            case ast.MatchOr(patterns=patterns):
                if any(map(_binds, patterns)):
                    self.fail(pattern, "alternatives that bind names cannot be captured",
                              "write a case for each")  # fmt: skip
            case _:
                pass


def _binds(pattern: ast.pattern) -> bool:
    return any(
        isinstance(inner, ast.MatchAs) and inner.name is not None for inner in ast.walk(pattern)
    )
