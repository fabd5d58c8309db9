"""Diagnostics: what a program's IR shows to be a mistake, with the place and the remedy.

One file per group of rules. A rule is a function from the context of one IR function to
findings; it changes nothing, and where it does not know it is silent. Ops of kinds that are
not in `ir.ops` count as needing, and possibly doing, everything.
"""

from collections.abc import Callable, Iterator, Set

from lmc.ir.core import Module
from lmc.ir.target import Target
from lmc.passes.lint import (
    backend,
    effects,
    loops,
    options,
    parameters,
    prompts,
    stops,
    unused,
    values,
    variables,
)
from lmc.passes.lint.context import Context, ModuleFacts
from lmc.passes.lint.finding import (
    CODES,
    UNREACHABLE_TEXT,
    UNUSED_GENERATION,
    Code,
    Finding,
    Focus,
    Severity,
)
from lmc.passes.lint.languages import Languages

__all__ = [
    "CODES", "Code", "Finding", "Focus", "Languages", "Severity", "lint_module",
]  # fmt: skip

Rule = Callable[[Context], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    *unused.RULES, *prompts.RULES, *stops.RULES, *parameters.RULES, *options.RULES,
    *variables.RULES, *values.RULES, *loops.RULES, *effects.RULES, *backend.RULES,
)  # fmt: skip
"""All rules; their order decides nothing."""


NEEDLESS = (UNUSED_GENERATION, UNREACHABLE_TEXT)


def lint_module(
    module: Module,
    target: Target,
    *,
    declared: Set[str] = frozenset(),
    languages: Languages | None = None,
) -> list[Finding]:
    """Return what the rules find in every function of a module as it was captured.

    Args:
        module: a module that no pass has rewritten.
        target: whose tokenizer and template count.
        declared: import names of host functions whose effects the author has declared.
        languages: automata and token facts to reuse between modules of one target.
    """
    shared = ModuleFacts.of(module, target, declared, languages)
    contexts = [Context(function, shared) for function in module.functions.values()]
    findings = [finding for context in contexts for rule in RULES for finding in rule(context)]
    # A helper stands in the module once per call: what one of its calls needs is needed.
    needed = {op.location for c in contexts for op in (*c.demand.used, *c.demand.told)}
    return [f for f in findings if f.code not in NEEDLESS or f.location not in needed]
