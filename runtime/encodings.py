"""A bounded memory of encodings: every text run is encoded once, however often it is used."""

import threading
from collections import OrderedDict

from lmc.ir.target import Tokenizer

MAX_CHARACTERS = 2 * 1024 * 1024
"""Characters of all texts together; one takes about ten bytes with its part of the ids."""

ENTRY_COST = 256
"""Characters that an entry counts for beside its text's own."""

MAX_TOKENIZERS = 4


class Encodings:
    """Token ids and stable lengths of text runs by one tokenizer; least recently used go first.

    Safe to use from several threads.
    """

    def __init__(self, tokenizer: Tokenizer, *, max_characters: int = MAX_CHARACTERS) -> None:
        self.tokenizer = tokenizer
        self._max_characters = max_characters
        self._characters = 0
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, bool], tuple[tuple[int, ...], int | None]] = (
            OrderedDict()
        )

    def encode(self, text: str, *, first: bool) -> tuple[int, ...]:
        """Return the ids of a whole text run."""
        return self._entry(text, first)[0]

    def stable_len(self, text: str, *, first: bool) -> int:
        """Return how many leading ids of the run no continuation can change."""
        ids, stable = self._entry(text, first)
        if stable is None:
            stable = self.tokenizer.stable_len(text, first=first)
            self._store((text, first), (ids, stable))
        return stable

    def _entry(self, text: str, first: bool) -> tuple[tuple[int, ...], int | None]:
        key = (text, first)
        with self._lock:
            entry = self._known.get(key)
            if entry is not None:
                self._known.move_to_end(key)
                return entry
        entry = (tuple(self.tokenizer.encode(text, first=first)), None)
        self._store(key, entry)
        return entry

    def _store(self, key: tuple[str, bool], entry: tuple[tuple[int, ...], int | None]) -> None:
        with self._lock:
            if key not in self._known:
                self._characters += len(key[0]) + ENTRY_COST
            self._known[key] = entry
            while self._characters > self._max_characters and len(self._known) > 1:
                (text, _), _ = self._known.popitem(last=False)
                self._characters -= len(text) + ENTRY_COST


_shared: OrderedDict[str, Encodings] = OrderedDict()
_shared_lock = threading.Lock()


def encodings_of(tokenizer: Tokenizer) -> Encodings:
    """Return the memory that all runs with this tokenizer (by fingerprint) share."""
    with _shared_lock:
        known = _shared.get(tokenizer.fingerprint)
        if known is None:
            known = _shared[tokenizer.fingerprint] = Encodings(tokenizer)
        _shared.move_to_end(tokenizer.fingerprint)
        while len(_shared) > MAX_TOKENIZERS:
            _shared.popitem(last=False)
        return known
