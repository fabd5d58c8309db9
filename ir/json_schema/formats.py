"""Formats of strings as sets of texts."""

from dataclasses import replace
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.json_schema.patterns import full_match
from lmc.ir.json_schema.textset import TextSet

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
_SUB = r"!$&'()*+,;="
_UCS = (
    r"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(rf"\U000{plane:x}0000-\U000{plane:x}fffd" for plane in range(1, 14))
    + r"\U000e1000-\U000efffd"
)
_PRIVATE = r"\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"


def _addresses(ucs: str, private: str) -> tuple[str, str]:
    """Return the patterns of URIs and of references, with further characters (RFC 3986, 3987)."""
    unreserved = r"A-Za-z0-9._~\-" + ucs
    pchar = rf"(?:[{unreserved}{_SUB}:@]|{_PCT})"
    nc = rf"(?:[{unreserved}{_SUB}@]|{_PCT})"
    future = rf"[vV][0-9A-Fa-f]+\.[A-Za-z0-9._~\-{_SUB}:]+"
    host = rf"(?:\[(?:{_IPV6}|{future})\]|(?:[{unreserved}{_SUB}]|{_PCT})*)"
    authority = rf"(?:(?:[{unreserved}{_SUB}:]|{_PCT})*@)?{host}(?::[0-9]*)?"
    rest = rf"(?:/{pchar}*)*"
    hier = rf"(?://{authority}{rest}|/(?:{pchar}+{rest})?|{pchar}+{rest}|)"
    relative = rf"(?://{authority}{rest}|/(?:{pchar}+{rest})?|{nc}+{rest}|)"
    tail = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:#(?:{pchar}|[/?])*)?"
    uri = rf"[A-Za-z][A-Za-z0-9+.-]*:{hier}{tail}"
    return uri, rf"(?:{uri}|{relative}{tail})"


_URI, _URI_REFERENCE = _addresses("", "")
_IRI, _IRI_REFERENCE = _addresses(_UCS, _PRIVATE)
_EASTERN = r"\u3041-\u3094\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3"
_IDN = r"a-z0-9\u00df-\u00f6\u00f8-\u00ff\u0430-\u044f" + _EASTERN
_IDN_LABEL = rf"(?:{_LABEL}|[{_IDN}](?:[{_IDN}]{{0,7}}[{_IDN}])?)"
_IDN_HOSTNAME = rf"{_IDN_LABEL}(?:\.{_IDN_LABEL}){{0,5}}"
"""Labels are ASCII, or of letters of a few scripts that may stand anywhere in one."""
_LETTERS = (
    r"\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0391-\u03a1\u03b1-\u03c9\u0400-\u0481" + _EASTERN
)
_IDN_ATEXT = rf"(?:{_ATEXT}|[{_LETTERS}])"
_VARIABLE = rf"(?:[A-Za-z0-9_]|{_PCT})(?:\.?(?:[A-Za-z0-9_]|{_PCT}))*(?::[1-9][0-9]{{0,3}}|\*)?"
_LITERALS = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_PCT})"
_URI_TEMPLATE = rf"(?:{_LITERALS}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_NUMBER = r"[0-9]+"
_DTIME = rf"T(?:{_NUMBER}H(?:{_NUMBER}M(?:{_NUMBER}S)?)?|{_NUMBER}M(?:{_NUMBER}S)?|{_NUMBER}S)"
_DDATE = rf"(?:{_NUMBER}Y(?:{_NUMBER}M(?:{_NUMBER}D)?)?|{_NUMBER}M(?:{_NUMBER}D)?|{_NUMBER}D)"


def _regexes(depth: int) -> str:
    """Return a pattern of patterns, valid in ECMA-262 and Python, with groups nested so deep."""
    marks = r"\^$\\.*+?()\[\]{}|/"
    escape = rf"\\(?:[dDsSwWfnrtv{marks}]|x[0-9A-Fa-f]{{2}}|u[0-9A-Fa-f]{{4}})"
    spans = "|".join(
        f"{low}-[{low}-{last}]"
        for first, last in ("az", "AZ", "09")
        for low in map(chr, range(ord(first), ord(last) + 1))
    )
    one = rf"(?:{spans}|[^\\\]\[\-\^\n\r\u2028\u2029]|{escape})"
    chars = rf"\[\^?(?:{one}+-?|-)\]"
    count = r"\{(?:[0-9]{1,4},?|0,[0-9]{1,4}|1,[1-9][0-9]{0,3}|[2-9],[1-9][0-9]{1,3})\}"
    atom = rf"[^{marks}\n\r\u2028\u2029]|\.|{escape}|{chars}"
    anchor = r"\^|\$|\\[bB]"
    inside = ""
    for _ in range(depth + 1):
        group = rf"|\((?:\?:)?{inside}\)" if inside else ""
        look = rf"|\(\?[=!]{inside}\)" if inside else ""
        term = rf"(?:(?:{atom}{group})(?:(?:[*+?]|{count})\??)?|{anchor}{look})"
        inside = rf"(?:{term}|\|)*"
    return inside


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
    "uri-reference": (_URI_REFERENCE, True),
    "iri": (_IRI, True),
    "iri-reference": (_IRI_REFERENCE, True),
    "idn-hostname": (_IDN_HOSTNAME, False),
    "idn-email": (rf"(?=[^@]{{1,21}}@){_IDN_ATEXT}+(?:\.{_IDN_ATEXT}+)*@{_IDN_HOSTNAME}", False),
    "uri-template": (_URI_TEMPLATE, False),
    "regex": (_regexes(2), False),
    "uuid": (r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", True),
    "json-pointer": (_POINTER, True),
    "relative-json-pointer": (rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})", True),
}
"""Pattern of each format, and whether it is the whole format or the common part of it."""


def format_set(name: Any, budget: Budget) -> TextSet | None:
    """Return the texts of a format; None for one that the standard does not know.

    Raises:
        ConstraintError: it is no name.
    """
    if not isinstance(name, str):
        raise ConstraintError(f"{name!r:.60} is no format", hint="name the format")
    if name not in FORMATS:
        return None
    source, is_exact = FORMATS[name]
    found = full_match(f"(?s){source}", budget)
    return found if is_exact else replace(found, is_exact=False)
