"""The token trie of calls: the least that any schedule has to compute."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

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


def least_computed(sequences: Iterable[Tokens], generated: Iterable[tuple[Tokens, Tokens]]) -> int:
    """Return the least number of tokens that must go through the model.

    `generated` are the context of each generation, and of its tokens those that went through
    the model: all but the last. Each needs a forward pass of its own, for the logits behind
    it, also where an equal call has computed the same; so what is generated again counts again.
    """
    made = list(generated)
    distinct = {
        (*context, *tokens[: n + 1]) for context, tokens in made for n in range(len(tokens))
    }
    again = sum(len(tokens) for _, tokens in made) - len(distinct)
    return trie_size(sequences) + again


@dataclass(slots=True, eq=False)
class Edge:
    """A run of tokens that occur in the same sequences, below `parent`; `length` of them."""

    parent: "Edge | None"
    length: int
    depth: int
    uses: list[int] = field(default_factory=list)
    cached: int = 0


class Trie:
    """The compressed trie of some calls' sequences; `paths[i]` are the edges of call i."""

    def __init__(self, calls: Sequence[Sequence[Tokens]]) -> None:
        cuts = self._cuts(calls)
        edges: dict[tuple[int, ...], Edge] = {}
        self.paths: list[list[Edge]] = []
        for sequences in calls:
            path: dict[Edge, None] = {}
            for sequence in sequences:
                parent, start = None, 0
                for end in sorted(cuts[tuple(sequence)]):
                    key = tuple(sequence[:end])
                    if key not in edges:
                        edges[key] = Edge(parent, end - start, end)
                    parent, start = edges[key], end
                    path[parent] = None
            self.paths.append(list(path))
        self.edges = list(edges.values())

    @staticmethod
    def _cuts(calls: Sequence[Sequence[Tokens]]) -> dict[tuple[int, ...], set[int]]:
        """Return where each sequence's edges end: at branches, and at ends of sequences."""
        ordered = sorted({tuple(sequence) for call in calls for sequence in call})
        commons = [common_len(a, b) for a, b in pairwise(ordered)]
        cuts: dict[tuple[int, ...], set[int]] = {}
        for sides in (range(len(ordered)), range(len(ordered) - 1, -1, -1)):
            stack: list[int] = []  # borders that hold for the sequence at hand, ascending
            last = -1
            for at in sides:
                if last >= 0:
                    common = commons[min(at, last)]
                    while stack and stack[-1] > common:
                        stack.pop()
                    if common and (not stack or stack[-1] < common):
                        stack.append(common)
                found = cuts.setdefault(ordered[at], {len(ordered[at])} - {0})
                found.update(stack)
                last = at
        return cuts

    @property
    def size(self) -> int:
        """Tokens of the trie."""
        return sum(edge.length for edge in self.edges)
