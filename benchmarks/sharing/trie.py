"""The compressed token trie of calls, for schedules that are simulated."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from lmc.ir.token_trie import Tokens, common_len


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
