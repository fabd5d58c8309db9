"""Grammars: rules over words, patterns and control tokens. Both notations are read to this."""

from dataclasses import dataclass, field

from lmc.errors import ConstraintError

Position = tuple[int, int]
"""Line and column, both from 1."""


@dataclass(frozen=True, slots=True)
class Word:
    """These characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text that a regular expression matches as a whole."""

    source: str
    position: Position


@dataclass(frozen=True, slots=True)
class Ref:
    """A text of another rule."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class Seq:
    """Parts one after another."""

    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Alt:
    """One of several options."""

    options: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The body `low` to `high` times; None is without bound."""

    body: "Node"
    low: int
    high: int | None


Node = Word | Pattern | Ref | Seq | Alt | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    """A named rule. Inside a terminal nothing is ignored."""

    name: str
    body: Node
    position: Position
    is_terminal: bool = False


@dataclass(slots=True)
class Grammar:
    """Rules by name, where to start, and what may stand between terminals."""

    rules: dict[str, Rule]
    start: str
    ignored: tuple[Node, ...] = ()
    warnings: list[str] = field(default_factory=list)


def refuse(position: Position | None, message: str, hint: str) -> ConstraintError:
    """Return the refusal of a place in a grammar; the error carries the position."""
    at = "" if position is None else f" at {position[0]}:{position[1]}"
    return ConstraintError(f"grammar{at}: {message}", hint=hint, position=position)


def references(node: Node) -> list[Ref]:
    """Return the references in a node, in the order of the text."""
    match node:
        case Ref():
            return [node]
        case Seq(parts) | Alt(parts):
            return [ref for part in parts for ref in references(part)]
        case Repeat(body):
            return references(body)
        case Word() | Pattern():
            return []
