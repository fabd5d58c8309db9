"""Keys by which equal expressions, equal prompts and equal calls are known as such."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from lmc.ir.core import Op, Value
from lmc.ir.ops import SPECS
from lmc.ir.types import BOOL, INT, NONE, PY, TEXT
from lmc.passes.analysis import UNSHARED, Facts

WHOLE = frozenset({TEXT, BOOL, INT, NONE})
"""Types of which equal values cannot be told apart; a float may be nan, which is not itself."""

NOTES = frozenset({"expected", "skeleton"})
"""Attributes of calls that mean nothing."""

READS = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text"})
PICKS = frozenset({"val.index", "val.attr", "val.unpack"})
"""Ops that give what they are handed a part of, not something new."""

FRESH = frozenset({
    "val.list", "val.tuple", "val.set", "val.dict", "val.slice", "val.method", "val.call",
    "val.binary", "val.mutate", "val.index", "val.unpack",
})  # fmt: skip
_WORDS = {"lm.begin": "role", "lm.end": "role", "lm.control": "token", "lm.unordered": "side"}


@dataclass(slots=True)
class Numbers:
    """Keys of one function's values; prompts get theirs in the order of the text."""

    facts: Facts
    contexts: dict[Value, int] = field(default_factory=dict[Value, int])
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _values: dict[Value, Hashable] = field(default_factory=dict[Value, Hashable])
    _stable: dict[Value, bool] = field(default_factory=dict[Value, bool])

    # -- values ----------------------------------------------------------------------------

    def of_value(self, value: Value) -> Hashable:
        """Return a key that equal values share; what may change in place is only itself."""
        pending, seen = [value], {value}
        while pending:  # operands first, without recursion: chains may be long
            last = pending[-1]
            fresh = [] if last in self._values else self._unknown_operands(last, seen)
            if fresh:
                seen.update(fresh)
                pending += fresh
                continue
            pending.pop()
            if last not in self._values:
                self._values[last] = self._find_key(last)
        return self._values[value]

    def _unknown_operands(self, value: Value, seen: set[Value]) -> list[Value]:
        """Return the operands whose keys an expression's own takes, as far as not known yet."""
        found = self.facts.definitions.get(value)
        if found is None or not SPECS[found[0].name].is_pure:
            return []
        return [each for each in found[0].operands if each not in self._values and each not in seen]

    def _find_key(self, value: Value) -> Hashable:
        found = self.facts.definitions.get(value)
        if found is None or not self.is_stable(value):
            return value
        op, place = found
        if op.name == "val.const":
            return self._number(("const", repr(op.attributes["value"])))
        if not SPECS[op.name].is_pure or not all(map(self.is_stable, op.operands)):
            return value
        operands = tuple(map(self.of_value, op.operands))
        return self._number((op.name, operands, repr(sorted(op.attributes.items())), place))

    def of_expression(self, op: Op) -> Hashable | None:
        """Return a key that expressions share whose results may stand for one another."""
        if op.name not in READS and not (SPECS[op.name].is_pure and op.operands):
            return None
        if not all(map(self.is_stable, op.operands)) or not self._is_mergeable(op):
            return None
        operands = tuple(map(self._of_operand, op.operands))
        return op.name, operands, repr(sorted(op.attributes.items())), len(op.results)

    def _of_operand(self, value: Value) -> Hashable:
        return self.of_value(value) if value.type in WHOLE else value

    def _is_mergeable(self, op: Op) -> bool:
        """Whether nobody can tell the results of two such ops apart."""
        kinds = [value.type for value in op.operands]
        if op.name in READS:
            return True
        if op.name in PICKS:
            return all(kind in WHOLE for kind in kinds[1:])
        if all(value.type in WHOLE for value in op.results):
            return True
        plain = op.name in ("val.compare", "val.binary") and op.result.type == PY
        return plain and all(kind in WHOLE for kind in kinds)

    def is_stable(self, value: Value) -> bool:
        """Whether a value is the same whenever it is looked at: no host code can change it."""
        if value.type in UNSHARED:
            return True
        if value not in self._stable:
            self._stable[value] = False  # for values that come round in a loop
            self._stable[value] = self._find_stable(value)
        return self._stable[value]

    def _find_stable(self, value: Value) -> bool:
        facts = self.facts
        if facts.is_exposed(value):
            return False
        if value in facts.arguments:
            return facts.arguments[value][0] is None and not facts.is_called
        op, _ = facts.definitions[value]
        if op.name in ("val.const", "lm.fork", "lm.gen", "lm.select"):
            return True
        return op.name in FRESH and all(map(self.is_stable, op.operands))

    # -- prompts ---------------------------------------------------------------------------

    def note(self, op: Op) -> None:
        """Note the contexts of the states that an op gives: equal numbers for equal ids."""
        match op.name:
            case "lm.prompt" | "lm.prologue":
                self.contexts[op.result] = self._root(op)
            case "lm.extend":
                self.contexts[op.result] = self._extended(op)
            case "lm.begin" | "lm.end" | "lm.control" | "lm.unordered":
                word = op.attributes[_WORDS[op.name]]
                self.contexts[op.result] = self._after(op.operands[0], op.name, word)  # type: ignore[arg-type]
            case "lm.tick" | "lm.set" | "lm.fork" | "lm.place" | "lm.foresee":
                self.contexts[op.results[0]] = self.of_state(op.operands[0])
            case "lm.again":
                self.contexts[op.results[0]] = self.of_state(op.operands[1])
            case "lm.group":
                for result, child in zip(op.results, op.operands[1:], strict=True):
                    self.contexts[result] = self.of_state(child)
            case "val.index":
                fork = self.facts.fork_of_list(op.operands[0])
                if fork is not None and "count" in fork.attributes:
                    self.contexts[op.result] = self.of_state(fork.operands[0])
            case _:
                pass

    def of_state(self, state: Value) -> int:
        """Return the number of a state's context; one that nothing is known of has its own."""
        if state not in self.contexts:
            self.contexts[state] = self._number(state)
        return self.contexts[state]

    def of_call(self, op: Op) -> Hashable:
        """Return a key that `lm.gen` or `lm.select` ops share that ask the same."""
        kinds = tuple(value.type for value in op.results)
        given = tuple(map(self.of_value, op.operands[1:]))
        # Notes of other passes mean nothing.
        meant = {key: held for key, held in op.attributes.items() if key not in NOTES}
        attributes = repr(sorted(meant.items()))
        return op.name, self.of_state(op.operands[0]), attributes, kinds, given

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _root(self, op: Op) -> int:
        number = self._number("root")
        pieces = op.attributes.get("pieces", [])
        assert isinstance(pieces, list)
        for kind, text in pieces:  # type: ignore[misc]
            if kind == "text":
                number = self._number((number, "text", self._number(("const", repr(text)))))
            else:
                number = self._number((number, f"lm.{kind}", text))
        return number

    def _extended(self, op: Op) -> int:
        state, text = op.operands
        if self.facts.constant_text(text) == "":
            return self.of_state(state)
        return self._after(state, "text", self.of_value(text))

    def _after(self, state: Value, kind: str, appended: Hashable) -> int:
        return self._number((self.of_state(state), kind, appended))
