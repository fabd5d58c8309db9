"""Chat templates taken apart into what opens and what closes a turn.

A template is a Jinja program over a whole conversation, while a prompt here grows by
appends. So the template is rendered with probe conversations and the text between the
probe words is read off; then every probe must equal its turns' pieces one after another,
with blanks and line ends around the contents too. A template that trims contents, drops
old ones or moves them does not grow by prefix and is refused with what differs.

Where a conversation does not start with a system turn and the template writes a default
one, that default is part of what opens the first turn. The generation prompt must be what
opens an assistant turn. Sequences of roles that the template itself refuses (two user turns
in a row, say) are not probed; they get the pieces of those that it renders.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

from lmc.codegen.template_render import TemplateRefusal, TemplateRenderer
from lmc.errors import LowerError
from lmc.ir.target import Piece

ROLES: tuple[str, ...] = ("system", "user", "assistant")

_Turns = tuple[str, ...]
_Pieces = tuple[Piece, ...]


class ControlTable(Protocol):
    """What of a tokenizer the probe needs."""

    @property
    def start_ids(self) -> tuple[int, ...]:
        """Control ids that open every context."""
        ...

    @property
    def controls(self) -> Mapping[str, int]:
        """Spelling of each control token, with its id."""
        ...


@dataclass(frozen=True, slots=True)
class ProbedTemplate:
    """A chat template as pieces per role; implements lmc.ir.target.ChatTemplate.

    Attributes:
        first_begins: role to what opens a turn that opens the conversation.
        begins: role to what opens a later turn.
        ends: role to what closes a turn.
        refusals: role to the reason why the template has no such turn.
        has_date: whether the pieces depend on the day they were made.
    """

    first_begins: Mapping[str, _Pieces]
    begins: Mapping[str, _Pieces]
    ends: Mapping[str, _Pieces]
    refusals: Mapping[str, str] = field(default_factory=dict[str, str])
    has_date: bool = False

    @classmethod
    def refused(cls, reason: str) -> "ProbedTemplate":
        """Return a template whose every use raises LowerError with the reason."""
        return cls({}, {}, {}, dict.fromkeys(ROLES, reason))

    def begin(self, role: str, *, is_first: bool) -> _Pieces:
        """Return what opens a turn; `is_first` adds a default system turn, if any.

        Raises:
            LowerError: the template has no such role, or was refused.
        """
        table = self.first_begins if is_first else self.begins
        return self._piece(table, role, "as the first turn" if is_first else "as a later turn")

    def end(self, role: str) -> _Pieces:
        """Return what closes a turn.

        Raises:
            LowerError: the template has no such role, or was refused.
        """
        return self._piece(self.ends, role, "in a turn of its own")

    def _piece(self, table: Mapping[str, _Pieces], role: str, place: str) -> _Pieces:
        if role in table:
            return table[role]
        if role in self.refusals:
            raise LowerError(
                f"the chat template cannot write the role {role!r}: {self.refusals[role]}",
                hint="write the prompt as plain text, or choose another model",
            )
        known = ", ".join(sorted({*self.begins, *self.first_begins}))
        raise LowerError(
            f"the chat template has no role {role!r} {place}",
            hint=f"roles of this template: {known or 'none'}",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the template as JSON data."""
        tables = {
            name: {role: list(pieces) for role, pieces in sorted(getattr(self, name).items())}
            for name in ("first_begins", "begins", "ends")
        }
        return tables | {"refusals": dict(self.refusals), "has_date": self.has_date}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProbedTemplate":
        """Read what `to_json` gave; raises KeyError or TypeError on other data."""
        first_begins, begins, ends = (
            {role: tuple(pieces) for role, pieces in data[name].items()}
            for name in ("first_begins", "begins", "ends")
        )
        refusals = dict(data["refusals"])
        return cls(first_begins, begins, ends, refusals, bool(data["has_date"]))

    def canonical(self) -> str:
        """Return one JSON text for one template, to take digests of."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))


def probe_template(
    source: str, controls: ControlTable, *, variables: Mapping[str, str] | None = None
) -> ProbedTemplate:
    """Take a Jinja chat template apart.

    Args:
        source: the template.
        controls: the tokenizer's control tokens and start ids.
        variables: texts such as `bos_token` that the template may use.

    Raises:
        LowerError: the template does not compile, or its rendering does not grow by prefix;
            the message says what differs.
    """
    renderer = TemplateRenderer(source, variables or {})
    usual, later_system, first_assistant = _probe_groups()
    probes = _Probes(renderer)
    tables = _read_off(probes, usual, _Tables())
    _verify(renderer, usual, tables)
    refusals = {role: probes.refusal(role) for role in ROLES if role not in tables.ends}
    for role, group in (("system", later_system), ("assistant", first_assistant)):
        try:
            widened = _read_off(probes, group, tables)
            _verify(renderer, group, widened)
            tables = widened
        except LowerError as error:
            refusals.setdefault(role, error.message)
    split = _Splitter(controls)
    return ProbedTemplate(
        {role: split.first(text) for role, text in tables.first.items()},
        {role: split.pieces(text) for role, text in tables.later.items()},
        {role: split.pieces(text) for role, text in tables.ends.items()},
        refusals,
        has_date=renderer.used_date,
    )


def _probe_groups() -> tuple[list[_Turns], list[_Turns], list[_Turns]]:
    """Return the role sequences to probe, short ones first, in three groups.

    Usual conversations; those with a system turn later on; those that an assistant turn
    opens. A template that mistreats one of the last two lacks that turn only.
    """
    turns = [seq for count in (1, 2, 3) for seq in product(ROLES, repeat=count)]
    for opening in ((), ("system",)):
        for rounds in (2, 3):
            turns.append((*opening, *(("user", "assistant") * rounds)))
            turns.append((*opening, *(("user", "assistant") * rounds), "user"))
    usual = [t for t in turns if "system" not in t[1:] and t[0] != "assistant"]
    later_system = [t for t in turns if "system" in t[1:] and t[0] != "assistant"]
    first_assistant = [t for t in turns if "system" not in t[1:] and t[0] == "assistant"]
    return usual, later_system, first_assistant


@dataclass(slots=True)
class _Tables:
    """Scaffold texts per role."""

    first: dict[str, str] = field(default_factory=dict[str, str])
    later: dict[str, str] = field(default_factory=dict[str, str])
    ends: dict[str, str] = field(default_factory=dict[str, str])

    def copy(self) -> "_Tables":
        """Return tables that can be filled further."""
        return _Tables(dict(self.first), dict(self.later), dict(self.ends))

    def render(self, turns: _Turns, contents: Sequence[str], *, is_open: bool) -> str | None:
        """Return the turns' pieces one after another; None where a piece is unknown."""
        parts: list[str | None] = []
        for i, (role, content) in enumerate(zip(turns, contents, strict=True)):
            begins = self.later if i else self.first
            parts += [begins.get(role), content, self.ends.get(role)]
        if is_open:
            parts.append(self.later.get("assistant"))
        known = [part for part in parts if part is not None]
        return "".join(known) if len(known) == len(parts) else None


class _Probes:
    """Renderings of the probe conversations, cut at the probe words."""

    def __init__(self, renderer: TemplateRenderer) -> None:
        self._renderer = renderer
        self._refusals: dict[_Turns, str] = {}

    def refusal(self, role: str) -> str:
        """Return why the template has no turns of a role."""
        reasons = [text for turns, text in self._refusals.items() if role in turns]
        return reasons[0] if reasons else "it writes no such turn"

    def scaffold(self, turns: _Turns) -> list[str] | None:
        """Return the texts around the contents; None where the template refuses the turns.

        Raises:
            LowerError: a content is missing, repeated or out of order.
        """
        words = [f"lmcprobe{i}q" for i in range(len(turns))]
        try:
            text = self._renderer.render(turns, words)
        except TemplateRefusal as refusal:
            self._refusals[turns] = str(refusal)
            return None
        found = re.findall(r"lmcprobe\dq", text)
        if found != words:
            lost = [role for role, word in zip(turns, words, strict=True) if word not in found]
            what = f"the content of {', '.join(lost)} is left out" if lost else (
                "contents are moved or repeated"
            )  # fmt: skip
            raise _not_by_prefix(turns, what)
        return re.split(r"lmcprobe\dq", text)


def _read_off(probes: _Probes, group: Sequence[_Turns], known: _Tables) -> _Tables:
    """Return the known tables with what the shortest probes of a group show besides."""
    tables = known.copy()
    for turns in group:
        parts = probes.scaffold(turns)
        if parts is None:
            continue
        tables.first.setdefault(turns[0], parts[0])
        tables.ends.setdefault(turns[-1], parts[-1])
        for before, role, between in zip(turns[:-1], turns[1:], parts[1:-1], strict=True):
            if before not in tables.ends or role in tables.later:
                continue
            end = tables.ends[before]
            if not between.startswith(end):
                raise _not_by_prefix(
                    turns, f"a {before} turn closes with {end!r} at the end of a conversation, "
                    f"but is followed by {between!r}"
                )  # fmt: skip
            tables.later[role] = between[len(end) :]
    return tables


_CONTENT_EDGES = (("", ""), (" ", " "), ("\n", "\n"), ("  \n ", " \n\n"), ("\t", "\t"))


def _verify(renderer: TemplateRenderer, group: Sequence[_Turns], tables: _Tables) -> None:
    """Compare renderings with the pieces, for a group's probes, contents and open ends.

    Raises:
        LowerError: they differ.
    """
    for turns in group:
        for (left, right), is_open in product(_CONTENT_EDGES, (False, True)):
            if is_open and turns[-1] == "assistant":
                continue
            contents = [f"{left}lmcprobe{i}q{right}" for i in range(len(turns))]
            expected = tables.render(turns, contents, is_open=is_open)
            if expected is None:
                continue
            try:
                actual = renderer.render(turns, contents, is_open=is_open)
            except TemplateRefusal:
                continue
            if actual != expected:
                raise _not_by_prefix(turns, _difference(expected, actual, is_open))


def _difference(expected: str, actual: str, is_open: bool) -> str:
    """Name the first difference between two renderings."""
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b),
        min(len(expected), len(actual)),
    )
    bare = re.sub(r"\s+", "", expected) == re.sub(r"\s+", "", actual)
    kind = "white space around contents is changed; " if bare else ""
    prompt = " (with the generation prompt)" if is_open else ""
    near = slice(max(0, at - 12), at + 24)
    return f"{kind}turns one after another give ...{expected[near]!r}, the template gives " \
        f"...{actual[near]!r}{prompt}"  # fmt: skip


def _not_by_prefix(turns: _Turns, what: str) -> LowerError:
    return LowerError(
        f"the chat template does not grow by prefix for the turns {', '.join(turns)}: {what}",
        hint="write the turns' markers with lmc.control(...), or choose another model",
    )


class _Splitter:
    """Cuts scaffold text into control ids and other text, as tokenizers cut it."""

    def __init__(self, controls: ControlTable) -> None:
        self._ids = controls.controls
        self._start_ids = controls.start_ids
        longest_first = sorted(self._ids, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(f"({pattern})") if pattern else None

    def pieces(self, text: str) -> _Pieces:
        """Return control tokens as ids and the rest as text."""
        parts = self._pattern.split(text) if self._pattern else [text]
        return tuple(self._ids.get(part, part) for part in parts if part)

    def first(self, text: str) -> _Pieces:
        """Return the pieces that open a conversation, less the start ids of every context."""
        pieces = self.pieces(text)
        count = len(self._start_ids)
        return pieces[count:] if count and pieces[:count] == self._start_ids else pieces
