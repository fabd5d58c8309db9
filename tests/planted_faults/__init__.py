"""Faults to plant into lmc, each by one patch: `check` must find nearly all of them.

A fault is a function that patches by pytest's monkeypatch; `FAULTS` has them by name. They
are of the kinds that compilers and executors of prompts have had: lost text at a border, wrong
random keys, calls merged or dropped, effects swapped, branches frozen, loops off by one.
"""

from planted_faults import (
    bodies,
    calls,
    lowering,
    order,
    passes,
    prompts,
    rewriting,
    running,
    source,
)
from planted_faults.tools import FAULTS

__all__ = ["FAULTS", "PARTS"]

PARTS = (bodies, calls, lowering, order, passes, prompts, rewriting, running, source)
