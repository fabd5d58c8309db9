"""Whether the Python body of a program is in a `try` just now, in itself or in a caller.

A compiled program knows the block that an op stands in; eager mode asks Python: every code object
has a table of the ranges that handlers watch over. Those of `with` blocks and of Python's own
clean-up do not count.
"""

import dis
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType
from typing import NamedTuple

_ENTERS = dis.opmap["PUSH_EXC_INFO"]
_IS_WITH = dis.opmap["WITH_EXCEPT_START"]


class RunEnded(BaseException):
    """Takes the body of a program to its end when its run has ended; no `Exception` of its own.

    Raised for what no handler of a program catches: a run that was cancelled or took too long, a
    call that failed before the `try`.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


def in_try(outermost: frozenset[CodeType], own: tuple[str, ...]) -> bool:
    """Whether a frame between here and the call of a program's body is in a `try` block.

    Args:
        outermost: the code that calls the bodies of programs.
        own: packages whose frames are not the program's.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in outermost:
        is_own = frame.f_globals.get("__name__", "").partition(".")[0] in own
        if not is_own and _is_watched(frame):
            return True
        frame = frame.f_back
    return False


def _is_watched(frame: FrameType) -> bool:
    place, entries = frame.f_lasti, _table(frame.f_code)
    for _ in range(len(entries)):
        entry = next((e for e in entries if e.start <= place < e.start + e.length), None)
        if entry is None or entry.is_try:
            return entry is not None
        place = entry.target  # what it does not keep it raises again
    return False


class _Entry(NamedTuple):
    """A range of instructions, in bytes, and where an exception in it goes on."""

    start: int
    length: int
    target: int
    is_try: bool


@lru_cache(maxsize=1024)
def _table(code: CodeType) -> tuple[_Entry, ...]:
    """Return the ranges that handlers watch over, each instruction in one at most."""
    found = []
    instructions = code.co_code
    for start, length, target in _entries(code.co_exceptiontable):
        is_try = instructions[target] == _ENTERS and instructions[target + 2] != _IS_WITH
        found.append(_Entry(start, length, target, is_try))
    return tuple(found)


def _entries(table: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield start, length and target of a table's entries, in bytes (see CPython's own notes)."""
    numbers = _numbers(table)
    for start in numbers:
        length, target, _ = next(numbers), next(numbers), next(numbers)
        yield start * 2, length * 2, target * 2


def _numbers(table: bytes) -> Iterator[int]:
    """Yield numbers of six bits a byte, the highest first; bit 6 says that more follow."""
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0
