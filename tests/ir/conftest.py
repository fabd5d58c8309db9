"""A tiny merging tokenizer and model, small enough to compute results by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from ir_program_text import program
from merging_target import MergingTarget, MergingTokenizer

from lmc.ir import interpret
from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.interpreter import Interpretation

MERGES = ("ab", "abc", "the ", "no", "yes")


def tiny_merging(start_ids: tuple[int, ...] = ()) -> MergingTokenizer:
    """Return a tokenizer of five merges, so that ids 4 to 8 are merges, 9 + code a character."""
    return MergingTokenizer(start_ids, MERGES)


Answer = str | GenResult


@dataclass
class TinyModel:
    """Answers by the name of the generation; scores an option by its place in `likes`.

    An answer is a text, a finished GenResult, or a function of the call.
    """

    answers: Mapping[str, Answer | Callable[[GenCall], Answer]] = field(default_factory=dict)
    likes: Sequence[str] = ()
    tokenizer: MergingTokenizer = field(default_factory=tiny_merging)

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
def tiny_target() -> MergingTarget:
    """A target without start ids, with a template."""
    return MergingTarget(tiny_merging())


@pytest.fixture
def tiny_model() -> type[TinyModel]:
    """The class of the scripted model."""
    return TinyModel


@pytest.fixture
def tiny_tokenizer() -> Callable[..., MergingTokenizer]:
    """What makes the tokenizer."""
    return tiny_merging


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
