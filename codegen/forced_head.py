"""The ids that a constraint forces at the start of a generation, known when it is compiled."""

from collections.abc import Sequence
from functools import lru_cache

from lmc.errors import ConstraintError, EngineError, UsageError
from lmc.ir.calls import Constraint
from lmc.ir.core import Op
from lmc.ir.decode_params import check_params, constraint_from
from lmc.ir.expressions import CONSTRAINTS
from lmc.ir.target import Tokenizer

LIMITS = (*CONSTRAINTS, "constraint_mode")
"""Decode parameters that decide what a generation begins with."""


def forced_head(users: Sequence[Op], tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids that all generations from one state begin with; none where others use it."""
    heads = {_head_of(op, tokenizer) for op in users}
    return heads.pop() if len(heads) == 1 else ()


def _head_of(op: Op, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the forced ids of a generation whose constraint is constant, else nothing."""
    params, defaults = op.attributes.get("params"), op.attributes.get("defaults", {})
    dynamic = op.attributes.get("dynamic", [])
    assert isinstance(dynamic, list)
    if op.name != "lm.gen" or any(name in dynamic for name in LIMITS):
        return ()
    assert isinstance(params, dict)
    assert isinstance(defaults, dict)
    try:
        given = {key: value for key, value in (defaults | params).items() if key in LIMITS}
        checked = check_params(given)
    except UsageError:
        return ()  # the call fails when it is due
    limit = constraint_from(checked)
    if limit is None or checked.get("constraint_mode") == "mask":
        return ()
    return _head(limit, tokenizer)


@lru_cache(maxsize=256)
def _head(limit: Constraint, tokenizer: Tokenizer) -> tuple[int, ...]:
    # These import numpy, which a program without constraints does without.
    from lmc.ir.forced_runs import ForcedRuns
    from lmc.ir.languages import steps_of

    try:
        steps = steps_of(limit)
        if not steps.is_forced(steps.start):
            return ()
        return ForcedRuns(steps, tokenizer).after(steps.start, ())
    except (ConstraintError, EngineError):
        return ()  # told when the call is due
