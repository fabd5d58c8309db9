"""ShadowTokens: what every slot should hold, to find a slot that is used for other tokens.

For each slot whose KV was computed: its token, and a hash of all tokens up to it, made from the
hash that stands at the slot before it on the path. So a slot that is shared, moved or freed
wrongly is found the next time that somebody reads it, though the KV itself tells nothing.
"""

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.cache.events import path_hash
from lmc.runtime.cache.radix_node import SlotArray, TokenArray
from lmc.runtime.cache.radix_tree import RadixTree

HashArray = NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_EMPTY = -1


class ShadowError(RuntimeError):
    """A slot does not hold the tokens it is used for: a bug of ours, never of a user."""


class ShadowTokens:
    """Tokens and hashes of paths, by slot.

    Args:
        num_slots: slots in all.
    """

    def __init__(self, num_slots: int) -> None:
        self._tokens: TokenArray = np.full(num_slots, _EMPTY, dtype=np.int32)
        self._hashes: HashArray = np.zeros(num_slots, dtype=np.uint64)

    def write(self, row: SlotArray, start: int, token_ids: TokenArray, namespace: str) -> None:
        """Note that the KV of `token_ids[start:]` stands in `row` now, on the path before it."""
        self.verify(row[:start], token_ids[:start], namespace)
        state = self._state(row[start - 1]) if start else _seed(namespace)
        slots, tokens = row[start : len(token_ids)], token_ids[start:]
        for slot, token in zip(slots.tolist(), tokens, strict=True):
            state = _next(state, token)
            self._hashes[slot] = state
        self._tokens[slots] = tokens

    def forget(self, slots: SlotArray) -> None:
        """Note that nothing in these slots counts any more."""
        self._tokens[slots] = _EMPTY

    def verify(
        self,
        row: SlotArray,
        token_ids: TokenArray,
        namespace: str,
        before: SlotArray | None = None,
    ) -> None:
        """Compare slots with the tokens that they should hold, and each with the one before.

        Args:
            row: the slots.
            token_ids: their tokens.
            namespace: where the path is.
            before: the slot before the first; None for a path from its beginning.

        Raises:
            ShadowError: a slot holds another token, or one behind other tokens.
        """
        if not len(row):
            return
        first = _seed(namespace) if before is None else self._state(before[-1])
        states = np.concatenate([np.array([first], dtype=np.uint64), self._hashes[row[:-1]]])
        wrong = (self._tokens[row] != token_ids) | (self._hashes[row] != _next(states, token_ids))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ShadowError(
                f"slot {int(row[at])} stands for token {int(token_ids[at])} of a path and holds "
                f"{int(self._tokens[row[at]])}, or the same behind other tokens"
            )

    def verify_tree(self, tree: RadixTree) -> None:
        """Verify every node of a tree; raises as `verify`."""
        for node in tree.nodes():
            parent = node.parent
            before = parent.slots if parent is not None and len(parent) else None
            self.verify(node.slots, node.key, node.namespace, before)

    def _state(self, slot: np.int32) -> np.uint64:
        return np.uint64(self._hashes[slot])


def _seed(namespace: str) -> np.uint64:
    return np.uint64(path_hash(namespace, np.zeros(0, dtype=np.int32)))


def _next(state: HashArray | np.uint64, token: TokenArray | np.int32) -> HashArray:
    """Return the hash of a path with one token more (splitmix64's way of mixing)."""
    with np.errstate(over="ignore"):
        value = (state + np.asarray(token).astype(np.uint64) + np.uint64(1)) * _STEP
        value = (value ^ (value >> np.uint64(29))) * _MIX
    return value ^ (value >> np.uint64(32))
