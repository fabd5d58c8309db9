"""`gen(constraint=...)`: a constraint as an object becomes the parameter that says the same."""

from collections.abc import Mapping
from typing import Any

from lmc.errors import UsageError
from lmc.ir.calls import Constraint

PARAMS = {"regex": "regex", "json_schema": "json_schema", "ebnf": "grammar", "tags": "grammar"}
"""The decode parameter of each kind of constraint."""

MAKERS = ("regex", "json_schema", "ebnf", "choices", "tags")
"""Class methods of `lmc.Constraint` that make one."""

_BESIDE = ("regex", "json_schema", "grammar", "choices")
_HINT = 'lmc.Constraint.regex("[0-9]+"), .json_schema(...), .ebnf(...), .choices([...]), .tags(...)'


def limit_param(limit: Any, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return the decode parameter that a constraint stands for, and its value.

    Args:
        limit: what `constraint=` is given.
        given: the other parameters; those that are None are not given.

    Raises:
        UsageError: it is no constraint, or another parameter says what the text must be.
    """
    if not isinstance(limit, Constraint):
        raise UsageError(f"constraint must be an lmc.Constraint, not {limit!r:.80}", hint=_HINT)
    for name in _BESIDE:
        if given.get(name) is not None:
            raise UsageError(f"constraint is given beside {name}", hint="give one of them")
    name = PARAMS[limit.kind]
    for kind in (given.get("type"), given.get("dtype")):
        if kind not in (None, str, "str") and name != "regex":
            raise UsageError(
                f"constraint is given beside type, and is no regex but {limit.kind}",
                hint="give one of them: the type alone says what its text is",
            )
    return name, limit.source


def is_maker(value: Any) -> bool:
    """Return whether something is one of the class methods of `lmc.Constraint`."""
    owner = getattr(value, "__self__", None)
    is_kind = isinstance(owner, type) and issubclass(owner, Constraint)
    return is_kind and getattr(value, "__name__", "") in MAKERS
