"""Walks of the vocabulary through a network: which tokens may come in a place.

What a token does inside of one rule does not depend on where the rule was called. So a walk
begins in one state, as if its rule were the whole text, and gives two things: the tokens that
stay inside, and the nodes of the trie where the rule may have ended. From these nodes the walk
goes on behind the call. Both steps are kept, so the mask of a reading that was never met is
mostly put together from masks that were.

A walk goes through the trie level by level in array operations, over a table of readings that
is filled in as they are met.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata import DEAD
from lmc.ir.grammar import Machine, Reading
from lmc.runtime.constraint.matcher import Words
from lmc.runtime.constraint.vocabulary import Vocabulary

_UNKNOWN = -2
_MAX_READINGS = 20_000
_MAX_KEPT_BYTES = 64 * 2**20

Nodes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The tokens that end inside of a rule, and the nodes where the rule may have ended.

    `words` is None where there are none; `key` is what equal nodes have in common.
    """

    words: Words | None
    exits: Nodes
    key: bytes


@dataclass(frozen=True, slots=True, eq=False)
class TrieIndex:
    """The children of each node of a vocabulary's trie, and its tokens, as offsets.

    The children of node n are those from `children[n]` up to `children[n + 1]`; its tokens are
    `ids[tokens[n]:tokens[n + 1]]`.
    """

    children: Nodes
    tokens: Nodes
    ids: Nodes


@lru_cache(maxsize=4)
def trie_index(vocabulary: Vocabulary) -> TrieIndex:
    """Return the index of a vocabulary; the last few are kept."""
    count = len(vocabulary.node_bytes)
    children = np.ones(count + 1, dtype=np.int64)
    children[1:] += np.cumsum(np.bincount(vocabulary.parents[1:], minlength=count))
    order = np.argsort(vocabulary.token_nodes, kind="stable")
    tokens = np.searchsorted(vocabulary.token_nodes[order], np.arange(count + 1))
    return TrieIndex(children, tokens, order)


class Walker:
    """The walks of one network through one vocabulary; not safe between threads.

    Args:
        machine: whose readings are walked.
        vocabulary: the tokens.
        safe: states from which tokens can lead to an end of their rule; None for all.
    """

    def __init__(
        self, machine: Machine, vocabulary: Vocabulary, safe: NDArray[np.bool_] | None
    ) -> None:
        self.machine = machine
        self.vocabulary = vocabulary
        self.index = trie_index(vocabulary)
        self.safe = safe
        self._node_classes = machine.network.classes.take(vocabulary.node_bytes).astype(np.int64)
        self._forget()

    def _forget(self) -> None:
        """Drop all walks and readings."""
        self._numbers: dict[Reading, int] = {}
        self._readings: list[Reading] = []
        # The last row is all DEAD: indexing with DEAD (-1) finds it.
        self._table = np.full((65, self.machine.width), _UNKNOWN, dtype=np.int32)
        self._table[-1] = DEAD
        self._ends = np.zeros(65, dtype=bool)
        self._is_live = np.zeros(65, dtype=bool)
        self._walks: dict[tuple[int, bytes | None], Walk] = {}
        self._kept_bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory held by walks, about."""
        return self._kept_bytes + self._table.nbytes

    def is_live(self, reading: Reading) -> bool:
        """Return whether tokens can go on from a reading, to an end of its rule at least."""
        if self.safe is None:
            return bool(reading.places)
        return any(self.safe[state] for state, _ in reading.places)

    def mask(self, reading: Reading) -> NDArray[np.int32]:
        """Return the words of the text tokens that may come after a reading."""
        if self._kept_bytes > _MAX_KEPT_BYTES or len(self._readings) > _MAX_READINGS:
            self._forget()
        words = np.zeros(self.vocabulary.words, dtype=np.int32)
        ended: dict[int, tuple[object, list[Walk]]] = {}  # by serial: where rules have ended

        def take(walk: Walk, context) -> None:  # type: ignore[no-untyped-def]
            if walk.words is not None:
                np.bitwise_or(words, walk.words, out=words)
            if len(walk.exits):
                ended.setdefault(context.serial, (context, []))[1].append(walk)

        for state, context in reading.places:
            take(self._walk(state, None), context)
        while ended:
            # A context is made after those that it goes on in, so the latest comes first.
            context, walks = ended.pop(max(ended))
            nodes, key = walks[0].exits, walks[0].key
            if len(walks) > 1:
                nodes = self._distinct(np.concatenate([walk.exits for walk in walks]))
                key = nodes.tobytes()
            if context is self.machine.root:
                np.bitwise_or(words, self._words(nodes), out=words)
            for state, outer in context.returns:  # type: ignore[attr-defined]
                take(self._walk(state, (nodes, key)), outer)
        return words

    def _walk(self, state: int, at: tuple[Nodes, bytes] | None) -> Walk:
        """Return the walk from a state, from the trie's root or from some nodes."""
        known = (state, None if at is None else at[1])
        found = self._walks.get(known)
        if found is None:
            if at is None:
                first = self._number(self.machine.at(state, opens=False))
                nodes, states = self._run(first)
            else:
                first = self._number(self.machine.at(state))
                nodes, states = self._run_from(at[0], first)
            ends = self._distinct(nodes[self._ends[states]])
            inside = nodes[self._is_live[states]]
            words = self._words(inside) if len(inside) else None
            found = self._walks[known] = Walk(words, ends, ends.tobytes())
            self._kept_bytes += 200 + 2 * ends.nbytes + (0 if words is None else words.nbytes)
        return found

    def _distinct(self, nodes: Nodes) -> Nodes:
        """Return each node once, ascending; sorting many would take longer."""
        is_there = np.zeros(len(self.vocabulary.node_bytes), dtype=bool)
        is_there[nodes] = True
        return np.flatnonzero(is_there)

    def _words(self, nodes: Nodes) -> Words:
        """Return the mask of the tokens that end at some nodes."""
        index = self.index
        firsts, counts = index.tokens[nodes], index.tokens[nodes + 1] - index.tokens[nodes]
        allowed = np.zeros(self.vocabulary.size, dtype=bool)
        allowed[index.ids[_ranges(firsts, counts)]] = True
        return self.vocabulary.pack(allowed)

    # Through the trie.

    def _run(self, first: int) -> tuple[Nodes, NDArray[np.int64]]:
        """Return the nodes that are reached from the root, with the readings there."""
        vocabulary = self.vocabulary
        reached = np.full(len(vocabulary.node_bytes), DEAD, dtype=np.int64)
        reached[0] = first
        for low, high in zip(vocabulary.levels[1:-1], vocabulary.levels[2:], strict=True):
            before = reached.take(vocabulary.parents[low:high])
            after = self._after(before, self._node_classes[low:high])
            reached[low:high] = after
            if after.max() == DEAD:
                break
        reached[0] = DEAD
        nodes = np.flatnonzero(reached != DEAD)
        return nodes, reached[nodes]

    def _run_from(self, nodes: Nodes, first: int) -> tuple[Nodes, NDArray[np.int64]]:
        """Do the same from some nodes, which are among those returned."""
        children = self.index.children
        states = np.full(len(nodes), first, dtype=np.int64)
        all_nodes, all_states = [nodes], [states]
        while len(nodes):
            counts = children[nodes + 1] - children[nodes]
            states = np.repeat(states, counts)
            nodes = _ranges(children[nodes], counts)
            states = self._after(states, self._node_classes[nodes])
            is_live = states != DEAD
            nodes, states = nodes[is_live], states[is_live]
            all_nodes.append(nodes)
            all_states.append(states)
        return np.concatenate(all_nodes), np.concatenate(all_states)

    def _after(self, states: NDArray[np.int64], classes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the readings after one byte more; what is not known yet is found out."""
        width = self.machine.width
        index = states * width
        index += classes
        while True:
            after = self._table.reshape(-1).take(index)
            is_missing = after == _UNKNOWN
            if not is_missing.any():
                return after.astype(np.int64)
            is_wanted = np.zeros(self._table.size, dtype=bool)
            is_wanted[index[is_missing]] = True
            for code in np.flatnonzero(is_wanted).tolist():
                number, letter = divmod(code, width)
                reading = self.machine.step(self._readings[number], letter)
                target = DEAD if reading is None else self._number(reading)
                self._table[number, letter] = target
            # The table may have grown; DEAD's row is its last one, wherever that is.

    def _number(self, reading: Reading) -> int:
        """Return the row of a reading; a new one is added."""
        found = self._numbers.get(reading)
        if found is None:
            found = self._numbers[reading] = len(self._readings)
            self._readings.append(reading)
            if found + 1 >= len(self._table):
                self._grow()
            self._ends[found] = reading.may_end
            self._is_live[found] = self.is_live(reading)
        return found

    def _grow(self) -> None:
        size = 2 * len(self._table)
        for name, fill in (("_table", _UNKNOWN), ("_ends", False), ("_is_live", False)):
            old = getattr(self, name)
            new = np.full((size, *old.shape[1:]), fill, dtype=old.dtype)
            new[: len(old) - 1] = old[:-1]
            setattr(self, name, new)
        self._table[-1] = DEAD


def _ranges(firsts: Nodes, counts: Nodes) -> Nodes:
    """Return the numbers from each first one on, as many as counted, behind one another."""
    total = int(counts.sum())
    offsets = np.cumsum(counts) - counts
    return np.repeat(firsts - offsets, counts) + np.arange(total)
