"""What rules look at: one function of a module, with its facts, and the target."""

from collections.abc import Set
from dataclasses import dataclass, field
from functools import cached_property

from lmc.ir.core import Function, Module, Op, Value
from lmc.ir.target import Target
from lmc.passes.analysis import Facts, known_items
from lmc.passes.lint.demand import Demand
from lmc.passes.lint.languages import Languages
from lmc.passes.lint.names import Names, StateNames
from lmc.passes.purity import FunctionFacts, function_facts

CALLS = frozenset({"lm.gen", "lm.select"})


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

    def calls(self, *names: str) -> list[Op]:
        """Return the ops with one of the names."""
        return [op for op in self.ops if op.name in names]

    def param(self, op: Op, name: str) -> object:
        """Return a call's constant parameter, None where it is unset or known late."""
        params = op.attributes.get("params")
        return params.get(name) if isinstance(params, dict) else None

    def is_dynamic(self, op: Op, name: str) -> bool:
        """Whether a call's parameter is known when the program runs only."""
        dynamic = op.attributes.get("dynamic", ())
        return isinstance(dynamic, (list, tuple)) and name in dynamic

    def options(self, op: Op) -> list[str] | None:
        """Return the choices of a select, if all of them are constants."""
        items = self.constant_items(op.operands[1])
        if items is None or not all(isinstance(item, str) for item in items):
            return None
        return [str(item) for item in items]

    def constant_items(self, value: Value) -> list[object] | None:
        """Return the items of a list or tuple of constants."""
        found = known_items(value, self.facts)
        if found is None:
            return None
        items: list[object] = []
        for item in found.items:
            known = self.facts.constant(item) if isinstance(item, Value) else item
            if known is None or not hasattr(known, "value"):
                return None
            items.append(known.value)
        return items
