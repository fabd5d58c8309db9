"""Drawings of automata: characters on the arrows, chains of states as one arrow.

An automaton with few states is drawn as it is. Of a larger one its skeleton is drawn: what every
text passes, in order, with gates and holes between (`lmc.ir.automata.skeleton`).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lmc.ir.automata.dfa import ByteDfa
from lmc.ir.automata.skeleton import skeleton_of
from lmc.ir.graph_dot import quoted
from lmc.ir.graph_mermaid import escaped

MAX_STATES = 40
"""States that a drawing shows; beyond them it shows the skeleton."""
MAX_WALKED = 8_000
"""States of an automaton that are looked at."""
MAX_LABEL = 48
_MARKS = frozenset("[]^\\-")


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way between two states of a drawing, with what is read on it."""

    source: int
    target: int
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """An automaton as it is drawn: states 0, 1, ... of which 0 is the start.

    Args:
        ends: states in which the text may end.
        count: number of states drawn.
        states: number of states of the automaton.
        arrows: between the states drawn.
        is_skeleton: whether only the skeleton is drawn.
        rules: the rules that others call, by name, with the states that they begin in.
    """

    ends: frozenset[int]
    count: int
    states: int
    arrows: tuple[Arrow, ...]
    is_skeleton: bool
    rules: tuple[tuple[str, int], ...] = ()

    @property
    def title(self) -> str:
        """What is drawn, in words."""
        rules = f" in {len(self.rules) + 1} rules" if self.rules else ""
        return f"{'skeleton of ' if self.is_skeleton else ''}{self.states:,} states{rules}"

    def to_dot(self) -> str:
        """Return the drawing in Graphviz' DOT language."""
        lines = [
            "digraph constraint {",
            f'  graph [rankdir=LR fontname="Helvetica" fontsize=11 label={quoted(self.title)}]',
            '  node [fontname="Helvetica" fontsize=10 shape=circle width=0.3 margin=0]',
            '  edge [fontname="Courier" fontsize=9]',
            "  start [shape=point]",
            "  start -> s0",
        ]
        for state in range(self.count):
            shape = " shape=doublecircle" if state in self.ends else ""
            lines.append(f'  s{state} [label="{state}"{shape}]')
        for name, state in self.rules:
            lines.append(f"  r{state} [label={quoted(name)} shape=plaintext]")
            lines.append(f"  r{state} -> s{state}")
        lines += [
            f"  s{arrow.source} -> s{arrow.target} [label={quoted(arrow.label)}]"
            for arrow in self.arrows
        ]
        return "\n".join([*lines, "}"]) + "\n"

    def to_mermaid(self) -> str:
        """Return the drawing in Mermaid's flowchart language."""
        lines = ["flowchart LR", f'  title["{escaped(self.title)}"] --> s0']
        for state in range(self.count):
            left, right = ("(((", ")))") if state in self.ends else ("((", "))")
            lines.append(f'  s{state}{left}"{state}"{right}')
        for name, state in self.rules:
            lines.append(f'  r{state}["{escaped(name)}"] --> s{state}')
        lines += [
            f'  s{arrow.source} -->|"{escaped(arrow.label)}"| s{arrow.target}'
            for arrow in self.arrows
        ]
        return "\n".join(lines) + "\n"

    def as_picture(self) -> dict[str, Any]:
        """Return what the page of `lmc viz` draws."""
        kinds = {0: "param"} | dict.fromkeys(self.ends, "return")
        return {
            "title": self.title,
            "regions": [],
            "nodes": [
                {"id": f"s{state}", "kind": kinds.get(state, "text"), "lines": [str(state)]}
                for state in range(self.count)
            ]
            + [
                {"id": f"r{state}", "kind": "param", "lines": [name]} for name, state in self.rules
            ],
            "edges": [
                {"source": f"s{a.source}", "target": f"s{a.target}", "kind": "value",
                 "label": a.label}
                for a in self.arrows
            ]
            + [
                {"source": f"r{state}", "target": f"s{state}", "kind": "value", "label": ""}
                for _, state in self.rules
            ],
        }  # fmt: skip


def draw_automaton(dfa: ByteDfa, *, max_states: int = MAX_STATES) -> Drawing:
    """Return the drawing of an automaton, of at most so many states."""
    found = _whole(dfa, max_states) if dfa.state_count <= MAX_WALKED else None
    return found if found is not None else _skeleton(dfa)


def _skeleton(dfa: ByteDfa) -> Drawing:
    parts: list[Any] = skeleton_of(dfa, max_states=MAX_WALKED) or [
        ["hole", dfa.shortest_len(), dfa.longest_len()]
    ]
    return draw_skeleton(parts, dfa.state_count)


def draw_skeleton(parts: list[Any], states: int) -> Drawing:
    """Return the drawing of a skeleton of so many states."""
    arrows = tuple(Arrow(i, i + 1, _short(_told(part))) for i, part in enumerate(parts))
    return Drawing(frozenset([len(parts)]), len(parts) + 1, states, arrows, True)


def _told(part: list[Any]) -> str:
    match part:
        case ["text", text]:
            return str(text)
        case ["gate", texts]:
            return " | ".join(texts)
        case [_, least, most]:
            return f"{least} to {most} bytes" if most is not None else f"{least} bytes or more"
        case _:
            raise ValueError(f"{part!r} is no part of a skeleton")


# Characters between states, chains of them on one arrow.

Step = tuple[str, bool]
"""What is read, and whether it is that text itself (else a class of characters)."""


def _whole(dfa: ByteDfa, max_states: int) -> Drawing | None:
    """Return the drawing of all states, None where there are too many."""
    ways = ways_of(dfa)
    if len(ways) > max_states:
        return None
    ends, arrows = drawn_ways(dfa, ways, 0)
    return Drawing(ends, len(ways), dfa.state_count, arrows, False)


Ways = dict[int, dict[int, list[Step]]]
"""By state: what is read on the way to each next one."""


def ways_of(dfa: ByteDfa, more: Callable[[int], list[tuple[int, Step]]] | None = None) -> Ways:
    """Return the ways between states, chains of them as one; `more` gives ways beside bytes."""
    ways: Ways = {}
    pending = [dfa.start]
    for state in pending:
        found: dict[int, list[Step]] = {target: [step] for target, step in _characters(dfa, state)}
        for target, (label, _) in [] if more is None else more(state):
            known = [text for text, _ in found.get(target, ())]
            found[target] = [("|".join([*known, label]), False)]
        ways[state] = found
        pending += [t for t in ways[state] if t not in ways and t not in pending]
    _join_chains(dfa, ways)
    return ways


def drawn_ways(dfa: ByteDfa, ways: Ways, first: int) -> tuple[frozenset[int], tuple[Arrow, ...]]:
    """Return ends and arrows of ways whose states are numbered from `first` on."""
    number = {state: first + index for index, state in enumerate(ways)}
    arrows = [
        Arrow(number[state], number[target], _short(_label(steps)))
        for state, found in ways.items()
        for target, steps in found.items()
    ]
    ends = frozenset(number[state] for state in ways if dfa.is_accepting(state))
    return ends, tuple(arrows)


def _join_chains(dfa: ByteDfa, ways: Ways) -> None:
    """Take out states that one way leads to and one leads from."""
    before: dict[int, set[int]] = {state: set() for state in ways}
    for state, found in ways.items():
        for target in found:
            before[target].add(state)
    for state in list(ways):
        is_inner = len(before[state]) == 1 and len(ways[state]) == 1
        if state == dfa.start or dfa.is_accepting(state) or not is_inner:
            continue
        ((after, steps),) = ways[state].items()
        (first,) = before[state]
        if after == state or after in ways[first]:  # two arrows would lead the same way
            continue
        ways[first][after] = ways[first].pop(state) + steps
        before[after] ^= {state, first}
        del ways[state]


def _characters(dfa: ByteDfa, state: int) -> Iterator[tuple[int, Step]]:
    """Yield the states that one character leads to, with those characters."""
    plain: dict[int, list[int]] = {}
    wide: dict[int, tuple[int, bytes]] = {}
    for byte in dfa.allowed_bytes(state):
        after = dfa.step(state, bytes([byte]))
        if byte < 0x80:
            plain.setdefault(after, []).append(byte)
            continue
        for target, (count, rest) in _rest(dfa, after).items():
            known = wide.get(target, (0, b""))
            wide[target] = (known[0] + count, bytes([byte]) + rest)
    for target in dict.fromkeys((*plain, *wide)):
        count, sample = wide.get(target, (0, b""))
        found = plain.get(target, [])
        if len(found) + count == 1:
            yield target, (chr(found[0]) if found else sample.decode(), True)
        else:
            yield target, (_class(found, count, sample), False)


def _rest(dfa: ByteDfa, state: int) -> dict[int, tuple[int, bytes]]:
    """Return where the rest of a character leads: how many there are, and one of them."""
    allowed = dfa.allowed_bytes(state)
    if dfa.is_accepting(state) or not allowed or not all(0x80 <= b < 0xC0 for b in allowed):
        return {state: (1, b"")}
    found: dict[int, tuple[int, bytes]] = {}
    by_state = Counter(dfa.step(state, bytes([byte])) for byte in allowed)
    for byte in allowed:
        after = dfa.step(state, bytes([byte]))
        times = by_state.pop(after, 0)
        for target, (count, rest) in _rest(dfa, after).items() if times else ():
            known = found.get(target, (0, b""))
            found[target] = (known[0] + times * count, bytes([byte]) + rest)
    return found


def _class(points: list[int], wide: int, sample: bytes) -> str:
    """Return the members of a class as a pattern writes them; `…` stands for those past ASCII."""
    if len(points) == 128 and wide:
        return "any"
    absent = [point for point in range(0x20, 0x7F) if point not in points]
    if wide > 1 and len(points) > 64 and len(absent) <= 8:
        return f"[^{''.join(map(_member, absent))}]"
    spans = [
        [point for _, point in run]
        for _, run in groupby(enumerate(points), lambda pair: pair[1] - pair[0])
    ]
    text = "".join(
        "".join(map(_member, span)) if len(span) < 3 else f"{_member(span[0])}-{_member(span[-1])}"
        for span in spans
    )
    return f"[{text}{sample.decode() if wide == 1 else '…' if wide else ''}]"


def _member(point: int) -> str:
    char = chr(point)
    return f"\\{char}" if char in _MARKS else char if char.isprintable() else f"\\x{point:02x}"


def _label(steps: list[Step]) -> str:
    """Return what is read on an arrow; the same class several times is told once."""
    parts: list[str] = []
    for (text, is_text), run in groupby(steps):
        times = len(list(run))
        parts.append(text * times if is_text or times == 1 else f"{text}{{{times}}}")
    return "".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
