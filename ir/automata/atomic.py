"""Atomic groups and possessive quantifiers, rewritten without them.

An atomic part takes its first match in order of preference and never another one. That is
the same as matching plainly where a second match cannot exist (no match is the beginning
of another one), and can be said with look-ahead for options and for repetitions of such
parts: an option counts only where no earlier one matches, a repetition stops only where
one more round is impossible. Anything else is refused.
"""

from lmc.errors import ConstraintError
from lmc.ir.automata import syntax
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, determinise
from lmc.ir.automata.minimise import minimise
from lmc.ir.automata.minterms import partition
from lmc.ir.automata.nfa import build_nfa
from lmc.ir.automata.positions import Positions
from lmc.ir.automata.syntax import Ahead, Alt, Atomic, Behind, Chars, Node, Repeat, Seq


def resolve_atomic(node: Node, positions: Positions, budget: Budget) -> Node:
    """Return an equal tree without atomic parts.

    Raises:
        ConstraintError: an atomic part's choice could not be decided; names its position.
    """
    match node:
        case Chars():
            return node
        case Seq(parts):
            return Seq(tuple(resolve_atomic(part, positions, budget) for part in parts))
        case Alt(options):
            return Alt(tuple(resolve_atomic(option, positions, budget) for option in options))
        case Repeat(body, low, high, is_lazy):
            return Repeat(resolve_atomic(body, positions, budget), low, high, is_lazy)
        case Ahead(body, negated) | Behind(body, negated):
            return type(node)(resolve_atomic(body, positions, budget), negated)
        case Atomic(body, ordinal):
            first = _first_match(resolve_atomic(body, positions, budget), budget)
            if first is None:
                at = positions.find("atomic", ordinal)
                raise ConstraintError(
                    f"regex has an atomic group or possessive quantifier at position {at} "
                    "whose choice cannot be decided",
                    hint="use the ordinary group or quantifier",
                    position=at,
                )
            return first


def _first_match(node: Node, budget: Budget) -> Node | None:
    """Return a node that matches only the first match of `node`, or None if not decided."""
    if _is_single(node, budget):
        return node
    match node:
        case Alt(options):
            return _first_option(options, budget)
        case Repeat():
            return _first_repeat(node, budget)
        case Seq(parts):
            # All parts but the last may be passed in one way only.
            if all(_is_single(part, budget) for part in parts[:-1]):
                last = _first_match(parts[-1], budget)
                return None if last is None else Seq((*parts[:-1], last))
    return None


def _first_option(options: tuple[Node, ...], budget: Budget) -> Node | None:
    firsts: list[Node] = []
    for index, option in enumerate(options):
        first = _first_match(option, budget)
        if first is None:
            return None
        earlier = tuple(Ahead(other, negated=True) for other in options[:index])
        firsts.append(Seq((*earlier, first)))
    return Alt(tuple(firsts))


def _first_repeat(node: Repeat, budget: Budget) -> Node | None:
    body, low, high = node.body, node.low, node.high
    if not _is_single(body, budget) or syntax.width(body) == 0:
        return None
    if node.is_lazy:
        return Repeat(body, low, low)
    no_more = Ahead(body, negated=True)
    if high is None:
        return Seq((Repeat(body, low, None), no_more))
    full = Repeat(body, high, high)
    if high == low:
        return full
    return Alt((full, Seq((Repeat(body, low, high - 1), no_more))))


def _is_single(node: Node, budget: Budget) -> bool:
    """Return whether at any place of any text, `node` matches at most one length."""
    if syntax.width(node) is not None:
        return True
    if isinstance(node, Seq) and all(_is_single(part, budget) for part in node.parts):
        return True
    if syntax.has_look_around(node):
        return False
    return _is_prefix_free(node, budget)


def _is_prefix_free(node: Node, budget: Budget) -> bool:
    """Return whether no match of a node without look-around begins another one."""
    nfa = build_nfa(node, budget)
    try:
        dfa = minimise(determinise(nfa, partition(nfa.classes), budget), budget)
    except ConstraintError:
        budget.check_time()
        return False
    # In a trimmed automaton every way out of a state leads to another end.
    return bool((dfa.rows[dfa.accepting] == DEAD).all())
