"""The words for turns of a chat, and for models that think aloud."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lmc.errors import UsageError
from lmc.ir import expressions as ex
from lmc.ir.reasoning import REASONING


def _role(role: str, expr: ex.Expression | str | None) -> ex.Expression:
    return ex.sequence(ex.RoleBegin(role), *(() if expr is None else (expr,)), ex.RoleEnd(role))


def system(expr: ex.Expression | str | None = None) -> ex.Expression:
    """A system turn, by the model's own chat template; without `expr` an empty one."""
    return _role("system", expr)


def user(expr: ex.Expression | str | None = None) -> ex.Expression:
    """A user turn; without `expr` an empty one."""
    return _role("user", expr)


def assistant(expr: ex.Expression | str | None = None) -> ex.Expression:
    """An assistant turn; without `expr` an empty one."""
    return _role("assistant", expr)


def separate_reasoning(
    expr: ex.Expression | str | None = None, model_type: str | None = None
) -> ex.Expression:
    """Append `expr`, and take what the model thought aloud away from its generations.

    The prompt and the variable `name` keep the answer; `name_reasoning_content` holds the
    reasoning. `model_type` is a key of ir.reasoning.REASONING. A generation with several
    samples or a parsed value cannot be split.

    Raises:
        UsageError: the kind of model is unknown, or a generation cannot be split.
    """
    kind = reasoning_kind(model_type)
    parts = () if expr is None else ex.sequence(expr).parts
    for part in parts:
        if isinstance(part, ex.Gen):
            check_splits(part.params)
            check_not_appending(part.append)
    return ex.Sequence(
        tuple(replace(p, reasoning=kind) if isinstance(p, ex.Gen) else p for p in parts)
    )


def reasoning_kind(model_type: Any) -> str:
    """Return a known kind of model that reasons; raises UsageError for others."""
    kind = str(model_type).lower()
    if kind not in REASONING:
        raise UsageError(
            f"separate_reasoning does not know model_type={model_type!r}",
            hint=f"use one of {', '.join(REASONING)}",
        )
    return kind


def check_splits(params: Mapping[str, Any]) -> None:
    """Raise UsageError for a generation whose value is no plain text."""
    if params.get("n", 1) not in (None, 0, 1) or params.get("type", "str") != "str":
        raise UsageError(
            "separate_reasoning needs a generation of one plain text", hint="leave out n and type"
        )


def check_not_appending(append: bool) -> None:
    """Raise UsageError for a generation that adds to a list."""
    if append:
        raise UsageError("separate_reasoning cannot add to a list", hint="leave out append")


def system_begin() -> ex.RoleBegin:
    """Open a system turn."""
    return ex.RoleBegin("system")


def system_end() -> ex.RoleEnd:
    """Close a system turn."""
    return ex.RoleEnd("system")


def user_begin() -> ex.RoleBegin:
    """Open a user turn."""
    return ex.RoleBegin("user")


def user_end() -> ex.RoleEnd:
    """Close a user turn."""
    return ex.RoleEnd("user")


def assistant_begin() -> ex.RoleBegin:
    """Open an assistant turn."""
    return ex.RoleBegin("assistant")


def assistant_end() -> ex.RoleEnd:
    """Close an assistant turn."""
    return ex.RoleEnd("assistant")
