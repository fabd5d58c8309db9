"""Schemas that hold themselves, as networks: the places where they do become calls of rules."""

from lmc.ir.automata.budget import Budget
from lmc.ir.grammar.network import Network, NetworkBuilder
from lmc.ir.json_schema.lowering import Limits, Lowering
from lmc.ir.json_schema.reader import Reader
from lmc.ir.json_schema.shapes import ANY, Conj


def lower_network(
    reader: Reader,
    budget: Budget,
    limits: Limits,
    separators: tuple[str, str],
    is_closed: bool,
    root: Conj,
) -> Network | None:
    """Return the network of the texts of the values that fulfil `root`; None if there are none.

    Raises:
        ConstraintError: it is too large, or the schema says something that cannot be followed.
    """
    called = frozenset({ANY})
    while True:
        low = _Nesting(reader, budget, limits, separators, is_closed, called)
        top = low.run(root)
        if low.cuts <= called:
            return low.builder.finish(top)
        called |= low.cuts  # what holds itself stands in a rule of its own, so this ends
        budget.check_time()


class _Nesting(Lowering):
    """A lowering in which some values are rules, called where they are wanted."""

    def __init__(
        self,
        reader: Reader,
        budget: Budget,
        limits: Limits,
        separators: tuple[str, str],
        is_closed: bool,
        called: frozenset[Conj],
    ) -> None:
        super().__init__(reader, budget, limits, separators, is_closed)
        self.builder = NetworkBuilder(budget)
        self.graph = self.builder.graph
        self.called = called
        self._pending: list[Conj] = []

    def run(self, root: Conj) -> int:
        """Build all rules; return the one of the root."""
        top = self.builder.rule(("root", root))
        self.value(root, *self.builder.define(top))
        while self._pending:
            conj = self._pending.pop()
            rule = self.builder.rule(conj)
            if not self.builder.is_defined(rule):
                self.body(conj, *self.builder.define(rule))
        return top

    def value(self, conj: Conj, start: int, end: int) -> None:
        """Lead from `start` to `end` by the texts of the values that fulfil `conj`."""
        if conj in self.called:
            self.builder.call(start, self.builder.rule(conj), end)
            self._pending.append(conj)
        else:
            self.body(conj, start, end)
