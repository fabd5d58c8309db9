"""match statements: patterns as conditions and bindings."""

import ast
import enum
from collections.abc import Callable, Sequence

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.members import Given
from lmc.frontend.capture.statements import Statements
from lmc.frontend.capture.values import (
    Abstract,
    Builtin,
    HostObject,
    Known,
    Plain,
    Tuple,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, DICT, INT, PY, list_of

_CLASSES = ("int", "float", "str", "bool", "list", "dict", "tuple", "set")
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
            case ast.MatchClass():
                return self._of_class(pattern, subject)
            case ast.MatchSequence(patterns=patterns):
                return self._sequence(patterns, subject, pattern)
            case ast.MatchMapping():
                return self._mapping(pattern, subject)
            case _:
                self.fail(pattern, "this pattern cannot be captured",
                          "use values, names, |, sequences, mappings, plain classes")  # fmt: skip

    def _any(self, patterns: Sequence[ast.pattern], subject: Abstract) -> Known | Plain:
        first = self._matches(patterns[0], subject)
        if len(patterns) == 1:
            return first
        rest: Callable[[], Abstract] = lambda: self._any(patterns[1:], subject)  # noqa: E731
        found = self.choose(patterns[0], first, lambda: Known(True), rest)
        return self.truth(found, patterns[0])

    def _of_class(self, node: ast.MatchClass, subject: Abstract) -> Known | Plain:
        kind = self.expression(node.cls)
        value = self.read(subject, node)
        if isinstance(kind, HostObject) and isinstance(kind.obj, type):
            found = self.matches(value, [self.class_callee(kind.obj, kind.name, node)], node)
        elif isinstance(kind, Builtin) and kind.name in _CLASSES:
            found = self._instance(value, kind.name, node)
        else:
            self.fail(node, "a match knows classes alone", ", ".join(_CLASSES))
        for attribute, pattern in self._parts_of_class(kind, node):

            def inner(attribute: str = attribute, pattern: ast.pattern = pattern) -> Abstract:
                return self._matches(pattern, self._part_of(subject, attribute, pattern))

            found = self.truth(self.choose(node, found, inner, lambda: Known(False)), node)
        return found

    def _parts_of_class(
        self, kind: Abstract, node: ast.MatchClass
    ) -> list[tuple[str, ast.pattern]]:
        """Return the patterns of a class by attribute; "" stands for the subject itself."""
        named = list(zip(node.kwd_attrs, node.kwd_patterns, strict=True))
        if isinstance(kind, Builtin):
            if named or len(node.patterns) > 1:
                self.fail(node, f"a pattern of {kind.name} takes one part", "match it as a whole")
            return [("", pattern) for pattern in node.patterns]
        assert isinstance(kind, HostObject)
        positional = getattr(kind.obj, "__match_args__", ())
        if len(node.patterns) > len(positional):
            self.fail(node, f"'{kind.name}' has {len(positional)} positional part(s)",
                      "name the attributes")  # fmt: skip
        parts = [*zip(positional, node.patterns, strict=False), *named]
        known = fields_of(kind.obj)
        for attribute, _ in parts:
            if attribute not in known:
                self.fail(node, f"'{attribute}' is no field of '{kind.name}'",
                          f"match a field: {', '.join(known) or 'it has none'}")  # fmt: skip
        return parts

    def _part_of(self, subject: Abstract, attribute: str, node: ast.pattern) -> Abstract:
        if not attribute:
            return subject
        place = ast.Attribute(Given(subject, node), attribute, ast.Load())
        return self.load_attribute(subject, ast.copy_location(place, node))

    class_callee: Callable[[type, str, ast.AST], str]
    matches: Callable[[Value, list[str], ast.AST], Plain]

    def _instance(self, value: Value, name: str, node: ast.AST) -> Plain:
        operands = [value, self.constant(name, node)]
        made = self.emit("val.call", operands, [BOOL], node, callee="isinstance")[0]
        return Plain(made)

    def _sequence(
        self, patterns: Sequence[ast.pattern], subject: Abstract, node: ast.pattern
    ) -> Known | Plain:
        star = _star_of(patterns)
        found = self._of_length(len(patterns), star, subject, node)
        if found == Known(False):
            return found
        for index, pattern in enumerate(patterns):
            is_name = isinstance(pattern, ast.MatchAs) and pattern.pattern is None
            if is_name or isinstance(pattern, ast.MatchStar):
                continue

            def inner(index: int = index, pattern: ast.pattern = pattern) -> Abstract:
                at = Known(_place_of(index, star, len(patterns)))
                return self._matches(pattern, self.item(subject, at, pattern))

            found = self.truth(self.choose(node, found, inner, lambda: Known(False)), node)
        return found

    def _of_length(
        self, count: int, star: int | None, subject: Abstract, node: ast.pattern
    ) -> Known | Plain:
        """Return whether a subject is a sequence of as many items as there are patterns."""
        if isinstance(subject, Tuple):
            length = len(subject.items)
            return Known(length == count if star is None else length >= count - 1)
        value = self.read(subject, node)
        kind = self.either(
            self._instance(value, "list", node), self._instance(value, "tuple", node), node
        )

        def of_length() -> Abstract:
            length = self.emit("val.call", [value], [INT], node, callee="len")[0]
            wanted = self.constant(count if star is None else count - 1, node)
            op = "==" if star is None else ">="
            return Plain(self.emit("val.compare", [length, wanted], [PY], node, op=op)[0])

        return self.truth(self.choose(node, kind, of_length, lambda: Known(False)), node)

    def _mapping(self, node: ast.MatchMapping, subject: Abstract) -> Known | Plain:
        found: Known | Plain = self._instance(self.read(subject, node), "dict", node)
        for key_node, pattern in zip(node.keys, node.patterns, strict=True):

            def has(key_node: ast.expr = key_node) -> Abstract:
                return self.compare("in", self.expression(key_node), subject, node)

            def inner(key_node: ast.expr = key_node, pattern: ast.pattern = pattern) -> Abstract:
                item = self.item(subject, self.expression(key_node), pattern)
                return self._matches(pattern, item)

            for test in (has, inner):
                both = self.choose(node, found, test, lambda: Known(False))
                found = self.truth(both, node)
        return found

    def _bind(self, pattern: ast.pattern, subject: Abstract) -> None:
        match pattern:
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self._bind(inner, subject)
                if name is not None:
                    self.assign_name(name, subject, pattern)
            case ast.MatchSequence(patterns=patterns):
                self._bind_sequence(patterns, subject)
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
                for key, part in zip(keys, patterns, strict=True):
                    if _binds(part):
                        self._bind(part, self.item(subject, self.expression(key), part))
                if rest is not None:
                    self.assign_name(rest, self._rest_of_dict(keys, subject, pattern), pattern)
            case ast.MatchClass(cls=cls) if _binds(pattern):
                for attribute, part in self._parts_of_class(self.expression(cls), pattern):
                    if _binds(part):
                        self._bind(part, self._part_of(subject, attribute, part))
            case ast.MatchOr(patterns=[first, *others]) if any(map(_binds, pattern.patterns)):
                rest_of: ast.pattern = ast.copy_location(ast.MatchOr(others), pattern)
                if len(others) == 1:
                    rest_of = others[0]
                self.branch(
                    pattern, self._matches(first, subject),
                    lambda: self._bind(first, subject), lambda: self._bind(rest_of, subject),
                )  # fmt: skip
            case _:
                pass

    def _bind_sequence(self, patterns: Sequence[ast.pattern], subject: Abstract) -> None:
        star = _star_of(patterns)
        for index, part in enumerate(patterns):
            if isinstance(part, ast.MatchStar):
                if part.name is not None:
                    middle = self._middle(index, len(patterns) - index - 1, subject, part)
                    self.assign_name(part.name, middle, part)
            elif _binds(part):
                at = Known(_place_of(index, star, len(patterns)))
                self._bind(part, self.item(subject, at, part))

    def _middle(self, head: int, tail: int, subject: Abstract, node: ast.AST) -> Abstract:
        """Return the list of what stands between the first and the last items."""
        if isinstance(subject, Tuple):
            return self.list_of(node, list(subject.items[head : len(subject.items) - tail]))
        bounds = [self.constant(bound, node) for bound in (head, -tail or None, None)]
        operands = [self.read(subject, node), *bounds]
        part = self.emit("val.slice", operands, [PY], node)[0]
        made = self.emit("val.call", [part], [list_of(PY)], node, callee="list")[0]
        return self.derived(made, [subject])

    def _rest_of_dict(self, keys: list[ast.expr], subject: Abstract, node: ast.AST) -> Abstract:
        operands = [self.read(subject, node)]
        made = self.emit("val.call", operands, [DICT], node, callee="dict")[0]
        for key in keys:
            operands = [made, self.read(self.expression(key), node)]
            made, _ = self.emit("val.mutate", operands, [DICT, PY], node, name="__delitem__")
        return self.derived(made, [subject])


def fields_of(kind: type) -> list[str]:
    """Return the attributes that every object of a class of data has."""
    if issubclass(kind, enum.Enum):
        return ["name", "value"]
    found = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "model_fields", None)
    return list(found or getattr(kind, "_fields", ()))


def _star_of(patterns: Sequence[ast.pattern]) -> int | None:
    found = [i for i, pattern in enumerate(patterns) if isinstance(pattern, ast.MatchStar)]
    return found[0] if found else None


def _place_of(index: int, star: int | None, count: int) -> int:
    """Return where a pattern's item stands: behind a star counted from the end."""
    return index if star is None or index < star else index - count


def _binds(pattern: ast.pattern) -> bool:
    names = (ast.MatchAs, ast.MatchStar)
    return any(
        (isinstance(inner, names) and inner.name is not None)
        or (isinstance(inner, ast.MatchMapping) and inner.rest is not None)
        for inner in ast.walk(pattern)
    )
