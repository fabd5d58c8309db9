"""Prompt states as the reference interpreter has them: a tuple of runs, nothing cached.

A run is a stretch of text, the ids of one generation, or one control token. Text appended
next to text joins its run, so the ids of a context do not depend on how the text was cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from lmc.ir.expressions import HIDDEN
from lmc.ir.failing import Failed
from lmc.ir.media import MARK, Content
from lmc.ir.target import Piece, Tokenizer
from lmc.ir.turns import Turn, contents

if TYPE_CHECKING:
    from lmc.ir.interpreter_demand import Traced

Calls = frozenset[int]
"""Calls by their position in the run."""

NO_CALLS: Calls = frozenset()


class Run(NamedTuple):
    """A stretch of a prompt; `token_ids` is None for text, which the tokenizer encodes."""

    text: str
    token_ids: tuple[int, ...] | None = None


class Fork(NamedTuple):
    """What a child had when it was forked: how much text and how many media."""

    text_len: int = 0
    num_media: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A prompt in progress; every method that changes something returns a new one.

    `lineage` and `ordinal` place its next call. `text_calls` are the calls that its text
    needs, `name_calls` those that decide which variables it has, `names` those that decide
    that a variable is the one set last under its name (see interpreter_demand). `failed` is
    the first failure of a call that made it; there is no text then.
    """

    runs: tuple[Run, ...] = ()
    variables: "dict[str, Traced]" = field(default_factory=dict)
    metas: "dict[str, Traced]" = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    lineage: tuple[str, ...] = ()
    ordinal: int = 0
    forked: Fork = field(default_factory=Fork)
    text_calls: Calls = NO_CALLS
    name_calls: Calls = NO_CALLS
    names: dict[str, Calls] = field(default_factory=dict)
    failed: Failed | None = None
    media: tuple[tuple[int, Content], ...] = ()

    @property
    def text(self) -> str:
        """The whole text, control tokens spelled out."""
        return "".join(run.text for run in self.runs)

    @property
    def named_variables(self) -> "dict[str, Traced]":
        """The variables that people see: not those of unnamed calls."""
        return {k: held for k, held in self.variables.items() if not k.startswith(HIDDEN)}

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The closed turns and their contents."""
        return contents(self.text, self.turns, self.media)

    def needing(self, calls: Calls) -> "Prompt":
        """Return the same prompt, known only after `calls` as well."""
        return replace(
            self,
            text_calls=self.text_calls | calls,
            name_calls=self.name_calls | calls,
            names={name: known | calls for name, known in self.names.items()},
        )

    def failing(self, failed: Failed) -> "Prompt":
        """Return the prompt of a call that failed; an earlier failure stays."""
        return self if self.failed is not None else replace(self, failed=failed)

    def append_text(self, text: str, calls: Calls = NO_CALLS) -> "Prompt":
        """Append text, joining it to a text run before it."""
        runs, joined = self.runs, text
        if runs and runs[-1].token_ids is None:
            runs, joined = runs[:-1], runs[-1].text + text
        if joined:
            runs = (*runs, Run(joined))
        return replace(self, runs=runs, text_calls=self.text_calls | calls)

    def append_ids(self, token_ids: Sequence[int], text: str) -> "Prompt":
        """Append a generated or a control run; without ids nothing changes."""
        if not token_ids:
            return self
        return replace(self, runs=(*self.runs, Run(text, tuple(token_ids))))

    def append_media(self, content: Content, calls: Calls = NO_CALLS) -> "Prompt":
        """Append an image or a video, a run of its own."""
        made = self.append_ids((content.token,), MARK)
        media = (*self.media, (len(self.text), content))
        return replace(made, media=media, text_calls=self.text_calls | calls)

    def append_pieces(self, pieces: Sequence[Piece], tokenizer: Tokenizer) -> "Prompt":
        """Append what a template puts: text, and control tokens by id."""
        made = self
        for piece in pieces:
            if isinstance(piece, str):
                made = made.append_text(piece)
            else:
                made = made.append_ids((piece,), tokenizer.control_text(piece) or "")
        return made

    def open_turn(self, role: str, before: tuple[Turn, ...] = ()) -> "Prompt":
        """Note that a turn's content starts here, `before` having come with it."""
        return replace(self, turns=(*self.turns, *before, Turn(role, len(self.text))))

    def close_turn(self) -> "Prompt":
        """Note that the open turn's content ends here."""
        index = self.open_index
        assert index is not None, "no turn is open"
        closed = self.turns[index]._replace(end=len(self.text))
        return replace(self, turns=(*self.turns[:index], closed, *self.turns[index + 1 :]))

    @property
    def open_index(self) -> int | None:
        """The place of the open turn opened last, among the turns."""
        opened = [index for index, turn in enumerate(self.turns) if turn.end is None]
        return opened[-1] if opened else None

    def set(
        self, name: str, value: "Traced", meta: "Traced | None" = None, calls: Calls = NO_CALLS
    ) -> "Prompt":
        """Set a variable, and the meta of the call that made it; a plain value has none.

        `calls` are those that decide the name.
        """
        metas = {key: held for key, held in self.metas.items() if key != name}
        if meta is not None:
            metas[name] = meta
        names = {other: known | calls for other, known in self.names.items()}
        return replace(
            self,
            variables={**self.variables, name: value},
            metas=metas,
            name_calls=self.name_calls | calls,
            names={**names, name: calls},
        )

    def count(self, number: int = 1) -> "Prompt":
        """Count calls: the next one gets a later ordinal."""
        return replace(self, ordinal=self.ordinal + number)

    def child(self, index: int) -> "Prompt":
        """Return child `index` of a fork made now."""
        return replace(
            self,
            lineage=(*self.lineage, f"fork{self.ordinal}.{index}"),
            ordinal=0,
            forked=Fork(len(self.text), len(self.media)),
        )

    @property
    def added(self) -> list[str | Content]:
        """The texts and media appended since the fork, in order."""
        text, at = self.text, self.forked.text_len
        found: list[str | Content] = []
        for position, content in self.media[self.forked.num_media :]:
            found += [text[at:position], content]
            at = position + len(MARK)
        return [*found, text[at:]]

    def context(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the ids that the next generation continues."""
        ids = self.encode(tokenizer, self.runs)
        return ids or (tokenizer.empty_context_id,)

    def encode(self, tokenizer: Tokenizer, runs: Sequence[Run]) -> tuple[int, ...]:
        """Return the start ids and the ids of leading runs."""
        ids = list(tokenizer.start_ids)
        for index, run in enumerate(runs):
            if run.token_ids is None:
                ids += tokenizer.encode(run.text, first=index == 0)
            else:
                ids += run.token_ids
        return tuple(ids)

    def options(
        self, tokenizer: Tokenizer, choices: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Return the stable context of a choice, and the ids of each option after it.

        The text before an option and the option are encoded as one string; the option's
        ids begin where no continuation of the text could change the encoding.
        """
        before, text = self.runs, ""
        if before and before[-1].token_ids is None:
            before, text = before[:-1], before[-1].text
        first = not before
        stable = tokenizer.stable_len(text, first=first) if text else 0
        head = tuple(tokenizer.encode(text, first=first)[:stable]) if text else ()
        context = self.encode(tokenizer, before) + head
        options = (tokenizer.encode(text + choice, first=first)[stable:] for choice in choices)
        return context or (tokenizer.empty_context_id,), tuple(map(tuple, options))
