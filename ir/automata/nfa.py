"""Syntax nodes to one nondeterministic automaton over character classes.

Thompson's construction, built from the end backwards. Look-around bodies are programs of
their own in the same node store; all programs share the accepting node.
"""

from dataclasses import dataclass, field
from typing import Literal

from lmc.errors import ConstraintError
from lmc.ir.automata import syntax
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.charset import ANY, CharSet
from lmc.ir.automata.syntax import Ahead, Alt, Atomic, Behind, Chars, Node, Repeat, Seq

ACCEPT = 0
"""The node where every program ends."""

Kind = Literal["accept", "char", "split", "ahead", "behind"]


@dataclass(slots=True)
class Nfa:
    """Nodes by number, as parallel lists.

    `args` holds: for "char" the class number, for "split" the successors, for "ahead" and
    "behind" the program's number and whether it is negated. `nexts` is the one successor of
    all kinds but "accept" and "split". Programs of look-behinds are numbered so that an
    inner one comes before the one that contains it.
    """

    kinds: list[Kind] = field(default_factory=lambda: ["accept"])
    args: list[int | tuple[int, ...] | tuple[int, bool]] = field(default_factory=lambda: [0])
    nexts: list[int] = field(default_factory=lambda: [ACCEPT])
    classes: list[CharSet] = field(default_factory=list)
    aheads: list[int] = field(default_factory=list)
    behinds: list[int] = field(default_factory=list)
    start: int = ACCEPT

    @property
    def is_plain(self) -> bool:
        """Whether the automaton has no look-around."""
        return not (self.aheads or self.behinds)

    def universal_nodes(self) -> frozenset[int]:
        """Return the nodes that read anything to the end, again and again.

        A state that holds one of them and may end here accepts everything from here on.
        """
        return frozenset(
            node
            for node, kind in enumerate(self.kinds)
            if kind == "char"
            and self.classes[self.args[node]] == ANY  # type: ignore[index]
            and self.kinds[self.nexts[node]] == "split"
            and set(self.args[self.nexts[node]]) == {node, ACCEPT}  # type: ignore[arg-type]
        )


def build_nfa(node: Node, budget: Budget) -> Nfa:
    """Return the automaton of a syntax tree without atomic parts."""
    builder = _Builder(budget)
    builder.nfa.start = builder.add(node, ACCEPT)
    return builder.nfa


class _Builder:
    """Adds nodes in front of their successors."""

    def __init__(self, budget: Budget) -> None:
        self.nfa = Nfa()
        self.budget = budget
        self.class_ids: dict[CharSet, int] = {}
        self.class_of_object: dict[int, int] = {}  # by id(); the tree keeps the sets alive
        self.programs: dict[tuple[bool, Node], int] = {}

    def _emit(self, kind: Kind, arg: int | tuple[int, ...] | tuple[int, bool], to: int) -> int:
        nfa = self.nfa
        nfa.kinds.append(kind)
        nfa.args.append(arg)
        nfa.nexts.append(to)
        self.budget.check_nodes(len(nfa.kinds))
        return len(nfa.kinds) - 1

    def add(self, node: Node, to: int) -> int:
        """Add a node that goes on at `to`; return where it starts."""
        match node:
            case Chars(chars):
                return self._emit("char", self._class_of(chars), to)
            case Seq(parts):
                for part in reversed(parts):
                    to = self.add(part, to)
                return to
            case Alt(options):
                return self._emit("split", tuple(self.add(option, to) for option in options), to)
            case Repeat():
                return self._repeat(node, to)
            case Ahead(body, negated):
                return self._emit("ahead", (self._program(body, True), negated), to)
            case Behind(body, negated):
                return self._emit("behind", (self._program(body, False), negated), to)
            case Atomic():
                raise ConstraintError(
                    "regex has an atomic part that was not resolved", hint="report this pattern"
                )

    def _class_of(self, chars: CharSet) -> int:
        known = self.class_of_object.get(id(chars))  # hashing a large set takes long
        if known is None:
            known = self.class_ids.setdefault(chars, len(self.class_ids))
            self.class_of_object[id(chars)] = known
            if known == len(self.nfa.classes):
                self.nfa.classes.append(chars)
        return known

    def _program(self, body: Node, is_ahead: bool) -> int:
        """Return the number of a look-around's program; equal bodies share one."""
        key = (is_ahead, body)
        if key not in self.programs:
            entry = self.add(body, ACCEPT)
            entries = self.nfa.aheads if is_ahead else self.nfa.behinds
            entries.append(entry)
            self.programs[key] = len(entries) - 1
        return self.programs[key]

    def _repeat(self, node: Repeat, to: int) -> int:
        low, high = node.low, node.high
        if syntax.width(node.body) == 0:  # saying it once says it all
            low, high = min(low, 1), 1
        if high is None:
            to = self._loop(node.body, low, to)
            low = max(low - 1, 0)
        else:
            out = to
            for _ in range(high - low):
                to = self._emit("split", (self.add(node.body, to), out), out)
        for _ in range(low):
            to = self.add(node.body, to)
            self.budget.tick()
        return to

    def _loop(self, body: Node, low: int, to: int) -> int:
        """Add `body*` if `low` is 0, else `body+`; return where it starts."""
        split = self._emit("split", (), to)
        entry = self.add(body, split)
        self.nfa.args[split] = (entry, to)
        return entry if low else split
