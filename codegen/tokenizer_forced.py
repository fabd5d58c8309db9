"""Which ids spell text that must come, as far as nothing that may follow can change them.

A constraint forces a text; what comes before it in the same generation has its ids already.
Wanted are the ids that the tokenizer itself would write next, whatever the constraint allows
after the forced text. This is the question of codegen.tokenizer_stable with two things known:
which ids stand before, and which tokens may reach over the end of the text.

Where no token that may come begins inside the text and goes past its end, the encoding has a
border at the end. Else it has one at the end or where such a token begins. For each of these
places the ids to the left of it are those of the text up to there (incremental BPE: see
tokenizer_stable). What all of them that begin with the ids already written have in common is
certain. If none does, what was written is not what the tokenizer would have written.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmc.codegen.tokenizer_bytes import bytes_of_spelling
from lmc.codegen.tokenizer_spec import TokenizerSpec
from lmc.codegen.tokenizer_stable import LONG_WORD, StableBorder, common_prefix, count_before

if TYPE_CHECKING:
    from tokenizers import Encoding

Crosses = Callable[[bytes], bool]
"""Whether a token that begins with these last bytes of the text and goes past its end may come."""

_REGEX_CUT = re.compile(r"(?:[A-Za-z0-9](?=[\x00-&(-/:-@\[-`{-\x7f])|\S(?= ))")
"""Before the place where every pattern of the GPT-2 family cuts, whatever stands around: no
match goes on from an ASCII letter or digit to anything but letters and digits, apart from
the apostrophe of a contraction; none has a blank behind anything that is no white space."""


@dataclass(frozen=True, slots=True)
class _Way:
    """How the text may be encoded: the ids up to a place, which is its end or before it.

    `is_open`: what comes after the ids is not known, else it begins with a token that goes
    past the end of the text, or nothing comes.
    """

    ids: list[int]
    is_open: bool = False

    def fits(self, written: list[int]) -> bool:
        """Whether the ids written may be the first of this encoding."""
        have = self.ids[: len(written)]
        return have == written if not self.is_open else have == written[: len(have)]


class ForcedIds:
    """The certain ids of forced text under one tokenizer.

    Args:
        border: what is known of the stable part of encodings.
        spec: the tokenizer.
        table: bytes by id.
    """

    def __init__(
        self, border: StableBorder, spec: TokenizerSpec, table: Sequence[bytes | None]
    ) -> None:
        self._border = border
        self._spec = spec
        self._table = table

    def cut(self, text: str) -> int:
        """Return the last place at which text is cut whatever stands around it, else 0.

        What stands before it does not change how what follows is encoded, nor the reverse.
        """
        if self._spec.splitter == "regex":
            end = 0
            for match in _REGEX_CUT.finditer(text):
                end = match.end()
            return end
        if self._spec.splitter in ("blanks", "whole") and self._border.cuts_at_blanks:
            return self._border.blank_cut(text)
        return 0

    def after(
        self,
        text: str,
        written: list[int],
        crosses: Crosses | None,
        encode: "Callable[[str], Encoding]",
    ) -> list[int] | None:
        """Return the ids that certainly follow `written`; see Tokenizer.forced_ids."""
        encoding = encode(text)
        if not self._spells(encoding.ids, text):
            return []
        fitting = [
            way.ids for way in self._ways(text, encoding, crosses, encode) if way.fits(written)
        ]
        if not fitting:
            return None
        return fitting[0][len(written) : common_prefix(fitting)]

    def _spells(self, ids: list[int], text: str) -> bool:
        """Whether ids are the very text: nothing was normalised or dropped."""
        return b"".join(self._table[i] or b"" for i in ids) == text.encode()

    def _ways(
        self,
        text: str,
        encoding: "Encoding",
        crosses: Crosses | None,
        encode: "Callable[[str], Encoding]",
    ) -> list[_Way]:
        """Return the encodings that the text may have, each up to where it is known."""
        ids = encoding.ids
        if crosses is None:
            return [_Way(ids)]
        border = self._border
        if border.whole_border(text) < len(text):
            return [_Way(ids[: border.stable_len(text, encode)], is_open=True)]
        if self._spec.splitter == "unknown":
            return [_Way([], is_open=True)]
        piece = border.last_piece(encoding)
        start, can_grow = border.last_word(text[piece:])
        word = text[piece + start :]
        settled = ids[: count_before(encoding, piece + start)]
        if not word:
            return [_Way(settled)]
        # A single blank cannot be cut, so it is alone, with what follows, or in a longer word.
        can_grow = can_grow or (len(word) == 1 and word.isspace())
        symbols = border.symbols_of(word)
        if not can_grow or len(symbols) > LONG_WORD:
            return [_Way(settled, is_open=True)]
        ways = [
            _Way(settled + border.merge(symbols[:at])) for at in self._borders(symbols, crosses)
        ]
        return [*ways, _Way(ids)]

    def _borders(self, symbols: list[str], crosses: Crosses) -> list[int]:
        """Return where in the last word a border may be that is not its end."""
        first = max(0, len(symbols) - self._border.longest_token)
        return [at for at in range(first, len(symbols)) if crosses(self._bytes(symbols[at:]))]

    def _bytes(self, symbols: list[str]) -> bytes:
        spelled = "".join(symbols)
        if self._spec.alphabet == "metaspace":
            return spelled.replace("\u2581", " ").encode()
        return bytes_of_spelling(spelled)
