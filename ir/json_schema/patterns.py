"""Patterns and formats of strings as sets of texts."""

import re
from functools import lru_cache
from typing import Any

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

_DIGITS = "[0-9]"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_LEAP = (
    r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])"
    r"|(?:[02468][048]|[13579][26])00)-02-29"
)
_DATE = rf"(?:[0-9]{{4}}-{_DAY}|{_LEAP})"
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = r"[0-9A-Fa-f]{1,4}"
_LS32 = rf"(?:{_H16}:{_H16}|{_IPV4})"
_IPV6 = (
    "(?:"
    + "|".join(
        [
            rf"(?:{_H16}:){{6}}{_LS32}",
            rf"::(?:{_H16}:){{5}}{_LS32}",
            rf"(?:{_H16})?::(?:{_H16}:){{4}}{_LS32}",
            rf"(?:(?:{_H16}:){{0,1}}{_H16})?::(?:{_H16}:){{3}}{_LS32}",
            rf"(?:(?:{_H16}:){{0,2}}{_H16})?::(?:{_H16}:){{2}}{_LS32}",
            rf"(?:(?:{_H16}:){{0,3}}{_H16})?::{_H16}:{_LS32}",
            rf"(?:(?:{_H16}:){{0,4}}{_H16})?::{_LS32}",
            rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}",
            rf"(?:(?:{_H16}:){{0,6}}{_H16})?::",
        ]
    )
    + ")"
)
_LABEL = r"(?:(?!..--)[A-Za-z0-9](?:[A-Za-z0-9-]{0,22}[A-Za-z0-9])?)"
_HOSTNAME = rf"{_LABEL}(?:\.{_LABEL}){{0,5}}"
"""At most 6 labels of 24 characters: a part of what may be up to 253 long."""
_ATEXT = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_PCT = r"%[0-9A-Fa-f]{2}"
_UNRESERVED = r"A-Za-z0-9._~\-"
_SUB = r"!$&'()*+,;="
_PCHAR = rf"(?:[{_UNRESERVED}{_SUB}:@]|{_PCT})"
_NC = rf"(?:[{_UNRESERVED}{_SUB}@]|{_PCT})"
_REGNAME = rf"(?:[{_UNRESERVED}{_SUB}]|{_PCT})*"
_HOST = rf"(?:\[{_IPV6}\]|{_REGNAME})"
_AUTHORITY = rf"(?:(?:[{_UNRESERVED}{_SUB}:]|{_PCT})*@)?{_HOST}(?::[0-9]*)?"
_ABEMPTY = rf"(?:/{_PCHAR}*)*"
_HIER = rf"(?://{_AUTHORITY}{_ABEMPTY}|/(?:{_PCHAR}+{_ABEMPTY})?|{_PCHAR}+{_ABEMPTY}|)"
_RELATIVE = rf"(?://{_AUTHORITY}{_ABEMPTY}|/(?:{_PCHAR}+{_ABEMPTY})?|{_NC}+{_ABEMPTY}|)"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_URI = rf"[A-Za-z][A-Za-z0-9+.-]*:{_HIER}{_TAIL}"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_NUMBER = r"[0-9]+"
_DTIME = rf"T(?:{_NUMBER}H(?:{_NUMBER}M(?:{_NUMBER}S)?)?|{_NUMBER}M(?:{_NUMBER}S)?|{_NUMBER}S)"
_DDATE = rf"(?:{_NUMBER}Y(?:{_NUMBER}M(?:{_NUMBER}D)?)?|{_NUMBER}M(?:{_NUMBER}D)?|{_NUMBER}D)"

FORMATS = {
    "date": (_DATE, True),
    "time": (_TIME, False),
    "date-time": (rf"{_DATE}[Tt]{_TIME}", False),
    "duration": (rf"P(?:{_DDATE}(?:{_DTIME})?|{_DTIME}|{_NUMBER}W)", True),
    "email": (rf"(?=[^@]{{1,64}}@){_ATEXT}+(?:\.{_ATEXT}+)*@{_HOSTNAME}", False),
    "hostname": (_HOSTNAME, False),
    "ipv4": (_IPV4, True),
    "ipv6": (_IPV6, True),
    "uri": (_URI, True),
    "uri-reference": (rf"(?:{_URI}|{_RELATIVE}{_TAIL})", True),
    "uuid": (r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", True),
    "json-pointer": (_POINTER, True),
    "relative-json-pointer": (rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})", True),
}
"""Pattern of each format, and whether it is the whole format or the common part of it."""
REFUSED_FORMATS = (
    "idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "regex",
)  # fmt: skip
_KEPT = 64


def pattern_set(source: str, budget: Budget) -> TextSet:
    """Return the texts in which a schema's pattern is found somewhere.

    The pattern reads as in ECMA-262: `$` is the very end, `\\d`, `\\w` and `\\b` know ASCII.

    Raises:
        ConstraintError: it is not valid, or no automaton can follow it.
    """
    return _cached(_translate(source), True, budget.max_states, budget.max_seconds)


def format_set(name: Any, budget: Budget) -> TextSet | None:
    """Return the texts of a format; None for one that the standard does not know.

    Raises:
        ConstraintError: the standard knows the format, but it is not supported.
    """
    if not isinstance(name, str):
        raise ConstraintError(f"{name!r:.60} is no format", hint="name the format")
    if name in REFUSED_FORMATS:
        raise ConstraintError(
            f"format {name!r} is not supported", hint="leave it out, or say it by 'pattern'"
        )
    if name not in FORMATS:
        return None
    source, is_exact = FORMATS[name]
    found = _cached(f"(?s){source}", False, budget.max_states, max(budget.max_seconds, 5.0))
    if is_exact:
        return found
    return TextSet(found.starts, found.rows, found.accepting, is_exact=False)


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


def _translate(source: str) -> str:
    """Return an ECMA pattern in Python's writing.

    Raises:
        ConstraintError: it uses a construct that Python's patterns lack.
    """
    flags = _FLAGS.match(source)
    at = flags.end() if flags else 0
    out: list[str] = [f"(?a{flags.group(1) if flags else ''})"]
    in_class = False
    while at < len(source):
        token = source[at : at + 2] if source[at] == "\\" else source[at]
        if token in (r"\p", r"\P", r"\c", r"\k"):
            raise ConstraintError(
                f"regex has {token!r} at position {at}, which is not supported",
                hint="write the characters as a class",
                position=at,
            )
        if in_class:
            in_class = token != "]"
            # Sets of sets are not in this dialect; Python warns of what looks like them.
            out.append("\\" + token if token in tuple("[&~|") else token)
        else:
            at += _outside(source, at, token, out)
            in_class = token == "[" and not source.startswith(("[]", "[^]"), at)
        at += len(token)
    return "".join(out)


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
