"""Where in the user's source an op comes from."""

import linecache
import os
import sys
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FrameType

OWN_PACKAGES = ("lmc", "contextlib")
"""Packages whose frames are not the user's: our own, and what runs our with blocks."""

Instruction = tuple[CodeType, int]
"""What a frame was doing: its code and the offset of the instruction."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A span of source: lines count from 1, columns from 1, the end is exclusive.

    `file` is relative to the program's folder. `text` is the first line of the span, kept
    so that an artifact can show it when the source is gone.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def render(self) -> str:
        """Return `file:line:column`, the source line, and carets under the span."""
        if not self.text:
            return f"  at {self}"
        last = self.end_column if self.end_line == self.line else len(self.text) + 1
        width = max(1, last - self.column)
        # Tabs keep their width, so that the carets stand below the right characters.
        pad = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"  at {self}\n    {self.text}\n    {pad}{'^' * width}"


def is_own(frame: FrameType) -> bool:
    """Whether a frame is no code of the user."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in OWN_PACKAGES


def is_in(file: str, folder: str) -> bool:
    """Whether a file lies in a folder or below."""
    return file.startswith(folder + os.sep)


def current_instruction() -> Instruction | None:
    """Return what the nearest frame of the user's code is doing."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def span_of(instruction: Instruction, folder: str) -> Location:
    """Return the span of an instruction; files in the folder are named relative to it."""
    code, offset = instruction
    line, end_line, column, end_column = next(
        islice(code.co_positions(), offset // 2, None), (None, None, None, None)
    )
    line = line or code.co_firstlineno
    file = code.co_filename
    return Location(
        os.path.relpath(file, folder) if is_in(file, folder) else file,
        line,
        _characters(file, line, column),
        end_line or line,
        _characters(file, end_line or line, end_column),
        linecache.getline(file, line).rstrip("\r\n"),
    )


def _characters(file: str, line: int, offset: int | None) -> int:
    """Turn a byte offset within a line into a column of characters, counted from 1."""
    if not offset:
        return 1
    head = linecache.getline(file, line).encode("utf-8", "surrogatepass")[:offset]
    return len(head.decode("utf-8", "replace")) + 1
