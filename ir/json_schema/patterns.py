"""Patterns of strings as sets of texts."""

import re
from functools import lru_cache

from lmc.errors import ConstraintError
from lmc.ir.automata.atomic import resolve_atomic
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import determinise
from lmc.ir.automata.minimise import minimise
from lmc.ir.automata.minterms import partition
from lmc.ir.automata.nfa import build_nfa
from lmc.ir.automata.parse import parse
from lmc.ir.automata.simplify import simplify, unanchored
from lmc.ir.json_schema import textset as txt
from lmc.ir.json_schema.textset import TextSet
from lmc.ir.json_schema.unicode_classes import LINE_ENDS, class_members

_KEPT = 64


def pattern_set(source: str, budget: Budget) -> TextSet:
    """Return the texts in which a schema's pattern is found somewhere.

    The pattern reads as in ECMA-262: `$` is the very end, `\\d`, `\\w` and `\\b` know ASCII.

    Raises:
        ConstraintError: it is not valid, or no automaton can follow it.
    """
    return _cached(_translate(source), True, budget.max_states, budget.max_seconds)


@lru_cache(maxsize=_KEPT)
def _cached(source: str, is_search: bool, max_states: int, max_seconds: float) -> TextSet:
    return _compile(source, is_search, Budget(max_states=max_states, max_seconds=max_seconds))


def _compile(source: str, is_search: bool, budget: Budget) -> TextSet:
    node, positions = parse(source)
    try:
        node = resolve_atomic(node, positions, budget)
        nfa = build_nfa(simplify(unanchored(node) if is_search else node), budget)
    except RecursionError:
        raise ConstraintError("regex nesting too deep", hint="use fewer groups") from None
    minterms = partition(nfa.classes)
    try:
        dfa = minimise(determinise(nfa, minterms, budget), budget)
    except ConstraintError as error:
        if "matches no text" in error.message:
            return txt.nothing()
        raise
    return txt.with_letters(minterms.starts, minterms.letters, dfa.rows, dfa.accepting)


_FLAGS = re.compile(r"\(\?([ims]+)\)")
_TOKEN = re.compile(r"\\[pP]\{[A-Za-z_=]+\}|\\c[A-Za-z]|\\k<\w+>|\\.?|.", re.DOTALL)


def _translate(source: str) -> str:
    """Return an ECMA pattern in Python's writing.

    Raises:
        ConstraintError: it uses a construct that Python's patterns lack.
    """
    flags = _FLAGS.match(source)
    at = flags.end() if flags else 0
    found = flags.group(1) if flags else ""
    out: list[str] = [f"(?a{found})"]
    in_class = False
    while at < len(source):
        token = _TOKEN.match(source, at)
        assert token is not None, "a token is at least one character"
        word = token[0]
        members = class_members(word) if word[1:2] in ("s", "S", "p", "P") else None
        if members is not None:
            _add_members(out, members, in_class, source[token.end() : token.end() + 2])
        elif word[:2] == r"\c" and len(word) == 3:
            out.append(f"\\x{ord(word[2]) % 32:02x}")
        elif word[:2] == r"\k" and len(word) > 2:
            out.append(f"(?P={word[3:-1]})")
        elif word[:2] in (r"\p", r"\P", r"\c", r"\k"):
            raise ConstraintError(
                f"regex has {word!r} at position {at}, which is not supported",
                hint="write the characters as a class",
                position=at,
            )
        elif in_class:
            in_class = word != "]"
            # Sets of sets are not in this dialect; Python warns of what looks like them.
            out.append("\\" + word if word in tuple("[&~|") else word)
        elif word == "." and "s" not in found:
            out.append(f"[^{LINE_ENDS}]")
        else:
            at += _outside(source, at, word, out)
            in_class = word == "[" and not source.startswith(("[]", "[^]"), at)
        at += len(word)
    return "".join(out)


def _add_members(out: list[str], members: str, in_class: bool, following: str) -> None:
    """Write what a class of characters stands for; a hyphen beside one is a hyphen."""
    if not in_class:
        out.append(f"[{members}]" if members else "(?!)")
        return
    if out[-1] == "-":
        out[-1] = r"\-"
    out.append(members)
    if following[:1] == "-" and following != "-]":
        out.append("\\")  # escapes the hyphen, which comes next


def _outside(source: str, at: int, token: str, out: list[str]) -> int:
    """Write one token outside of classes; return how many more characters it took."""
    if token == "$":
        out.append(r"\Z")
    elif token in (r"\Z", r"\A", r"\z"):
        out.append(token[1:])
    elif source.startswith("(?<", at) and source[at + 3 : at + 4] not in ("=", "!"):
        out.append("(?P<")
        return 2
    elif source.startswith("[^", at):
        out.append("[^")
        return 1
    else:
        out.append(token)
    return 0


def full_match(source: str, budget: Budget) -> TextSet:
    """Return the texts that a Python pattern matches as a whole."""
    return _cached(source, False, budget.max_states, budget.max_seconds)
