"""Regular expressions to syntax nodes, by way of Python's own parser.

Using `re`'s parser means that what is a valid pattern, and how it reads, is exactly what
the running Python says.
"""

import re
from re import _constants as op
from re import _parser as parser
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.automata import syntax
from lmc.ir.automata.charset import (
    ANY,
    NOT_NEWLINE,
    CharSet,
    category,
    charset,
    complement,
    fold_case,
)
from lmc.ir.automata.positions import Positions, scan
from lmc.ir.automata.references import resolve_references
from lmc.ir.automata.syntax import Ahead, Alt, Atomic, Behind, Chars, Group, Node, Ref, Repeat, Seq

MAX_NESTING = 100
MAX_LENGTH = 200_000
_TYPE_FLAGS = re.ASCII | re.LOCALE | re.UNICODE
_CATEGORIES = {
    op.CATEGORY_DIGIT: "d",
    op.CATEGORY_NOT_DIGIT: "D",
    op.CATEGORY_SPACE: "s",
    op.CATEGORY_NOT_SPACE: "S",
    op.CATEGORY_WORD: "w",
    op.CATEGORY_NOT_WORD: "W",
}
_NON_BOUNDARY_NEEDS_TEXT = re.match(r"\B", "") is None
"""Before Python 3.14, `\\B` never matches in an empty text."""


def parse(pattern: str) -> tuple[Node, Positions]:
    """Return the syntax tree of a pattern, and where its constructs stand.

    Raises:
        ConstraintError: the pattern is not valid, is nested too deep, or holds a
            construct that no automaton can decide.
    """
    if len(pattern) > MAX_LENGTH:
        raise ConstraintError(
            f"regex is too long: {len(pattern)} characters",
            hint=f"at most {MAX_LENGTH} are accepted",
        )
    positions = scan(pattern)
    if positions.depth > MAX_NESTING:
        raise _too_deep()
    try:
        tree = parser.parse(pattern)
        node = _Converter(positions).sequence(tree, tree.state.flags)
        return resolve_references(node, positions), positions
    except re.error as error:
        raise _invalid(pattern, error) from None
    except (OverflowError, FutureWarning, DeprecationWarning) as error:
        raise ConstraintError(f"regex is not valid: {error}", hint="correct the pattern") from None
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> ConstraintError:
    return ConstraintError(
        "regex nesting too deep", hint=f"at most {MAX_NESTING} nested groups are accepted"
    )


def _invalid(pattern: str, error: re.error) -> ConstraintError:
    at = "" if error.pos is None else f" at position {error.pos}"
    near = "" if error.pos is None else f" near {pattern[error.pos : error.pos + 12]!r}"
    return ConstraintError(
        f"regex is not valid: {error.msg}{at}{near}",
        hint="patterns follow Python's re syntax; check it with re.compile",
        position=error.pos,
    )


class _Converter:
    """Turns the parser's tree into nodes, resolving flags on the way."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self.atomics = 0
        self.references = 0

    def sequence(self, tree: Any, flags: int) -> Node:
        parts: list[Node] = []
        for code, argument in tree:
            part = self._item(code, argument, flags)
            parts.extend(part.parts if isinstance(part, Seq) else (part,))
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _item(self, code: Any, argument: Any, flags: int) -> Node:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY, op.RANGE, op.CATEGORY):
            return Chars(_one_character(code, argument, flags))
        if code is op.AT:
            return _anchor(argument, flags)
        if code is op.FAILURE:
            return syntax.NOTHING
        if code is op.BRANCH:
            return Alt(tuple(self.sequence(option, flags) for option in argument[1]))
        if code is op.SUBPATTERN:
            number, added, removed, body = argument
            node = self.sequence(body, _combine(flags, added, removed))
            refers = number is not None and "back-reference" in self.positions.by_kind
            return Group(node, number) if refers else node
        if code is op.GROUPREF:
            self.references += 1
            return Ref(argument, self.references - 1, flags)
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(code, argument, flags)
        return self._group(code, argument, flags)

    def _repeat(self, code: Any, argument: Any, flags: int) -> Node:
        low, high, body = argument
        bound = None if high is op.MAXREPEAT else int(high)
        node = Repeat(self.sequence(body, flags), int(low), bound, code is op.MIN_REPEAT)
        return self._atomic(node) if code is op.POSSESSIVE_REPEAT else node

    def _group(self, code: Any, argument: Any, flags: int) -> Node:
        if code is op.ATOMIC_GROUP:
            return self._atomic(self.sequence(argument, flags))
        if code in (op.ASSERT, op.ASSERT_NOT):
            direction, body = argument
            side = Ahead if direction > 0 else Behind
            return side(self.sequence(body, flags), code is op.ASSERT_NOT)
        kind = "conditional" if code is op.GROUPREF_EXISTS else str(code)
        at = self.positions.find(kind)
        raise ConstraintError(
            f"regex has a {kind} at position {at}, which no finite automaton can follow",
            hint="write the conditional part out",
            position=at,
        )

    def _atomic(self, body: Node) -> Node:
        node = Atomic(body, self.atomics)
        self.atomics += 1
        return node


def _combine(flags: int, added: int, removed: int) -> int:
    """Return the flags inside a group, as Python combines them."""
    if added & _TYPE_FLAGS:
        flags &= ~_TYPE_FLAGS
    return (flags | added) & ~removed


def _anchor(kind: Any, flags: int) -> Node:
    if kind is op.AT_BEGINNING:
        return syntax.LINE_START if flags & re.MULTILINE else syntax.TEXT_START
    if kind is op.AT_BEGINNING_STRING:
        return syntax.TEXT_START
    if kind is op.AT_END:
        return syntax.LINE_END if flags & re.MULTILINE else syntax.LAST_LINE_END
    if kind is op.AT_END_STRING:
        return syntax.TEXT_END
    word = category("w", bool(flags & re.ASCII))
    if kind is op.AT_BOUNDARY:
        return syntax.word_boundary(word)
    node = syntax.no_word_boundary(word)
    return Seq((syntax.NOT_EMPTY_TEXT, node)) if _NON_BOUNDARY_NEEDS_TEXT else node


def _one_character(code: Any, argument: Any, flags: int) -> CharSet:
    """Return what a one-character item matches under the flags."""
    if code is op.ANY:
        return ANY if flags & re.DOTALL else NOT_NEWLINE
    items = argument if code is op.IN else [(code, argument)]
    negated = items[0][0] in (op.NEGATE, op.NOT_LITERAL)
    members = [item for item in items if item[0] is not op.NEGATE]
    ascii_only = bool(flags & re.ASCII)
    ranges = [span for item in members for span in _member(item, ascii_only)]
    chars = complement(charset(ranges)) if negated else charset(ranges)
    if not flags & re.IGNORECASE:
        return chars
    source = "".join(map(_member_source, members))
    return fold_case(f"[{'^' if negated else ''}{source}]", ascii_only, chars)


def _member(item: tuple[Any, Any], ascii_only: bool) -> CharSet:
    """Return the ranges of one member of a class, case left aside."""
    code, argument = item
    if code is op.RANGE:
        return ((int(argument[0]), int(argument[1])),)
    if code is op.CATEGORY:
        return category(_CATEGORIES[argument], ascii_only)
    return ((int(argument), int(argument)),)


def _member_source(item: tuple[Any, Any]) -> str:
    """Return one member of a class as pattern text, written with escapes only."""
    code, argument = item
    if code is op.RANGE:
        return f"\\U{argument[0]:08x}-\\U{argument[1]:08x}"
    if code is op.CATEGORY:
        return "\\" + _CATEGORIES[argument]
    return f"\\U{argument:08x}"
