"""What rules look at: one function of a module, with its facts, and the target."""

import copy
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

from lmc.errors import RunError, UsageError
from lmc.ir.core import Function, Module, Op, Value
from lmc.ir.decode_params import RULES, check_param
from lmc.ir.evaluate import evaluate
from lmc.ir.target import Target
from lmc.passes.analysis import Const, Facts, known_items
from lmc.passes.lint.demand import Demand
from lmc.passes.lint.languages import Languages
from lmc.passes.lint.names import Names, StateNames
from lmc.passes.purity import FunctionFacts, function_facts

CALLS = frozenset({"lm.gen", "lm.select"})

FOLDED = frozenset({
    "val.index", "val.slice", "val.list", "val.tuple", "val.dict", "val.concat", "val.format",
    "val.binary", "val.method", "val.not", "val.truth", "val.compare", "val.unary",
})  # fmt: skip
"""Pure ops that are computed where their operands are constants: none of them grows far."""

FOLDED_METHODS = frozenset({"strip", "lower", "upper", "split", "join", "get", "format", "replace"})


@dataclass(slots=True)
class ModuleFacts:
    """Facts of a module that its functions share."""

    module: Module
    target: Target
    callees: dict[str, FunctionFacts]
    languages: Languages
    declared: Set[str] = frozenset()
    finals: dict[str, Names] = field(default_factory=dict)

    @classmethod
    def of(
        cls, module: Module, target: Target, declared: Set[str], languages: Languages | None
    ) -> "ModuleFacts":
        """Collect the facts of a module."""
        made = languages or Languages(target.tokenizer)
        return cls(module, target, function_facts(module), made, declared)

    def is_declared(self, callee: str) -> bool:
        """Whether the author has declared what a host function does."""
        return callee in self.declared


@dataclass
class Context:
    """One function as the rules see it."""

    function: Function
    shared: ModuleFacts
    _params: dict[Op, dict[str, object]] = field(default_factory=dict)
    _constants: dict[Value, Const | None] = field(default_factory=dict)

    @property
    def module(self) -> Module:
        """The module of the function."""
        return self.shared.module

    @property
    def target(self) -> Target:
        """What the program is checked for."""
        return self.shared.target

    @cached_property
    def facts(self) -> Facts:
        """Definitions and uses."""
        return Facts.of(self.function)

    @cached_property
    def names(self) -> StateNames:
        """Variables by state."""
        return StateNames.of(self.function, self.facts, self.module, self.shared.finals)

    @cached_property
    def demand(self) -> Demand:
        """What is needed."""
        return Demand.of(self.function, self.facts, self.shared.callees, self.names)

    @cached_property
    def ops(self) -> list[Op]:
        """All ops of the function, nested ones included, in order."""
        return list(self.function.body.walk())

    @cached_property
    def order(self) -> dict[Op, int]:
        """The number of each op in the function's text."""
        return {op: number for number, op in enumerate(self.ops)}

    def calls(self, *names: str) -> list[Op]:
        """Return the ops with one of the names."""
        return [op for op in self.ops if op.name in names]

    def params(self, op: Op) -> Mapping[str, object]:
        """Return a call's parameters that are known, computed constants among them."""
        if op not in self._params:
            given = op.attributes["params"]
            made: dict[str, object] = dict(given) if isinstance(given, dict) else {}
            for name, value in self._late_params(op):
                known = self.constant(value)
                if known is not None and known.value is not None:
                    try:
                        made[name] = check_param(name, known.value)
                    except UsageError:
                        continue  # an error when the program runs
            self._params[op] = made
        return self._params[op]

    def _late_params(self, op: Op) -> list[tuple[str, Value]]:
        dynamic = op.attributes.get("dynamic", ())
        assert isinstance(dynamic, (list, tuple))
        operands = op.operands[len(op.operands) - len(dynamic) :]
        pairs = zip(map(str, dynamic), operands, strict=True)
        return [(name, value) for name, value in pairs if name in RULES]

    def param(self, op: Op, name: str) -> object:
        """Return a call's known parameter, None where it is unset or known late."""
        return self.params(op).get(name)

    def is_dynamic(self, op: Op, name: str) -> bool:
        """Whether a call's parameter is known when the program runs only."""
        return name not in self.params(op) and name in dict(self._late_params(op))

    def options(self, op: Op) -> list[str] | None:
        """Return the choices of a select, if all of them are constants."""
        items = self.constant_items(op.operands[1])
        if items is None or not all(isinstance(item, str) for item in items):
            return None
        return [str(item) for item in items]

    def constant_items(self, value: Value) -> list[object] | None:
        """Return the items of a list or tuple of constants."""
        known = self.constant(value)
        if known is not None:
            return list(known.value) if isinstance(known.value, (list, tuple)) else None
        found = known_items(value, self.facts)
        if found is None:
            return None
        items: list[object] = []
        for item in found.items:
            each = self.constant(item) if isinstance(item, Value) else item
            if not isinstance(each, Const):
                return None
            items.append(each.value)
        return items

    def constant(self, value: Value) -> Const | None:
        """Return a constant, also one that is looked up in others or joined from them."""
        if value not in self._constants:
            self._constants[value] = self._find_constant(value)
        return self._constants[value]

    def _find_constant(self, value: Value) -> Const | None:
        op = self.facts.op_of(value)
        if op is None or op.name not in FOLDED:
            return self.facts.constant(value)
        if op.name == "val.binary" and op.attributes["op"] != "+":
            return None
        if op.name == "val.method" and op.attributes["name"] not in FOLDED_METHODS:
            return None
        parts = [self.constant(operand) for operand in op.operands]
        if None in parts or self.facts.is_exposed(value):
            return None
        try:
            results = evaluate(op, [copy.deepcopy(part.value) for part in parts if part])
        except RunError:
            return None
        return Const(results[op.results.index(value)])
