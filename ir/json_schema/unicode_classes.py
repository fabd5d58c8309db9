"""Classes of characters by their names in Unicode, as members of a class in a pattern."""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

_LAST = 0x10FFFF
_SPACE = ((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
          (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF))  # fmt: skip
LINE_ENDS = r"\n\r\u2028\u2029"

_GENERAL = {
    "L": "Letter", "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter", "Lo": "Other_Letter", "M": "Mark", "Mn": "Nonspacing_Mark",
    "Mc": "Spacing_Mark", "Me": "Enclosing_Mark", "N": "Number", "Nd": "Decimal_Number",
    "Nl": "Letter_Number", "No": "Other_Number", "P": "Punctuation",
    "Pc": "Connector_Punctuation", "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation",
    "Pe": "Close_Punctuation", "Pi": "Initial_Punctuation", "Pf": "Final_Punctuation",
    "Po": "Other_Punctuation", "S": "Symbol", "Sm": "Math_Symbol", "Sc": "Currency_Symbol",
    "Sk": "Modifier_Symbol", "So": "Other_Symbol", "Z": "Separator", "Zs": "Space_Separator",
    "Zl": "Line_Separator", "Zp": "Paragraph_Separator", "C": "Other", "Cc": "Control",
    "Cf": "Format", "Co": "Private_Use", "Cn": "Unassigned",
}  # fmt: skip
_BY_NAME = {name: short for short, long in _GENERAL.items() for name in (short, long)} | {
    "LC": "LC", "Cased_Letter": "LC", "punct": "P", "digit": "Nd", "cntrl": "Cc",
    "Combining_Mark": "M",
}  # fmt: skip


def class_members(token: str) -> str | None:
    r"""Return what `\s`, `\S`, `\p{Name}` and `\P{Name}` stand for, as members of a class.

    Names are those of general categories, `ASCII` and `Any`; None for others.
    """
    if token in (r"\s", r"\S"):
        return _written(_SPACE if token == r"\s" else _others(_SPACE))
    name = token[3:-1].removeprefix("General_Category=").removeprefix("gc=")
    if name in ("ASCII", "Any"):
        spans: Iterable[tuple[int, int]] = ((0, 127 if name == "ASCII" else _LAST),)
    elif name in _BY_NAME:
        spans = _category(_BY_NAME[name])
    else:
        return None
    return _written(_others(spans) if token[1] == "P" else spans)


@lru_cache(maxsize=8)
def _category(short: str) -> tuple[tuple[int, int], ...]:
    """Return the code points of a general category, as spans; surrogates are in none."""
    wanted = ("Lu", "Ll", "Lt") if short == "LC" else (short,)
    spans: list[tuple[int, int]] = []
    for point in range(_LAST + 1):
        if unicodedata.category(chr(point)).startswith(wanted) and not 0xD800 <= point < 0xE000:
            if spans and spans[-1][1] == point - 1:
                spans[-1] = (spans[-1][0], point)
            else:
                spans.append((point, point))
    return tuple(spans)


def _others(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans between some spans, which ascend."""
    start = 0
    for low, high in spans:
        if low > start:
            yield start, low - 1
        start = high + 1
    if start <= _LAST:
        yield start, _LAST


def _written(spans: Iterable[tuple[int, int]]) -> str:
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in spans)
