"""Grammars to networks: the way through the parts of this package."""

from dataclasses import dataclass

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.compiler import compile_regex
from lmc.ir.automata.graph import Template
from lmc.ir.grammar.model import (
    Alt,
    Grammar,
    Node,
    Pattern,
    Ref,
    Repeat,
    Seq,
    Word,
    references,
    refuse,
)
from lmc.ir.grammar.network import Network, NetworkBuilder, strong_groups
from lmc.ir.grammar.reader import read_grammar

DEFAULT_MAX_STATES = 32_000
DEFAULT_MAX_SECONDS = 5.0
INLINED = (200, 0)
"""Sizes up to which a rule is written out where it is used, one tried after another."""
MAX_INLINED_DEPTH = 20


@dataclass(frozen=True, slots=True, eq=False)
class CompiledGrammar:
    """A network, and what is odd about the grammar."""

    network: Network
    warnings: tuple[str, ...]


def compile_grammar(
    source: str,
    *,
    max_states: int = DEFAULT_MAX_STATES,
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> CompiledGrammar:
    """Return the network of the texts that a grammar derives.

    The grammar is in lark's notation or in the common EBNF (see docs/constraints.md). It begins at
    the rule `start` or `root`, else at the first one.

    Args:
        source: the grammar's text.
        max_states: the most states of its automata.
        max_seconds: the most processor time of this thread.

    Raises:
        ConstraintError: the grammar is wrong, says something that is not supported, has a rule
            that can never end, or is too costly; `.position` is (line, column) of the place.
    """
    budget = Budget(max_states=max_states, max_seconds=max_seconds, subject="grammar")
    grammar = read_grammar(source)
    for step, inlined in enumerate(INLINED):
        try:
            builder = NetworkBuilder(budget)
            lowering = GrammarLowering(grammar, builder, inlined)
            top = lowering.run()
            lowering.check_ends()
            network = builder.finish(top)
            assert network is not None, "every rule has a text"
            return CompiledGrammar(network, tuple(grammar.warnings))
        except ConstraintError as error:
            budget.check_time()
            if not budget.is_exceeded(error) or step + 1 == len(INLINED):
                raise
    raise AssertionError("the last size decides")


class GrammarLowering:
    """The rules of one grammar as rules of a network.

    Args:
        grammar: what to lower.
        builder: gets the rules.
        inlined: size up to which a rule that does not hold itself is written out.
    """

    def __init__(self, grammar: Grammar, builder: NetworkBuilder, inlined: int) -> None:
        self.grammar = grammar
        self.builder = builder
        self.graph = builder.graph
        self.templates: dict[str, Template] = {}
        self.inlined = self._inlined(inlined)
        self.keys: dict[str, tuple[object, str]] = {}
        self._skipped = builder.rule((self, "%ignore"))

    def run(self) -> int:
        """Build all rules; return the one that derives the texts."""
        top = self.builder.rule((self, "%start"))
        start, end = self.builder.define(top)
        if self.grammar.ignored:
            opened = self.graph.node()
            self.builder.call(start, self._skipped, opened)
            self._skip_rule()
            start = opened
        self._add(Ref(self.grammar.start, (1, 1)), start, end, False)
        for name, rule in self.grammar.rules.items():
            if name not in self.inlined:
                self._add(rule.body, *self.builder.define(self._letter(name)), rule.is_terminal)
        return top

    def check_ends(self) -> None:
        """Refuse a rule that can never end."""
        endless = self.builder.endless()
        for name, rule in self.grammar.rules.items():
            if name not in self.inlined and self._letter(name) in endless:
                raise refuse(
                    rule.position, f"rule {name!r} can never end",
                    "give it an option that does not hold itself",
                )  # fmt: skip

    def _letter(self, name: str) -> int:
        return self.builder.rule((self, name))

    def _skip_rule(self) -> None:
        start, end = self.builder.define(self._skipped)
        self.graph.move(start, end)
        for node in self.grammar.ignored:
            self._add(node, end, end, True)

    # What is written out.

    def _inlined(self, limit: int) -> set[str]:
        """Return the rules to write out where they are used: small ones without recursion."""
        rules = self.grammar.rules
        after = {name: [ref.name for ref in references(rule.body)] for name, rule in rules.items()}
        sizes: dict[str, tuple[int, int]] = {}
        for group in strong_groups(after):
            name = group[0]
            for each in group:
                size, depth = self._size(rules[each].body, sizes)
                if len(group) == 1 and name not in after[name]:
                    if size <= limit and depth < MAX_INLINED_DEPTH:
                        sizes[name] = size, depth + 1
        return set(sizes)

    def _size(self, node: Node, sizes: dict[str, tuple[int, int]]) -> tuple[int, int]:
        """Return how large a node is when written out, and how many rules deep it goes."""
        match node:
            case Word(text):
                return len(text.encode("utf-8", "replace")), 0
            case Pattern():
                return len(self._template(node).edges), 0
            case Ref(name):
                return sizes.get(name, (1, 0))
            case Seq(parts) | Alt(parts):
                found = [self._size(part, sizes) for part in parts]
                return sum(size for size, _ in found) + 1, max((d for _, d in found), default=0)
            case Repeat(body, low, high):
                size, depth = self._size(body, sizes)
                return size * max(low, high or 1, 1), depth

    def _template(self, pattern: Pattern) -> Template:
        found = self.templates.get(pattern.source)
        if found is None:
            budget = self.builder.budget
            try:
                dfa = compile_regex(
                    pattern.source, max_states=budget.max_states, max_seconds=budget.max_seconds
                )
            except ConstraintError as error:
                raise refuse(pattern.position, error.message, error.hint or "mend it") from None
            found = self.templates[pattern.source] = Template.of_dfa(dfa)
            budget.check_time()
        return found

    # Nodes to the graph.

    def _add(self, node: Node, start: int, end: int, in_terminal: bool) -> None:
        """Lead from `start` to `end` by a node's texts, with what is ignored after terminals."""
        if not in_terminal and self.grammar.ignored and self._is_terminal(node):
            after = self.graph.node()
            self.builder.call(after, self._skipped, end)
            end, in_terminal = after, True
        match node:
            case Word(text):
                self.graph.chain(start, self._encoded(text), end)
            case Pattern():
                self.graph.copy(self._template(node), start, end)
            case Ref(name) if name in self.inlined:
                rule = self.grammar.rules[name]
                opened, closed = self.graph.node(), self.graph.node()
                self.graph.move(start, opened)
                self._add(rule.body, opened, closed, in_terminal or rule.is_terminal)
                self.graph.move(closed, end)
            case Ref(name):
                self.builder.call(start, self._letter(name), end)
            case Seq(parts):
                for part in parts[:-1]:
                    after = self.graph.node()
                    self._add(part, start, after, in_terminal)
                    start = after
                if parts:
                    self._add(parts[-1], start, end, in_terminal)
                else:
                    self.graph.move(start, end)
            case Alt(options):
                for option in options:
                    opened = self.graph.node()
                    self.graph.move(start, opened)
                    self._add(option, opened, end, in_terminal)
            case Repeat():
                self._repeat(node, start, end, in_terminal)

    def _repeat(self, node: Repeat, start: int, end: int, in_terminal: bool) -> None:
        graph = self.graph
        for _ in range(node.low):
            after = graph.node()
            self._add(node.body, start, after, in_terminal)
            start = after
        if node.high is None:
            loop = graph.node()
            graph.move(start, loop)
            back = graph.node()
            self._add(node.body, loop, back, in_terminal)
            graph.move(back, loop)
            graph.move(loop, end)
            return
        for _ in range(node.high - node.low):
            graph.move(start, end)
            after = graph.node()
            self._add(node.body, start, after, in_terminal)
            start = after
        graph.move(start, end)

    def _is_terminal(self, node: Node) -> bool:
        match node:
            case Word(text):
                return bool(text)
            case Pattern():
                return True
            case Ref(name):
                return self.grammar.rules[name].is_terminal
            case _:
                return False

    @staticmethod
    def _encoded(text: str) -> bytes:
        return text.encode()
