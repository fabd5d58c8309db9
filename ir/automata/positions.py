"""Where the constructs of a pattern stand, for messages.

Python's parser keeps no positions in its tree, so a small scanner reads the source again.
It also measures nesting, before anything recursive looks at the pattern.
"""

import re
from dataclasses import dataclass, field

_OPENERS = {
    "(?=": "look-ahead",
    "(?!": "look-ahead",
    "(?<=": "look-behind",
    "(?<!": "look-behind",
    "(?P=": "back-reference",
    "(?(": "conditional",
}
_QUANTIFIER = re.compile(r"[*+?]|\{(?:\d+(?:,\d*)?|,\d*)\}")
_FLAGS = re.compile(r"\(\?([aiLmsux]*)(?:-([imsx]+))?([:)])")
_BACK_REFERENCE = re.compile(r"\\[1-9]")
_OCTAL = re.compile(r"\\[0-3][0-7][0-7]")


@dataclass(slots=True)
class Positions:
    """Positions by kind of construct, in source order, and the deepest nesting."""

    by_kind: dict[str, list[int]] = field(default_factory=dict)
    depth: int = 0

    def add(self, kind: str, position: int) -> None:
        """Note a construct."""
        self.by_kind.setdefault(kind, []).append(position)

    def find(self, kind: str, ordinal: int = 0) -> int:
        """Return the position of the n-th construct of a kind (the last one known)."""
        found = self.by_kind.get(kind, [0])
        return found[min(ordinal, len(found) - 1)]


def scan(pattern: str) -> Positions:
    """Return the positions of the constructs of `pattern`, which need not be valid."""
    return _Scanner(pattern).run()


class _Scanner:
    """One pass over a pattern, with a stack of open groups."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.found = Positions()
        self.groups: list[tuple[int, bool, bool]] = []  # position, is atomic, was verbose
        self.verbose = False

    def run(self) -> Positions:
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        return self.found

    def _step(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "[":
            self._class()
        elif char == "(":
            self._open()
        elif char == ")":
            self._close()
        elif char == "#" and self.verbose:
            end = self.pattern.find("\n", self.at)
            self.at = len(self.pattern) if end < 0 else end + 1
        else:
            self._quantifier()

    def _escape(self) -> None:
        is_reference = _BACK_REFERENCE.match(self.pattern, self.at)
        if is_reference and not _OCTAL.match(self.pattern, self.at):
            self.found.add("back-reference", self.at)
        self.at += 2

    def _class(self) -> None:
        at = self.at + 1
        if self.pattern.startswith("^", at):
            at += 1
        at += 1  # a first ] is a member
        if self.pattern.startswith("\\", at - 1):
            at += 1
        while at < len(self.pattern) and self.pattern[at] != "]":
            at += 2 if self.pattern[at] == "\\" else 1
        self.at = at + 1

    def _open(self) -> None:
        pattern, at = self.pattern, self.at
        if pattern.startswith("(?#", at):
            end = pattern.find(")", at)
            self.at = len(pattern) if end < 0 else end + 1
            return
        for opener, kind in _OPENERS.items():
            if pattern.startswith(opener, at):
                self.found.add(kind, at)
                break
        flags = _FLAGS.match(pattern, at)
        if flags and flags[3] == ")":
            self.verbose = self.verbose or "x" in flags[1]
            self.at = flags.end()
            return
        self.groups.append((at, pattern.startswith("(?>", at), self.verbose))
        self.found.depth = max(self.found.depth, len(self.groups))
        if flags:
            self.verbose = (self.verbose or "x" in flags[1]) and "x" not in (flags[2] or "")
        self.at += self._head_length(at)

    def _head_length(self, at: int) -> int:
        """Return how much of a group's head can be skipped as a whole."""
        if self.pattern.startswith("(?", at):
            head = re.compile(r"\(\?(?:P?<?[=!]|P?<\w+>|\(|[:>]|[a-zA-Z-]*:)?").match(
                self.pattern, at
            )
            return len(head[0]) if head else 1
        return 1

    def _close(self) -> None:
        if self.groups:
            position, is_atomic, self.verbose = self.groups.pop()
            if is_atomic:
                self.found.add("atomic", position)
        self.at += 1

    def _quantifier(self) -> None:
        quantifier = _QUANTIFIER.match(self.pattern, self.at)
        if quantifier is None:
            self.at += 1
            return
        self.at = quantifier.end()
        if self.pattern.startswith("+", self.at):
            self.found.add("atomic", quantifier.start())
        if self.pattern.startswith(("+", "?"), self.at):
            self.at += 1
