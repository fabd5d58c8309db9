"""Where in the user's source an eager program is: the nearest frame outside of lmc."""

import linecache
import os
import sys
from itertools import islice
from types import CodeType, FrameType

from lmc.ir.location import Location

OWN_PACKAGES = ("lmc", "contextlib")
"""Packages whose frames are not the user's: our own, and what runs our with blocks."""


def user_location(folder: str) -> Location | None:
    """Return the line that is being run in the nearest frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    return None if frame is None else _location(frame.f_code, frame.f_lasti, folder)


def raised_at(error: BaseException, folder: str) -> Location | None:
    """Return the innermost line of the user's code on an exception's way."""
    found: Location | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not _is_own(trace.tb_frame) and (found is None or _is_in(code.co_filename, folder)):
            found = _location(code, trace.tb_lasti, folder)
        trace = trace.tb_next
    return found


def _is_own(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in OWN_PACKAGES


def _is_in(file: str, folder: str) -> bool:
    return file.startswith(folder + os.sep)


def _location(code: CodeType, instruction: int, folder: str) -> Location:
    """Return the span of an instruction."""
    line, end_line, column, end_column = next(
        islice(code.co_positions(), instruction // 2, None), (None, None, None, None)
    )
    line = line or code.co_firstlineno
    file = code.co_filename
    shown = os.path.relpath(file, folder) if _is_in(file, folder) else file
    return Location(
        shown,
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
