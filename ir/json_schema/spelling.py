"""How sets of texts are spelled in JSON: characters as UTF-8 and as escapes.

A state's map from code points to next states is unfolded digit by digit: base 64 for the
bytes of UTF-8, base 16 for `\\uXXXX`; blocks that look alike are one node.
"""

from collections import OrderedDict

from lmc.ir.automata.budget import Budget
from lmc.ir.automata.graph import Edge, Template
from lmc.ir.json_schema.textset import TextSet

Pieces = tuple[tuple[int, int, int], ...]
"""(first, last, target) by offset in a block of code points, ascending."""

_SHORT = {0x22: 0x22, 0x5C: 0x5C, 0x08: 0x62, 0x0C: 0x66, 0x0A: 0x6E, 0x0D: 0x72, 0x09: 0x74}
_SLASH = 0x2F
_QUOTE, _BACKSLASH = 0x22, 0x5C
_KEPT = 256
_templates: "OrderedDict[tuple[bytes, bool], Template]" = OrderedDict()


def quoted(texts: TextSet, *, is_free: bool, budget: Budget) -> Template:
    """Return the JSON strings of a set of texts, quotes included.

    Args:
        texts: what the strings say.
        is_free: whether characters may be written as escapes: those beyond ASCII, and any
            one where all characters are alike. Otherwise only those that must be, so that
            each text has one spelling.
        budget: what may still be used.
    """
    key = (texts.key, is_free)
    found = _templates.pop(key, None)
    if found is None:
        found = _Speller(texts, is_free, budget).template()
    _templates[key] = found
    if len(_templates) > _KEPT:
        _templates.popitem(last=False)
    return found


class _Speller:
    """Unfolds one set of texts; node 0 is the opening quote."""

    def __init__(self, texts: TextSet, is_free: bool, budget: Budget) -> None:
        self.texts = texts
        self.is_free = is_free
        self.budget = budget
        self.nodes: list[list[Edge]] = [[(_QUOTE, _QUOTE, 1)]]
        self.memo: dict[tuple[str, int, Pieces], int] = {}

    def template(self) -> Template:
        """Return the finished piece."""
        count = len(self.texts.rows)
        self.nodes.extend([] for _ in range(count + 1))
        end = count + 1
        for state in range(count):
            spans = tuple((low, high, t + 1) for low, high, t in self.texts.spans(state))
            self.nodes[state + 1] = self._state(spans)
            if self.texts.accepting[state]:
                self.nodes[state + 1].append((_QUOTE, _QUOTE, end))
            self.budget.check_states(len(self.nodes) // 4)
        return Template(self.nodes, (end,))

    def _state(self, spans: Pieces) -> list[Edge]:
        edges: list[Edge] = []
        for low, high in ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)):
            edges.extend(_clip(spans, low, high))
        edges.extend(self._digits(_clip(spans, 0x80, 0x7FF), "utf8", 64, 0xC0))
        edges.extend(self._digits(_clip(spans, 0x800, 0xFFFF), "utf8", 4096, 0xE0))
        edges.extend(self._digits(_clip(spans, 0x10000, 0x10FFFF), "utf8", 64**3, 0xF0))
        escapes = self._escapes(spans)
        if escapes:
            edges.append((_BACKSLASH, _BACKSLASH, escapes))
        return edges

    def _digits(self, pieces: Pieces, kind: str, size: int, first: int) -> list[Edge]:
        """Return the edges of one digit, whose blocks hold `size` code points each."""
        edges: list[Edge] = []
        for digit, last, inner in _blocks(pieces, size):
            target = inner[0][2] if size == 1 else self._node(kind, size, inner)
            if edges and edges[-1][2] == target and edges[-1][1] + 1 == first + digit:
                edges[-1] = (edges[-1][0], first + last, target)
            else:
                edges.append((first + digit, first + last, target))
        return _hex(edges) if kind != "utf8" else edges

    def _node(self, kind: str, size: int, inner: Pieces) -> int:
        key = (kind, size, inner)
        found = self.memo.get(key)
        if found is None:
            if kind == "utf8":
                edges = self._digits(inner, kind, size // 64, 0x80)
            elif kind == "high" and size == 1024:
                return self._low(inner)
            else:
                edges = self._digits(inner, kind, size // 16, 0)
            self.nodes.append(edges)
            found = self.memo[key] = len(self.nodes) - 1
        return found

    def _low(self, inner: Pieces) -> int:
        """Return the node that reads the second half of a surrogate pair."""
        key = ("low", 1024, inner)
        if key not in self.memo:
            self.memo[key] = self._pair_lead(inner)
        return self.memo[key]

    def _pair_lead(self, inner: Pieces) -> int:
        edges = _hex(
            [(0xC + a, 0xC + b, self._node("hex", 256, part)) for a, b, part in
             _blocks(inner, 256)]
        )  # fmt: skip
        for letters in (b"Dd", b"u", b"\\"):
            self.nodes.append(edges)
            edges = [(value, value, len(self.nodes) - 1) for value in letters]
        self.nodes.append(edges)
        return len(self.nodes) - 1

    def _escapes(self, spans: Pieces) -> int:
        """Return the node after a backslash; 0 if no escape is allowed."""
        needed = _clip(spans, 0, 0x1F) + _clip(spans, _QUOTE, _QUOTE)
        needed += _clip(spans, _BACKSLASH, _BACKSLASH)
        is_free = self.is_free and len({target for _, _, target in spans}) == 1
        is_free = is_free and len(spans) <= 2
        key = ("escape", 0, spans if self.is_free else needed)
        if key in self.memo:
            return self.memo[key]
        edges: list[Edge] = []
        for point, letter in _SHORT.items():
            edges.extend((letter, letter, t) for _, _, t in _clip(spans, point, point))
        if is_free:
            edges.extend((_SLASH, _SLASH, t) for _, _, t in _clip(spans, _SLASH, _SLASH))
            digits = self._four_digits(spans)
        else:
            rest: Pieces = ()
            for low, high in ((0, 7), (11, 11), (14, 31)):
                rest += _clip(spans, low, high)
            rest += _clip(spans, 0x80, 0x10FFFF) if self.is_free else ()
            digits = self._four_digits(rest)
        if digits:
            self.nodes.append(digits)
            edges.append((0x75, 0x75, len(self.nodes) - 1))
        if edges:
            self.nodes.append(sorted(edges))
        self.memo[key] = len(self.nodes) - 1 if edges else 0
        return self.memo[key]

    def _four_digits(self, spans: Pieces) -> list[Edge]:
        """Return the edges after `\\u`: four digits, or a pair of surrogates."""
        high = tuple(
            (low - 0x10000, last - 0x10000, t) for low, last, t in _clip(spans, 0x10000, 0x10FFFF)
        )
        plain = _clip(spans, 0, 0xCFFF) + _clip(spans, 0xE000, 0xFFFF)
        edges = self._digits(plain, "hex", 4096, 0)
        after_d = tuple(
            (low - 0xD000, last - 0xD000, t) for low, last, t in _clip(spans, 0xD000, 0xD7FF)
        )
        inside = self._digits(after_d, "hex", 256, 0)
        inside += _hex(
            [(8 + a, 8 + b, self._node("high", 2**18, part)) for a, b, part in
             _blocks(high, 2**18)]
        )  # fmt: skip
        if inside:
            self.nodes.append(inside)
            edges += [(value, value, len(self.nodes) - 1) for value in b"dD"]
        return edges


def _clip(spans: Pieces, low: int, high: int) -> Pieces:
    """Return the part of some spans between two code points, both included."""
    return tuple((max(a, low), min(b, high), t) for a, b, t in spans if a <= high and b >= low)


def _blocks(pieces: Pieces, size: int) -> list[tuple[int, int, Pieces]]:
    """Return (first block, last block, its pieces by offset) for blocks of `size`."""
    found: list[tuple[int, int, Pieces]] = []
    for low, high, target in pieces:
        while low <= high:
            block = low // size
            if low % size == 0 and high - low + 1 >= size:
                last = (high + 1) // size - 1
                found.append((block, last, ((0, size - 1, target),)))
                low = (last + 1) * size
                continue
            end = min(high, (block + 1) * size - 1)
            piece = (low - block * size, end - block * size, target)
            if found and found[-1][1] == block:
                found[-1] = (block, block, (*found[-1][2], piece))
            else:
                found.append((block, block, (piece,)))
            low = end + 1
    return found


def _hex(edges: list[Edge]) -> list[Edge]:
    """Return edges over hexadecimal digits, given edges over their values."""
    found: list[Edge] = []
    for low, high, target in edges:
        if low <= 9:
            found.append((0x30 + low, 0x30 + min(high, 9), target))
        if high >= 10:
            for letter in (0x41, 0x61):
                found.append((letter + max(low, 10) - 10, letter + high - 10, target))
    return found
