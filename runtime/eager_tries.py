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
    return any(start <= frame.f_lasti < end for start, end in _watched(frame.f_code))


@lru_cache(maxsize=1024)
def _watched(code: CodeType) -> tuple[tuple[int, int], ...]:
    """Return the ranges of instructions, in bytes, that stand in a `try`."""
    found = []
    instructions = code.co_code
    for start, length, target in _entries(code.co_exceptiontable):
        is_try = instructions[target] == _ENTERS and instructions[target + 2] != _IS_WITH
        if is_try:
            found.append((start, start + length))
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
