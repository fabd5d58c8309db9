"""Which states of an automaton can still be brought to an end with a vocabulary's tokens.

A vocabulary may not be able to spell every byte. A state from which no sequence of tokens
leads to an end is a trap: tokens that lead there must not be allowed.
"""

import time

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ConstraintError
from lmc.ir.automata import DEAD, ByteDfa
from lmc.runtime.constraint.vocabulary import Vocabulary

MAX_SECONDS = 5.0


def find_traps(dfa: ByteDfa, vocabulary: Vocabulary) -> NDArray[np.bool_] | None:
    """Return which states are safe to enter, or None if all of them are.

    Raises:
        ConstraintError: the vocabulary cannot spell any text of the language, or the
            question is too costly.
    """
    spelled = vocabulary.single_bytes
    usable = np.zeros(dfa.table.shape[1], dtype=bool)
    usable[dfa.classes[spelled]] = True
    if usable.all():
        return None  # from every state of an automaton some bytes lead to an end
    edges = np.where(usable[None, :], dfa.table, DEAD)
    safe = _backwards(edges, dfa.accepting.copy())
    if safe.all():
        return None
    safe = _by_tokens(dfa, vocabulary, safe)
    if not safe[dfa.start]:
        missing = _missing_bytes(dfa, spelled)
        raise ConstraintError(
            f"the tokenizer cannot spell any text that the regex allows ({missing})",
            hint="use a pattern whose characters the model's vocabulary contains",
        )
    return None if safe.all() else safe


def _backwards(edges: NDArray[np.int32], safe: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `safe` grown by every state with an edge into it."""
    padded = np.append(safe, False)  # the last entry serves DEAD
    while True:
        grown = padded[:-1] | padded[edges].any(axis=1)
        if (grown == padded[:-1]).all():
            return grown
        padded[:-1] = grown


def _by_tokens(dfa: ByteDfa, vocabulary: Vocabulary, safe: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return `safe` grown by states from which some token leads into it, and so on."""
    deadline = time.monotonic() + MAX_SECONDS
    node_classes = vocabulary.classes_of(dfa)
    targets: dict[int, NDArray[np.int32]] = {}
    for state in np.flatnonzero(~safe).tolist():
        if time.monotonic() > deadline:
            raise ConstraintError(
                f"regex is too complex for this tokenizer: not checked within {MAX_SECONDS:g} s",
                hint="use characters that the vocabulary has as single tokens",
            )
        after = vocabulary.run(dfa, state, node_classes)
        targets[state] = np.unique(after[after != DEAD])
    safe = safe.copy()
    grows = True
    while grows:
        grows = False
        for state, reached in list(targets.items()):
            if safe[reached].any():
                safe[state] = grows = True
                del targets[state]
    return safe


def _missing_bytes(dfa: ByteDfa, spelled: NDArray[np.bool_]) -> str:
    """Name some bytes that the language needs and no token spells alone."""
    used = (dfa.table != DEAD).any(axis=0)[dfa.classes]
    missing = np.flatnonzero(used & ~spelled)[:4]
    return "no token for " + ", ".join(f"byte 0x{byte:02X}" for byte in missing.tolist())
