"""The turns of a conversation as `messages()` tells them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lmc.errors import LowerError, RunError
from lmc.ir.media import Content, turn_content
from lmc.ir.target import ChatTemplate, Piece, Tokenizer


class Turn(NamedTuple):
    """A turn, as a span of the prompt's text; `end` of None: still open."""

    role: str
    start: int
    end: int | None = None


def contents(
    text: str, turns: Iterable[Turn], media: Sequence[tuple[int, Content]] = ()
) -> list[dict[str, Any]]:
    """Return the closed turns with their texts, without the blanks that a text begins with.

    `media` are images and videos with the length of the text before each: the content of a
    turn that has some is a list, its text and then each of them.
    """
    return [
        {
            "role": turn.role,
            "content": turn_content(
                text[turn.start : turn.end].lstrip(),
                [content for at, content in media if turn.start <= at <= turn.end],
            ),
        }
        for turn in turns
        if turn.end is not None
    ]


def nested_turn(role: str, opened: str) -> RunError:
    """Return the error of a turn that begins while another is open."""
    return RunError(
        f"a turn of '{role}' cannot begin within that of '{opened}'",
        hint=f"close the turn of '{opened}' first",
    )


def default_turns(
    template: ChatTemplate, tokenizer: Tokenizer, role: str, start: int
) -> tuple[Turn, ...]:
    """Return the system turn that a template writes before a first turn of `role`, if any.

    `start` is the length of the prompt's text before it.
    """
    if role == "system":
        return ()
    try:
        opening = _spell(template.begin(role, is_first=True), tokenizer)
        own = _spell(template.begin(role, is_first=False), tokenizer)
        head = _spell(template.begin("system", is_first=True), tokenizer)
        tail = _spell(template.end("system"), tokenizer)
    except LowerError:
        return ()  # a template without such turns writes none by itself
    whole = opening.removesuffix(own)
    is_turn = whole != opening and whole.startswith(head) and whole.endswith(tail)
    if not is_turn or len(whole) <= len(head) + len(tail):
        return ()
    return (Turn("system", start + len(head), start + len(whole) - len(tail)),)


def _spell(pieces: Sequence[Piece], tokenizer: Tokenizer) -> str:
    return "".join(
        piece if isinstance(piece, str) else tokenizer.control_text(piece) or "" for piece in pieces
    )
