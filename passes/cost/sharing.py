"""Where an argument stands before constant text, which runs could share if it stood behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmc.ir.core import Op
from lmc.ir.target import Tokenizer
from lmc.ir.token_trie import trie_size
from lmc.passes.cost.prompts import AbstractPrompt, IdRun, TextRun
from lmc.passes.cost.values import Unknown
from lmc.passes.cost.walk import CostWalk


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument's place in a prompt."""

    name: str


Piece = str | int | Argument
"""Text, a control token, or an argument's text."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """An argument that keeps constant tokens behind it from being shared by runs.

    Attributes:
        name: the parameter.
        op: the first call that it stands before.
        position: tokens before it.
        tokens: constant tokens between it and the call.
        pieces: the call's prompt up to what is neither constant nor an argument.
    """

    name: str
    op: Op
    position: int
    tokens: int
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Saving:
    """What moving an argument behind the constant text saves a batch.

    Attributes:
        instances: runs.
        now: tokens of their prompts' beginnings that are computed, each shared prefix once.
        moved: those with the argument behind.
    """

    instances: int
    now: int
    moved: int

    @property
    def saved(self) -> int:
        """Tokens that need not be computed any more."""
        return self.now - self.moved


def saving_of(
    blocked: Blocked, tokenizer: Tokenizer, batch: Sequence[Mapping[str, Any]]
) -> Saving | None:
    """Count what a batch computes with an argument where it stands, and behind; exact.

    None where an argument in the prompt is no text.
    """
    names = {piece.name for piece in blocked.pieces if isinstance(piece, Argument)}
    if not all(isinstance(args.get(name), str) for args in batch for name in names):
        return None
    behind = moved_pieces(blocked)
    return Saving(
        len(batch),
        _distinct(tokenizer, blocked.pieces, batch),
        _distinct(tokenizer, behind, batch),
    )


def moved_pieces(blocked: Blocked) -> tuple[Piece, ...]:
    """Return the prompt with the argument behind the constant text that follows it."""
    pieces = list(blocked.pieces)
    at = pieces.index(Argument(blocked.name))
    end = at + 1
    while end < len(pieces) and not isinstance(pieces[end], Argument):
        end += 1
    return (*pieces[:at], *pieces[at + 1 : end], pieces[at], *pieces[end:])


def _distinct(
    tokenizer: Tokenizer, pieces: Sequence[Piece], batch: Sequence[Mapping[str, Any]]
) -> int:
    """Return the size of the trie of the prompts' tokens."""
    return trie_size(_encoded(tokenizer, pieces, args) for args in batch)


def _encoded(tokenizer: Tokenizer, pieces: Sequence[Piece], args: Mapping[str, Any]) -> list[int]:
    ids, text, is_first = list(tokenizer.start_ids), "", True
    for piece in pieces:
        if isinstance(piece, int):
            ids += [*tokenizer.encode(text, first=is_first), piece] if text else [piece]
            text, is_first = "", False
        else:
            text += args[piece.name] if isinstance(piece, Argument) else piece
    return ids + (tokenizer.encode(text, first=is_first) if text else [])


def blocked_prefixes(walk: CostWalk, unknown: dict[str, Unknown]) -> list[Blocked]:
    """Return the arguments that stand first in the prompts of a finished walk.

    `unknown` are the parameters that the walk knew nothing of. One entry per parameter: the
    call with the most constant tokens behind it, among those with nothing generated before.
    """
    names = {value.serial: name for name, value in unknown.items()}
    found: dict[str, Blocked] = {}
    for op, prompt in walk.asked:
        blocked = _blocked(walk.encoder.tokenizer, op, _pieces(prompt, names))
        if blocked is not None and blocked.tokens > _tokens(found.get(blocked.name)):
            found[blocked.name] = blocked
    return list(found.values())


def _tokens(found: Blocked | None) -> int:
    return found.tokens if found is not None else 0


def _pieces(prompt: AbstractPrompt, names: Mapping[int, str]) -> list[Piece]:
    """Return a prompt's beginning: constants and arguments, up to anything else."""
    pieces: list[Piece] = []
    for run in prompt.runs:
        if isinstance(run, IdRun):
            pieces += run.token_ids
        elif isinstance(run, TextRun):
            for part in run.parts:
                if isinstance(part, str):
                    pieces.append(part)
                elif part.serial in names:
                    pieces.append(Argument(names[part.serial]))
                else:
                    return pieces
        else:
            break  # what was generated differs from run to run
    return pieces


def _blocked(tokenizer: Tokenizer, op: Op, pieces: Sequence[Piece]) -> Blocked | None:
    """Return the first argument among pieces, if constants follow it."""
    name, position, tokens = None, len(tokenizer.start_ids), 0
    for piece in pieces:
        if isinstance(piece, Argument):
            name = name or piece.name
            continue
        count = 1 if isinstance(piece, int) else len(tokenizer.encode(piece))
        if name is None:
            position += count
        else:
            tokens += count
    return Blocked(name, op, position, tokens, tuple(pieces)) if name and tokens else None
