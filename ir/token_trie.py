"""Token tries: what some sequences of ids share, and how many tokens they are together."""

from collections.abc import Iterable, Sequence

Tokens = Sequence[int]


def common_len(left: Tokens, right: Tokens) -> int:
    """Return the length of the longest common prefix."""
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size
    low, high = 0, size  # the first `low` are equal, the first `high` are not
    while high - low > 1:
        middle = (low + high) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle
    return low


def trie_size(sequences: Iterable[Tokens]) -> int:
    """Return the number of distinct non-empty prefixes of the sequences.

    Each is one token that must go through the model at least once, whatever the order, the
    memory and the machine: a lower bound on the tokens computed.
    """
    ordered = sorted(set(map(tuple, sequences)))
    total, before = 0, ()
    for sequence in ordered:
        total += len(sequence) - common_len(before, sequence)
        before = sequence
    return total
