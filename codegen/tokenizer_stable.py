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
from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from lmc.codegen.tokenizer_bytes import spell_bytes
from lmc.codegen.tokenizer_spec import TokenizerSpec

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as RustTokenizer

_WINDOW = 2048
"""Characters at the end of a text that are cut into words; more where no cut is certain."""
_MAX_WORD = 1024
"""Symbols of a last word beyond which its merges are not analysed (all of it is held back)."""

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
            text = text[: _nfc_border(text)]
        text = text[: self._added_border(text)]
        if not text or self._spec.splitter == "unknown":
            return 0
        start, can_grow = self._last_word(text)
        encoding = encode(text)
        stable = _count_before(encoding, start)
        if start < len(text) and can_grow:
            stable += self._stable_merges(text[start:])
        return stable

    def _last_word(self, text: str) -> tuple[int, bool]:
        """Return where the unsettled end starts, and whether it is one word that grows."""
        if self._spec.splitter == "whole":
            return self._blank_cut(text), True
        words = self._words(text)
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
        if start >= blank_from or (end > blank_from and _is_blank(word)):
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
    def _cuts_at_blanks(self) -> bool:
        """Whether no token has a blank behind another character."""
        return not any(
            re.search("[^\u2581]\u2581", token)
            for token in self._rust.get_vocab(with_added_tokens=True)
        )

    def _blank_cut(self, text: str) -> int:
        """Return the last place where a blank follows another character, else 0."""
        if not self._cuts_at_blanks:
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
    def _longest_token(self) -> int:
        return max(map(len, self._sorted_tokens), default=0)

    def _begins_token(self, spelling: str) -> bool:
        """Whether some token begins with a spelling."""
        at = bisect_left(self._sorted_tokens, spelling)
        return at < len(self._sorted_tokens) and self._sorted_tokens[at].startswith(spelling)

    def _stable_merges(self, word: str) -> int:
        """Return how many leading ids of a last word stay whatever follows in the word."""
        if getattr(self._model, "ignore_merges", False):
            return 0  # a word that is a token skips the merges, so the argument fails
        symbols = self._symbols(word)
        if len(symbols) > _MAX_WORD:
            return 0
        starts = range(max(0, len(symbols) - self._longest_token), len(symbols))
        borders = [i for i in starts if self._begins_token("".join(symbols[i:]))]
        encodings = (
            [token.id for token in self._model.tokenize("".join(symbols[:i]))]
            for i in (*borders, len(symbols))
        )
        return _common_prefix(encodings)

    def _symbols(self, word: str) -> list[str]:
        """Return what merging starts from: bytes or characters, without unknown ones."""
        if self._spec.alphabet == "metaspace":
            return list(word.replace(" ", "\u2581"))
        known = self._rust.token_to_id
        return [char for char in spell_bytes(word) if known(char) is not None]


def _count_before(encoding: "Encoding", position: int) -> int:
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


def _common_prefix(lists: Iterable[list[int]]) -> int:
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


def _is_blank(word: str) -> bool:
    """Whether a word may be white space to the pattern (a superset is safe)."""
    return word.isspace()


def _blank_tail(text: str) -> int:
    """Return where the white space at the end of a text starts."""
    return len(text.rstrip())


def _nfc_border(text: str) -> int:
    """Return a position before which no continuation changes the NFC form.

    The last character that cannot combine with what stands before it, and, where it may
    combine with what follows, not that character itself. Only well-known ranges count as
    such characters; others are taken for combining ones, which is safe.
    """
    for position in range(len(text) - 1, -1, -1):
        char = text[position]
        if char < "\x80":
            return position if char in _COMPOSING_ASCII else position + 1
        if _starts_cluster(ord(char)):
            return position
    return 0


def _starts_cluster(code: int) -> bool:
    """Whether a character never combines with one before it."""
    return (
        code < 0x300
        or 0x370 <= code < 0x483
        or 0x48A <= code < 0x590
        or 0x2010 <= code < 0x2070
        or 0x3000 <= code < 0x302A
        or 0x3041 <= code < 0x3097
        or 0x30A1 <= code < 0x30FB
        or 0x3400 <= code < 0xA000
        or 0xAC00 <= code < 0xD7A4
    )
