"""Prints IR as text; `ir.parser` reads it back without loss.

The text is a function of the module alone: the same module gives the same bytes on every
machine. One op per line:

    %s_1: state = lm.extend %s, %c loc(#2)

Values are named by their hints, made unique within a function by a number; source locations
stand in a table at the end, so that the ops stay readable.
"""

import math
import re
from collections.abc import Mapping, Sequence

from lmc.ir.core import Block, Function, Module, Op, Param, Value
from lmc.ir.location import Location
from lmc.ir.types import Attr

INDENT = "  "

# What a string shows as it is depends on fixed ranges, not on Python's Unicode tables, which
# change from version to version: controls, separators, invisible and directional marks,
# surrogates, non-characters and all rarely printable planes are escaped.
_ESCAPED = re.compile(
    r'["\\\x00-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u180e\u2000-\u200f\u2028-\u202f'
    r"\u205f-\u206f\u3000\ud800-\uf8ff\ufe00-\ufe0f\ufeff\ufff0-\uffff\U000e0000-\U0010ffff]"
)
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERED = re.compile(r"(.*)_[0-9]+")
_PLAIN_INT_BITS = 2048


def print_module(module: Module, *, notes: Mapping[Op | Function, Sequence[str]] = {}) -> str:
    """Return the text of a module, ending in a newline.

    `notes` are messages to show below an op or function, as comments.
    """
    return _Printer(notes).module(module)


def print_function(function: Function) -> str:
    """Return the text of one function, without locations, for people."""
    printer = _Printer({}, show_locations=False)
    printer.function(function, 0)
    return "\n".join(printer.lines) + "\n"


def print_op(op: Op) -> str:
    """Return the text of one op and its blocks, without locations, for people."""
    printer = _Printer({}, show_locations=False)
    printer.op(op, 0)
    return "\n".join(printer.lines)


def quote(text: str) -> str:
    """Return a string literal; every str is representable, lone surrogates too."""

    def escape(match: re.Match[str]) -> str:
        char = match.group()
        code = ord(char)
        return _SHORT.get(char) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")

    return '"' + _ESCAPED.sub(escape, text) + '"'


def format_attr(value: Attr) -> str:
    """Return the text of an attribute; raises TypeError for what no attribute may hold."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int):
        # Decimal conversion of huge integers is refused by Python; hexadecimal never is.
        return str(value) if value.bit_length() <= _PLAIN_INT_BITS else hex(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(format_attr, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(format_attr, value)) + ")"
    if isinstance(value, dict):
        return format_attrs(value)
    raise TypeError(f"{type(value).__name__} {value!r} cannot stand in an attribute")


def format_attrs(attributes: Mapping[str, Attr]) -> str:
    """Return the text of attributes in braces, in their order."""
    items = (
        f"{key if _IDENTIFIER.fullmatch(key) else quote(key)} = {format_attr(value)}"
        for key, value in attributes.items()
    )
    return "{" + ", ".join(items) + "}"


def format_symbol(name: str) -> str:
    """Return the text of a function's name: `@judge`, or quoted where it is no identifier."""
    return "@" + (name if _IDENTIFIER.fullmatch(name) else quote(name))


def format_location(location: Location) -> str:
    """Return the text of a location as the table holds it."""
    span = f"{location.line}:{location.column}-{location.end_line}:{location.end_column}"
    return f"{quote(location.file)}:{span} {quote(location.text)}"


def param_attr(param: Param) -> dict[str, Attr]:
    """Return a parameter as an attribute; what has its default value is left out."""
    made: dict[str, Attr] = {"name": param.name}
    if param.annotation:
        made["annotation"] = param.annotation
    if param.has_default:
        made["default"] = param.default
    if param.keyword_only:
        made["keyword_only"] = True
    return made


class ValueNames:
    """Gives each value of a function a name, unique and stable under printing again."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}

    def __getitem__(self, value: Value) -> str:
        """Return the value's name with its percent sign, made up at the first mention."""
        if value not in self._names:
            self._names[value] = self._fresh(value.hint)
        return "%" + self._names[value]

    def _fresh(self, hint: str) -> str:
        name = re.sub(r"[^A-Za-z0-9_]", "_", hint)
        if not name:
            return self._next("", "")
        if name[0].isdigit():
            name = "_" + name
        if name in self._taken:
            numbered = _NUMBERED.fullmatch(name)
            base = numbered.group(1) if numbered and numbered.group(1) else name
            return self._next(base + "_", base)
        self._taken.add(name)
        return name

    def _next(self, prefix: str, base: str) -> str:
        count = self._counters.get(base, 1 if base else 0)
        while f"{prefix}{count}" in self._taken:
            count += 1
        self._counters[base] = count + 1
        self._taken.add(f"{prefix}{count}")
        return f"{prefix}{count}"


class _Printer:
    """Collects the lines of one module."""

    def __init__(
        self, notes: Mapping[Op | Function, Sequence[str]], *, show_locations: bool = True
    ) -> None:
        self.lines: list[str] = []
        self._notes = notes
        self._show_locations = show_locations
        self._locations: dict[Location, int] = {}
        self._names = ValueNames()

    def module(self, module: Module) -> str:
        self.lines.append(f"module {quote(module.name)} {format_attrs(module.attributes)} {{")
        self.lines += [f"{INDENT}entry {format_symbol(name)}" for name in module.entries]
        for function in module.functions.values():
            self.function(function, 1)
        self.lines.append("}")
        self.lines += [f"#{i} = {format_location(loc)}" for loc, i in self._locations.items()]
        return "\n".join(self.lines) + "\n"

    def function(self, function: Function, depth: int) -> None:
        self._names = ValueNames()
        pad = INDENT * depth
        params: list[Attr] = [param_attr(param) for param in function.params]
        attributes: dict[str, Attr] = {"params": params} if params else {}
        attributes.update(function.attributes)
        self.lines.append(
            f"{pad}func {format_symbol(function.name)} {function.kind} "
            f"({self._definitions(function.body.arguments)}) {format_attrs(attributes)}"
            f"{self._location(function.location)} {{"
        )
        self._show_notes(function, depth)
        for op in function.body.ops:
            self.op(op, depth + 1)
        self.lines.append(pad + "}")

    def op(self, op: Op, depth: int) -> None:
        pad = INDENT * depth
        operands = ", ".join(self._names[value] for value in op.operands)
        attributes = format_attrs(op.attributes) if op.attributes or op.blocks else ""
        head = " ".join(filter(None, (op.name, operands, attributes)))
        tail = self._location(op.location)
        if not op.blocks:
            self.lines.append(pad + self._results(op) + head + tail)
        else:
            # The results are named before the blocks' values: people read from the left.
            line = pad + self._results(op) + head
            for block in op.blocks:
                self.lines.append(line + " {" + self._arguments(block))
                for nested in block.ops:
                    self.op(nested, depth + 1)
                line = pad + "}"
            self.lines.append(line + tail)
        self._show_notes(op, depth)

    def _results(self, op: Op) -> str:
        return self._definitions(op.results) + " = " if op.results else ""

    def _arguments(self, block: Block) -> str:
        return f" ({self._definitions(block.arguments)})" if block.arguments else ""

    def _definitions(self, values: Sequence[Value]) -> str:
        return ", ".join(f"{self._names[value]}: {value.type}" for value in values)

    def _location(self, location: Location | None) -> str:
        if location is None or not self._show_locations:
            return ""
        return f" loc(#{self._locations.setdefault(location, len(self._locations))})"

    def _show_notes(self, owner: Op | Function, depth: int) -> None:
        for note in self._notes.get(owner, ()):
            self.lines += [f"{INDENT * depth}// ^ {line}" for line in note.splitlines()]
