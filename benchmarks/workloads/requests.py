"""Requests as plain data, so that engines that know no programs answer the same ones.

A prompt is a list of runs. A run is encoded as one string, or stands for the token ids that an
earlier request gave. So a turn of a conversation continues the ids of the one before, and what
branches wrote is quoted as text, as in a program.
"""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Text:
    """A run of text: literal pieces, and `Quote`s of what other requests gave."""

    pieces: tuple["str | Quote", ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """The text that a request gave; `strip` leaves out blanks around it."""

    request: str
    strip: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """The token ids that a request gave."""

    request: str


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model.

    Attributes:
        name: unique in its workload.
        prompt: runs of text and of ids.
        max_tokens: the most output tokens.
        is_fixed: exactly that many: the end of the sequence is ignored.
        temperature: 0 is greedy.
        samples: how many outputs are wanted for the prompt.
        regex: what the output's text must match, in a form that all engines know.
        choices: texts of which the output is one.
        after: requests whose prompts begin like this one's, and which others may go before: an
            engine that shares prefixes only with finished requests is faster in this order.
    """

    name: str
    prompt: tuple[Text | Output, ...]
    max_tokens: int
    is_fixed: bool = True
    temperature: float = 0.0
    samples: int = 1
    regex: str | None = None
    choices: tuple[str, ...] = ()
    after: tuple[str, ...] = field(default=())


def text(*pieces: "str | Quote") -> Text:
    """Return a run of text."""
    return Text(pieces)


def as_json(requests: list[Request]) -> list[dict[str, Any]]:
    """Return requests as JSON takes them; runs are told apart by their one key."""
    return [asdict(request) for request in requests]
