"""How many tokens lie within a piece of text whose neighbours are not known."""

from functools import cached_property, lru_cache

from lmc.ir.target import Tokenizer

WIDEST = 16
"""Characters of a piece that is looked at as a whole; longer ones are taken apart."""


class Borders:
    """Bounds on the tokens inside pieces of text, by a tokenizer's own encoding.

    What lies between two borders of an encoding is encoded as it would be alone: no merge goes
    across a border. So the tokens inside a piece are those of one of its parts, and one more may
    stand over each of its ends. Words are parted before tokens are merged, and what follows can
    move such a border, but not into the middle of letters; so two parts are taken.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.inside = lru_cache(maxsize=4096)(self._inside)

    def cut(self, text: str) -> int:
        """Return where the encoding of a text first depends on nothing that stands before it.

        That is where letters, digits, blanks or signs meet another kind and no token holds both
        characters: a border must lie there, and words are parted there as well.
        """
        for index in range(1, len(text)):
            if self._is_border(text[index - 1 : index + 1]):
                return index
        return len(text)

    def _is_border(self, pair: str) -> bool:
        if not pair.isascii() or _kind(pair[0]) == _kind(pair[1]):
            return False
        return pair.encode() not in self._held_pairs

    @cached_property
    def _held_pairs(self) -> frozenset[bytes]:
        """Every two bytes that stand side by side in a token."""
        pieces = [piece for piece in self._tokenizer.token_bytes() if piece and len(piece) > 1]
        return frozenset(piece[at : at + 2] for piece in pieces for at in range(len(piece) - 1))

    def _inside(self, text: str) -> int:
        """Return the most tokens that lie wholly inside a piece, whatever stands around it."""
        if not text.isascii():
            return len(text.encode("utf-8", "surrogatepass"))
        pieces = [text[at : at + WIDEST] for at in range(0, len(text), WIDEST)]
        inside = sum(map(self._within, pieces)) + max(0, len(pieces) - 1)
        return min(inside, len(text))

    def _within(self, text: str) -> int:
        size = len(text)
        # most[p][q]: tokens of the part from p to q as one word.
        most = [
            [len(self._tokenizer.encode(text[p:q])) if q > p else 0 for q in range(size + 1)]
            for p in range(size + 1)
        ]
        ends = [k for k in range(1, size) if not text[k - 1 : k + 1].isalpha()]
        return max(
            most[p][k] + most[k][q]
            for k in (0, *ends, size)
            for p in range(k + 1)
            for q in range(k, size + 1)
        )


def _kind(char: str) -> str:
    if char.isalpha():
        return "letter"
    return "digit" if char.isdigit() else "blank" if char.isspace() else "sign"
