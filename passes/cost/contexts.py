"""Contexts as sequences of symbols: token ids, and stretches whose length alone is bounded."""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from lmc.ir.target import Tokenizer
from lmc.passes.cost.intervals import Interval, exactly, hull
from lmc.passes.cost.values import MAX_CHOICES


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of text that is not known: one of `texts`, or of at most `size` tokens."""

    serial: int
    size: float
    texts: tuple[str, ...] | None = None


Part = str | Gap

_ACROSS_WORDS = re.compile(rb"[A-Za-z] [A-Za-z]")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens of a context that are told apart from others by `key` alone.

    `tokens` is how many they are, `prefill` how many of them a call behind them has to compute
    where no call before it did: those that were generated are there already, but for the last.
    """

    key: object
    tokens: Interval
    prefill: Interval


Symbol = int | Stretch


class Tree:
    """Numbers for prefixes of contexts, so that a set of numbers is a set of prefixes."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, object], int] = {}

    def walk(self, symbols: Sequence[Symbol]) -> Iterator[int]:
        """Yield the number of every prefix, shortest first."""
        number = 0
        for symbol in symbols:
            key = symbol if isinstance(symbol, int) else symbol.key
            number = self._numbers.setdefault((number, key), len(self._numbers) + 1)
            yield number


@dataclass(slots=True)
class Computed:
    """Prefixes whose keys and values are certainly in the cache."""

    tree: Tree
    known: set[int] = field(default_factory=set)

    def copy(self) -> "Computed":
        """Return a copy that grows on its own."""
        return Computed(self.tree, set(self.known))

    def missing(self, symbols: Sequence[Symbol]) -> tuple[Interval, float]:
        """Return the tokens of a context that are not computed yet, and those to be held."""
        prefill, held = Interval(), 0.0
        for symbol, number in zip(symbols, self.tree.walk(symbols), strict=True):
            if number not in self.known:
                prefill += exactly(1) if isinstance(symbol, int) else symbol.prefill
                held += 1 if isinstance(symbol, int) else symbol.tokens.high
        return prefill, held

    def add(self, symbols: Sequence[Symbol]) -> None:
        """Note that a context is computed."""
        self.known.update(self.tree.walk(symbols))


class Encoder:
    """Turns runs of text with gaps into symbols, by a tokenizer's own encoding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._encode = lru_cache(maxsize=4096)(self._encoded)
        self._heads_of: dict[frozenset[bytes], int] = {}

    def _encoded(self, text: str, first: bool) -> tuple[tuple[int, ...], int]:
        ids = tuple(self.tokenizer.encode(text, first=first))
        return ids, self.tokenizer.stable_len(text, first=first) if text else 0

    def symbols(self, parts: Sequence[Part], *, first: bool, is_open: bool) -> list[Symbol]:
        """Return a run's symbols; of an open run only what no continuation can change."""
        texts = spellings(parts)
        if texts is not None:
            encoded = [self._encode(text, first) for text in texts]
            rows = [ids[:stable] if is_open else ids for ids, stable in encoded]
            return self._merged(rows, tuple(parts))
        head = parts[0] if isinstance(parts[0], str) else ""
        ids, stable = self._encode(head, first) if head else ((), 0)
        if is_open:
            return list(ids[:stable])
        return [*ids[:stable], self._bounded(head, ids[stable:], parts, first)]

    def _merged(self, rows: Sequence[tuple[int, ...]], key: object) -> list[Symbol]:
        common = _common_len(rows)
        symbols: list[Symbol] = list(rows[0][:common])
        rests = [len(row) - common for row in rows]
        if any(rests):
            tokens = hull(map(exactly, rests))
            symbols.append(Stretch(("text", key), tokens, tokens))
        return symbols

    def _bounded(
        self, head: str, tail: Sequence[int], parts: Sequence[Part], first: bool
    ) -> Stretch:
        """Bound the rest of a run behind its stable beginning: no token is shorter than a byte."""
        size, low = self._bytes_of(tail), 0.0
        rest = parts[1:] if head else parts
        for position, part in enumerate(rest):
            if isinstance(part, Gap):
                size += part.size
                continue
            cut = safe_cut(part) if self.parts_words else len(part)
            size += len(part[:cut].encode("utf-8", "surrogatepass"))
            if cut < len(part):
                ids, stable = self._encode(part[cut:], False)
                is_last = position == len(rest) - 1
                fixed = len(ids) if is_last else stable
                size += fixed + self._bytes_of(ids[fixed:])
                low += fixed
        return Stretch(("text", tuple(parts), first), Interval(low, size), Interval(low, size))

    def _bytes_of(self, token_ids: Sequence[int]) -> float:
        return float(sum(len(self._pieces[token] or b"") for token in token_ids))

    @cached_property
    def _pieces(self) -> Sequence[bytes | None]:
        return self.tokenizer.token_bytes()

    @cached_property
    def parts_words(self) -> bool:
        """Whether no token holds a letter, a blank and a letter: then words are encoded alone."""
        return not any(piece and _ACROSS_WORDS.search(piece) for piece in self._pieces)

    @cached_property
    def longest_piece(self) -> int:
        """The bytes of the longest token."""
        return max(len(piece or b"") for piece in self._pieces)

    def longest_head(self, stops: Sequence[str]) -> int:
        """Return how many bytes of a token may stand before a stop string that begins in it."""
        starts = {stop.encode("utf-8", "surrogatepass")[:1] for stop in stops if stop}
        if frozenset(starts) not in self._heads_of:
            heads = (_head_len(piece, starts) for piece in self._pieces if piece)
            self._heads_of[frozenset(starts)] = max(heads, default=0)
        return self._heads_of[frozenset(starts)]

    @cached_property
    def longest_broken_head(self) -> int:
        """The bytes of whole characters before the begun one at the end of a token."""
        return max(map(_whole_len, filter(None, self._pieces)), default=0)


def spellings(parts: Sequence[Part]) -> list[str] | None:
    """Return every text that a run may be; None where they are too many or not known."""
    options: list[tuple[str, ...]] = []
    count = 1
    for part in parts:
        texts = (part,) if isinstance(part, str) else part.texts
        if texts is None:
            return None
        options.append(texts)
        count *= len(texts)
    if count > MAX_CHOICES:
        return None
    return ["".join(row) for row in itertools.product(*options)]


def safe_cut(text: str) -> int:
    """Return where the encoding of a text no longer depends on what stands before it.

    That is before a blank that parts two letters: no token goes across one, since vocabularies
    hold the blank with the word behind it.
    """
    for index in range(1, len(text) - 1):
        if text[index] == " " and text[index - 1].isalpha() and text[index + 1].isalpha():
            return index
    return len(text)


def _head_len(piece: bytes, starts: Collection[bytes]) -> int:
    """Return the place of the last byte of a token that begins a stop string."""
    return max((piece.rfind(start) for start in starts), default=0)


def _whole_len(piece: bytes) -> int:
    """Return the length of a token up to a character that it only begins; 0 without one."""
    for back in range(1, min(4, len(piece)) + 1):
        byte = piece[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(piece) - back if needed > back else 0
        if byte < 0x80:
            return 0
    return 0


def _common_len(rows: Sequence[Sequence[int]]) -> int:
    size = min(map(len, rows))
    return next((i for i in range(size) if len({row[i] for row in rows}) > 1), size)
