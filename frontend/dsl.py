"""The words of the language: functions that make what a program appends to its state.

Names and parameters follow the reference frontend, so that its programs run after changing
one import line. A parameter left out (None) is unset; 0, 0.0, "" and [] are values.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from lmc.errors import UsageError, WordError
from lmc.frontend.limits import limit_param
from lmc.frontend.schema import type_text
from lmc.frontend.turns import (
    assistant as assistant,
)
from lmc.frontend.turns import (
    assistant_begin as assistant_begin,
)
from lmc.frontend.turns import (
    assistant_end as assistant_end,
)
from lmc.frontend.turns import (
    separate_reasoning as separate_reasoning,
)
from lmc.frontend.turns import (
    system as system,
)
from lmc.frontend.turns import (
    system_begin as system_begin,
)
from lmc.frontend.turns import (
    system_end as system_end,
)
from lmc.frontend.turns import (
    user as user,
)
from lmc.frontend.turns import (
    user_begin as user_begin,
)
from lmc.frontend.turns import (
    user_end as user_end,
)
from lmc.ir import expressions as ex
from lmc.ir.calls import Constraint
from lmc.ir.decode_params import check_param, check_together

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from typing_extensions import TypeForm

    from lmc.frontend.typed import State


class PillowImage(Protocol):
    """An image of Pillow, as far as it is used here."""

    def save(self, fp: Any, format: str | None = None) -> None:
        """Write the image."""
        ...

    def tobytes(self) -> bytes:
        """Return the pixels."""
        ...


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

TYPE_NAMES = {int: "int", float: "float", bool: "bool", str: "str"}
ROLES = ("system", "user", "assistant")
GEN_ORDER = (
    "name", "max_tokens", "min_tokens", "n", "stop", "stop_token_ids", "stop_regex", "temperature",
    "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "ignore_eos",
    "return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs", "dtype",
    "choices", "choices_method", "regex", "json_schema",
)  # fmt: skip
"""Parameters that gen takes by position, in the reference frontend's order."""
SHORT_ORDER = tuple(key for key in GEN_ORDER[: GEN_ORDER.index("dtype")] if key != "min_tokens")
"""Those of gen_int and gen_string."""
SHORT_PARAMS = (*SHORT_ORDER, "min_tokens", "repetition_penalty", "logit_bias", "seed", "regex")
"""All that these take by name."""

token_length_normalized = "token_length_normalized"
greedy_token_selection = "greedy_token_selection"
unconditional_likelihood_normalized = "unconditional_likelihood_normalized"
total_likelihood = "total_likelihood"


def _named(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse parameters that a word of the language does not have, with a remedy."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: P.args, **params: P.kwargs) -> R:
        for key in params:
            if key not in known:
                message, hint = ex.unknown_parameter(function.__name__, key, known)
                raise WordError(message, hint=hint)
        try:
            return function(*args, **params)
        except UsageError as error:
            raise WordError(error.message, hint=error.hint) from error

    return call


class GenParams(TypedDict, total=False):
    """Parameters of `gen` that do not change what kind of value it gives."""

    min_tokens: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    stop_regex: str | Sequence[str] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    repetition_penalty: float | None
    logit_bias: Mapping[int | str, float] | None
    seed: int | None
    constraint: Constraint | None
    constraint_mode: Literal["canonical", "mask"] | None
    ignore_eos: bool | None
    return_logprob: bool | None
    logprob_start_len: int | None
    top_logprobs_num: int | None
    return_text_in_logprobs: bool | None
    choices_method: str | None


One = Literal[0, 1] | None
"""Numbers of samples for which a generation has one value, not a list."""


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    choices: Sequence[str],
    type: None = None,
    dtype: None = None,
    n: One = None,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Select: ...


@overload
def gen(
    name: str,
    max_tokens: int | None = None,
    *,
    append: Literal[True],
    type: "TypeForm[T]",
    n: One = None,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[list[T]]: ...


@overload
def gen(
    name: str,
    max_tokens: int | None = None,
    *,
    append: Literal[True],
    type: None = None,
    n: One = None,
    regex: str | None = None,
    json_schema: Mapping[str, Any] | str | bool | None = None,
    grammar: str | Mapping[str, Any] | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[list[str]]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    type: "TypeForm[T]",
    n: One = None,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[T]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    type: "TypeForm[T]",
    n: int,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[list[T]]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    dtype: "TypeForm[T]",
    n: One = None,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[T]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    dtype: "TypeForm[T]",
    n: int,
    regex: str | None = None,
    **params: Unpack[GenParams],
) -> ex.Gen[list[T]]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    type: None = None,
    dtype: None = None,
    n: One = None,
    regex: str | None = None,
    json_schema: Mapping[str, Any] | str | bool | None = None,
    grammar: str | Mapping[str, Any] | None = None,
    append: Literal[False] = False,
    **params: Unpack[GenParams],
) -> ex.Gen[str]: ...


@overload
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    *,
    type: None = None,
    dtype: None = None,
    n: int,
    regex: str | None = None,
    json_schema: Mapping[str, Any] | str | bool | None = None,
    grammar: str | Mapping[str, Any] | None = None,
    append: Literal[False] = False,
    **params: Unpack[GenParams],
) -> ex.Gen[list[str]]: ...


@_named
def gen(
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    stop_regex: str | Sequence[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    ignore_eos: bool | None = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,
    dtype: Any = None,
    choices: Sequence[str] | None = None,
    choices_method: str | None = None,
    regex: str | None = None,
    json_schema: Mapping[str, Any] | str | bool | None = None,
    *,
    type: Any = None,
    grammar: str | Mapping[str, Any] | None = None,
    repetition_penalty: float | None = None,
    logit_bias: Mapping[int | str, float] | None = None,
    seed: int | None = None,
    constraint: Constraint | None = None,
    constraint_mode: Literal["canonical", "mask"] | None = None,
    append: bool = False,
) -> ex.Gen[Any] | ex.Select:
    """Generate text and store it in the variable `name`.

    With `regex` the text full-matches Python's meaning of the pattern. With `type` the
    text is constrained and the variable holds the value read from it: int, float, bool, Literal,
    an Enum, a dataclass, a pydantic model, or list[...] and Optional[...] of these; `dtype` is
    another name of it, but for `dtype=str`: words between quotes. With `json_schema` the text
    is JSON of the schema, with `grammar` one that a context-free grammar (EBNF) derives, or
    free text with structural tags (a dict); the variable holds that text. `constraint` takes
    an `lmc.Constraint` of any kind and means what the parameter of its kind does. Where a
    constraint forces the text, `constraint_mode="mask"` samples its tokens all the same. With
    `choices` this is `select`,
    and only `temperature` and `choices_method` matter beside them. With `n` above 1 the
    variable is the list of n samples and the prompt goes on with the first. With `append` the
    value is added to the list that the variable holds, or begins one.
    """
    if append:
        check_append(name, n, choices)
    if constraint is not None:
        others = {"regex": regex, "json_schema": json_schema, "grammar": grammar}
        others |= {"choices": choices, "type": type, "dtype": dtype}
        param, source = limit_param(constraint, others)
        regex, json_schema, grammar = (
            source if param == key else None for key in ("regex", "json_schema", "grammar")
        )
    if choices is not None:
        return select(name, choices, temperature=temperature, choices_method=choices_method)
    if type is not None and dtype is not None:
        raise UsageError("dtype is another name of type; both are given", hint="give one of them")
    if dtype in (str, "str"):
        regex, dtype = string_regex(regex), None
    kind = type_name(dtype if type is None else type)
    given = {
        "max_tokens": max_tokens, "min_tokens": min_tokens, "n": n, "stop": stop,
        "stop_token_ids": stop_token_ids, "temperature": temperature, "top_p": top_p,
        "top_k": top_k, "min_p": min_p, "ignore_eos": ignore_eos,
        "return_logprob": return_logprob, "stop_regex": stop_regex,
        "frequency_penalty": frequency_penalty, "presence_penalty": presence_penalty,
        "repetition_penalty": repetition_penalty, "logit_bias": logit_bias, "seed": seed,
        "top_logprobs_num": top_logprobs_num, "logprob_start_len": logprob_start_len,
        "return_text_in_logprobs": return_text_in_logprobs, "regex": regex,
        "json_schema": json_schema, "grammar": grammar, "type": kind,
        "constraint_mode": constraint_mode,
    }  # fmt: skip
    own = {key: value for key, value in given.items() if value is not None}
    for key, value in own.items():
        check_param(key, value)
    check_together(own)
    return ex.Gen(name, own, append=append)


def check_append(name: Any, n: Any, choices: Any) -> None:
    """Raise UsageError for what cannot be added to the list of a variable."""
    if name is None:
        raise UsageError("append=True needs the name of a variable", hint="name the generation")
    if n not in (None, 0, 1) or choices is not None:
        raise UsageError(
            "append=True adds the text of one generation", hint="leave out n and choices"
        )


def unordered(s: "State") -> "AbstractContextManager[None]":
    """Mark what is appended in a with statement as pieces whose order is free.

    Each statement of the block is a piece, and each round of a `for` in it. Compiled runs may
    put them into the order that shares most of the prompt; eager mode keeps the written one.
    """
    return s.unordered()


def gen_int(name: str | None = None, *rest: Any, **params: Any) -> ex.Gen[int]:
    """Generate an integer: `gen` with dtype=int."""
    return _short("gen_int", int, (name, *rest), params)


def gen_string(name: str | None = None, *rest: Any, **params: Any) -> ex.Gen[str]:
    """Generate words between quotes: `gen` with dtype=str."""
    return _short("gen_string", str, (name, *rest), params)


def _short(word: str, kind: type, values: tuple[Any, ...], params: dict[str, Any]) -> ex.Gen[Any]:
    if len(values) > len(SHORT_ORDER):
        raise TypeError(f"{word}() takes at most {len(SHORT_ORDER)} positional arguments")
    given = dict(zip(SHORT_ORDER, values, strict=False))
    for name in given.keys() & params.keys():
        raise TypeError(f"{word}() got multiple values for argument {name!r}")
    for name in params:
        if name not in SHORT_PARAMS:
            message, hint = ex.unknown_parameter(word, name, SHORT_PARAMS)
            raise UsageError(message, hint=hint)
    options: dict[str, Any] = {**given, **params, "dtype": kind}
    return gen(**options)


@_named
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
    if isinstance(choices, str):
        raise UsageError("choices must be a list of str, not str", hint='choices=["a", "b"]')
    given = {"temperature": temperature, "choices_method": choices_method}
    params = {key: value for key, value in given.items() if value is not None}
    return ex.Select(name, list(choices), params)


def string_regex(regex: Any) -> str:
    """Return the pattern of `dtype=str`; raises UsageError for one that is given beside it."""
    if regex is not None:
        raise UsageError("dtype=str has a pattern of its own; regex is given beside it",
                         hint="give one of them")  # fmt: skip
    return ex.STRING_REGEX


def type_name(kind: Any) -> str | None:
    """Return the name or text of a value type; raises UsageError for what gen cannot make."""
    return None if kind is None else type_text(kind)


def control(token: str) -> ex.Control:
    """Append a control token by its spelling, such as '<|im_end|>'."""
    return ex.Control(token)


if TYPE_CHECKING:
    Image = str | bytes | PathLike[str] | PillowImage
else:

    class Image:
        """Annotation of an argument that is an image: its path, its bytes, or Pillow's object.

        On the command line `--arg picture=@file.png` gives the bytes of a file, and
        `--arg picture=file.png` its path.
        """


def image(source: "Image") -> ex.Media:
    """Append an image: a path, the bytes of a file, or an image of Pillow.

    A path is read when the program runs. Images are told apart by their bytes.
    """
    return ex.Media("image", source)


def video(path: "Image", num_frames: int) -> ex.Media:
    """Append a video, of which `num_frames` frames are looked at: a path or the bytes."""
    return ex.Media("video", path, num_frames)


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
