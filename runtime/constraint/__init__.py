"""Constrained decoding: which tokens may come next.

`Matcher` is what the engine asks; `ConstraintCache` gives compiled constraints, each of
which makes matchers.
"""

from lmc.runtime.constraint.cache import Compiled, ConstraintCache
from lmc.runtime.constraint.grammar import GrammarConstraint, GrammarMatcher
from lmc.runtime.constraint.matcher import Matcher, Words
from lmc.runtime.constraint.regex import RegexConstraint, RegexMatcher

__all__ = [
    "Compiled",
    "ConstraintCache",
    "GrammarConstraint",
    "GrammarMatcher",
    "Matcher",
    "RegexConstraint",
    "RegexMatcher",
    "Words",
]
