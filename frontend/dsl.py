"""The words of the language: functions that make what a program appends to its state.

Names and parameters follow the reference frontend, so that its programs run after changing
one import line. A parameter left out (None) is unset; 0, 0.0, "" and [] are values.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lmc.errors import UsageError
from lmc.ir import expressions as ex

F = TypeVar("F", bound=Callable[..., Any])

TYPE_NAMES = {int: "int", float: "float", bool: "bool", str: "str"}
ROLES = ("system", "user", "assistant")


def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    ignore_eos: bool | None = None,
    return_logprob: bool | None = None,
    regex: str | None = None,
    type: type | str | None = None,
    choices: Sequence[str] | None = None,
    choices_method: str | None = None,
) -> ex.Gen | ex.Select:
    """Generate text and store it in the variable `name`.

    With `regex` the text full-matches Python's meaning of the pattern. With `type` int,
    float or bool the text is constrained and the variable holds the parsed value. With
    `choices` this is `select`. With `n` above 1 the variable is the list of n samples and
    the prompt goes on with the first.
    """
    if choices is not None:
        return select(name, choices, temperature=temperature, choices_method=choices_method)
    given = {
        "max_tokens": max_tokens, "min_tokens": min_tokens, "n": n, "stop": stop,
        "stop_token_ids": stop_token_ids, "temperature": temperature, "top_p": top_p,
        "top_k": top_k, "min_p": min_p, "ignore_eos": ignore_eos,
        "return_logprob": return_logprob, "regex": regex, "type": type_name(type),
    }  # fmt: skip
    return ex.Gen(name, {key: value for key, value in given.items() if value is not None})


def gen_int(name: str | None = None, max_tokens: int | None = None, **params: Any) -> ex.Gen:
    """Generate an integer: `gen` with type=int."""
    made = gen(name, max_tokens, type=int, **params)
    assert isinstance(made, ex.Gen)
    return made


def select(
    name: str | None = None,
    choices: Sequence[str] | None = None,
    temperature: float | None = None,
    choices_method: str | None = None,
) -> ex.Select:
    """Choose the likeliest of `choices`, append it, and store it in the variable `name`.

    `choices_method` is one of ir.expressions.CHOICES_METHODS; the default takes the mean
    log-probability per token.
    """
    if choices is None:
        raise UsageError("select needs choices", hint='select("name", choices=["a", "b"])')
    given = {"temperature": temperature, "choices_method": choices_method}
    params = {key: value for key, value in given.items() if value is not None}
    return ex.Select(name, list(choices), params)


def type_name(kind: type | str | None) -> str | None:
    """Return the name of a value type that `gen` supports; raises UsageError for others."""
    if kind is None:
        return None
    name = TYPE_NAMES.get(kind) if isinstance(kind, type) else kind
    if name not in TYPE_NAMES.values():
        raise UsageError(
            f"gen cannot make a value of type {kind!r}", hint="use int, float, bool or str"
        )
    return name


def control(token: str) -> ex.Control:
    """Append a control token by its spelling, such as '<|im_end|>'."""
    return ex.Control(token)


def _role(role: str, expr: ex.Expression | str) -> ex.Expression:
    return ex.sequence(ex.RoleBegin(role), expr, ex.RoleEnd(role))


def system(expr: ex.Expression | str) -> ex.Expression:
    """A system turn, by the model's own chat template."""
    return _role("system", expr)


def user(expr: ex.Expression | str) -> ex.Expression:
    """A user turn."""
    return _role("user", expr)


def assistant(expr: ex.Expression | str) -> ex.Expression:
    """An assistant turn."""
    return _role("assistant", expr)


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


def tool(function: F | None = None, *, effects: str = "write") -> F | Callable[[F], F]:
    """Declare what a host function does: effects 'none' (may be merged or dropped) or 'write'.

    A host function that is not declared is taken to have effects and keeps its order.
    """
    if effects not in ("none", "write"):
        raise UsageError(f"effects={effects!r} is unknown", hint="use 'none' or 'write'")

    def mark(target: F) -> F:
        target.__lmc_effects__ = effects  # type: ignore[attr-defined]
        return target

    return mark if function is None else mark(function)
