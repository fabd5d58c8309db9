"""Back-references to groups that can hold a few texts only, written out.

`(a|b)x\\1` is `axa|bxb`. That is exact where the group is passed exactly once before the
reference and not again: both stand in one sequence, the group in it directly or in a group.
Anything else stays a reference, which no finite automaton can follow.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lmc.errors import ConstraintError
from lmc.ir.automata.charset import charset, fold_case
from lmc.ir.automata.positions import Positions
from lmc.ir.automata.syntax import Ahead, Alt, Atomic, Behind, Chars, Group, Node, Ref, Repeat, Seq

MAX_TEXTS = 64
"""Texts that a group may hold."""
MAX_WRITTEN = 512
"""Sequences that one pattern is written out to."""


def resolve_references(node: Node, positions: Positions) -> Node:
    """Return an equal tree without groups and references.

    Raises:
        ConstraintError: a reference cannot be written out; `.position` is its place.
    """
    # Which of several matches an atomic part keeps may depend on the order of the texts.
    is_fixed = "atomic" not in positions.by_kind
    return _Resolver(positions, MAX_WRITTEN if is_fixed else 0).resolve(node)


@dataclass(slots=True)
class _Resolver:
    positions: Positions
    left: int

    def resolve(self, node: Node) -> Node:
        match node:
            case Seq(parts):
                return self._sequence(parts)
            case Alt(options):
                return Alt(tuple(map(self.resolve, options)))
            case Repeat(body) | Ahead(body) | Behind(body) | Atomic(body):
                return replace(node, body=self.resolve(body))
            case Group(body):
                return self.resolve(body)
            case Ref(_, ordinal):
                at = self.positions.find("back-reference", ordinal)
                raise ConstraintError(
                    f"regex has a back-reference at position {at}, which no finite automaton "
                    "can follow",
                    hint="write the repeated part out",
                    position=at,
                )
            case Chars():
                return node

    def _sequence(self, parts: tuple[Node, ...]) -> Node:
        for index, part in enumerate(parts):
            for group in _innermost(part):
                if not any(_refers(other, group.number) for other in parts[index + 1 :]):
                    continue
                texts = _texts(group.body)
                if texts is not None and len(texts) <= self.left:
                    self.left -= len(texts)
                    return Alt(
                        tuple(
                            self._sequence(tuple(_bound(p, group, text) for p in parts))
                            for text in sorted(texts)
                        )
                    )
        for index, part in enumerate(parts):
            later = parts[index + 1 :]
            if isinstance(part, Group) and _holds(part.body):
                if any(_refers(other, part.number) for other in later):
                    plain = Group(self.resolve(part.body), part.number)
                    return self._sequence((*parts[:index], plain, *later))
        return Seq(tuple(map(self.resolve, parts)))


def _innermost(node: Node) -> Iterator[Group]:
    """Yield the groups without groups inside that every way through a node passes once."""
    match node:
        case Group(body):
            inside = list(_innermost(body))
            if inside:
                yield from inside
            elif not _holds(body):
                yield node
        case Seq(parts):
            for part in parts:
                yield from _innermost(part)
        case _:
            pass


def _children(node: Node) -> tuple[Node, ...]:
    match node:
        case Seq(parts) | Alt(parts):
            return parts
        case Repeat(body) | Ahead(body) | Behind(body) | Atomic(body) | Group(body):
            return (body,)
        case _:
            return ()


def _holds(node: Node) -> bool:
    """Return whether a group or a reference stands in a node."""
    return isinstance(node, (Group, Ref)) or any(map(_holds, _children(node)))


def _refers(node: Node, number: int) -> bool:
    if isinstance(node, Ref):
        return node.number == number
    return any(_refers(child, number) for child in _children(node))


def _texts(node: Node) -> set[str] | None:
    """Return all texts of a node; None where they are many, or depend on what is around."""
    match node:
        case Chars(chars):
            size = sum(high - low + 1 for low, high in chars)
            if size > MAX_TEXTS:
                return None
            return {chr(point) for low, high in chars for point in range(low, high + 1)}
        case Seq(parts):
            return _product([_texts(part) for part in parts])
        case Alt(options):
            found: set[str] = set()
            for option in options:
                texts = _texts(option)
                if texts is None:
                    return None
                found |= texts
            return found if len(found) <= MAX_TEXTS else None
        case Repeat(body, low, int(high)) if high <= MAX_TEXTS:
            once = _texts(body)
            found = set()
            for count in range(low, high + 1):
                texts = _product([once] * count)
                if texts is None:
                    return None
                found |= texts
            return found if len(found) <= MAX_TEXTS else None
        case _:
            return None


def _product(parts: list[set[str] | None]) -> set[str] | None:
    made = {""}
    for texts in parts:
        if texts is None or len(made) * len(texts) > MAX_TEXTS:
            return None
        made = {start + end for start in made for end in texts}
    return made


def _bound(node: Node, group: Group, text: str) -> Node:
    """Return a node in which a group holds a text."""
    match node:
        case Group(body, number) if number == group.number:
            return Seq(tuple(Chars(charset([(ord(c), ord(c))])) for c in text))
        case Group(body) | Repeat(body) | Ahead(body) | Behind(body) | Atomic(body):
            return replace(node, body=_bound(body, group, text))
        case Ref(number) if number == group.number:
            return Seq(tuple(_same(char, node) for char in text))
        case Seq(parts):
            return Seq(tuple(_bound(part, group, text) for part in parts))
        case Alt(options):
            return Alt(tuple(_bound(option, group, text) for option in options))
        case _:
            return node


def _same(char: str, reference: Ref) -> Chars:
    """Return what a reference takes for a character: under IGNORECASE, what Python does."""
    plain = charset([(ord(char), ord(char))])
    if not reference.flags & re.IGNORECASE:
        return Chars(plain)
    ascii_only = bool(reference.flags & re.ASCII)
    near = fold_case(f"\\U{ord(char):08x}", ascii_only, plain)
    flags = re.DOTALL | re.IGNORECASE | (re.ASCII if ascii_only else 0)
    taken = [
        point
        for low, high in near
        for point in range(low, high + 1)
        if re.fullmatch(r"(.)\1", char + chr(point), flags)
    ]
    return Chars(charset((point, point) for point in taken))
