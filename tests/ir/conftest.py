"""A tiny merging tokenizer, template and model, small enough to compute results by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from ir_program_text import program

from lmc.ir import interpret
from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.interpreter import Interpretation
from lmc.ir.target import Piece

EMPTY, END, MARK, BLANK = range(4)
MERGES = ("ab", "abc", "the ", "no", "yes")
FIRST = 4


class TinyTokenizer:
    """Longest match over characters and a few merges; a text that opens gets a blank id.

    Ids: 0 stands for an empty context, 1 ends a generation, 2 is the control token
    `<|m|>`, 3 the blank before an opening text, 4 to 8 the merges, 9 + code a character.
    """

    fingerprint = "tiny"
    vocab_size = FIRST + len(MERGES) + 0x110000
    empty_context_id = EMPTY
    eos_ids = frozenset({END})
    longest = max(map(len, MERGES))

    def __init__(self, start_ids: tuple[int, ...] = ()) -> None:
        self.start_ids = start_ids

    def _cut(self, text: str) -> list[tuple[int, int]]:
        """Return (start, id) of each token."""
        cuts, at = [], 0
        while at < len(text):
            fits = [merge for merge in MERGES if text.startswith(merge, at)]
            piece = max(fits, key=len, default=text[at])
            code = MERGES.index(piece) if fits else len(MERGES) + ord(piece)
            cuts.append((at, FIRST + code))
            at += len(piece)
        return cuts

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        blank = [BLANK] if first and text else []
        return blank + [token_id for _, token_id in self._cut(text)]

    def stable_len(self, text: str, *, first: bool = False) -> int:
        stable = [start for start, _ in self._cut(text) if start + self.longest <= len(text)]
        return len(stable) + (1 if first and text else 0)

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self._text(token_id) for token_id in token_ids)

    def _text(self, token_id: int) -> str:
        if token_id < FIRST:
            return ""
        code = token_id - FIRST
        return MERGES[code] if code < len(MERGES) else chr(code - len(MERGES))

    def token_bytes(self) -> Sequence[bytes | None]:
        raise NotImplementedError("nobody lists a million characters")

    def control_id(self, token: str) -> int | None:
        return {"<|m|>": MARK}.get(token)

    def control_text(self, token_id: int) -> str | None:
        return {MARK: "<|m|>"}.get(token_id)


class TinyTemplate:
    """`<|m|>role:` opens a turn, a newline closes it; the first turn of a user greets."""

    def begin(self, role: str, *, is_first: bool) -> tuple[Piece, ...]:
        greeting: tuple[Piece, ...] = (MARK, "hi\n") if is_first and role != "system" else ()
        return (*greeting, MARK, f"{role}:")

    def end(self, role: str) -> tuple[Piece, ...]:
        return ("\n",)


@dataclass
class TinyTarget:
    """The target of the tests."""

    tokenizer: TinyTokenizer = field(default_factory=TinyTokenizer)
    template: TinyTemplate | None = field(default_factory=TinyTemplate)
    name: str = "tiny"
    fingerprint: str = "tiny"


Answer = str | GenResult


@dataclass
class TinyModel:
    """Answers by the name of the generation; scores an option by its place in `likes`.

    An answer is a text, a finished GenResult, or a function of the call.
    """

    answers: Mapping[str, Answer | Callable[[GenCall], Answer]] = field(default_factory=dict)
    likes: Sequence[str] = ()
    tokenizer: TinyTokenizer = field(default_factory=TinyTokenizer)

    def generate(self, call: GenCall) -> GenResult:
        answer = self.answers[call.site.split("@")[0]]
        made = answer(call) if callable(answer) else answer
        if isinstance(made, GenResult):
            return made
        return GenResult(token_ids=tuple(self.tokenizer.encode(made)), text=made)

    def score(self, call: ScoreCall) -> ScoreResult:
        texts = [self.tokenizer.decode((*call.context, *option)) for option in call.options]
        places = [
            next((i for i, liked in enumerate(self.likes) if text.endswith(liked)), 50)
            for text in texts
        ]
        return ScoreResult(
            logprobs=tuple(
                (-1.0 - place,) * len(option)
                for place, option in zip(places, call.options, strict=True)
            )
        )


@pytest.fixture
def tiny_target() -> TinyTarget:
    """A target without start ids, with a template."""
    return TinyTarget()


@pytest.fixture
def tiny_model() -> type[TinyModel]:
    """The class of the scripted model."""
    return TinyModel


@pytest.fixture
def tiny_tokenizer() -> type[TinyTokenizer]:
    """The class of the tokenizer."""
    return TinyTokenizer


@pytest.fixture
def run(tiny_target: Any, tiny_model: Any) -> Any:
    """Interpret a body; answers and likes go to the model, the rest to `interpret`."""

    def interpreted(
        body: str, args: Any = None, *, answers: Any = None, likes: Any = (), more: str = "",
        **options: Any,
    ) -> Interpretation:  # fmt: skip
        args = args or {}
        table = options.pop("table", "")
        module = program(body, params=" ".join(args), more=more, table=table)
        model = options.pop("model", None) or tiny_model(answers or {}, likes)
        return interpret(module, "p", args, model=model, target=tiny_target, **options)

    return interpreted
