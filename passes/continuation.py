"""Which prompts later calls continue: a flow analysis over the states of a module.

A call continues a state when its context begins with that state's. The analysis follows a
state forwards through ops that hand it on, also around loops and into and out of functions,
up to the calls that take it. It may say "more" where no call comes in a given run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lmc.ir.core import Block, Module, Op, Value
from lmc.passes.analysis import (
    LOOPS,
    PASSING,
    Facts,
    carried_sources,
    joined_sources,
    operand_holders,
    yield_holders,
)
from lmc.passes.purity import CALLEES

MODEL_CALLS = frozenset({"lm.gen", "lm.select"})
"""Ops whose context begins with their operand's."""

KEEPING = PASSING | {"lm.image", "lm.unordered", "lm.join"}
"""Ops whose result continues their first operand."""

PARTS = frozenset({"val.index", "val.slice", "val.unpack"})
"""Expressions that give what lies in a list of states."""

BLIND = frozenset({"val.compare", "val.truth", "val.not"})
"""Expressions that only look at a value."""


@dataclass(slots=True)
class Reach:
    """What was found ahead of a state: a call that continues it, or a place out of sight."""

    is_continued: bool = False
    is_hidden: bool = False

    @property
    def word(self) -> str:
        """The finding as hints say it."""
        if self.is_continued:
            return "more"
        return "unknown" if self.is_hidden else "none"


@dataclass(slots=True)
class Continuations:
    """Answers for the calls of a module; describes it as it was when this was made."""

    module: Module
    facts: dict[str, Facts] = field(default_factory=dict)
    homes: dict[Op, str] = field(default_factory=dict)
    sites: dict[str, list[Op]] = field(default_factory=dict)
    positions: dict[Op, int] = field(default_factory=dict)

    @classmethod
    def of(cls, module: Module) -> "Continuations":
        """Collect definitions and uses of all functions, and who calls them."""
        made = cls(module)
        for name, function in module.functions.items():
            made.facts[name] = Facts.of(function)
            for op in function.body.walk():
                made.homes[op] = name
                made.positions[op] = len(made.positions)
                if op.name in CALLEES:
                    made.sites.setdefault(str(op.attributes["callee"]), []).append(op)
        return made

    def result(self, call: Op) -> str:
        """Return whether a later call continues a call's result: none, more or unknown."""
        return self._ahead([(self.homes[call], call.results[0])], None).word

    def context(self, call: Op) -> str:
        """Return whether another call, not before this one, continues its context.

        That is "last", "more" or "unknown". The context counts as continued by what continues
        any state since the last call before, or since the prompt was opened.
        """
        home = self.homes[call]
        sources, is_hidden = self._behind(home, call.operands[0])
        facts = self.facts[home]
        loops = _loops_around(call, facts)
        if any(not _loops_of(value, facts) >= loops for value in sources):
            return "more"  # the next round of a loop continues it again
        found = self._ahead([(home, value) for value in sources], call)
        found.is_hidden |= is_hidden
        word = found.word
        return "last" if word == "none" else word

    # -- backwards -------------------------------------------------------------------------

    def _behind(self, home: str, value: Value) -> tuple[list[Value], bool]:
        """Return the states of the last calls before a state, and whether some are unseen."""
        facts, ends, is_hidden = self.facts[home], [], False
        pending, seen = [value], {value}
        while pending:
            held = pending.pop()
            sources = _sources(held, facts)
            if sources is None:
                is_hidden = True
            if not sources:
                ends.append(held)
            fresh = [each for each in sources or () if each not in seen]
            seen.update(fresh)
            pending += fresh
        return ends, is_hidden

    # -- forwards --------------------------------------------------------------------------

    def _ahead(self, starts: list[tuple[str, Value]], call: Op | None) -> Reach:
        """Follow states up to the calls that take them; `call` and what is before it aside.

        A call that continues one ends the search, since nothing more can come of it.
        """
        found = Reach()
        pending, seen = list(starts), set(starts)
        while pending and not found.is_continued:
            home, value = pending.pop()
            for op, position in self.facts[home].uses(value):
                if op.name in MODEL_CALLS and position == 0:
                    found.is_continued |= op is not call and not self._is_before(op, call)
                    continue
                following = self._hand_on(home, op, position)
                if following is None:
                    found.is_hidden = True
                elif call is not None and self._goes_round(op, call):
                    found.is_continued = True
                fresh = [each for each in following or () if each not in seen]
                seen.update(fresh)
                pending += fresh
        return found

    def _hand_on(self, home: str, op: Op, position: int) -> list[tuple[str, Value]] | None:
        """Return where a state goes that an op takes; None where it goes out of sight."""
        facts = self.facts[home]
        match op.name:
            case "func.call" | "func.apply":
                return self._enter(home, op, position)
            case "func.return":
                return list(self._leave(home, position))
            case "cf.yield":
                owner = facts.owners[facts.blocks[op]]
                made = [] if owner is None else yield_holders(owner, position)
            case "cf.save":
                made = facts.holders(op, position)
            case "cf.for" | "cf.while" | "cf.try":
                made = operand_holders(op, position)
            case "lm.fork" | "val.list" | "val.tuple":
                made = list(op.results)
            case "lm.group":
                made = [op.results[position - 1]] if position else []
            case name if name in KEEPING and position == 0:
                made = [op.results[0]]
            case name if name in PARTS and position == 0:
                made = list(op.results)
            case "lm.set":
                return None
            case name if name.startswith("lm.") or name in BLIND:
                made = []  # only its text is taken, or it is looked at
            case _:
                return None
        return [(home, value) for value in made]

    def _enter(self, home: str, op: Op, position: int) -> list[tuple[str, Value]] | None:
        """Return the parameter that an argument becomes; a caller's own prompt goes on."""
        if op.name == "func.call" and position == 1:
            return [(home, op.results[1])]
        callee = str(op.attributes["callee"])
        function = self.module.functions.get(callee)
        if function is None:
            return None
        index = position - 1 if op.name == "func.call" else position
        return [(callee, function.body.arguments[index])]

    def _leave(self, home: str, position: int) -> Iterator[tuple[str, Value]]:
        """Yield what a returned value is at the function's call sites."""
        for site in self.sites.get(home, ()):
            offset = 1 if site.name == "func.call" else 0
            yield self.homes[site], site.results[position + offset]

    # -- program order ---------------------------------------------------------------------

    def _is_before(self, op: Op, call: Op | None) -> bool:
        """Whether an op of the same function comes before a call wherever both are met."""
        if call is None or self.homes[op] != self.homes[call]:
            return False
        return self.positions[op] < self.positions[call]

    def _goes_round(self, op: Op, call: Op) -> bool:
        """Whether an op hands its operand to the next round of a loop around a call."""
        if op.name != "cf.yield" or self.homes[op] != self.homes[call]:
            return False
        facts = self.facts[self.homes[op]]
        owner = facts.owners[facts.blocks[op]]
        return owner is not None and owner in _loops_around(call, facts)


def _sources(value: Value, facts: Facts) -> list[Value] | None:
    """Return the states that a state continues without a call; None where they are unseen.

    A call's result, and a new prompt, continue none.
    """
    if value in facts.arguments:
        owner, index = facts.arguments[value]
        return None if owner is None else carried_sources(owner, index)
    op, index = facts.definitions[value]
    match op.name:
        case "lm.gen" | "lm.select" | "lm.prompt" | "lm.prologue":
            return []
        case "lm.fork":
            return [op.operands[0]]
        case "lm.group":
            return [op.operands[index + 1]]
        case "func.call" if index == 1:
            return [op.operands[1]]
        case "cf.if" | "cf.for" | "cf.while" | "cf.try":
            return joined_sources(op, index)
        case name if name in KEEPING or name in PARTS:
            return [op.operands[0]]
        case _:
            return None


def _loops_around(op: Op, facts: Facts) -> set[Op]:
    """Return the loops that an op stands in."""
    return _loops_of_block(facts.blocks[op], facts)


def _loops_of(value: Value, facts: Facts) -> set[Op]:
    """Return the loops in whose bodies a value is made."""
    if value in facts.arguments:
        owner, _ = facts.arguments[value]
        if owner is None:
            return set()
        inside = {owner} if owner.name in LOOPS else set()
        return inside | _loops_around(owner, facts)
    return _loops_around(facts.definitions[value][0], facts)


def _loops_of_block(block: Block, facts: Facts) -> set[Op]:
    found: set[Op] = set()
    owner = facts.owners[block]
    while owner is not None:
        if owner.name in LOOPS:
            found.add(owner)
        owner = facts.owners[facts.blocks[owner]]
    return found
