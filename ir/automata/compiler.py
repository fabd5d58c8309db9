"""Patterns to byte automata: the way through the parts of this package."""

from lmc.errors import ConstraintError
from lmc.ir.automata.atomic import resolve_atomic
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.charset import ANY
from lmc.ir.automata.determinise import determinise
from lmc.ir.automata.dfa import ByteDfa
from lmc.ir.automata.minimise import minimise
from lmc.ir.automata.minterms import partition
from lmc.ir.automata.nfa import build_nfa
from lmc.ir.automata.parse import parse
from lmc.ir.automata.simplify import simplify, unanchored
from lmc.ir.automata.syntax import Chars, Seq, look_back
from lmc.ir.automata.utf8 import to_bytes_dfa

DEFAULT_MAX_STATES = 120_000
DEFAULT_MAX_SECONDS = 5.0


def compile_regex(
    pattern: str,
    *,
    search: bool = False,
    after: int = 0,
    max_states: int = DEFAULT_MAX_STATES,
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> ByteDfa:
    """Return the minimal automaton of the texts that `re.fullmatch(pattern, text)` accepts.

    Meaning is that of the running Python's `re` for `str` patterns, over UTF-8. Lazy
    quantifiers do not change what can be matched; look-around, anchors and boundaries are
    followed exactly; atomic groups and possessive quantifiers where their choice can be
    decided. Text with surrogates has no UTF-8 and is never produced.

    Args:
        pattern: Python regular expression; flags inline, as in `(?i)`.
        search: take the meaning of `re.search` instead: some part of the text matches.
        after: that many characters, whatever they are, stand before the match; look-behind
            sees them.
        max_states: the most states, over characters and over bytes.
        max_seconds: the most processor time of this thread.

    Raises:
        ConstraintError: the pattern is not valid, matches nothing, holds a construct that
            no finite automaton can follow, or is too costly; `.position` is the place.
    """
    budget = Budget(max_states=max_states, max_seconds=max_seconds)
    try:
        return _compile(pattern, search, after, budget)
    except ConstraintError as error:
        if error.position is None:
            error.position = 0  # no single place is to blame: all of it
        raise


def _compile(pattern: str, search: bool, after: int, budget: Budget) -> ByteDfa:
    node, positions = parse(pattern)
    try:
        node = resolve_atomic(node, positions, budget)
        node = unanchored(node) if search else node
        node = Seq((*[Chars(ANY)] * after, node)) if after else node
        nfa = build_nfa(simplify(node), budget)
    except RecursionError:
        raise ConstraintError("regex nesting too deep", hint="use fewer nested groups") from None
    minterms = partition(nfa.classes)
    dfa = minimise(determinise(nfa, minterms, budget), budget)
    return ByteDfa(*to_bytes_dfa(dfa, minterms, budget))


def context_needed(pattern: str) -> int | None:
    """Return how many characters before a match the pattern looks at; None: no bound.

    Raises:
        ConstraintError: the pattern is not valid or cannot be followed.
    """
    return look_back(parse(pattern)[0])
