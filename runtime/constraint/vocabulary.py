"""A tokenizer's vocabulary as a byte trie, run through an automaton level by level.

The trie is stored breadth first. A run computes the automaton's state at every node of one
level from the states of the level before, in three array operations, so the cost does not
depend on how many tokens are allowed. Only tokens that can be text are in the trie: control
tokens, end tokens and tokens without bytes are not.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata import DEAD, ByteDfa
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.matcher import Words

_KEPT = 4


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The text tokens of one tokenizer.

    Args:
        token_bytes: bytes by id; None for ids that are never text (control and end tokens,
            empty tokens).
        eos_ids: end tokens below `size`.
        size: number of ids.
        node_bytes: last byte of each node's path, by node; the root is node 0. uint8.
        parents: by node; that of the root is 0.
        levels: first node of each depth, and the number of nodes at the end.
        token_nodes: node by id; the number of nodes where the id is not in the trie.
        sorted_pieces: the bytes of the tokens in the trie, ascending.
        single_bytes: whether each of the 256 bytes is a token by itself.
    """

    token_bytes: tuple[bytes | None, ...]
    eos_ids: frozenset[int]
    size: int
    node_bytes: NDArray[np.uint8]
    parents: NDArray[np.int64]
    levels: tuple[int, ...]
    token_nodes: NDArray[np.int64]
    sorted_pieces: tuple[bytes, ...]
    single_bytes: NDArray[np.bool_]

    @property
    def words(self) -> int:
        """Length of a mask in words."""
        return (self.size + 31) // 32

    def run(self, dfa: ByteDfa, state: int, node_classes: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the automaton's state after each id's bytes, read from `state`.

        DEAD where the bytes are not allowed and for ids that are not text. `node_classes`
        is what `classes_of` gives for the automaton.
        """
        flat, width = dfa.padded.reshape(-1), dfa.table.shape[1]
        states = np.full(len(self.node_bytes) + 1, DEAD, dtype=np.int32)
        states[0] = state
        for first, last in zip(self.levels[1:-1], self.levels[2:], strict=True):
            # DEAD is -1, and the padded table's last row is all DEAD: dead ends stay dead.
            index = states.take(self.parents[first:last]).astype(np.int64)
            index *= width
            index += node_classes[first:last]
            states[first:last] = flat.take(index)
            if states[first:last].max() == DEAD:
                break
        states[0] = DEAD
        return states.take(self.token_nodes)

    def classes_of(self, dfa: ByteDfa) -> NDArray[np.uint8]:
        """Return the automaton's class of each node's byte."""
        return dfa.classes.take(self.node_bytes)

    def pack(self, allowed: NDArray[np.bool_]) -> Words:
        """Return the mask of the ids allowed."""
        bits = np.zeros(self.words * 32, dtype=bool)
        bits[: self.size] = allowed
        words = np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
        words.flags.writeable = False
        return words


def build_vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of a tokenizer; see `vocabulary_of` for the cached way."""
    size = tokenizer.vocab_size
    eos_ids = frozenset(i for i in tokenizer.eos_ids if 0 <= i < size)
    known = [piece or b"" for piece in tokenizer.token_bytes()[:size]]
    for token_id in eos_ids:
        known[token_id] = b""
    order = sorted([i for i, piece in enumerate(known) if piece], key=known.__getitem__)
    texts = [known[i] for i in order]
    pieces = tuple(piece or None for piece in known)
    node_bytes, parents, levels, nodes = _build_trie(texts)
    token_nodes = np.full(size, len(node_bytes), dtype=np.int64)
    token_nodes[order] = nodes
    single_bytes = np.zeros(256, dtype=bool)
    single_bytes[[text[0] for text in texts if len(text) == 1]] = True
    return Vocabulary(
        pieces, eos_ids, size, node_bytes, parents, levels, token_nodes, tuple(texts), single_bytes
    )


def _build_trie(
    texts: list[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], tuple[int, ...], NDArray[np.int64]]:
    """Return node bytes, parents, levels and each text's node, for sorted non-empty texts."""
    lengths = np.array(list(map(len, texts)), dtype=np.int64)
    offsets = np.cumsum(lengths) - lengths
    data = np.frombuffer(b"".join(texts), dtype=np.uint8)
    reached = np.zeros(len(texts), dtype=np.int64)  # each text's node so far
    node_bytes, parents = [np.zeros(1, dtype=np.uint8)], [np.zeros(1, dtype=np.int64)]
    levels = [0, 1]
    active = np.arange(len(texts))
    while len(active):
        key = reached[active] * 256 + data[offsets[active] + len(levels) - 2]
        is_new = np.diff(key, prepend=-1) != 0  # equal prefixes are neighbours
        reached[active] = levels[-1] + np.cumsum(is_new) - 1
        node_bytes.append((key[is_new] % 256).astype(np.uint8))
        parents.append(key[is_new] // 256)
        levels.append(levels[-1] + int(is_new.sum()))
        active = active[lengths[active] > len(levels) - 2]
    return np.concatenate(node_bytes), np.concatenate(parents), tuple(levels), reached


_known: "OrderedDict[str, Vocabulary]" = OrderedDict()
_lock = threading.Lock()


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """Return the vocabulary of a tokenizer, kept for the last few fingerprints."""
    key = tokenizer.fingerprint
    with _lock:
        if key not in _known:
            _known[key] = build_vocabulary(tokenizer)
            while len(_known) > _KEPT:
                _known.popitem(last=False)
        _known.move_to_end(key)
        return _known[key]
