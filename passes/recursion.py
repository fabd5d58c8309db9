"""Which functions call which: recursion, and how deep calls may nest."""

from collections.abc import Iterator

from lmc.ir.core import Module
from lmc.passes.purity import CALLEES

SHALLOW = 150
"""Calls that may be nested without coming near the limit of a run."""


class Calls:
    """The graph of calls of a module, as it was when this was made."""

    def __init__(self, module: Module) -> None:
        self._callees = {
            name: tuple(
                dict.fromkeys(
                    str(op.attributes["callee"])
                    for op in function.body.walk()
                    if op.name in CALLEES
                )
            )
            for name, function in module.functions.items()
        }
        reached = {name: self._reached(name) for name in self._callees}
        self._recursive = {name for name, found in reached.items() if name in found}
        self._leading = {name for name, found in reached.items() if found & self._recursive}
        within = [reached[name] for name in self._recursive]
        self._within = self._recursive.union(*within)

    def _reached(self, name: str) -> set[str]:
        found: set[str] = set()
        pending = list(self._callees[name])
        while pending:
            callee = pending.pop()
            if callee not in found:
                found.add(callee)
                pending += self._callees.get(callee, ())
        return found

    def reaches_recursion(self, name: str) -> bool:
        """Whether a function calls itself, or may run one that does."""
        return name in self._recursive or name in self._leading

    def runs_in_recursion(self, name: str) -> bool:
        """Whether a function calls itself, or may be run by one that does."""
        return name in self._within

    @property
    def is_shallow(self) -> bool:
        """Whether calls, recursion left aside, nest less deep than a run allows."""
        depths: dict[str, int] = {}
        for name in self.callees_first():
            depths[name] = 1 + max((depths.get(c, 0) for c in self._callees[name]), default=0)
        return max(depths.values(), default=0) < SHALLOW

    def callees_first(self) -> Iterator[str]:
        """Yield all functions, each after those that it calls, but for recursion."""
        done: set[str] = set()
        for start in self._callees:
            pending = [(start, False)]
            while pending:
                name, is_ready = pending.pop()
                if is_ready:
                    yield name
                elif name not in done and name in self._callees:
                    done.add(name)
                    pending.append((name, True))
                    pending += [(callee, False) for callee in self._callees[name]]
