"""What a program appends to a state, as plain data: the values of the user's language.

`frontend.dsl` makes them, capture reads the calls that would make them, and eager mode
carries them out. `a + b` of any of them, or of one and a str, is a Sequence.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

from lmc.ir.location import Instruction, current_instruction

CHOICES_METHODS = (
    "token_length_normalized",
    "greedy_token_selection",
    "unconditional_likelihood_normalized",
    "total_likelihood",
)
"""How `select` compares: mean log-probability per token (the default), token by token, the
mean less that of the option alone, or the log-probability of the whole option."""

GEN_PARAMS = (
    "max_tokens", "min_tokens", "n", "stop", "stop_token_ids", "temperature", "top_p", "top_k",
    "min_p", "ignore_eos", "return_logprob", "stop_regex", "frequency_penalty",
    "presence_penalty", "repetition_penalty", "logit_bias", "seed", "top_logprobs_num",
    "logprob_start_len", "return_text_in_logprobs", "regex", "json_schema", "grammar", "type",
    "constraint_mode",
)  # fmt: skip
"""Decode parameters of `gen`, in the order in which dynamic ones become operands."""

CONSTRAINTS = ("regex", "json_schema", "grammar", "type")
"""Those that say what the text must be."""

RUN_NAMES = {"max_new_tokens": "max_tokens"}
"""Other names that a run takes for parameters, as the reference frontend's `run` does."""

RUN_PARAMS = (
    *(key for key in GEN_PARAMS if key not in ("seed", *CONSTRAINTS)),
    *RUN_NAMES,
)
"""Those that a run may set for all generations that do not set their own."""

SELECT_PARAMS = ("choices_method", "temperature")

TYPE_REGEX = {
    "int": r"-?(0|[1-9][0-9]{0,17})",
    "float": r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}",
    "bool": r"(True|False)",
}
"""What a typed generation must match; the value is parsed from the text."""

STRING_REGEX = r"\"[\w\d\s]*\""
"""What `dtype=str` and `gen_string` make: words between quotes, which stay in the value."""


HIDDEN = "\0"
"""Begins the names of variables that no program can spell: values of unnamed calls."""

_serials = count(1)

T_co = TypeVar("T_co", covariant=True)


class Expression:
    """Something that can be appended to a state; `made` is where the user's code made it."""

    __slots__ = ()
    made: Instruction | None

    def __add__(self, other: "Expression | str") -> "Sequence":
        return Sequence((*_parts(self), *_parts(other)))

    def __radd__(self, other: "Expression | str") -> "Sequence":
        return Sequence((*_parts(other), *_parts(self)))


@dataclass(frozen=True, slots=True)
class Gen(Expression, Generic[T_co]):
    """A generation, whose value is a T: `s[expr]` reads it once `s += expr` has made it.

    `params` holds only what the author gave (0 and [] are values). `reasoning` names the
    kind of model whose reasoning is to be taken away from the text. `serial` tells unnamed
    generations apart; copies of one keep it. With `append` the value is added to the list
    that the variable holds.
    """

    name: str | None
    params: dict[str, Any] = field(default_factory=dict)
    reasoning: str = ""
    serial: int = field(default_factory=lambda: next(_serials), compare=False, repr=False)
    append: bool = False
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Select(Expression):
    """A choice among strings by likelihood; its value is a str, read like a generation's."""

    name: str | None
    choices: list[str]
    params: dict[str, Any] = field(default_factory=dict)
    serial: int = field(default_factory=lambda: next(_serials), compare=False, repr=False)
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RoleBegin(Expression):
    """The opening of a turn."""

    role: str
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RoleEnd(Expression):
    """The closing of a turn."""

    role: str
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Control(Expression):
    """A control token by its spelling."""

    token: str
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Media(Expression):
    """An image, or a video of which some frames are looked at: by path, bytes or Pillow image."""

    kind: str
    source: Any
    num_frames: int | None = None
    made: Instruction | None = field(default_factory=current_instruction, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sequence(Expression):
    """Parts to append one after another."""

    parts: tuple["Expression | str", ...]


def _parts(value: "Expression | str") -> tuple["Expression | str", ...]:
    if isinstance(value, Sequence):
        return value.parts
    if isinstance(value, (str, Expression)):
        return (value,)
    raise TypeError(f"cannot append {type(value).__name__!r} to a prompt; make it a str first")


def sequence(*values: "Expression | str") -> Sequence:
    """Join values into one Sequence; raises TypeError for what cannot be appended."""
    return Sequence(tuple(part for value in values for part in _parts(value)))


def name_of_key(key: Any) -> Any:
    """Return what a key of a state names: of a gen or select its variable (None: it has none)."""
    return key.name if isinstance(key, (Gen, Select)) else key


def shown_names(names: Iterable[str]) -> str:
    """Return the names of variables as an error lists them."""
    return ", ".join(repr(name) for name in names if not name.startswith(HIDDEN)) or "none"


NO_VALUE = "this generation was not appended to the state"
NO_VALUE_HINT = "append it first: s += it"
UNNAMED_KEY = "an unnamed generation can only be read, from the state that it was appended to"
UNNAMED_HINT = "give it a name"


def unknown_parameter(word: str, key: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the message and the hint of a call with a parameter that its word does not have."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    close = get_close_matches(key, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"it has: {', '.join(names)}"
    return f"{word} has no parameter '{key}'", hint
