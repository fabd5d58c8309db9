"""What tokens depend on, as protocols: tokenizer, chat template, target, model, backend.

`ir` only declares them; `codegen` implements tokenizers and targets, `runtime` implements
models and backends.
"""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult

Piece = str | int
"""A piece of prompt made by a template: text, or the id of a control token."""

Role = Literal["system", "user", "assistant"]


class Tokenizer(Protocol):
    """Text to token ids and back, with the facts that the compiler relies on."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of everything that decides how text becomes ids."""
        ...

    @property
    def vocab_size(self) -> int:
        """One more than the highest id with a meaning."""
        ...

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Control ids that open every context (the BOS token, if the model wants one)."""
        ...

    @property
    def empty_context_id(self) -> int:
        """The id that stands in for a context without any token."""
        ...

    @property
    def eos_ids(self) -> frozenset[int]:
        """Ids that end a generation."""
        ...

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        """Encode one text run; control tokens spelled in the text stay plain text.

        `first` says that the run opens the context: only then a tokenizer's dummy blank
        before the text applies.
        """
        ...

    def stable_len(self, text: str, *, first: bool = False) -> int:
        """Return how many leading ids of `encode(text)` no continuation can change."""
        ...

    def cut(self, text: str) -> int:
        """Return the last place at which text is cut whatever stands around it, else 0.

        The encodings of what stands before and behind it, side by side, are that of the text.
        """
        ...

    def forced_ids(
        self, text: str, written: list[int], crosses: Callable[[bytes], bool] | None
    ) -> list[int] | None:
        """Return the ids that certainly follow `written` in the encoding of a text to come.

        That text begins with `text`, whose start `written` spells, and is not the first of a
        context. The ids are those that all of its encodings which begin with `written` share.

        Args:
            text: what is known; it begins a run of text, or at a `cut`.
            written: the ids that are there.
            crosses: whether a token that begins with these last bytes of `text`, and goes past
                its end, may come; None where `text` is all.

        Returns None where no encoding begins with `written`, and nothing where no id is certain.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids; broken bytes become U+FFFD; control ids give ''."""
        ...

    def token_bytes(self) -> Sequence[bytes | None]:
        """Return the bytes of every id below `vocab_size`; None for control tokens."""
        ...

    @property
    def growth(self) -> int:
        """How many tokens each generated token can become at the most, its text encoded anew."""
        ...

    def control_id(self, token: str) -> int | None:
        """Return the id of a control token by its spelling."""
        ...

    def control_text(self, token_id: int) -> str | None:
        """Return the spelling of a control token."""
        ...


class ChatTemplate(Protocol):
    """A chat template taken apart into what opens and what closes a turn."""

    def begin(self, role: str, *, is_first: bool) -> tuple[Piece, ...]:
        """Return what opens a turn; `is_first` adds a default system turn, if any."""
        ...

    def end(self, role: str) -> tuple[Piece, ...]:
        """Return what closes a turn."""
        ...


class Target(Protocol):
    """What a program is lowered for: a tokenizer and, if the model has one, a template."""

    @property
    def name(self) -> str:
        """The model's name for people."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digest over tokenizer and template."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        ...

    @property
    def template(self) -> ChatTemplate | None:
        """The chat template; None where the model has none."""
        ...


class Model(Protocol):
    """A model as the reference interpreter sees it: one call, one answer."""

    def generate(self, call: GenCall) -> GenResult:
        """Answer a generation."""
        ...

    def score(self, call: ScoreCall) -> ScoreResult:
        """Score options."""
        ...


class Ticket(Protocol):
    """A submitted call."""

    def cancel(self) -> None:
        """Ask to end the call; its `on_done` still comes, with Cancelled."""
        ...


OnGen = Callable[[GenResult | BaseException], None]
OnScore = Callable[[ScoreResult | BaseException], None]
OnText = Callable[[str], None]
OnPrefill = Callable[["Prefill | BaseException"], None]


@runtime_checkable
class Prefill(Protocol):
    """A computed prefix; pinned until released."""

    @property
    def computed_tokens(self) -> int:
        """Tokens that had to be computed for it."""
        ...

    def release(self) -> None:
        """Give the pin back; the tokens stay cached until evicted."""
        ...


class Backend(Protocol):
    """Something that answers calls concurrently: the engine, or the oracle.

    Every submitted call ends in exactly one `on_done`, from any thread. `on_text` gets the
    text of a generation piece by piece, never half a character, never a part of a stop
    string; the pieces join to the result's text. Those that are `TextPiece`s tell their tokens.

    A backend that uses hints (`lmc.ir.calls.CallHint`) has a method `end_run(run: int)`, told
    once a run asks nothing more, and `submit_hinted_prefill(hint, context, on_done)`.
    """

    @property
    def target(self) -> Target:
        """What programs must be lowered for."""
        ...

    def submit_gen(self, call: GenCall, on_done: OnGen, on_text: OnText | None = None) -> Ticket:
        """Start a generation."""
        ...

    def submit_score(self, call: ScoreCall, on_done: OnScore) -> Ticket:
        """Start scoring options."""
        ...

    def submit_prefill(self, context: tuple[int, ...], on_done: OnPrefill) -> Ticket:
        """Compute a prefix so that later calls find it, and pin it."""
        ...
