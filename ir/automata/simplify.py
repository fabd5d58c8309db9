"""Syntax trees made smaller before an automaton is built from them.

Anchors whose answer is known from where they stand are resolved (most patterns in the wild
are `^...$`), so that only real look-around takes the general construction. The tree must
have no atomic parts: it is rewritten to another one of the same language, and which match
comes first is not kept.
"""

from lmc.ir.automata import syntax
from lmc.ir.automata.charset import ANY, NEWLINE
from lmc.ir.automata.syntax import (
    EMPTY,
    NOTHING,
    Ahead,
    Alt,
    Behind,
    Chars,
    Node,
    Repeat,
    Seq,
)

ANYTHING = Repeat(Chars(ANY), 0, None)


def unanchored(node: Node) -> Node:
    """Return a tree for the texts that `node` matches somewhere, as `re.search` does."""
    if isinstance(node, Alt):
        free = [option for option in node.options if not _has_outer_anchor(option)]
        bound = [unanchored(option) for option in node.options if _has_outer_anchor(option)]
        if bound:
            return Alt((*bound, unanchored(Alt(tuple(free)))) if free else tuple(bound))
    parts = _parts(node)
    head = [] if parts and parts[0] == syntax.TEXT_START else [ANYTHING]
    tail: list[Node] = [ANYTHING]
    if parts and parts[-1] == syntax.TEXT_END:
        tail = []
    elif parts and parts[-1] == syntax.LAST_LINE_END:
        parts[-1:] = []
        tail = [Repeat(Chars(NEWLINE), 0, 1)]
    return Seq((*head, *parts, *tail))


def _parts(node: Node) -> list[Node]:
    return list(node.parts) if isinstance(node, Seq) else [node]


def _has_outer_anchor(node: Node) -> bool:
    """Return whether `node` has an anchor at its very beginning or end."""
    parts = _parts(node)
    ends = (syntax.TEXT_END, syntax.LAST_LINE_END)
    return bool(parts) and (parts[0] == syntax.TEXT_START or parts[-1] in ends)


def simplify(node: Node, *, at_start: bool | None = True, at_end: bool | None = True) -> Node:
    """Return a smaller tree of the same language.

    Args:
        node: a tree without atomic parts.
        at_start: whether it begins at the start of the text; None if that is not known.
        at_end: whether it ends at the end of the text; None if that is not known.
    """
    match node:
        case Seq(parts):
            return _sequence(parts, at_start, at_end)
        case Alt(options):
            return _options([simplify(o, at_start=at_start, at_end=at_end) for o in options])
        case Repeat():
            return _repeat(node, at_start, at_end)
        case Ahead(body, negated):
            return _look(Ahead(simplify(body, at_start=at_start, at_end=None), negated), at_end)
        case Behind(body, negated):
            return _look(Behind(simplify(body, at_start=None, at_end=at_end), negated), at_start)
    return node


def _sequence(parts: tuple[Node, ...], at_start: bool | None, at_end: bool | None) -> Node:
    solid = [not can_be_empty(part) for part in parts]
    empty = [syntax.width(part) == 0 for part in parts]
    starts, ends = _places(at_start, solid, empty), _places(at_end, solid[::-1], empty[::-1])
    kept: list[Node] = []
    for part, start, end in zip(parts, starts, reversed(ends), strict=True):
        small = simplify(part, at_start=start, at_end=end)
        if small == NOTHING:
            return NOTHING
        kept.extend(small.parts if isinstance(small, Seq) else (small,))
    return kept[0] if len(kept) == 1 else Seq(tuple(kept))


def _places(place: bool | None, solid: list[bool], empty: list[bool]) -> list[bool | None]:
    """Return, part by part from one edge, whether the part lies at the edge of the text."""
    places: list[bool | None] = []
    for is_solid, is_empty in zip(solid, empty, strict=True):
        places.append(place)
        if is_solid:
            place = False
        elif not is_empty and place:
            place = None
    return places


def _options(options: list[Node]) -> Node:
    kept = tuple(dict.fromkeys(option for option in options if option != NOTHING))
    if not kept:
        return NOTHING
    return kept[0] if len(kept) == 1 else Alt(kept)


def _repeat(node: Repeat, at_start: bool | None, at_end: bool | None) -> Node:
    low, high = node.low, node.high
    if high == 0:
        return EMPTY
    if high != 1:  # only the first and the last round may lie at an edge
        at_start, at_end = at_start and None, at_end and None
    body = simplify(node.body, at_start=at_start, at_end=at_end)
    if body == NOTHING:
        return NOTHING if low else EMPTY
    if isinstance(body, Repeat) and body.low == 0:  # (x{0,a}){b,c} is x{0,a*c}
        bound = None if high is None or body.high is None else high * body.high
        return Repeat(body.body, 0, bound)
    return body if low == high == 1 else Repeat(body, low, high)


def _look(node: Ahead | Behind, at_edge: bool | None) -> Node:
    """Resolve a look-around whose body is trivial, or that looks over the text's edge."""
    holds: bool | None = None
    if node.body == EMPTY:
        holds = True
    elif node.body == NOTHING:
        holds = False
    elif at_edge and not can_be_empty(node.body):
        holds = False
    elif at_edge is False and node.body == Chars(ANY):
        holds = True
    elif at_edge and node == syntax.LAST_LINE_END:
        return EMPTY
    if holds is None:
        return node
    return EMPTY if holds != node.negated else NOTHING


def can_be_empty(node: Node) -> bool:
    """Return whether `node` may match without reading a character."""
    match node:
        case Chars():
            return False
        case Seq(parts):
            return all(can_be_empty(part) for part in parts)
        case Alt(options):
            return any(can_be_empty(option) for option in options)
        case Repeat(body, low):
            return low == 0 or can_be_empty(body)
    return True
