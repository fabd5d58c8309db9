"""Holds: wishes to keep paths of the prefix tree, in groups that are cheap to move and to ask.

A hold does not protect a path; what is held is evicted late. When the node where a hold ends is
evicted, the hold moves up to what is left of its path. Thousands of calls may wait for the same
few prefixes, so holds are kept in groups: those that end at the same node and go on with the
same token. A group moves as one, the smaller of two joins the larger, and it knows its most
urgent rank.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmc.runtime.cache.radix_node import RadixNode

Rank = tuple[int, ...]
"""What orders holds: the smallest goes last."""

LATEST = 2**62
"""The number of a rank that stands behind all others."""

NO_TOKEN = -1
"""In the place of the next token of a path that ends."""


@dataclass(slots=True, eq=False)
class Hold:
    """A wish to keep a path, which ends where its group is."""

    group: "HoldGroup"
    rank: Rank

    @property
    def node(self) -> "RadixNode":
        """The node that ends the path."""
        return self.group.node


@dataclass(slots=True, eq=False)
class HoldGroup:
    """Holds that end at `node`, `token` being the next of their paths.

    `watched` are those of its holds whose owners want to know of every change (Foresight's).
    """

    node: "RadixNode"
    token: int
    holds: dict[Hold, None] = field(default_factory=dict[Hold, None])
    watched: dict[Hold, None] = field(default_factory=dict[Hold, None])
    _best: Rank | None = None
    _num_best: int = 0

    @property
    def best(self) -> Rank:
        """The smallest rank of its holds, of which there are some."""
        if self._best is None:
            ranks = [hold.rank for hold in self.holds]
            self._best = min(ranks)
            self._num_best = ranks.count(self._best)
        return self._best

    def add(self, hold: Hold) -> None:
        """Let a hold in."""
        hold.group = self
        self.holds[hold] = None
        self._came(hold.rank, 1)

    def remove(self, hold: Hold) -> None:
        """Take a hold out.

        Raises:
            KeyError: it is not in the group.
        """
        del self.holds[hold]
        self.watched.pop(hold, None)
        self._went(hold.rank)
        if not self.holds:
            del self.node.groups[self.token]

    def rerank(self, hold: Hold, rank: Rank) -> None:
        """Give a hold of the group another rank."""
        before, hold.rank = hold.rank, rank
        self._came(rank, 1)
        self._went(before)

    def absorb(self, other: "HoldGroup") -> None:
        """Take over all holds of another group."""
        for hold in other.holds:
            hold.group = self
        best, count = other.best, other._num_best
        self.holds.update(other.holds)
        self.watched.update(other.watched)
        self._came(best, count)

    def _came(self, rank: Rank, count: int) -> None:
        if self._best is None:
            if len(self.holds) == count:
                self._best, self._num_best = rank, count
        elif rank < self._best:
            self._best, self._num_best = rank, count
        elif rank == self._best:
            self._num_best += count

    def _went(self, rank: Rank) -> None:
        if rank == self._best:
            self._num_best -= 1
            if self._num_best == 0:
                self._best = None


def group_at(node: "RadixNode", token: int) -> HoldGroup:
    """Return the group of a node that goes on with a token, making it where there is none."""
    group = node.groups.get(token)
    if group is None:
        group = node.groups[token] = HoldGroup(node, token)
    return group


def gather(node: "RadixNode", target: "RadixNode", token: int) -> None:
    """Move all holds of a node to another, where all go on with `token`."""
    groups = list(node.groups.values())
    if not groups:
        return
    node.groups = {}
    if token in target.groups:
        groups.append(target.groups[token])
    largest = max(groups, key=lambda group: len(group.holds))
    for group in groups:
        if group is not largest:
            largest.absorb(group)
    largest.node, largest.token = target, token
    target.groups[token] = largest
