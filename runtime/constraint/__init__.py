"""Constrained decoding: which tokens may come next.

`Matcher` is what the engine asks; `ConstraintCache` gives compiled constraints, each of
which makes matchers.
"""

from lmc.runtime.constraint.cache import ConstraintCache
from lmc.runtime.constraint.matcher import Matcher, Words
from lmc.runtime.constraint.regex import RegexConstraint, RegexMatcher

__all__ = ["ConstraintCache", "Matcher", "RegexConstraint", "RegexMatcher", "Words"]
