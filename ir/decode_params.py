"""The decode parameters of `gen` and `select`: what each may be, and what calls make of it.

One table for everybody: capture checks constants by it, the interpreter, the executor and
runs' defaults check what comes later. A value is checked before anything is merged, so 0,
[] and "" are values like any other; None means that a parameter was not given.
"""

import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lmc.errors import UsageError
from lmc.ir.calls import Constraint, SamplingParams
from lmc.ir.expressions import CONSTRAINTS, GEN_PARAMS, RUN_NAMES
from lmc.ir.target import Tokenizer
from lmc.ir.types import Attr
from lmc.ir.value_types import constraint_of, is_type

MAX_SAMPLES = 4096
ALMOST_ZERO = 1e-5
"""The temperatures that `select` takes for 0, as the reference frontend does."""

LogitBias = list[list[int | str | float]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a parameter may be: in words, and as a function that returns it as plain data.

    `read` raises ValueError for a wrong value; an argument replaces the words.
    """

    allowed: str
    read: Callable[[Any], Attr]


def check_param(name: str, value: Any) -> Attr:
    """Return a parameter's value as plain data.

    Raises:
        UsageError: there is no such parameter, or it may not have this value.
    """
    rule = RULES.get(name)
    if rule is None:
        raise UsageError(
            f"{name!r} is no decode parameter", hint=f"there are: {', '.join(GEN_PARAMS)}"
        )
    try:
        return rule.read(value)
    except ValueError as error:
        allowed = str(error) or rule.allowed
        raise UsageError(f"{name} must be {allowed}, not {_shown(value)}") from None


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deep"


def check_params(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as plain data, unset ones left out; raises UsageError for wrong ones.

    The other names that a run takes are replaced by the parameters' own.
    """
    checked: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        name = RUN_NAMES.get(key, key)
        if name in checked:
            raise UsageError(f"{name} is given twice: also as {key!r} or another of its names")
        checked[name] = check_param(name, value)
    return checked


def check_together(given: Mapping[str, Any]) -> None:
    """Raise UsageError for parameters of one call that exclude each other."""
    least, most = given.get("min_tokens"), given.get("max_tokens")
    if least is not None and most is not None and least > most:
        raise UsageError(
            f"min_tokens must be at most max_tokens ({most}), not {least}",
            hint="raise max_tokens or lower min_tokens",
        )
    for kind in ("json_schema", "grammar"):
        others = [key for key in ("regex", "json_schema", "grammar") if key != kind]
        is_alone = all(given.get(key) is None for key in others)
        if given.get(kind) is not None and not (is_alone and given.get("type", "str") == "str"):
            beside = "type or regex" if kind == "json_schema" else "type, regex or json_schema"
            raise UsageError(f"{kind} is given beside {beside}", hint="give one of them")


def merge_params(own: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a generation's parameters: its own, else the run's; checked, plain data.

    A `min_tokens` of the run ends where the generation's `max_tokens` does; one of the
    generation's own must not be above it.

    Raises:
        UsageError: a value is wrong.
    """
    mine = check_params(own)
    check_together({key: mine[key] for key in CONSTRAINTS if key in mine})
    merged = check_params(defaults) | mine
    most = merged.get("max_tokens", SamplingParams().max_tokens)
    if "min_tokens" in mine:
        check_together({"min_tokens": mine["min_tokens"], "max_tokens": most})
    elif "min_tokens" in merged:
        merged["min_tokens"] = min(merged["min_tokens"], most)
    return merged


def constraint_from(merged: Mapping[str, Any]) -> Constraint | None:
    """Return what a generation's text must be, by its merged parameters; None for any text.

    A value that is no text, which a call would refuse, constrains nothing.
    """
    for kind in ("regex", "json_schema"):
        if isinstance(merged.get(kind), str):
            return Constraint(kind, merged[kind])
    grammar = merged.get("grammar")
    if isinstance(grammar, str):
        # A grammar never begins with a brace, so tags cannot be taken for one.
        return Constraint("tags" if grammar.startswith("{") else "ebnf", grammar)
    return constraint_of(merged.get("type", "str"))


def take_sampling(merged: dict[str, Any], tokenizer: Tokenizer) -> SamplingParams:
    """Take what decides sampling out of merged parameters.

    Log-probabilities are returned when `return_logprob` says so, or when it is not given
    and `top_logprobs_num` or `logprob_start_len` ask for some.

    Raises:
        UsageError: a key of `logit_bias` is no single token.
    """
    taken = {key: merged.pop(key) for key in _SAMPLING if key in merged}
    for key in ("stop", "stop_token_ids", "stop_regex"):
        if key in taken:
            taken[key] = tuple(taken[key])
    if "logit_bias" in taken:
        taken["logit_bias"] = bias_by_id(taken["logit_bias"], tokenizer)
    asked = taken.get("top_logprobs_num", 0) > 0 or taken.get("logprob_start_len", -1) >= 0
    if not taken.setdefault("return_logprob", asked):
        taken.pop("top_logprobs_num", None)
        taken.pop("logprob_start_len", None)
    return SamplingParams(**taken)


def bias_by_id(pairs: LogitBias, tokenizer: Tokenizer) -> tuple[tuple[int, float], ...]:
    """Return biases by token id, ascending.

    Raises:
        UsageError: a text is not exactly one token, an id is unknown, or two keys are one token.
    """
    found: dict[int, float] = {}
    for key, bias in pairs:
        token_id = key if isinstance(key, int) else _single_token(str(key), tokenizer)
        if token_id >= tokenizer.vocab_size:
            raise UsageError(
                f"logit_bias: there is no token {token_id}; ids end at {tokenizer.vocab_size - 1}"
            )
        if token_id in found:
            raise UsageError(f"logit_bias: {key!r} is token {token_id}, which is given twice")
        found[token_id] = float(bias)
    return tuple(sorted(found.items()))


def _single_token(text: str, tokenizer: Tokenizer) -> int:
    control = tokenizer.control_id(text)
    if control is not None:
        return control
    ids = tokenizer.encode(text)
    if len(ids) != 1:
        raise UsageError(
            f"logit_bias: {text!r} is {len(ids)} tokens of this model, not one",
            hint="give the text of one token (a leading blank counts), or token ids",
        )
    return ids[0]


# -- values ------------------------------------------------------------------------------------


def _int(minimum: int) -> Callable[[Any], Attr]:
    def read(value: Any) -> Attr:
        if type(value) is not int or value < minimum:
            raise ValueError
        return value

    return read


def _any_int(value: Any) -> Attr:
    if type(value) is not int:
        raise ValueError
    return value


def _samples(value: Any) -> Attr:
    if type(value) is not int or not 1 <= value <= MAX_SAMPLES:
        raise ValueError
    return value


def _top_k(value: Any) -> Attr:
    if type(value) is not int or (value < 1 and value != -1):
        raise ValueError
    return value


def _number(is_allowed: Callable[[float], bool]) -> Callable[[Any], Attr]:
    def read(value: Any) -> Attr:
        if type(value) not in (int, float) or not is_allowed(value):
            raise ValueError
        return value

    return read


def _flag(value: Any) -> Attr:
    if type(value) is not bool:
        raise ValueError
    return value


def _text(value: Any) -> Attr:
    if not isinstance(value, str):
        raise ValueError
    return value


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(t, str) for t in texts):
        raise ValueError
    return list(texts)


def _stops(value: Any) -> Attr:
    stops = _texts(value)
    if "" in stops:
        raise ValueError("a str or a list of str, none of them empty")
    return list(stops)


def _stop_patterns(value: Any) -> Attr:
    patterns = _texts(value)
    for pattern in patterns:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                is_everywhere = re.search(pattern, "") is not None
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"a Python regular expression ({error})") from None
        if is_everywhere:
            raise ValueError("a pattern that needs at least one character")
    return list(patterns)


def _token_ids(value: Any) -> Attr:
    if not isinstance(value, (list, tuple)) or any(type(i) is not int or i < 0 for i in value):
        raise ValueError
    return list(value)


def _bias(value: Any) -> Attr:
    """Return a dict, or its items, as [key, bias] pairs."""
    items = value.items() if isinstance(value, Mapping) else value
    if not isinstance(value, (Mapping, list, tuple)):
        raise ValueError
    pairs: list[Attr] = []
    for item in items:
        if not isinstance(item, (list, tuple)) or len(item) != 2:
            raise ValueError
        key, bias = item
        is_key = isinstance(key, str) or (type(key) is int and key >= 0)
        if not is_key or type(bias) not in (int, float) or not math.isfinite(bias):
            raise ValueError
        pairs.append([key, bias])
    return pairs


def _type(value: Any) -> Attr:
    if not is_type(value):
        raise ValueError
    return value


def _schema(value: Any) -> Attr:
    """Return a JSON schema as its text; options of `lmc.Constraint.json_schema` may follow it.

    A text stays as it is but for its blanks: numbers keep their digits, names given twice
    are seen by whoever compiles it.
    """
    try:
        if not isinstance(value, str):
            schema, text = value, json.dumps(value, separators=(",", ":"), allow_nan=False)
        else:
            schema, text = json.loads(value), _BLANKS.sub(r"\1", value)
    except (TypeError, ValueError, RecursionError) as error:
        why = "nesting too deep" if isinstance(error, RecursionError) else error
        raise ValueError(f"a dict, or JSON text of one ({why})") from None
    if isinstance(value, str) and isinstance(schema, list) and len(schema) == 2:
        schema, options = schema
        if not isinstance(options, dict) or not options or not _are_options(options):
            raise ValueError
    if not isinstance(schema, (Mapping, bool)):
        raise ValueError
    return text


_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\n\r]+')


def _are_options(options: dict[str, Any]) -> bool:
    """Whether these may follow a schema (see `ir.json_schema.schema_source`)."""
    for name, value in options.items():
        match name:
            case "separators":
                is_right = isinstance(value, list) and [type(each) for each in value] == [str, str]
            case "open_objects":
                is_right = type(value) is bool
            case "max_depth":
                is_right = type(value) is int
            case _:
                is_right = False
        if not is_right:
            return False
    return True


def _constraint_mode(value: Any) -> Attr:
    if value not in ("canonical", "mask"):
        raise ValueError
    return str(value)


def _grammar(value: Any) -> Attr:
    """Return a grammar, or structural tags as their text."""
    if isinstance(value, Mapping):
        try:
            return json.dumps(dict(value), separators=(",", ":"), ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            raise ValueError from None
    return _text(value)


_COUNT = Rule("an int of at least 0", _int(0))
_FLAG = Rule("True or False", _flag)
_PENALTY = Rule("a number from -2 to 2", _number(lambda v: -2 <= v <= 2))

RULES: dict[str, Rule] = {
    "max_tokens": _COUNT,
    "min_tokens": _COUNT,
    "n": Rule(f"an int from 1 to {MAX_SAMPLES}", _samples),
    "stop": Rule("a str or a list of str", _stops),
    "stop_token_ids": Rule("a list of token ids", _token_ids),
    "stop_regex": Rule("a str or a list of str", _stop_patterns),
    "temperature": Rule("a number of at least 0", _number(lambda v: 0 <= v < math.inf)),
    "top_p": Rule("above 0 and at most 1", _number(lambda v: 0 < v <= 1)),
    "top_k": Rule("an int of at least 1, or -1 for all", _top_k),
    "min_p": Rule("from 0 to 1", _number(lambda v: 0 <= v <= 1)),
    "frequency_penalty": _PENALTY,
    "presence_penalty": _PENALTY,
    "repetition_penalty": Rule("a number above 0", _number(lambda v: 0 < v < math.inf)),
    "logit_bias": Rule("a dict from token ids or texts of one token to finite numbers", _bias),
    "seed": Rule("an int", _any_int),
    "ignore_eos": _FLAG,
    "return_logprob": _FLAG,
    "top_logprobs_num": _COUNT,
    "logprob_start_len": Rule("an int of at least 0, or -1 for none of the prompt", _int(-1)),
    "return_text_in_logprobs": _FLAG,
    "regex": Rule("a str", _text),
    "json_schema": Rule("a dict, or JSON text of one", _schema),
    "constraint_mode": Rule("'canonical' or 'mask'", _constraint_mode),
    "grammar": Rule("a str, or a dict of structural tags", _grammar),
    "type": Rule("int, float, bool, str or the text of a type", _type),
}
"""The rule of every parameter."""

_SAMPLING = tuple(key for key in RULES if key in SamplingParams.__dataclass_fields__)
