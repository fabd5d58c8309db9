"""What the oracle says where nothing is scripted: text drawn from a hash of the call."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lmc.ir.automata import DEAD, ByteDfa
from lmc.ir.automata.minimise import distances
from lmc.ir.calls import GenCall, SamplingParams
from lmc.ir.target import Tokenizer

WORDS = (
    "the", "essay", "is", "clear", "and", "argues", "well", "but", "evidence", "thin", "naïve",
    "Übergröße", "日本語", "🙂", "12", "3400", "7.5", "don't", "re-read", "(see", "it)", "yes",
    "no", "…", "x=1;", "quite", "Привет", "e\u0301tude", "👩‍🔬", "A", "B", "Grade:", "a/b",
)  # fmt: skip
"""Words whose borders merge in many ways: blanks, digits, accents, characters of 2 to 4 bytes."""

GLUE = (" ", " ", " ", " ", " ", ", ", ". ", "\n", "", "  ")
MAX_WORDS = 16
MAX_MATCH_LEN = 24
KINDS = (
    (6, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    (3, b"0123456789"),
    (2, b" "),
    (2, b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    (1, bytes(range(0x80, 0x100))),
)


class Draw:
    """Numbers that depend on nothing but what they are drawn for."""

    def __init__(self, seed: int, subject: Any) -> None:
        if isinstance(subject, GenCall):
            # What is returned beside the text has no part in it.
            params = replace(
                subject.params, return_logprob=False, top_logprobs_num=0, logprob_start_len=-1
            )
            subject = (subject.context, params, subject.constraint, subject.key)
        self._base = hashlib.blake2b(f"{seed}|{subject!r}".encode(), digest_size=16).digest()
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        counted = self._base + self._count.to_bytes(8, "big")
        return int.from_bytes(hashlib.blake2b(counted, digest_size=8).digest(), "big")

    def below(self, limit: int) -> int:
        """Return an int from 0 up to, without, `limit`."""
        return self._next() % limit

    def share(self) -> float:
        """Return a float from 0 up to, without, 1."""
        return (self._next() >> 11) / 2**53

    def choose(self, items: Sequence[Any]) -> Any:
        """Return one of some items."""
        return items[self.below(len(items))]


def random_ids(tokenizer: Tokenizer, draw: Draw, params: SamplingParams) -> list[int]:
    """Return ids of some words; often not those that the whole text would be encoded as.

    Without an end (`ignore_eos`) there are `max_tokens` of them, else at least `min_tokens`.
    """
    needed = params.max_tokens if params.ignore_eos else min(params.min_tokens, params.max_tokens)
    num_words = 1 + draw.below(MAX_WORDS)
    ids: list[int] = []
    chunk = ""
    while num_words > 0 or len(ids) < needed:
        num_words -= 1
        chunk += draw.choose(GLUE) + draw.choose(WORDS)
        # Cut off at any place, so that borders fall where no encoder would put them.
        if num_words <= 0 or draw.below(4) == 0:
            ids += tokenizer.encode(chunk)
            chunk = ""
    return ids


def random_match(dfa: ByteDfa, draw: Draw) -> str:
    """Return a text that the automaton accepts: a random walk that heads for the end in time."""
    to_end = distances(dfa.table, dfa.accepting)[0].tolist()
    wanted_len = draw.below(MAX_MATCH_LEN)
    state, made = dfa.start, bytearray()
    while True:
        if dfa.is_accepting(state) and (len(made) >= wanted_len or draw.below(4) == 0):
            return made.decode()
        options = dfa.allowed_bytes(state)
        if not options:
            return made.decode()
        if len(made) >= wanted_len:
            nearest = min(to_end[dfa.step(state, bytes([b]))] for b in options)
            options = bytes(b for b in options if to_end[dfa.step(state, bytes([b]))] == nearest)
        byte = choose_byte(options, draw)
        state = dfa.step(state, bytes([byte]))
        assert state != DEAD, "only allowed bytes are walked"
        made.append(byte)


def choose_byte(options: bytes, draw: Draw) -> int:
    """Return one of the bytes; printable ones before others, letters before digits."""
    groups = []
    for weight, members in KINDS:
        found = bytes(byte for byte in options if byte in members)
        groups += [found] * (weight if found else 0)
    return draw.choose(draw.choose(groups) if groups else options)
