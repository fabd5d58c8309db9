"""PromptState: a prompt in progress as an immutable value that shares its past.

A state is a sequence of runs. A text run is everything that was appended between two
generations or control tokens, encoded as one string; a generated run keeps the sampled ids;
a control run is one id. Closed runs form a chain that states share, so extending costs the
same however long the prompt is, and every closed text run is encoded once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmc.errors import AppendError, RunError, VariableError
from lmc.ir.calls import GenResult
from lmc.ir.expressions import HIDDEN, NO_VALUE, NO_VALUE_HINT, shown_names
from lmc.ir.media import MARK, Content
from lmc.ir.target import Piece, Target
from lmc.ir.turns import Turn, contents, default_turns, nested_turn
from lmc.runtime.encodings import Encodings, encodings_of
from lmc.runtime.origins import Origin, join_origins, of_items
from lmc.runtime.runs import Run, Text

Lineage = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """What a child had when it was forked: how much text and how many media."""

    text_len: int = 0
    num_media: int = 0


@dataclass(slots=True)
class Untold:
    """Text up to `end` that was moved ahead of a fork: a child tells it, once.

    All states that go on from the child share this, so it is the one thing that changes.
    """

    end: int
    is_told: bool = False


NO_FORK = ForkPoint()


@dataclass(frozen=True, slots=True)
class PromptState:
    """A prompt in progress. All methods that add return a new state.

    Attributes:
        target: decides tokens and turns.
        encodings: shared memory of encoded text runs.
        lineage: the path of forks and nested calls that made the state.
        ordinal: calls counted so far in this lineage.
        closed: the last closed run; None where there is none.
        open_text: the last piece of the open text run.
        text_len: characters of the whole text.
        variables: name to value.
        metas: name to the meta dict of the call that set the variable.
        turns: the turns in the order in which they were opened.
        fork_point: what the state had when it was forked.
        pin: what keeps its context computed until its next call; opaque here.
        live: number of the call whose result the context continues; 0 for none.
        text_origin: the calls that the text rests on.
        name_origin: the calls that decide which variables there are.
        names: the calls that decide that a variable is the one set last under its name.
        origins: the calls that a variable and its meta rest on, by name.
        told_len: how much of the text a listener was told, for this state or an ancestor.
        untold: text that the state got from its parent, and that its own listeners miss.
        media: images and videos, each with the length of the text before it.
    """

    target: Target
    encodings: Encodings
    lineage: Lineage = ()
    ordinal: int = 0
    closed: Run | None = None
    open_text: Text | None = None
    text_len: int = 0
    variables: dict[str, Any] = field(default_factory=dict)
    metas: dict[str, Any] = field(default_factory=dict)
    turns: tuple[Turn, ...] = ()
    fork_point: ForkPoint = NO_FORK
    pin: Any = None
    live: int = 0
    text_origin: Origin | None = None
    name_origin: Origin | None = None
    names: dict[str, Origin | None] = field(default_factory=dict)
    origins: dict[str, Origin | None] = field(default_factory=dict)
    told_len: int = 0
    untold: "Untold | None" = None
    media: tuple[tuple[int, Content], ...] = ()

    # -- text ------------------------------------------------------------------------------

    def extend(self, text: str, origin: Origin | None = None) -> "PromptState":
        """Append text, which rests on `origin`; it joins the open text run."""
        if not text and origin is None:
            return self
        return replace(
            self,
            open_text=Text(self.open_text, text) if text else self.open_text,
            text_len=self.text_len + len(text),
            text_origin=join_origins((self.text_origin, origin)),
        )

    def control(self, token_id: int) -> "PromptState":
        """Append a control token by its id."""
        spelled = self.target.tokenizer.control_text(token_id) or ""
        return self._close(spelled, (token_id,))

    def control_token(self, token: str) -> "PromptState":
        """Append a control token by its spelling; one that the tokenizer lacks is an error."""
        token_id = self.target.tokenizer.control_id(token)
        if token_id is None:
            raise RunError(
                f"model '{self.target.name}' has no control token {token!r}",
                hint="control tokens are those that the tokenizer lists as special",
            )
        return self.control(token_id)

    def with_media(self, content: Content, origin: Origin | None = None) -> "PromptState":
        """Append an image or a video: a run of one id."""
        return replace(
            self._close(MARK, (content.token,)),
            media=(*self.media, (self.text_len, content)),
            text_origin=join_origins((self.text_origin, origin)),
        )

    def begin(self, role: str) -> "PromptState":
        """Open a turn; raises RunError where one is open."""
        index = self._open_turn()
        if index is not None:
            raise nested_turn(role, self.turns[index].role)
        template, tokenizer = self._template(role), self.target.tokenizer
        turns = self.turns or default_turns(template, tokenizer, role, self.text_len)
        state = self._append(template.begin(role, is_first=not self.turns))
        return replace(state, turns=(*turns, Turn(role, state.text_len)))

    def end(self, role: str) -> "PromptState":
        """Close the turn opened last; raises RunError where it is another role's, or none is."""
        template = self._template(role)
        index = self._open_turn()
        if index is None or self.turns[index].role != role:
            found = "none is" if index is None else f"that of '{self.turns[index].role}' is"
            raise RunError(
                f"no turn of '{role}' can be closed: {found} open",
                hint="every begin needs an end of the same role",
            )
        closed = self.turns[index]._replace(end=self.text_len)
        turns = (*self.turns[:index], closed, *self.turns[index + 1 :])
        return replace(self._append(template.end(role)), turns=turns)

    def _open_turn(self) -> int | None:
        """Return the place of the open turn that was opened last."""
        for index in range(len(self.turns) - 1, -1, -1):
            if self.turns[index].end is None:
                return index
        return None

    def generated(self, result: GenResult, origin: Origin | None = None) -> "PromptState":
        """Append what a generation gave: its ids as they are, then its tail as text."""
        state = self
        if result.token_ids:
            cut = len(result.text) - len(result.tail)
            state = self._close(result.text[:cut], result.token_ids)
        return state.extend(result.tail, origin)

    def as_after(self, first: "PromptState") -> "PromptState":
        """Return the state with what a call appended that was made on the same context.

        Args:
            first: the state after that call.
        """
        return replace(
            self,
            closed=first.closed,
            open_text=first.open_text,
            text_len=first.text_len,
            text_origin=join_origins((self.text_origin, first.text_origin)),
        )

    def _template(self, role: str) -> Any:
        if self.target.template is None:
            raise RunError(
                f"model '{self.target.name}' has no chat template, so it has no role '{role}'",
                hint="write the prompt without roles, or choose an instruct model",
            )
        return self.target.template

    def _append(self, pieces: Sequence[Piece]) -> "PromptState":
        state = self
        for piece in pieces:
            state = state.extend(piece) if isinstance(piece, str) else state.control(piece)
        return state

    def _close(self, text: str, ids: tuple[int, ...]) -> "PromptState":
        """Close the open text run and append a run of given ids."""
        closed = self.closed
        if self.open_text is not None:
            closed = Run(closed, self.open_text.join(), None, self.encodings)
        closed = Run(closed, text, tuple(ids), self.encodings)
        text_len = self.text_len + len(text)
        return replace(self, closed=closed, open_text=None, text_len=text_len)

    # -- ids -------------------------------------------------------------------------------

    @property
    def trailing_text(self) -> str:
        """The text of the open run; "" where there is none."""
        return self.open_text.join() if self.open_text is not None else ""

    def context_ids(self) -> tuple[int, ...]:
        """Return the ids of the whole prompt; the stand-in id for an empty one."""
        ids = self._closed_ids()
        text = self.trailing_text
        if text:
            ids += self.encodings.encode(text, first=self.closed is None)
        return self._or_empty(ids)

    def stable_context(self) -> tuple[int, ...]:
        """Return the ids that no continuation can change; () where there are none."""
        ids, text = self._closed_ids(), self.trailing_text
        first = self.closed is None
        if text:
            stable = self.encodings.stable_len(text, first=first)
            ids += self.encodings.encode(text, first=first)[:stable]
            if first and not stable:
                return ()
        return ids if self.closed is not None or text else ()

    def option_ids(
        self, options: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Return the context up to the last stable border, and each option's ids behind it."""
        text, first = self.trailing_text, self.closed is None
        stable = self.encodings.stable_len(text, first=first) if text else 0
        context = self._closed_ids()
        if stable:
            context += self.encodings.encode(text, first=first)[:stable]
        options_ids = tuple(
            tuple(self.target.tokenizer.encode(text + option, first=first)[stable:])
            for option in options
        )
        return self._or_empty(context), options_ids

    def _closed_ids(self) -> tuple[int, ...]:
        start = self.target.tokenizer.start_ids
        return start + self.closed.context() if self.closed is not None else start

    def _or_empty(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return ids if ids else (self.target.tokenizer.empty_context_id,)

    # -- reading ---------------------------------------------------------------------------

    def text(self) -> str:
        """Return the whole text, control tokens spelled out."""
        return "".join(reversed(list(self._parts_backwards())))

    def tail(self, length: int = 200) -> str:
        """Return the last characters of the text, without building all of it."""
        parts: list[str] = []
        found = 0
        for part in self._parts_backwards():
            parts.append(part)
            found += len(part)
            if found >= length:
                break
        text = "".join(reversed(parts))
        return text[max(0, len(text) - length) :]

    def _parts_backwards(self) -> Iterator[str]:
        if self.open_text is not None:
            yield self.open_text.join()
        run = self.closed
        while run is not None:
            yield run.text
            run = run.parent

    def messages(self) -> list[dict[str, Any]]:
        """Return the closed turns as {'role', 'content'} dicts.

        The content of a turn with media is a list: its text, then each image or video.
        """
        return contents(self.text(), self.turns, self.media)

    def get(self, name: str) -> Any:
        """Return a variable; a missing one is an error that lists the names."""
        if name not in self.variables:
            if name.startswith(HIDDEN):
                raise VariableError(NO_VALUE, hint=NO_VALUE_HINT)
            known = shown_names(self.variables)
            raise VariableError(
                f"the state has no variable {name!r}", hint=f"variables set so far: {known}"
            )
        return self.variables[name]

    def meta(self, name: str) -> Any:
        """Return the meta dict of the call that set a variable."""
        if name not in self.metas:
            known = ", ".join(map(repr, self.metas)) or "none"
            raise VariableError(
                f"no generation set the variable {name!r}", hint=f"generated so far: {known}"
            )
        return self.metas[name]

    # -- variables, calls, forks -----------------------------------------------------------

    def set(
        self, name: str, value: Any, origin: Origin | None = None, *, meta: Any = None
    ) -> "PromptState":
        """Set a variable, with the meta dict of the call that made it, if one did."""
        metas = self.metas
        if meta is not None:
            metas = {**metas, name: meta}
        elif name in metas:
            metas = {key: held for key, held in metas.items() if key != name}
        origins = self.origins
        if origin is not None or name in origins:
            origins = {**origins, name: origin}
        return replace(
            self,
            variables={**self.variables, name: value},
            metas=metas,
            origins=origins,
            names={**self.names, name: None},
        )

    def needing(self, origin: Origin | None) -> "PromptState":
        """Return the same state, known only after the calls of `origin` as well."""
        if origin is None:
            return self
        return replace(
            self,
            text_origin=join_origins((self.text_origin, origin)),
            name_origin=join_origins((self.name_origin, origin)),
            names={name: join_origins((known, origin)) for name, known in self.names.items()},
        )

    def naming(self, origin: Origin | None) -> "PromptState":
        """Return the same state, whose variables' names rest on `origin` as well."""
        if origin is None:
            return self
        return replace(
            self,
            name_origin=join_origins((self.name_origin, origin)),
            names={name: join_origins((known, origin)) for name, known in self.names.items()},
        )

    def all_origins(self) -> list[Origin | None]:
        """Return what the text and all variables rest on."""
        return [self.text_origin, self.name_origin, *self.origins.values()]

    def tick(self, count: int = 1) -> "PromptState":
        """Count calls."""
        return replace(self, ordinal=self.ordinal + count)

    def pinned(self, pin: Any) -> "PromptState":
        """Return the state with a pin."""
        return replace(self, pin=pin)

    def living(self, number: int) -> "PromptState":
        """Return the state as what a call of that number left."""
        return replace(self, live=number)

    def told(self) -> "PromptState":
        """Return the state, a listener having been told all of its text."""
        return replace(self, told_len=self.text_len, untold=None)

    def unpinned(self) -> "PromptState":
        """Return the state without its pin."""
        return replace(self, pin=None) if self.pin is not None else self

    def child(self, index: int) -> "PromptState":
        """Return the `index`-th child of a fork made of this state (not yet ticked)."""
        return replace(
            self,
            lineage=(*self.lineage, f"fork{self.ordinal}.{index}"),
            ordinal=0,
            fork_point=ForkPoint(self.text_len, len(self.media)),
            pin=None,
            untold=Untold(self.text_len) if self.told_len < self.text_len else None,
        )

    def append_added(self, state: "PromptState") -> "PromptState":
        """Append to another state what was appended to this one since it was forked."""
        text, start = self.text(), self.fork_point.text_len
        for position, content in self.media[self.fork_point.num_media :]:
            state = state.extend(text[start:position]).with_media(content)
            start = position + len(MARK)
        return state.extend(text[start:])

    def join(self, children: Sequence["PromptState"], mode: str) -> "PromptState":
        """Join children; `mode` is gather_variable or concate_and_append."""
        state = self
        if mode == "concate_and_append":
            for child in children:
                state = child.append_added(state)
            state = state.extend("", join_origins(child.text_origin for child in children))
        elif mode != "gather_variable":
            raise RunError(
                f"join mode {mode!r} is unknown",
                hint="use 'gather_variable' or 'concate_and_append'",
            )
        else:
            state = self._gather(children)
        return state.naming(join_origins(child.name_origin for child in children))

    def _gather(self, children: Sequence["PromptState"]) -> "PromptState":
        """Make lists of the children's variables that the state does not have."""
        state = self
        named = (n for child in children for n in child.variables if not n.startswith(HIDDEN))
        for name in dict.fromkeys(named):
            if name in self.variables:
                continue
            holders = [child for child in children if name in child.variables]
            has_meta = any(name in child.metas for child in holders)
            state = state.set(
                name,
                [child.variables[name] for child in holders],
                of_items([child.origins.get(name) for child in holders]),
                meta=[child.metas.get(name) for child in holders] if has_meta else None,
            )
        return state


def checked_text(value: Any) -> str:
    """Return a value that can be appended to a prompt; raises RunError for others."""
    if not isinstance(value, str):
        raise AppendError(
            f"only text can be appended to a prompt, not {type(value).__name__}: {value!r:.80}",
            hint="make it a str first: str(...) or an f-string",
        )
    return value


def root_state(target: Target, lineage: Lineage = ()) -> PromptState:
    """Return an empty state of a lineage."""
    return PromptState(target, encodings_of(target.tokenizer), lineage)


def prologue_state(pieces: Sequence[Sequence[str]], state: PromptState) -> PromptState:
    """Return a state with the pieces of a prologue, or of a foreseen path, appended."""
    for kind, value in pieces:
        match kind:
            case "text":
                state = state.extend(value)
            case "begin":
                state = state.begin(value)
            case "end":
                state = state.end(value)
            case "control":
                state = state.control_token(value)
            case _:
                raise ValueError(f"a prologue has no pieces of kind {kind!r}")
    return state
