"""Which leading ids of a text run no continuation can change.

A run `a` may go on with any `b`; the ids that `encode(a)` and every `encode(a + b)` have in
common at the start may be computed, cached and shared before `b` is known. The answer is
proved from the tokenizer's structure, in two steps.

**Cuts.** A splitter cuts the text into words that are merged apart from each other. The
GPT-2 family of patterns scans from left to right; where a match ends depends only on the
characters that the pattern looked at. So a word is settled unless the pattern looked at the
end of the text, which happens for
- the last word, except a complete contraction (`'s`) and a complete group of digits;
- a word of white space in a run that reaches the end (`\\s+(?!\\S)` gives its last
  character back when a word follows);
- an apostrophe at most two characters before the end (it may open a contraction).
Words before the first unsettled one are settled under every continuation.

**Merges.** Let `w` be the last word, which a continuation can only make longer. In the
encoding of the longer word, some token reaches over the end of `w` or starts at it. It
starts at a position `i` where `w[i:]` begins a token of the vocabulary, and what lies to its
left is exactly `encode(w[:i])`: merges on one side of a border that survives do not depend
on the other side. What all `encode(w[:i])` have in common is therefore stable. The argument
is that of incremental BPE (github/rust-gems, crate `bpe`, "properties of BPE").

Vocabularies without a splitter (SentencePiece) are cut before blanks that follow another
character, if no token has a blank behind another character; merges then cannot cross.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from lmc.codegen.tokenizer_bytes import byte_alphabet, spell_bytes
from lmc.codegen.tokenizer_spec import TokenizerSpec

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers.models import Model

_WINDOW = 2048
"""Characters at the end of a text that are cut into words; more where no cut is certain."""
LONG_WORD = 512
"""Symbols of a last word beyond which only its end is merged again."""
_MAX_RESTARTS = 8
"""Places that are tried to merge a long word from, before its start."""

_CERTAIN_CUT = re.compile(r"[A-Za-z](?= [A-Za-z])")
_CONTRACTIONS = frozenset(("'s", "'t", "'re", "'ve", "'m", "'ll", "'d"))
_COMPOSING_ASCII = frozenset("<=>abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class StableBorder:
    """The stable part of encodings under one tokenizer."""

    def __init__(self, rust: "RustTokenizer", spec: TokenizerSpec) -> None:
        self._rust = rust
        self._spec = spec
        self._splitter = rust.pre_tokenizer
        self._model = rust.model

    def stable_len(self, text: str, encode: Callable[[str], "Encoding"]) -> int:
        """Return how many leading ids of `encode(text)` no continuation can change."""
        if self._spec.is_nfc:
            text = unicodedata.normalize("NFC", text)
        text = text[: self.whole_border(text)]
        if not text or self._spec.splitter == "unknown":
            return 0
        encoding = encode(text)
        piece = self.last_piece(encoding)
        start, can_grow = self.last_word(text[piece:])
        start += piece
        stable = count_before(encoding, start)
        if start < len(text) and can_grow:
            stable += self._stable_merges(text[start:])
        return stable

    def whole_border(self, text: str) -> int:
        """Return before which place a continuation neither composes nor makes added tokens."""
        border = _nfc_border(text) if self._spec.is_nfc else len(text)
        return self._added_border(text[:border])

    def last_piece(self, encoding: "Encoding") -> int:
        """Return where the text after the last added token starts."""
        added = {token_id for token_id, _ in self._spec.text_tokens}
        if added:
            ids = encoding.ids
            for index in range(len(ids) - 1, -1, -1):
                if ids[index] in added and (span := encoding.token_to_chars(index)):
                    return span[1]
        return 0

    def last_word(self, text: str) -> tuple[int, bool]:
        """Return where the unsettled end starts, and whether it is one word that grows."""
        if self._spec.splitter == "whole":
            return self.blank_cut(text), True
        words = self._words(text)
        if not words:
            return 0, False
        if self._spec.splitter == "blanks":
            return words[-1][0], True
        unsettled = self._first_unsettled(text, words)
        if unsettled is None:
            return len(text), False
        start, end = unsettled
        return start, end == len(text) and not text[start:].isspace()

    def _words(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the last words of a text."""
        offset = 0
        if len(text) > _WINDOW and self._spec.splitter == "regex":
            cut = _CERTAIN_CUT.search(text, len(text) - _WINDOW)
            offset = cut.end() if cut is not None else 0
        assert self._splitter is not None, "a splitter of this kind has a pre-tokenizer"
        pieces = self._splitter.pre_tokenize_str(text[offset:])
        return [(offset + start, offset + end) for _, (start, end) in pieces]

    def _first_unsettled(self, text: str, words: list[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the leftmost word that a continuation can change."""
        blank_from = _blank_tail(text)
        found = None
        for start, end in reversed(words):
            if self._is_unsettled(text, start, end, blank_from):
                found = (start, end)
            elif end < min(blank_from, len(text) - 3):
                break
        return found

    def _is_unsettled(self, text: str, start: int, end: int, blank_from: int) -> bool:
        word = text[start:end]
        if word.lower() in _CONTRACTIONS:
            return False
        if end == len(text):
            group = self._spec.digit_group
            return not (group and len(word) == group and word.isascii() and word.isdigit())
        if start >= blank_from:
            return True
        return word[0] == "'" and start >= len(text) - 2

    @cached_property
    def _added_prefixes(self) -> frozenset[str]:
        """Proper beginnings of added tokens, if any of them is found in user text."""
        if not self._spec.text_tokens:
            return frozenset()
        tokens = [text for _, text in (*self._spec.text_tokens, *self._spec.controls)]
        return frozenset(token[:n] for token in tokens for n in range(1, len(token)))

    def _added_border(self, text: str) -> int:
        """Return where the first added token may begin that the continuation completes."""
        prefixes = self._added_prefixes
        longest = max(map(len, prefixes), default=0)
        border = len(text)
        for start in range(max(0, len(text) - longest), len(text)):
            if text[start:] in prefixes:
                border = start
                break
        return border

    @cached_property
    def cuts_at_blanks(self) -> bool:
        """Whether no token has a blank behind another character."""
        return not any(
            re.search("[^\u2581]\u2581", token)
            for token in self._rust.get_vocab(with_added_tokens=True)
        )

    def blank_cut(self, text: str) -> int:
        """Return the last place where a blank follows another character, else 0."""
        if not self.cuts_at_blanks:
            return 0
        end = len(text)
        while end > 0:
            blank = max(text.rfind(" ", 0, end), text.rfind("\u2581", 0, end))
            if blank <= 0:
                return 0
            if text[blank - 1] not in " \u2581":
                return blank
            end = blank
        return 0

    @cached_property
    def _sorted_tokens(self) -> list[str]:
        """Spellings of all tokens that merging can make, sorted."""
        return sorted(self._rust.get_vocab(with_added_tokens=False))

    @cached_property
    def longest_token(self) -> int:
        return max(map(len, self._sorted_tokens), default=0)

    def _begins_token(self, spelling: str) -> bool:
        """Whether some token begins with a spelling."""
        at = bisect_left(self._sorted_tokens, spelling)
        return at < len(self._sorted_tokens) and self._sorted_tokens[at].startswith(spelling)

    @cached_property
    def _merger(self) -> "Model":
        """The model that merges, without the short cut for words that are tokens."""
        if not getattr(self._model, "ignore_merges", False):
            return self._model
        from tokenizers import Tokenizer

        plain = self._spec.model_json.replace('"ignore_merges":true', '"ignore_merges":false')
        return Tokenizer.from_str(plain).model

    def _stable_merges(self, word: str) -> int:
        """Return how many leading ids of a last word stay whatever follows in the word."""
        symbols = self.symbols_of(word)
        starts = range(max(0, len(symbols) - self.longest_token), len(symbols))
        borders = [i for i in starts if self._begins_token("".join(symbols[i:]))]
        borders.append(len(symbols))
        for count, restart, before in self._restarts(symbols):
            encodings = [self.merge(symbols[restart:i]) for i in borders]
            if not before or all(self._is_border(before, ids) for ids in encodings):
                return count + common_prefix(encodings)
        raise AssertionError("the last restart is the start of the word")

    def _restarts(self, symbols: list[str]) -> Iterator[tuple[int, int, list[int]]]:
        """Yield places to merge a long word from: ids before, position, the last id.

        Two encodings side by side are the encoding of the whole if the ids at their border
        are (they alone decide whether a merge crosses it), so that the end of a word can be
        merged again without its start.
        """
        if len(symbols) > LONG_WORD:
            ends = list(accumulate(len(symbol.encode()) for symbol in symbols))
            tokens = self._merger.tokenize("".join(symbols))
            last = len(symbols) - self.longest_token - 1
            near = bisect_right(tokens, last, key=lambda t: bisect_left(ends, t.offsets[1]) + 1)
            for count in range(near, max(0, near - _MAX_RESTARTS), -1):
                position = bisect_left(ends, tokens[count - 1].offsets[1]) + 1
                yield count, position, [tokens[count - 1].id]
        yield 0, 0, []

    def merge(self, symbols: list[str]) -> list[int]:
        return [token.id for token in self._merger.tokenize("".join(symbols))]

    def _is_border(self, before: list[int], ids: list[int]) -> bool:
        """Whether no merge crosses the border between an id and the ids after it."""
        pair = before + ids[:1]
        spelled = [self._rust.id_to_token(i) or "" for i in pair]
        return not ids or self.merge(spelled) == pair

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        """The characters of the byte-level alphabet that the vocabulary has."""
        return frozenset(c for c in byte_alphabet() if self._rust.token_to_id(c) is not None)

    def symbols_of(self, word: str) -> list[str]:
        """Return what merging starts from: bytes or characters, without unknown ones."""
        if self._spec.alphabet == "metaspace":
            return list(word.replace(" ", "\u2581"))
        return [char for char in spell_bytes(word) if char in self._alphabet]


def count_before(encoding: "Encoding", position: int) -> int:
    """Return how many tokens start before a character position."""
    low, high = 0, len(encoding)
    while low < high:
        middle = (low + high) // 2
        span = encoding.token_to_chars(middle)
        assert span is not None, "a token of a text has a place in it"
        if span[0] < position:
            low = middle + 1
        else:
            high = middle
    return low


def common_prefix(lists: Iterable[list[int]]) -> int:
    """Return the length of the longest common start of some lists."""
    common: list[int] | None = None
    for ids in lists:
        if common is None:
            common = ids
            continue
        same = 0
        while same < min(len(common), len(ids)) and common[same] == ids[same]:
            same += 1
        common = common[:same]
    return len(common or ())


def _blank_tail(text: str) -> int:
    """Return where the white space at the end of a text starts.

    Python strips a superset of what the patterns take for white space, which is safe.
    """
    return len(text.rstrip())


def _nfc_border(text: str) -> int:
    """Return a position before which no continuation changes the NFC form.

    The last character that cannot combine with what stands before it, and, where it may
    combine with what follows, not that character itself.
    """
    for position in range(len(text) - 1, -1, -1):
        char = text[position]
        if char < "\x80":
            return position if char in _COMPOSING_ASCII else position + 1
        if _starts_cluster(char):
            return position
    return 0


def _starts_cluster(char: str) -> bool:
    """Whether a character never combines with one before it.

    Characters that do are marks, or vowels and finals of Hangul, or lie in scripts beyond
    the basic plane; of the latter only ideographs and pictographs are taken for safe.
    """
    code = ord(char)
    if 0x1160 <= code <= 0x11FF or 0xD7B0 <= code <= 0xD7FF:
        return False
    if code > 0xFFFF and not (0x1F000 <= code <= 0x1FAFF or 0x20000 <= code <= 0x323AF):
        return False
    is_base = unicodedata.category(char)[0] in "LNPSZ"
    return is_base and not unicodedata.combining(char)
