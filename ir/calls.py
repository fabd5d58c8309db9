"""The vocabulary of model calls: what a program asks of a model, and what comes back.

Shared by the reference interpreter, the executor, the engine and the oracle, so that two
runs can be compared call by call. Plain data, no tensors.
"""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, Literal

FinishReason = Literal["stop", "length", "cancelled"]

ConstraintMode = Literal["canonical", "mask"]

TopTokens = tuple[tuple[int, float], ...]
"""The likeliest tokens of one place with their log-probabilities, likeliest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Decode parameters of one generation, all explicit (defaults already applied).

    A temperature of 0 means greedy. `top_k` of -1 means no limit. `stop` strings end the
    text before their earliest match; a match counts wherever token borders lie. So do
    matches of the patterns in `stop_regex`.

    Penalties look at the call's own output only, never at its context: a token that came c
    times has its logit divided by `repetition_penalty` (multiplied where it is negative),
    then lowered by c * `frequency_penalty` + `presence_penalty`. `logit_bias` holds
    (id, number) pairs, ascending, added last. Log-probabilities are those of the model
    itself: those of the output with `return_logprob`, with the `top_logprobs_num` likeliest
    tokens of each place, and those of the context from place `logprob_start_len` on (-1:
    none).

    Where a constraint forces bytes, `constraint_mode` "canonical" writes the ids that the
    tokenizer writes for them; "mask" samples every token under the constraint's mask.
    """

    max_tokens: int = 128
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    return_logprob: bool = False
    stop_regex: tuple[str, ...] = ()
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    top_logprobs_num: int = 0
    logprob_start_len: int = -1
    constraint_mode: ConstraintMode = field(default="canonical", repr=False)

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken at every position."""
        return self.temperature == 0.0 or self.top_k == 1


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a generation's text must full-match, by kind and source text."""

    kind: Literal["regex", "json_schema", "ebnf", "tags"]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHint:
    """What is known of a call's place in its program. It never changes an answer.

    Attributes:
        run: number of the run that asks, unique in the process.
        program: the program's name; runs of one program are alike.
        before: number of the call whose result the context continues; 0 for none.
        number: number of this call; later ones name it as `before`.
        context: whether a later call continues the context other than through this call's
            result: "last" for none, "more" for one, "unknown".
        result: whether a later call continues the result: "none", "more", "unknown".
        remaining: tokens that a profile expects of this call and the longest chain of calls
            that need it; 0 where none was used.
        tenant: for whom the run asks; a backend serves several in turn.
    """

    run: int
    program: str = ""
    before: int = 0
    number: int = 0
    context: Literal["last", "more", "unknown"] = "unknown"
    result: Literal["none", "more", "unknown"] = "unknown"
    remaining: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class GenCall:
    """One generation: continue `context` under `params` and `constraint`.

    Two calls are equal when a model must answer them alike; `site` (the program's name for
    the call and its source line) is for people and for scripted oracles only.
    """

    context: tuple[int, ...]
    params: SamplingParams
    constraint: Constraint | None = None
    key: int = 0
    site: str = field(default="", compare=False)
    hint: CallHint | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """Score each option's token ids as a continuation of `context`."""

    context: tuple[int, ...]
    options: tuple[tuple[int, ...], ...]
    site: str = field(default="", compare=False)
    hint: CallHint | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Token counts of a call, or of several together.

    `prompt_tokens` = `cached_tokens` + tokens of the contexts computed for the calls; of the
    cached ones `cached_host_tokens` came from host memory and `cached_disk_tokens` from disk;
    `forced_tokens` are output tokens that the constraint decided, so that they were not sampled;
    `drafted_tokens` were computed before it was known whether they come, and `accepted_tokens`
    of them came; `decode_steps` are forward passes that produced the output.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    cached_host_tokens: int = 0
    cached_disk_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    decode_steps: int = 0

    @property
    def computed_tokens(self) -> int:
        """Context tokens whose KV had to be computed by the calls themselves."""
        return self.prompt_tokens - self.cached_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class CallUsage(TokenCounts):
    """Token counts and times of one call.

    Times are seconds since submission: until its first step, its first output token and its
    end. `decode_seconds` are those from the first output token to the last,
    `longest_gap_seconds` the most between two of them (those that a constraint forces, and
    drafts that are accepted, come at once).
    """

    queue_seconds: float = 0.0
    first_token_seconds: float = 0.0
    total_seconds: float = 0.0
    decode_seconds: float = 0.0
    longest_gap_seconds: float = 0.0

    @property
    def mean_gap_seconds(self) -> float:
        """Mean time between two output tokens; 0 where there are fewer."""
        return self.decode_seconds / max(1, self.output_tokens - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenResult:
    """What a generation gave.

    `token_ids` are the sampled ids that lie wholly before the cut made by a stop string or
    a broken character; `tail` is the text left of the cut inside the cut token, so that
    `text` = decode(token_ids) + tail. An end token is in neither. `complete` is False when
    a constraint was cut: before a full match, or by the token limit where it could have gone on
    ("12" may be the beginning of a longer number). `logprobs` has one entry per id of
    `token_ids`, when asked for; `top_logprobs` the (id, log-probability) pairs of the
    likeliest tokens at each of these places, likeliest first (where `max_tokens` is 0: at
    the place after the context). `prompt_logprobs` has one entry per id of the context from
    the place that was asked for on, None for the very first id, which nothing predicts;
    `prompt_top_logprobs` accordingly.
    """

    token_ids: tuple[int, ...]
    text: str
    tail: str = ""
    finish_reason: FinishReason = "stop"
    matched_stop: str | int | None = None
    complete: bool = True
    logprobs: tuple[float, ...] | None = None
    top_logprobs: tuple[TopTokens, ...] | None = None
    prompt_logprobs: tuple[float | None, ...] | None = None
    prompt_top_logprobs: tuple[TopTokens | None, ...] | None = None
    usage: CallUsage = field(default_factory=CallUsage, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreResult:
    """Log-probabilities of every option's tokens, in the options' order."""

    logprobs: tuple[tuple[float, ...], ...]
    usage: CallUsage = field(default_factory=CallUsage, compare=False)


class TextPiece(str):
    """A piece of a generation's text as it comes, with the tokens that are whole with it.

    `token_ids` are those since the last piece, `logprobs` theirs where the call returns them;
    `meta` is what a reader of the stream is told of them.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    meta: dict[str, Any]

    def __new__(
        cls, text: str, token_ids: tuple[int, ...] = (), logprobs: tuple[float, ...] = ()
    ) -> "TextPiece":
        """Make a piece of a text."""
        piece = super().__new__(cls, text)
        piece.token_ids, piece.logprobs, piece.meta = token_ids, logprobs, {}
        return piece


def derive_key(
    seed: int, instance: int, lineage: tuple[str, ...], ordinal: int, sample: int = 0
) -> int:
    """Return the 64-bit random key of one call.

    The key depends on where a call stands in the program, never on when it ran: `lineage`
    is the path of forks and nested calls that made the state, `ordinal` counts the calls
    (gen, select, fork, nested program) made before in that lineage.
    """
    parts = [str(seed), str(instance), *lineage, str(ordinal), str(sample)]
    framed = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(framed.encode(), digest_size=8).digest(), "big")


def with_sample(call: GenCall, key: int) -> GenCall:
    """Return the same call under another random key (one of n samples)."""
    return replace(call, key=key)
