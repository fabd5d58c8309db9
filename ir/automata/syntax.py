"""The abstract syntax of regular expressions that the automaton is built from.

Everything that Python's parser knows is lowered to these nodes: anchors and word boundaries
become look-around, flags are resolved into the sets. Groups and references are gone once
references are resolved.
"""

from dataclasses import dataclass

from lmc.ir.automata.charset import ANY, NEWLINE, CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set; an empty set matches nothing."""

    chars: CharSet


@dataclass(frozen=True, slots=True)
class Seq:
    """Parts one after another; no parts match the empty text."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several options, tried in order (the order matters in atomic groups only)."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times the body; `high` None is without bound.

    `is_lazy` matters in atomic groups only.
    """

    body: "Node"
    low: int
    high: int | None
    is_lazy: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """The rest of the text starts (or, negated, does not start) with the body."""

    body: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Behind:
    """The text so far ends (or, negated, does not end) with the body."""

    body: "Node"
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Atomic:
    """The body's first match in order of preference, never another one.

    `ordinal` counts atomic and possessive parts in source order.
    """

    body: "Node"
    ordinal: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group that is referred to."""

    body: "Node"
    number: int


@dataclass(frozen=True, slots=True)
class Ref:
    """The text of a group again, under flags; `ordinal` counts references in source order."""

    number: int
    ordinal: int
    flags: int


Node = Chars | Seq | Alt | Repeat | Ahead | Behind | Atomic | Group | Ref

EMPTY = Seq(())
NOTHING = Chars(())

TEXT_START = Behind(Chars(ANY), negated=True)
TEXT_END = Ahead(Chars(ANY), negated=True)
LINE_START = Alt((TEXT_START, Behind(Chars(NEWLINE))))
LINE_END = Alt((TEXT_END, Ahead(Chars(NEWLINE))))
LAST_LINE_END = Ahead(Seq((Repeat(Chars(NEWLINE), 0, 1), TEXT_END)))
NOT_EMPTY_TEXT = Alt((Behind(Chars(ANY)), Ahead(Chars(ANY))))


def word_boundary(word: CharSet) -> Node:
    """Return `\\b`: exactly one of the two neighbours is a word character."""
    inside = Chars(word)
    return Alt(
        (
            Seq((Behind(inside), Ahead(inside, negated=True))),
            Seq((Behind(inside, negated=True), Ahead(inside))),
        )
    )


def no_word_boundary(word: CharSet) -> Node:
    """Return `\\B`: both neighbours are word characters, or neither is."""
    inside = Chars(word)
    return Alt(
        (
            Seq((Behind(inside), Ahead(inside))),
            Seq((Behind(inside, negated=True), Ahead(inside, negated=True))),
        )
    )


def width(node: Node) -> int | None:
    """Return the one length that every match of `node` has, or None if lengths vary."""
    match node:
        case Chars():
            return 1
        case Seq(parts):
            widths = [width(part) for part in parts]
            return None if None in widths else sum(w for w in widths if w is not None)
        case Alt(options):
            lengths = {width(option) for option in options}
            return lengths.pop() if len(lengths) == 1 else None
        case Repeat(body, low, high):
            inner = width(body)
            return inner * low if inner is not None and (low == high or inner == 0) else None
        case Atomic(body):
            return width(body)
        case Ahead() | Behind():
            return 0


def look_back(node: Node) -> int | None:
    """Return how many characters before a match of `node` it depends on; None: no bound."""
    match node:
        case Seq(parts) | Alt(parts):
            reaches = [look_back(part) for part in parts]
            return (
                None if None in reaches else max((r for r in reaches if r is not None), default=0)
            )
        case Repeat(body) | Atomic(body) | Ahead(body):
            return look_back(body)
        case Behind(body):
            inner, size = look_back(body), width(body)
            return None if inner is None or size is None else inner + size
        case Chars():
            return 0


def has_look_around(node: Node) -> bool:
    """Return whether a match of `node` depends on the text around it."""
    match node:
        case Ahead() | Behind():
            return True
        case Seq(parts) | Alt(parts):
            return any(has_look_around(part) for part in parts)
        case Repeat(body) | Atomic(body):
            return has_look_around(body)
        case Chars():
            return False
