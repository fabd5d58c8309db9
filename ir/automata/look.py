"""Steps of an automaton with look-around: sets of items that carry obligations.

An item is a node together with obligations on the rest of the text: an obligation is a
deterministic state of a look-ahead's own automaton, to be accepted or (negated) refused.
Look-behinds run beside the main automaton from the start of the text as *trackers*; what
they find at the present position is the *context* under which empty moves are taken. This
is the usual construction for alternating automata, kept lazy.
"""

from collections.abc import Callable
from itertools import product

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.minterms import Minterms
from lmc.ir.automata.nfa import ACCEPT, Nfa

Items = tuple[int, ...]
"""Sorted items, each `obligations << NODE_BITS | node`."""

Outcome = tuple[tuple[int, ...], tuple[int, ...]]
"""Obligations under which a look-behind holds, and under which it does not: any one of each."""

NODE_BITS = 20
NODE_MASK = (1 << NODE_BITS) - 1
IMPOSSIBLE = -1
_MAX_CHOICES = 4096


class LookEngine:
    """Steps item sets; remembers every answer."""

    def __init__(self, nfa: Nfa, minterms: Minterms, budget: Budget) -> None:
        self.nfa = nfa
        self.budget = budget
        self.members = minterms.members
        self.universal = nfa.universal_nodes()
        self.holds = [frozenset(letters) for letters in minterms.members]
        self.sets: list[Items] = []  # item sets that serve as states of look-aheads
        self.set_ids: dict[Items, int] = {}
        self.duties: list[frozenset[tuple[int, bool]]] = []  # obligations: (set id, negated)
        self.duty_ids: dict[frozenset[tuple[int, bool]], int] = {}
        self.contexts: list[tuple[Outcome, ...]] = []
        self.context_ids: dict[tuple[Outcome, ...], int] = {}
        self._closures: dict[tuple[int, int, int], Items] = {}
        self._set_steps: dict[tuple[int, int, int], int] = {}
        self._duty_steps: dict[tuple[int, int, int], int] = {}
        self.duty(frozenset())  # number 0: nothing owed
        self.never = self.set_id(())
        self.always = self.set_id((ACCEPT,))

    def set_id(self, items: Items) -> int:
        """Return the number of an item set; one that owes nothing more is `always`."""
        if ACCEPT in items:
            items = (ACCEPT,)
        if items not in self.set_ids:
            self.set_ids[items] = len(self.sets)
            self.sets.append(items)
            self.budget.check_states(len(self.sets))
            self.budget.spend(len(items))
        return self.set_ids[items]

    def duty(self, parts: frozenset[tuple[int, bool]]) -> int:
        """Return the number of a set of obligations, or IMPOSSIBLE if it contradicts itself."""
        if any((state, not negated) in parts for state, negated in parts):
            return IMPOSSIBLE
        if parts not in self.duty_ids:
            self.duty_ids[parts] = len(self.duties)
            self.duties.append(parts)
            self.budget.check_states(len(self.duties))
            self.budget.spend(len(parts))
        return self.duty_ids[parts]

    def context_id(self, outcomes: tuple[Outcome, ...]) -> int:
        """Return the number of a context."""
        if outcomes not in self.context_ids:
            self.context_ids[outcomes] = len(self.contexts)
            self.contexts.append(outcomes)
        return self.context_ids[outcomes]

    def closure(self, node: int, duty: int, context: int) -> Items:
        """Return the items that empty moves reach from a node."""
        key = (node, duty, context)
        found = self._closures.get(key)
        if found is None:
            found = self._closures[key] = self._walk(node, duty, context)
            self.budget.spend(len(found))
        return found

    def _walk(self, node: int, duty: int, context: int) -> Items:
        kinds = self.nfa.kinds
        seen = {(node, duty)}
        stack = [(node, duty)]
        items: set[int] = set()
        while stack:
            self.budget.tick()
            node, duty = stack.pop()
            if kinds[node] in ("char", "accept"):
                items.add(duty << NODE_BITS | node)
                continue
            for successor in self._empty_moves(node, duty, context):
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return self.normal(items)

    def _empty_moves(self, node: int, duty: int, context: int) -> list[tuple[int, int]]:
        nfa = self.nfa
        kind, arg, to = nfa.kinds[node], nfa.args[node], nfa.nexts[node]
        assert isinstance(arg, tuple)
        if kind == "split":
            return [(successor, duty) for successor in arg]
        program, negated = arg[0], bool(arg[1])
        if kind == "ahead":
            entry = self.set_id(self.closure(nfa.aheads[program], 0, context))
            options = self._owed(entry, negated)
        else:
            options = self.contexts[context][program][negated]
        joined = [self.join(duty, option) for option in options]
        return [(to, option) for option in joined if option != IMPOSSIBLE]

    def _owed(self, entry: int, negated: bool) -> tuple[int, ...]:
        """Return the obligation that a look-ahead in state `entry` puts on the rest."""
        if entry in (self.always, self.never):
            return (0,) if (entry == self.always) != negated else ()
        return (self.duty(frozenset({(entry, negated)})),)

    def join(self, duty: int, other: int) -> int:
        """Return the obligations of both, or IMPOSSIBLE."""
        if not duty or not other:
            return duty or other
        return self.duty(self.duties[duty] | self.duties[other])

    def normal(self, items: set[int]) -> Items:
        """Return items sorted, without those that add nothing.

        These owe more than another at the same node, or stand beside one that takes all.
        """
        if ACCEPT in items and not self.universal.isdisjoint(items):
            return (ACCEPT, min(self.universal & items))
        if not items or max(items) <= NODE_MASK:
            return tuple(sorted(items))
        by_node: dict[int, list[int]] = {}
        for item in items:
            by_node.setdefault(item & NODE_MASK, []).append(item >> NODE_BITS)
        kept: list[int] = []
        for node, owed in by_node.items():
            parts = [self.duties[duty] for duty in owed]
            for duty, part in zip(owed, parts, strict=True):
                if not any(other < part for other in parts):
                    kept.append(duty << NODE_BITS | node)
        return tuple(sorted(kept))

    def step(self, items: Items, letter: int, context: int, *, is_ahead: bool = False) -> Items:
        """Return the items after one letter; `context` is that of the new position.

        A look-ahead that has matched stays matched, so its accepting items live on with
        what they still owe; elsewhere a match must end where the text ends.
        """
        nfa = self.nfa
        after: set[int] = set()
        for item in items:
            node, duty = item & NODE_MASK, item >> NODE_BITS
            if node == ACCEPT:
                if not is_ahead:
                    continue
            elif letter not in self.holds[nfa.args[node]]:  # type: ignore[index]
                continue
            owed = self.step_duty(duty, letter, context)
            if owed == IMPOSSIBLE:
                continue
            if node == ACCEPT:
                after.add(owed << NODE_BITS | ACCEPT)
            else:
                after.update(self.closure(nfa.nexts[node], owed, context))
        self.budget.tick()
        return self.normal(after)

    def successors(self, items: Items, contexts: list[int]) -> list[Items]:
        """Return the items after every letter, given the context after every letter.

        Letters that lie in the same classes, lead to the same context and leave the same
        obligations need one step for all of them.
        """
        by_class: dict[int, list[int]] = {}
        for item in items:
            if item & NODE_MASK != ACCEPT:
                number = self.nfa.args[item & NODE_MASK]
                by_class.setdefault(number, []).append(item)  # type: ignore[arg-type]
        by_letter: dict[int, tuple[int, ...]] = {}
        for number in by_class:
            for letter in self.members[number]:
                by_letter[letter] = (*by_letter.get(letter, ()), number)
        duties = sorted({item >> NODE_BITS for item in items} - {0})
        known: dict[object, Items] = {}
        after: list[Items] = [()] * len(contexts)
        for letter, numbers in by_letter.items():
            context = contexts[letter]
            owed = tuple(self.step_duty(duty, letter, context) for duty in duties)
            key = (numbers, context, owed)
            if key not in known:
                readers = tuple(item for number in numbers for item in by_class[number])
                known[key] = self.step(readers, letter, context)
            after[letter] = known[key]
        return after

    def step_duty(self, duty: int, letter: int, context: int) -> int:
        """Return what is still owed after one letter, or IMPOSSIBLE."""
        if not duty:
            return 0
        key = (duty, letter, context)
        if key not in self._duty_steps:
            self._duty_steps[key] = self._step_parts(duty, letter, context)
        return self._duty_steps[key]

    def _step_parts(self, duty: int, letter: int, context: int) -> int:
        parts: set[tuple[int, bool]] = set()
        for state, negated in self.duties[duty]:
            after = self._step_set(state, letter, context)
            if after in (self.always, self.never):
                if (after == self.always) == negated:
                    return IMPOSSIBLE
            else:
                parts.add((after, negated))
        return self.duty(frozenset(parts))

    def _step_set(self, state: int, letter: int, context: int) -> int:
        key = (state, letter, context)
        if key not in self._set_steps:
            after = self.step(self.sets[state], letter, context, is_ahead=True)
            self._set_steps[key] = self.set_id(after)
        return self._set_steps[key]

    def ends(self, items: Items) -> bool:
        """Return whether the text may end here."""
        return any(
            item & NODE_MASK == ACCEPT and self._settled(item >> NODE_BITS) for item in items
        )

    def _settled(self, duty: int) -> bool:
        """Return whether all obligations hold if the text ends here."""
        return all(self.ends(self.sets[state]) != negated for state, negated in self.duties[duty])

    def start(self) -> tuple[tuple[Items, ...], int]:
        """Return the trackers at the start of the text, and their context."""
        return self._track(lambda index, context: ())

    def advance(self, trackers: tuple[Items, ...], letter: int) -> tuple[tuple[Items, ...], int]:
        """Return the trackers after one letter, and their context."""
        return self._track(lambda index, context: self.step(trackers[index], letter, context))

    def _track(self, carried: Callable[[int, int], Items]) -> tuple[tuple[Items, ...], int]:
        trackers: list[Items] = []
        outcomes: tuple[Outcome, ...] = ()
        for index, entry in enumerate(self.nfa.behinds):
            context = self.context_id(outcomes)
            fresh = self.closure(entry, 0, context)
            items = self.normal({*carried(index, context), *fresh})
            trackers.append(items)
            outcomes = (*outcomes, self._outcome(items))
        return tuple(trackers), self.context_id(outcomes)

    def _outcome(self, items: Items) -> Outcome:
        """Return when a look-behind whose tracker stands at `items` holds, and when not."""
        owed = sorted(item >> NODE_BITS for item in items if item & NODE_MASK == ACCEPT)
        if not owed or owed[0] == 0:
            return ((0,), ()) if owed else ((), (0,))
        choices = [[(state, not negated) for state, negated in self.duties[d]] for d in owed]
        count = 1
        for choice in choices:
            count *= len(choice)
        if count > _MAX_CHOICES:
            raise ConstraintError(
                "regex has a look-behind that depends on too many look-aheads",
                hint="simplify the look-behind",
            )
        refusals = {self.duty(frozenset(choice)) for choice in product(*choices)}
        return tuple(owed), tuple(sorted(refusals - {IMPOSSIBLE}))
