"""Prompt states of the cost analysis: runs of text and of generated tokens, and variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmc.ir.target import Piece
from lmc.passes.cost.contexts import Encoder, Gap, Part, Stretch, Symbol
from lmc.passes.cost.intervals import Interval
from lmc.passes.cost.values import Abstract, Known, OneOf, Serials, Spelled, alternatives, size_of


@dataclass(frozen=True, slots=True)
class TextRun:
    """A run of text, encoded as one string."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class IdRun:
    """Control tokens."""

    token_ids: tuple[int, ...]


Run = TextRun | IdRun | Stretch


@dataclass(frozen=True, slots=True, eq=False)
class AbstractPrompt:
    """A prompt in progress.

    `ready` counts the decode steps until its text is known, `handle` those until it is known
    which state it is.
    """

    runs: tuple[Run, ...] = ()
    variables: Mapping[str, Abstract] = field(default_factory=dict[str, Abstract])
    metas: frozenset[str] = frozenset()
    may_have: frozenset[str] = frozenset()
    has_unknown_names: bool = False
    turns: int = 0
    ready: float = 0
    handle: float = 0
    forked_runs: int = 0
    forked_text: float = 0
    forked_names: frozenset[str] = frozenset()
    size: float = 0

    def append(self, part: Part, size: float) -> "AbstractPrompt":
        """Append a piece of text of at most `size` tokens to the open run."""
        if part == "":
            return self
        runs, parts = self.runs, (part,)
        if runs and isinstance(runs[-1], TextRun):
            runs, before = runs[:-1], runs[-1].parts
            is_merged = isinstance(part, str) and isinstance(before[-1], str)
            parts = (*before[:-1], before[-1] + part) if is_merged else (*before, part)  # type: ignore[operator, assignment]
        return replace(self, runs=(*runs, TextRun(parts)), size=self.size + size)

    def append_value(self, given: Abstract, serials: Serials) -> "AbstractPrompt":
        """Append a text value; what is no text ends the run and costs nothing."""
        made = self
        for value in given.value.parts if isinstance(given.value, Spelled) else (given.value,):
            made = made.append(part_of(value, serials), size_of(value))
        return replace(made, ready=max(self.ready, given.ready))

    def append_run(self, run: Run, size: float, ready: float) -> "AbstractPrompt":
        """Append a run that is no text."""
        return replace(
            self, runs=(*self.runs, run), size=self.size + size, ready=max(self.ready, ready)
        )

    def append_pieces(self, pieces: Sequence[Piece]) -> "AbstractPrompt":
        """Append what a chat template puts."""
        made = self
        for piece in pieces:
            if isinstance(piece, str):
                made = made.append(piece, len(piece.encode("utf-8", "surrogatepass")))
            else:
                made = made.append_run(IdRun((piece,)), 32, made.ready)
        return made

    def set(self, name: str | None, value: Abstract, *, has_meta: bool) -> "AbstractPrompt":
        """Set a variable; None is a name that is not known."""
        if name is None:
            return replace(self, variables={}, metas=frozenset(), has_unknown_names=True)
        metas = self.metas | {name} if has_meta else self.metas - {name}
        return replace(self, variables={**self.variables, name: value}, metas=metas)

    def child(self) -> "AbstractPrompt":
        """Return a child of a fork made now."""
        return replace(
            self,
            forked_runs=len(self.runs),
            forked_text=self.size,
            forked_names=frozenset(self.variables),
        )

    def symbols(self, encoder: Encoder, *, stable: bool) -> list[Symbol]:
        """Return the symbols of the context; with `stable` only what no append can change."""
        tokenizer = encoder.tokenizer
        symbols: list[Symbol] = list(tokenizer.start_ids)
        for index, run in enumerate(self.runs):
            if isinstance(run, TextRun):
                is_open = stable and index == len(self.runs) - 1
                symbols += encoder.symbols(run.parts, first=index == 0, is_open=is_open)
            elif isinstance(run, IdRun):
                symbols += run.token_ids
            else:
                symbols.append(run)
        return symbols


def part_of(value: Any, serials: Serials) -> Part:
    """Return the piece of text that a value is."""
    if isinstance(value, Known):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, OneOf):
        texts = tuple(text for text in value.values if isinstance(text, str))
        return Gap(serials.next(), size_of(value), texts) if texts else ""
    serial = getattr(value, "serial", None)
    return Gap(serials.next() if serial is None else serial, size_of(value))


def name_of(given: Abstract) -> tuple[str, ...] | None:
    """Return the names that a dynamic variable name may be."""
    names = alternatives(given.value)
    return None if names is None else tuple(name for name in names if isinstance(name, str))


def common_runs(prompts: Sequence[AbstractPrompt]) -> int:
    """Return how many leading runs prompts have in common."""
    rows = [prompt.runs for prompt in prompts]
    size = min(map(len, rows))
    return next((i for i in range(size) if len({row[i] for row in rows}) > 1), size)


def generated(serial: int, tokens: Interval) -> Stretch:
    """Return the run of a generation: all but its last token are in the cache when it ends."""
    last = 1 if tokens.high else 0
    return Stretch(("gen", serial), tokens, Interval(0, last), last)
