"""Contexts as sequences of symbols: token ids, and stretches whose length alone is bounded."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from lmc.ir.target import Tokenizer
from lmc.passes.cost.borders import Borders
from lmc.passes.cost.intervals import Interval, exactly, hull
from lmc.passes.cost.values import MAX_CHOICES


@dataclass(frozen=True, slots=True)
class Gap:
    """A piece of text that is not known: one of `texts`, or of at most `size` tokens."""

    serial: int
    size: float
    texts: tuple[str, ...] | None = None


Part = str | Gap

MAX_HEADS = 64
"""Beginnings of tokens that are encoded one by one; shorter ones count with their bytes."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Tokens of a context that are told apart from others by `key` alone.

    Attributes:
        tokens: how many they are.
        prefill: how many of them a call behind them has to compute where no call before it
            did: those that were generated are there already, but for the last.
        held: how many of them the cache does not hold for another reason.
    """

    key: object
    tokens: Interval
    prefill: Interval
    held: float

    @property
    def is_one_text(self) -> bool:
        """Whether nothing that was computed for another context can be these tokens.

        That is so for pictures, and for what is generated, unless it is what stands elsewhere.
        """
        return isinstance(self.key, tuple) and self.key[0] in ("gen", "image")


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
    """Prefixes whose keys and values are certainly in the cache, and those that may be there."""

    tree: Tree
    known: set[int] = field(default_factory=set)
    maybe: set[int] = field(default_factory=set)

    def copy(self) -> "Computed":
        """Return a copy that grows on its own."""
        return Computed(self.tree, set(self.known), set(self.maybe))

    def missing(self, symbols: Sequence[Symbol]) -> tuple[Interval, float]:
        """Return the tokens of a context that are not computed yet, and those to be held."""
        prefill, held, is_certain = Interval(), 0.0, True
        for symbol, number in zip(symbols, self.tree.walk(symbols), strict=True):
            if number in self.known:
                continue
            more = exactly(1) if isinstance(symbol, int) else symbol.prefill
            # One of several texts may be a path that is there, and so may what follows it.
            is_certain &= isinstance(symbol, int) or symbol.is_one_text
            is_new = is_certain and number not in self.maybe
            prefill += more if is_new else Interval(0, more.high)
            held += 1 if isinstance(symbol, int) else symbol.held
        return prefill, held

    def add(self, symbols: Sequence[Symbol]) -> None:
        """Note that a context is computed."""
        numbers = set(self.tree.walk(symbols))
        self.known |= numbers
        self.maybe |= numbers

    def join(self, ways: Iterable["Computed"]) -> None:
        """Go on after one of several ways was taken."""
        held = list(ways)
        self.known = set.intersection(*(way.known for way in held))
        self.maybe = self.maybe.union(*(way.maybe for way in held))


class Encoder:
    """Turns runs of text with gaps into symbols, by a tokenizer's own encoding."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.borders = Borders(tokenizer)
        self._encode = lru_cache(maxsize=4096)(self._encoded)
        # A prompt is looked at again with each run that it gets.
        self._symbols = lru_cache(maxsize=65536)(self._symbols_of)
        self._size_of_text = lru_cache(maxsize=4096)(lambda text: self.size_of((text,)))
        self._heads_of: dict[frozenset[bytes], float] = {}

    def _encoded(self, text: str, first: bool) -> tuple[tuple[int, ...], int]:
        ids = tuple(self.tokenizer.encode(text, first=first))
        return ids, self.tokenizer.stable_len(text, first=first) if text else 0

    def symbols(self, parts: tuple[Part, ...], *, first: bool, is_open: bool) -> Sequence[Symbol]:
        """Return a run's symbols; of an open run only what no continuation can change."""
        return self._symbols(parts, first, is_open)

    def _symbols_of(self, parts: tuple[Part, ...], first: bool, is_open: bool) -> list[Symbol]:
        texts = spellings(parts)
        if texts is not None:
            encoded = [self._encode(text, first) for text in texts]
            rows = [ids[:stable] if is_open else ids for ids, stable in encoded]
            return self._merged(rows, parts)
        return self._with_gaps(parts, first=first, is_open=is_open)

    def _merged(self, rows: Sequence[tuple[int, ...]], key: object) -> list[Symbol]:
        common = common_len(rows)
        symbols: list[Symbol] = list(rows[0][:common])
        rests = [len(row) - common for row in rows]
        if any(rests):
            tokens = hull(map(exactly, rests))
            symbols.append(Stretch(("text", key), tokens, tokens, tokens.high))
        return symbols

    def _with_gaps(self, parts: Sequence[Part], *, first: bool, is_open: bool) -> list[Symbol]:
        """Return ids where the encoding is certain, and bounded stretches in between.

        Tokens inside known pieces are counted by `Borders`; those over an end of a gap count with
        the gap, also where it is empty.
        """
        symbols: list[Symbol] = []
        start, size = 0, 0.0  # of the stretch that is open
        for position, part in enumerate(parts):
            if isinstance(part, Gap):
                size += max(1, self._size_of_gap(part))
                continue
            cut = self.borders.cut(part) if position else 0
            size += self.borders.inside(part[:cut])
            if cut == len(part):
                continue
            ids, stable = self._encode(part[cut:], first and not position)
            is_closed = position == len(parts) - 1 and not is_open
            fixed = len(ids) if is_closed else stable
            if fixed:
                symbols += self._stretch(parts, start, position, cut, size)
                symbols += ids[:fixed]
                start, size = position, 0.0
            size += self._size_of_ids(ids[fixed:])
        if not is_open:
            symbols += self._stretch(parts, start, len(parts), 0, size)
        return symbols

    def _stretch(
        self, parts: Sequence[Part], start: int, end: int, cut: int, size: float
    ) -> list[Symbol]:
        """Return the stretch from behind the certain ids of a part up to a place in another.

        What stands before it is told apart by the symbols before it.
        """
        if not size:
            return []
        tokens = Interval(0, size)
        key = ("text", *parts[start:end], str(parts[end])[:cut] if cut else "")
        return [Stretch(key, tokens, tokens, size)]

    def size_of(self, parts: Sequence[Part]) -> float:
        """Return the most tokens that a text can be, those over its two ends among them."""
        size = float(sum(isinstance(end, str) for end in (parts[0], parts[-1])))
        for part in parts:
            if isinstance(part, Gap):
                size += max(1, self._size_of_gap(part))
                continue
            cut = self.borders.cut(part)
            ids, stable = self._encode(part[cut:], False)
            size += self.borders.inside(part[:cut]) + stable + self._size_of_ids(ids[stable:])
        return min(size, sum(map(_bytes_of, parts)))

    def _size_of_gap(self, gap: Gap) -> float:
        return max(map(self._size_of_text, gap.texts)) if gap.texts else gap.size

    def _size_of_ids(self, token_ids: Sequence[int]) -> float:
        """Return the most tokens inside what some known ones may become."""
        if not token_ids:
            return 0
        pieces = b"".join(self._pieces[token] or b"" for token in token_ids)
        return self.borders.inside(pieces.decode()) if pieces.isascii() else float(len(pieces))

    @cached_property
    def _pieces(self) -> Sequence[bytes | None]:
        return self.tokenizer.token_bytes()

    @cached_property
    def longest_piece(self) -> int:
        """The bytes of the longest token."""
        return max(len(piece or b"") for piece in self._pieces)

    def longest_head(self, stops: Sequence[str]) -> float:
        """Return the most tokens before a stop string that begins inside a token."""
        key = frozenset(stop.encode("utf-8", "surrogatepass") for stop in stops if stop)
        if key not in self._heads_of:
            self._heads_of[key] = self._most_tokens(_heads(filter(None, self._pieces), key))
        return self._heads_of[key]

    @cached_property
    def longest_broken_head(self) -> float:
        """The most tokens of whole characters before the begun one at the end of a token."""
        return self._most_tokens({piece[: _whole_len(piece)] for piece in self._pieces if piece})

    def _most_tokens(self, heads: Collection[bytes]) -> float:
        longest = sorted(heads, key=len, reverse=True)
        most = 0.0
        for head in longest[:MAX_HEADS]:
            if len(head) <= most:
                return most
            text = head.decode("utf-8", "replace")
            most = max(most, min(self.borders.inside(text) + 1, len(head)))
        return max(most, len(longest[MAX_HEADS]) if len(longest) > MAX_HEADS else 0)


@lru_cache(maxsize=4)
def encoder_of(tokenizer: Tokenizer) -> Encoder:
    """Return a tokenizer's encoder; the last ones are kept, with what they have looked up."""
    return Encoder(tokenizer)


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


def _bytes_of(part: Part) -> float:
    if isinstance(part, str):
        return len(part.encode("utf-8", "surrogatepass"))
    return max(map(_bytes_of, part.texts)) if part.texts else part.size


def _heads(pieces: Iterable[bytes], stops: Collection[bytes]) -> set[bytes]:
    """Return what stands in tokens before the last place where a stop string may begin."""
    begun = tuple({stop[:n] for stop in stops for n in range(1, len(stop))})
    heads: set[bytes] = set()
    for piece in pieces:
        if not piece.endswith(begun) and not any(stop in piece for stop in stops):
            continue
        places = [piece.rfind(stop) for stop in stops]
        places += [len(piece) - len(head) for head in begun if piece.endswith(head)]
        heads.add(piece[: max(places)])
    return heads


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


def common_len(rows: Sequence[Sequence[object]]) -> int:
    """Return how many items all rows begin with."""
    size = min(map(len, rows))
    return next((i for i in range(size) if len({row[i] for row in rows}) > 1), size)
