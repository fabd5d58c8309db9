"""Short words for ops and values, as drawings show them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lmc.ir.arguments import SPREAD
from lmc.ir.core import Op, Value
from lmc.ir.skeleton import shown_skeleton
from lmc.ir.types import Attr

WIDTH = 52
MAX_LINES = 16
MAX_CONSTANT = 240
MAX_EXPRESSION = 44
MAX_PIECES = 60
"""Pieces of a text that are shown; the middle of more is left out."""

MAX_CHAIN = 50
"""How far a text is followed through the texts that it is made of."""

NEW_LINE = "\0"
"""In a text to wrap: a line starts here whatever the text says."""


def excerpt(text: str, limit: int) -> str:
    """Return the text, its middle left out where it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return text[:head] + "…" + text[len(text) - (limit - 1 - head) :]


def wrap(text: str) -> list[str]:
    """Cut a text into lines that fit a box, keeping its own line ends visible as `↵`."""
    lines: list[str] = []
    shown = re.sub("\n+", lambda match: "↵" * len(match.group()) + NEW_LINE, text)
    for part in shown.split(NEW_LINE):
        while len(part) > WIDTH:
            cut = part.rfind(" ", WIDTH // 2, WIDTH) + 1 or WIDTH
            lines.append(part[:cut])
            part = part[cut:]
        if part:
            lines.append(part)
    if len(lines) > MAX_LINES:
        kept = MAX_LINES - 1
        head = kept * 2 // 3
        hidden = len(lines) - kept
        lines = [*lines[:head], f"… {hidden} lines …", *lines[len(lines) - (kept - head) :]]
    return lines


def short(value: Attr, limit: int = 24) -> str:
    """Return a constant in few characters."""
    return excerpt(repr(value), limit)


class Expressions:
    """Writes values as Python would, looking through pure ops.

    Args:
        producers: the op that gives each value.
    """

    def __init__(self, producers: Mapping[Value, Op]) -> None:
        self._producers = producers
        self._known: dict[Value, list[tuple[str, bool]]] = {}
        self._joins: dict[Op, bool] = {}
        self._written: dict[tuple[Value, int], str] = {}

    def of(self, value: Value, depth: int = 5, *, limit: int = MAX_EXPRESSION) -> str:
        """Return the expression of a value, at most `limit` characters long."""
        return excerpt(self._write(value, depth), limit)

    def pieces(self, value: Value) -> list[str]:
        """Return what an appended text consists of: constants as they are, `{others}`."""
        parts = self._parts(value)
        return [excerpt(text, MAX_CONSTANT) if is_text else text for text, is_text in parts]

    def _parts(self, value: Value, depth: int = MAX_CHAIN) -> list[tuple[str, bool]]:
        """Return the pieces of a text, and of each whether it is a constant one."""
        if depth == 0:
            return [("{…}", False)]
        if value not in self._known:
            parts = self._find_parts(value, depth - 1)
            if len(parts) > MAX_PIECES:
                half = MAX_PIECES // 2
                parts = [*parts[:half], ("{…}", False), *parts[-half:]]
            self._known[value] = parts
        return self._known[value]

    def _find_parts(self, value: Value, depth: int) -> list[tuple[str, bool]]:
        op = self._producers.get(value)
        if op is not None and op.name == "val.const":
            held = op.attributes["value"]
            return [(held, True) if isinstance(held, str) else (short(held), False)]
        if op is not None and (op.name == "val.concat" or self._is_join(op)):
            return [part for operand in op.operands for part in self._parts(operand, depth)]
        cut = self._without_front(op, depth) if op is not None and op.name == "val.slice" else None
        return [("{" + self.of(value) + "}", False)] if cut is None else cut

    def _without_front(self, op: Op, depth: int) -> list[tuple[str, bool]] | None:
        """Return the pieces of `text[n:]`, which stays where a pass moved a constant front away."""
        start, *others = (self._constant(operand) for operand in op.operands[1:])
        if type(start) is not int or start < 0 or others != [None, None]:
            return None
        parts = self._parts(op.operands[0], depth)
        if not parts:
            return None
        (text, is_text), *rest = parts
        return [(text[start:], True), *rest] if is_text and start <= len(text) else None

    def _constant(self, value: Value) -> Attr:
        """Return the constant that a value is; `...` stands for none."""
        op = self._producers.get(value)
        return op.attributes["value"] if op is not None and op.name == "val.const" else "..."

    def _is_join(self, op: Op, depth: int = MAX_CHAIN) -> bool:
        """Whether an op is `+` with a text on one side, so that it joins texts."""
        if op.name != "val.binary" or op.attributes["op"] != "+" or depth == 0:
            return False
        if op not in self._joins:
            self._joins[op] = any(self._is_text(operand, depth - 1) for operand in op.operands)
        return self._joins[op]

    def _is_text(self, value: Value, depth: int) -> bool:
        op = self._producers.get(value)
        return value.type.name == "text" or (op is not None and self._is_join(op, depth))

    def _write(self, value: Value, depth: int) -> str:
        """Return an expression; of a very long one the ends."""
        if (value, depth) not in self._written:
            self._written[value, depth] = excerpt(self._spell(value, depth), 8 * MAX_EXPRESSION)
        return self._written[value, depth]

    def _spell(self, value: Value, depth: int) -> str:
        op = self._producers.get(value)
        if op is None:
            return value.hint or str(value.type)
        if op.name == "val.const":
            return short(op.attributes["value"], 2 * MAX_EXPRESSION)
        if depth == 0:
            return "…"
        if op.name == "cf.if":
            return self._choice(op, op.results.index(value), depth - 1)
        if op.name == "val.unpack":
            return value.hint or f"{self._write(op.operands[0], 1)}[{op.results.index(value)}]"
        writer = _WRITERS.get(op.name)
        if writer is None:
            return self._opaque(op, value)
        return writer(op, [self._write(operand, depth - 1) for operand in op.operands])

    def _choice(self, op: Op, index: int, depth: int) -> str:
        """Return `a if c else b`; for a flag, the condition alone."""
        condition = self._write(op.operands[0], depth)
        arms = [block.terminator.operands[index] for block in op.blocks]
        yes, no = (self._write(value, depth) for value in arms)
        flags = {("True", "False"): condition, ("False", "True"): f"not {condition}"}
        return flags.get((yes, no)) or (yes if yes == no else f"{yes} if {condition} else {no}")

    def _opaque(self, op: Op, value: Value) -> str:
        """Return a name for what an op that is drawn itself gives."""
        if op.name.startswith("host.") or op.name in ("func.apply", "func.call"):
            callee = str(op.attributes.get("callee") or op.attributes.get("name"))
            return callee.rsplit(":", 1)[-1] + "(…)"
        named = op.attributes.get("name")
        return str(named) if isinstance(named, str) else value.hint or op.name.split(".")[1]


def _call(name: str, arguments: Sequence[str], keywords: Attr) -> str:
    names = [str(item) for item in keywords] if isinstance(keywords, list) else []
    split = len(arguments) - len(names)
    named = [
        f"{key}{text}" if key in SPREAD else f"{key}={text}"
        for key, text in zip(names, arguments[split:], strict=True)
    ]
    return f"{name}({', '.join([*arguments[:split], *named])})"


def _slice(op: Op, parts: list[str]) -> str:
    bounds = [part if part != "None" else "" for part in parts[1:]]
    return f"{parts[0]}[{':'.join(bounds).rstrip(':') or ':'}]"


def _name_of(op: Op, parts: Sequence[str]) -> str:
    return repr(op.attributes["name"]) if "name" in op.attributes else parts[-1]


def _classes(op: Op) -> str:
    classes = op.attributes["classes"]
    assert isinstance(classes, list)
    return " or ".join(str(name).rsplit(":", 1)[-1] for name in classes)


_WRITERS: dict[str, Callable[[Op, list[str]], str]] = {
    "val.binary": lambda op, p: f"{p[0]} {op.attributes['op']} {p[1]}",
    "val.unary": lambda op, p: f"{op.attributes['op']}{p[0]}",
    "val.compare": lambda op, p: f"{p[0]} {op.attributes['op']} {p[1]}",
    "val.truth": lambda op, p: p[0],
    "val.not": lambda op, p: f"not {p[0]}",
    "val.index": lambda op, p: f"{p[0]}[{p[1]}]",
    "val.slice": _slice,
    "val.attr": lambda op, p: f"{p[0]}.{op.attributes['name']}",
    "val.method": lambda op, p: _call(
        f"{p[0]}.{op.attributes['name']}", p[1:], op.attributes.get("keywords")
    ),
    "val.mutate": lambda op, p: _call(
        f"{p[0]}.{op.attributes['name']}", p[1:], op.attributes.get("keywords")
    ),
    "val.call": lambda op, p: _call(str(op.attributes["callee"]), p, op.attributes.get("keywords")),
    "val.format": lambda op, p: p[0],
    "val.concat": lambda op, p: " + ".join(p),
    "val.list": lambda op, p: f"[{', '.join(p)}]",
    "val.tuple": lambda op, p: f"({', '.join(p)})",
    "val.set": lambda op, p: f"{{{', '.join(p)}}}",
    "val.dict": lambda op, p: (
        "{" + ", ".join(f"{k}: {v}" for k, v in zip(p[::2], p[1::2], strict=True)) + "}"
    ),
    "host.matches": lambda op, p: f"{p[0]} is {_classes(op)}",
    "val.undefined": lambda op, p: f"{op.attributes['name']}?",
    "lm.get": lambda op, p: f"s[{_name_of(op, p)}]",
    "lm.has": lambda op, p: f"{_name_of(op, p)} in s",
    "lm.meta": lambda op, p: f"meta({_name_of(op, p)})",
    "lm.text": lambda op, p: "s.text()",
    "lm.messages": lambda op, p: "s.messages()",
}


def call_lines(op: Op, expressions: Expressions) -> list[str]:
    """Return the lines of a gen or select: its name, its choices, its parameters."""
    verb = op.name.split(".")[1]
    fixed = 1 if verb == "gen" else 2
    given: Any = op.attributes["params"]
    dynamic: Any = op.attributes["dynamic"]
    moving = dict(zip(dynamic, map(expressions.of, op.operands[fixed:]), strict=True))
    name = op.attributes.get("name")
    title = f'{verb} "{name}"' if name is not None else verb
    if "name" in moving:
        title = f"{verb} {{{moving.pop('name')}}}"
    lines = [title]
    if verb == "select":
        lines += wrap("from " + expressions.of(op.operands[1], limit=4 * MAX_EXPRESSION))
    params = [f"{key}={short(value, 36)}" for key, value in given.items()]
    params += [f"{key}={{{text}}}" for key, text in moving.items()]
    skeleton: Any = op.attributes.get("skeleton")
    forced = [excerpt(f"= {shown_skeleton(skeleton)}", MAX_EXPRESSION)] if skeleton else []
    return lines + params + forced


def function_call(op: Op, expressions: Expressions) -> str:
    """Return the text of a call: `look_up(query)`."""
    skipped = {"func.call": 2, "host.pure": 0, "host.method": 2}.get(op.name, 1)
    arguments = [expressions.of(operand, 2) for operand in op.operands[skipped:]]
    if op.name == "host.method":
        name = f"{expressions.of(op.operands[1], 2)}.{op.attributes['name']}"
    else:
        name = str(op.attributes["callee"]).rsplit(":", 1)[-1]
    return excerpt(_call(name, arguments, op.attributes.get("keywords")), 2 * MAX_EXPRESSION)
